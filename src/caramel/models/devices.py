"""Devices and precisions: what ``auto`` means on this machine, and forward passes in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from caramel.errors import BackendError

PRECISIONS = ("fp32", "bf16", "fp16")


def resolve_device(device: str) -> str:
    """Return ``cuda`` where ``auto`` finds a GPU, else ``cpu``; other names as they are."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def resolve_precision(precision: str, device: str) -> str:
    """Return ``bf16`` for ``auto`` where the device multiplies bf16 in hardware, else ``fp32``.

    Without such hardware a processor's bf16 products are many times slower than fp32 ones. fp16 is what
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
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if capable else "fp32"


def compute(device: str, precision: str) -> dict[str, str]:
    """Return the device and the precision that training here means: they are part of its result."""
    device = resolve_device(device)
    return {"device": device, "precision": resolve_precision(precision, device)}


@contextmanager
def autocast(device: str, precision: str) -> Iterator[None]:
    """Run the block's forward passes in the precision.

    On a processor the plain attention kernel is taken in bf16: the backward pass of the fused
    one is slower than all the rest of a small model's step.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if precision == "fp32":
        yield
        return
    plain = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    with torch.autocast(device.partition(":")[0], dtype=dtype), plain:
        yield
