"""What is not trusted: libraries' errors are explained, memory is bounded by the weights, models are tried."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from caramel.errors import BackendError, DataError, ResourceError
from caramel.models.loading.files import (
    limit_model_size,
    read_text_as_json,
    translate_load_errors,
    validate_model,
)


@pytest.mark.parametrize(
    "error",
    [
        Exception("data did not match any variant"),  # as tokenizers raises it
        ZeroDivisionError("division by zero"),
        IndexError("list index out of range"),
        RecursionError("maximum recursion depth exceeded"),
        AssertionError("Padding_idx must be within num_embeddings"),
    ],
)
def test_whatever_a_library_raises_is_an_error_that_names_the_target_and_the_cause(error: Exception) -> None:
    with (
        pytest.raises(
            BackendError, match=f"'a/model' cannot be used .{type(error).__name__}: {error}"
        ) as caught,
        translate_load_errors("a/model"),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_errors_that_are_explained_already_and_interruptions_pass() -> None:
    for error in (DataError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, translate_load_errors("a/model"):
            raise error
        assert caught.value is error
    with pytest.raises(ResourceError, match="does not fit into memory"), translate_load_errors("a/model"):
        raise MemoryError


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5_000])
def test_a_file_that_is_no_json_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(BackendError, match=r"config\.json' is damaged"):
        read_text_as_json(tmp_path / "config.json")
    with pytest.raises(BackendError, match="is damaged"):
        read_text_as_json(tmp_path)  # a folder
    (tmp_path / "config.json").write_text(json.dumps({"a": 1}))
    assert read_text_as_json(tmp_path / "config.json") == {"a": 1}


@pytest.fixture
def weights(tmp_path: Path) -> list[Path]:
    (tmp_path / "weights").write_bytes(bytes(1000))
    return [tmp_path / "weights"]


def test_nothing_is_allocated_that_the_weights_could_not_fill(weights: list[Path]) -> None:
    huge = 10**13
    asks = (
        lambda: torch.empty(huge),
        lambda: torch.zeros(10**7, 10**6),
        lambda: torch.full((huge,), 1.0),
        lambda: torch.arange(huge),
        lambda: torch.nn.Embedding(huge, 1),
        lambda: torch.nn.Linear(10**6, 10**7),
        lambda: torch.nn.Linear(10**6, 10**7, device="meta"),
    )
    for ask in asks:
        with (
            pytest.raises(BackendError, match=r"a: the config describes .* 1,000 bytes of weights"),
            limit_model_size(weights, "a"),
        ):
            ask()


def test_layers_without_end_are_stopped(weights: list[Path]) -> None:
    def build() -> None:
        with limit_model_size(weights, "a"):
            for _ in range(1000):
                torch.nn.Linear(2048, 2048, device="meta")

    with pytest.raises(BackendError, match="the config describes"):
        build()


def test_a_model_of_the_size_of_its_weights_is_built_as_ever(weights: list[Path]) -> None:
    torch.manual_seed(0)
    free = torch.nn.Linear(30, 20)
    torch.manual_seed(0)
    with limit_model_size(weights, "a"):
        found = torch.nn.Linear(30, 20)
    assert torch.equal(found.weight, free.weight)
    torch.empty(2**27)  # afterwards nothing is bounded


class Encoder:
    """Gives the same rows for whatever it is asked."""

    def __init__(self, row: object) -> None:
        self.row = row

    def encode_texts(self, texts: list[str], batch: int | None) -> np.ndarray:
        return np.array([self.row] * len(texts), np.float32)


def test_a_model_that_gives_no_numbers_or_fails_is_refused_when_it_is_loaded() -> None:
    model = Encoder([0.6, 0.8])
    assert validate_model(model, "a/model") is model
    for value in (np.nan, np.inf):
        with pytest.raises(BackendError, match="'a/model' returns infinite numbers or NaN"):
            validate_model(Encoder([value, 1]), "a/model")
    with pytest.raises(BackendError, match=r"'a/model' cannot be used .TypeError"):
        validate_model(Encoder(object()), "a/model")


def test_an_assertion_of_our_own_is_not_put_down_to_the_files() -> None:
    ours: dict[str, Any] = {"__name__": "caramel.models.open_clip.encoder"}
    exec("def encode(self, texts, batch):\n    assert not texts", ours)
    with pytest.raises(AssertionError):
        validate_model(type("Ours", (), {"encode_texts": ours["encode"]})(), "a/model")
