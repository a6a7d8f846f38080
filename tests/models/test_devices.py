"""Precisions of a device, and what does not fit into it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from caramel.errors import BackendError, ResourceError
from caramel.models.devices import (
    disable_tf32,
    is_out_of_memory,
    move_to_device,
    resolve_precision,
    translate_memory_errors,
    use_precision,
)


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


def settings() -> list[str]:
    """Return how torch computes products of fp32 on a GPU."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return [cuda.matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision]


@pytest.mark.parametrize("chosen", ["highest", "high"])
def test_fp32_is_whole_on_a_gpu_and_settings_of_others_stay(chosen: str) -> None:
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(chosen)
    try:
        before = settings()
        assert "tf32" in before
        with use_precision("cpu", "fp32"):
            assert settings() == ["ieee"] * 3
        assert settings() == before
        with use_precision("cpu", "bf16"):
            assert settings() == before
        with pytest.raises(KeyError), disable_tf32():
            raise KeyError
        assert settings() == before
        assert torch.get_float32_matmul_precision() == chosen
    finally:
        torch.set_float32_matmul_precision(usual)


def test_a_device_that_cannot_be_used_is_an_error_that_names_the_choices() -> None:
    with pytest.raises(BackendError, match=r"'meteor' cannot be used: .*Use auto, cpu, cuda or cuda:N"):
        move_to_device(torch.nn.Linear(1, 1), "meteor")


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ("CUDA error: out of memory\nCUDA kernel errors might be reported later", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", True),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.", True),
        ("shapes do not fit", False),
    ],
)
def test_what_does_not_fit_is_told_from_other_errors(said: str, full: bool) -> None:
    assert is_out_of_memory(RuntimeError(said)) == full
    raised = pytest.raises(ResourceError if full else RuntimeError, match=said[:20])
    with raised as stopped, translate_memory_errors("The batch", "cuda:1", "Lower it."):
        raise RuntimeError(said)
    if full:
        assert str(stopped.value).startswith("The batch does not fit into the memory of 'cuda:1': ")
        assert str(stopped.value).endswith(". Lower it.")
        assert "\n" not in str(stopped.value)


@pytest.mark.parametrize(
    ("amx", "avx512", "vendor", "expected"),
    [
        (True, True, "GenuineIntel", "bf16"),
        (False, True, "GenuineIntel", "fp32"),
        (False, True, "AuthenticAMD", "bf16"),
        (False, False, "AuthenticAMD", "fp32"),
    ],
)
def test_auto_is_bf16_only_where_a_processor_is_faster_in_it(
    amx: bool, avx512: bool, vendor: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(Path, "read_text", lambda self, **unused: f"vendor_id\t: {vendor}\n")
    assert resolve_precision("auto", "cpu") == expected
    assert resolve_precision("bf16", "cpu") == "bf16"
