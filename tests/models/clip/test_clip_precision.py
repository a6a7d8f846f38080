"""Precisions of a device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from caramel.errors import BackendError
from caramel.models.devices import resolve_precision


@pytest.mark.parametrize(("generation", "expected"), [(7, "fp32"), (8, "bf16"), (9, "bf16")])
def test_auto_is_bf16_only_where_a_gpu_multiplies_it_in_hardware(
    generation: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(major=generation)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: device)
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda number: True)  # it can emulate it
    assert resolve_precision("auto", "cuda") == expected
    assert resolve_precision("bf16", "cuda") == "bf16"


def test_an_unknown_precision_lists_the_choices() -> None:
    with pytest.raises(BackendError, match=r"'int8'\. Choices: auto, fp32, bf16, fp16"):
        resolve_precision("int8", "cpu")
