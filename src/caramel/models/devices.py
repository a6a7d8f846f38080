"""Devices and precisions: what ``auto`` means on this machine, forward passes in it, and what does not fit into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from caramel.errors import BackendError, ResourceError

if TYPE_CHECKING:
    import torch

Model = TypeVar("Model", bound="torch.nn.Module")
PRECISIONS = ("fp32", "bf16", "fp16")
# What torch says where an allocation fails in main memory or inside a library of the GPU.
FULL = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def resolve_device(device: str) -> str:
    """Return ``cuda`` where ``auto`` finds a GPU, else ``cpu``; other names as they are."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def get_gpus_per_worker(share: float, device: str) -> float:
    """Return how many GPUs a worker needs on a device: none on a processor."""
    return share if resolve_device(device).startswith("cuda") else 0.0


def resolve_precision(precision: str, device: str) -> str:
    """Return ``bf16`` for ``auto`` where the device multiplies bf16 faster than fp32, else ``fp32``.

    Without hardware for it a processor's bf16 products are many times slower than fp32 ones. fp16 is what
    it says on a processor as well, slow where it has to be emulated.

    Raises:
        BackendError: there is no such precision.
    """
    import torch

    if precision not in ("auto", *PRECISIONS):
        raise BackendError(f"Unknown precision {precision!r}. Choices: auto, {', '.join(PRECISIONS)}.")
    if precision != "auto":
        return precision
    if device.startswith("cuda"):
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if _is_bf16_faster() else "fp32"


def _is_bf16_faster() -> bool:
    """Return whether bf16 products are the faster ones on this processor.

    With AMX they are. AVX-512's instruction for them runs at full speed on AMD's; on Intel's, where a virtual
    machine hides AMX, products took twice as long as in fp32 (`python bench/precision.py`).
    """
    import torch

    if torch.cpu._is_amx_tile_supported():
        return True
    processor = Path("/proc/cpuinfo")
    amd = processor.exists() and "AuthenticAMD" in processor.read_text(encoding="utf-8")
    return amd and torch.cpu._is_avx512_bf16_supported()


def resolve_compute(device: str, precision: str) -> dict[str, str]:
    """Return the device and the precision that training here means: they are part of its result."""
    device = resolve_device(device)
    return {"device": device, "precision": resolve_precision(precision, device)}


@contextmanager
def use_precision(device: str, precision: str) -> Iterator[None]:
    """Run the block's forward passes in the precision.

    fp32 is IEEE's on a GPU too, where torch computes convolutions with ten bits of mantissa (TF32) by default.
    On a processor the plain attention kernel is taken in bf16: the backward pass of the fused
    one is slower than all the rest of a small model's step.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if precision == "fp32":
        with disable_tf32():
            yield
        return
    plain = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    with torch.autocast(device.partition(":")[0], dtype=dtype), plain:
        yield


@contextmanager
def disable_tf32() -> Iterator[None]:
    """Keep a GPU from shortening the factors of fp32 products; after the block torch's settings are as before."""
    import torch

    backends: Any = torch.backends
    matmul, cudnn = backends.cuda.matmul, backends.cudnn
    new = hasattr(cudnn, "conv")  # since torch 2.9
    key, whole = ("fp32_precision", "ieee") if new else ("allow_tf32", False)
    before = [
        (backend, getattr(backend, key))
        for backend in ((matmul, cudnn.conv, cudnn.rnn) if new else (matmul, cudnn))
    ]
    try:
        for backend, _ in before:
            setattr(backend, key, whole)
        yield
    finally:
        for backend, value in before:
            setattr(backend, key, value)


def move_to_device(model: Model, device: str) -> Model:
    """Return the model on the device, in evaluation mode.

    Raises:
        BackendError: the device cannot be used.
        ResourceError: the model does not fit onto it.
    """
    with translate_device_errors("The model", device):
        return model.to(device).eval()


@contextmanager
def translate_device_errors(what: str, device: str) -> Iterator[None]:
    """Say of a block that moves something to a device why that cannot be; errors as in ``on_device``."""
    try:
        with translate_memory_errors(what, device, "Free it, or take another device or a smaller model."):
            yield
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without it
        raise BackendError(
            f"Device {device!r} cannot be used: {_format_error(error)}. Say auto, cpu, cuda or cuda:N."
        ) from error


@contextmanager
def translate_memory_errors(what: str, device: str, cure: str) -> Iterator[None]:
    """Say of a block that runs out of memory what does, and what to do.

    Args:
        what: runs out of it; begins the message.
        device: whose memory it is.
        cure: ends the message.

    Raises:
        ResourceError: there is not enough memory.
    """
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one, the CPU allocator has no own
        if not is_out_of_memory(error):
            raise
        raise ResourceError(
            f"{what} does not fit into the memory of {device!r}: {_format_error(error)}. {cure}"
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory, on a GPU or in main memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in FULL)


def _format_error(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
