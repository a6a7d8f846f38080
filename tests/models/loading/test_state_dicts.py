"""Weights are dense tensors of real numbers that fit the model; all else is an error that names the weight."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from caramel.errors import BackendError
from caramel.models.loading.state_dicts import fit_state, read_state

WEIGHT = torch.arange(6.0).reshape(2, 3)


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(WEIGHT, 0.1, 0, torch.qint8)


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a prototype
        return torch.nested.nested_tensor([WEIGHT, WEIGHT[:1]])


def compressed() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a beta state
        return WEIGHT.to_sparse_csr()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (WEIGHT.to_sparse, "sparse"),
        (compressed, "sparse"),
        (quantised, "quantised"),
        (lambda: WEIGHT.to(torch.complex64), "complex"),
        (lambda: WEIGHT.to("meta"), "on the device 'meta'"),
    ],
)
def test_a_weight_that_does_not_hold_real_numbers_one_by_one_is_named(
    make: Callable[[], torch.Tensor], what: str, tmp_path: Path
) -> None:
    torch.save({"state_dict": {"fine": WEIGHT, "odd": make()}}, tmp_path / "w.pt")
    with pytest.raises(BackendError, match=rf"w.pt': 'odd' is {what}"):
        read_state(tmp_path / "w.pt")


def test_a_nested_tensor_is_refused(tmp_path: Path) -> None:
    torch.save({"odd": nested()}, tmp_path / "w.pt")
    with pytest.raises(BackendError, match=r"w.pt' were refused: .*_rebuild_nested_tensor"):
        read_state(tmp_path / "w.pt")


@pytest.mark.parametrize("weight", [WEIGHT.T, WEIGHT[0].expand(2, 3), WEIGHT[:, ::2], torch.tensor(1.0)])
def test_strides_do_not_matter(weight: torch.Tensor, tmp_path: Path) -> None:
    torch.save({"w": weight}, tmp_path / "w.pt")
    assert torch.equal(read_state(tmp_path / "w.pt")["w"], weight)


class Small(torch.nn.Module):
    """A model of one weight and one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, 3))
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"weight": torch.tensor(1.0)}, r"1 of another shape: \['weight \(\) for \(2, 3\)'\]"),
        (
            {"weight": torch.ones(2, 3).int()},
            r"1 of another type: \['weight torch.int32 for torch.float32'\]",
        ),
        ({"steps": torch.ones(2)}, r"1 of another type: \['steps torch.float32 for torch.int64'\]"),
    ],
)
def test_a_weight_of_another_shape_or_kind_of_number_does_not_fit(
    change: dict[str, torch.Tensor], what: str
) -> None:
    model = Small()
    fit_state(model, {"weight": WEIGHT.half(), "steps": torch.ones(2).int()}, "x")
    assert torch.equal(model.weight, WEIGHT)
    with pytest.raises(BackendError, match=what):
        fit_state(model, {"weight": WEIGHT, "steps": torch.ones(2).long(), **change}, "x")
