"""Choose devices and precisions: resolve ``auto``, run forward passes in a precision, explain errors of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from caramel.errors import BackendError, ModelMemoryError

if TYPE_CHECKING:
    import torch

Model = TypeVar("Model", bound="torch.nn.Module")
PRECISIONS = ("fp32", "bf16", "fp16")
# Messages of torch when an allocation fails in main memory or inside a library of the GPU.
FULL = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def resolve_device(device: str) -> str:
    """Return ``cuda`` for ``auto`` if there is a GPU, else ``cpu``; other names are returned unchanged."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def get_gpus_per_worker(share: float, device: str) -> float:
    """Return how many GPUs a worker needs on a device: none on a CPU."""
    return share if resolve_device(device).startswith("cuda") else 0.0


def resolve_precision(precision: str, device: str) -> str:
    """Return ``bf16`` for ``auto`` if the device multiplies bf16 faster than fp32, else ``fp32``.

    Without hardware support, bf16 products of a CPU are many times slower than fp32 ones. fp16 stays fp16 on
    a CPU as well, and is slow where it is emulated.

    Raises:
        BackendError: the precision is unknown.
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
    """Return whether bf16 products are faster on this CPU.

    They are with AMX. AVX-512's bf16 instruction runs at full speed on AMD's CPUs. On Intel's, where a
    virtual machine hides AMX, products took twice as long as in fp32 (`python bench/precision.py`).
    """
    import torch

    if torch.cpu._is_amx_tile_supported():
        return True
    processor = Path("/proc/cpuinfo")
    amd = processor.exists() and "AuthenticAMD" in processor.read_text(encoding="utf-8")
    return amd and torch.cpu._is_avx512_bf16_supported()


def resolve_compute(device: str, precision: str) -> dict[str, str]:
    """Return the device and the precision of training on this machine: they are part of its result."""
    device = resolve_device(device)
    return {"device": device, "precision": resolve_precision(precision, device)}


@contextmanager
def use_precision(device: str, precision: str) -> Iterator[None]:
    """Run the block's forward passes in the precision.

    fp32 is IEEE's on a GPU too, although torch by default computes convolutions with ten bits of mantissa
    (TF32). In bf16 on a CPU, the plain attention kernel is used: the backward pass of the fused one takes
    longer than all the rest of a small model's step.
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
    """Disable TF32 in fp32 products on a GPU; after the block, torch's settings are restored."""
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
    """Translate errors of moving something to a device; the errors raised are those of ``move_to_device``."""
    try:
        with translate_memory_errors(what, device, "Free it, or use another device or a smaller model."):
            yield
    except (RuntimeError, AssertionError) as error:  # AssertionError where torch was built without CUDA
        raise BackendError(
            f"Device {device!r} cannot be used: {_format_error(error)}. Use auto, cpu, cuda or cuda:N."
        ) from error


@contextmanager
def translate_memory_errors(what: str, device: str, cure: str) -> Iterator[None]:
    """Translate a block's out-of-memory errors into a message that says what to do.

    Args:
        what: what does not fit; the message begins with it.
        device: the device whose memory is full.
        cure: end of the message.

    Raises:
        ModelMemoryError: there is not enough memory.
    """
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one, and the CPU allocator has none of its own
        if not is_out_of_memory(error):
            raise
        raise ModelMemoryError(
            f"{what} does not fit into the memory of {device!r}: {_format_error(error)}. {cure}"
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory, on a GPU or in main memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in FULL)


def _format_error(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
