"""Batches of a forward pass: a size that fits, and preparation of the next one meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError, ResourceError
from caramel.models.devices import is_out_of_memory

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
Ready = TypeVar("Ready")
LARGEST = {"cuda": 1024, "cpu": 64}  # more gives no further speed; a GPU finds what fits below it
# Products of fewer rows for each thread take other routines on a processor, which round otherwise: a vector's last bits would
# depend on what is encoded with it, and so on what a store holds already. Seen below 4 rows, of a ResNet below 16.
LEAST, OF_A_THREAD = 16, 4
NO_ROW = ("out of range in self", "device-side assert")  # what an embedding says, on a processor and on a GPU


def run_in_batches(
    items: Sequence[Item],
    prepare: Callable[[Sequence[Item]], Ready],
    forward: Callable[[Ready], torch.Tensor],
    *,
    batch_size: int | None,
    device: str,
    fill: bool = False,
    name: str = "",
) -> npt.NDArray[np.float32]:
    """Return the rows that ``forward`` gives for all items, in their order, as float32.

    The next batch is prepared in a thread while the model computes. A batch that does not fit into
    memory is halved, and stays so; with ``batch_size`` None the start is the largest size that is worth
    trying on the device. Other errors of ``prepare`` and ``forward`` are raised as they are.

    Args:
        items: at least one.
        prepare: items of one batch -> what the model takes.
        forward: -> (items of the batch, …), on any device.
        batch_size: items per forward pass at most; None: found.
        device: cpu, cuda or cuda:N.
        fill: whether a short batch is filled up on a processor, with its last item, so that a row's last bits do not depend on
            how many items share its batch.
        name: of the model, for messages.

    Raises:
        ResourceError: not even one item fits.
        BackendError: an item has a token that the model does not know.
    """
    size = batch_size or LARGEST.get(device.partition(":")[0], LARGEST["cpu"])
    least = _compute_min_rows() if fill and device == "cpu" else 1
    out: list[npt.NDArray[np.float32]] = []
    start = 0
    with ThreadPoolExecutor(1) as executor:
        coming = executor.submit(prepare, _pad_items(items[:size], least))
        while start < len(items):
            ready = coming.result()
            stop = min(start + size, len(items))
            following: Future[Ready] | None = None
            if stop < len(items):
                following = executor.submit(prepare, _pad_items(items[stop : stop + size], least))
            rows = _run_forward(forward, ready, name)
            if rows is not None:
                out.append(rows[: stop - start])
                start = stop
                if following is not None:
                    coming = following
                continue
            if stop - start == 1:
                raise ResourceError(
                    f"Not even one item fits into the memory of {device!r}. Free it, or use "
                    f"--precision bf16 or a smaller model."
                )
            if device.startswith("cuda"):
                _release_gpu_cache()
            size, least = (stop - start) // 2, 1
            if following is not None:
                following.cancel()
            coming = executor.submit(prepare, items[start : start + size])
    return np.concatenate(out)


def run_in_batches_by_length(
    items: Sequence[Item],
    lengths: Sequence[int],
    prepare: Callable[[Sequence[Item]], Ready],
    forward: Callable[[Ready], torch.Tensor],
    *,
    batch_size: int | None,
    device: str,
    name: str = "",
) -> npt.NDArray[np.float32]:
    """Return what ``in_batches`` does; the items of a batch have one length.

    Were shorter ones padded to the longest of their batch, a row's last bits would depend on what is computed with it.

    Args:
        items: at least one.
        lengths: of each item.
        prepare, forward, batch_size, device, name: as of ``in_batches``.
    """
    of_length: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        of_length.setdefault(length, []).append(index)
    order = [of_length[length] for length in sorted(of_length)]
    parts = [
        run_in_batches(
            [items[i] for i in group],
            prepare,
            forward,
            batch_size=batch_size,
            device=device,
            fill=True,
            name=name,
        )
        for group in order
    ]
    rows = np.empty((len(items), *parts[0].shape[1:]), np.float32)
    rows[np.concatenate(order)] = np.concatenate(parts)
    return rows


def _compute_min_rows() -> int:
    """Return how many rows a batch has at least, where it is filled up."""
    import torch

    return max(LEAST, OF_A_THREAD * torch.get_num_threads())


def _pad_items(items: Sequence[Item], least: int) -> Sequence[Item]:
    """Return the items, the last one repeated up to a least number."""
    short = least - len(items)
    return [*items, *[items[-1]] * short] if short > 0 else items


def _run_forward(
    forward: Callable[[Ready], torch.Tensor], ready: Ready, name: str
) -> npt.NDArray[np.float32] | None:
    """Return the rows, or None where they did not fit; what the pass held is free again after that."""
    try:
        rows: npt.NDArray[np.float32] = forward(ready).float().cpu().numpy()
        return rows
    except (IndexError, RuntimeError) as error:  # torch.OutOfMemoryError is one, the CPU allocator has no own
        if any(text in str(error) for text in NO_ROW):
            raise BackendError(
                f"{f'Model {name!r}' if name else 'The model'} has no row for a token of its tokenizer: its files do not fit "
                f"together. Fetch all of them again."
            ) from error
        if not is_out_of_memory(error):
            raise
        return None


def _release_gpu_cache() -> None:
    """Give cached blocks back to the GPU."""
    import torch

    torch.cuda.empty_cache()
