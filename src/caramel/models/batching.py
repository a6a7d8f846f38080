"""Run forward passes in batches: find a size that fits, and prepare the next batch while the model computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError, ModelMemoryError
from caramel.models.devices import is_out_of_memory

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
Ready = TypeVar("Ready")
LARGEST = {"cuda": 1024, "cpu": 64}  # larger batches are not faster; a GPU finds the size that fits below it
# On a CPU, products with few rows per thread use other routines, which round differently. A vector's last
# bits would then depend on what is encoded with it, and so on what a cache already contains. Observed below 4
# rows, and for a ResNet below 16.
LEAST, OF_A_THREAD = 16, 4
NO_ROW = ("out of range in self", "device-side assert")  # messages of torch.embedding, on a CPU and on a GPU


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
    """Return the rows that ``forward`` computes for all items, in their order, as float32.

    The next batch is prepared in a thread while the model computes. A batch that does not fit into memory is
    halved, and so are all later ones. With ``batch_size`` None, the first size is the largest that is useful
    on the device. Other errors of ``prepare`` and ``forward`` are raised unchanged.

    Args:
        items: at least one.
        prepare: items of one batch -> input of the model.
        forward: input -> (items of the batch, …), on any device.
        batch_size: largest number of items per forward pass; None: determined here.
        device: cpu, cuda or cuda:N.
        fill: whether a short batch is padded on a CPU by repeating its last item. A row's last bits then do
            not depend on the number of items in its batch.
        name: name of the model, for messages.

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
                raise ModelMemoryError(
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
    """Return what ``run_in_batches`` does; the items of a batch have the same length.

    If shorter items were padded to the longest of their batch, a row's last bits would depend on the other
    items.

    Args:
        items: at least one.
        lengths: length of each item.
        prepare, forward, batch_size, device, name: as in ``run_in_batches``.
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
    """Return the smallest number of rows of a padded batch."""
    import torch

    return max(LEAST, OF_A_THREAD * torch.get_num_threads())


def _pad_items(items: Sequence[Item], least: int) -> Sequence[Item]:
    """Return the items, with the last one repeated up to a smallest number."""
    short = least - len(items)
    return [*items, *[items[-1]] * short] if short > 0 else items


def _run_forward(
    forward: Callable[[Ready], torch.Tensor], ready: Ready, name: str
) -> npt.NDArray[np.float32] | None:
    """Return the rows, or None if they did not fit; the memory of the pass is released."""
    try:
        rows: npt.NDArray[np.float32] = forward(ready).float().cpu().numpy()
        return rows
    # torch.OutOfMemoryError is one, and the CPU allocator has none of its own
    except (IndexError, RuntimeError) as error:
        if any(text in str(error) for text in NO_ROW):
            raise BackendError(
                f"{f'Model {name!r}' if name else 'The model'} has no embedding for a token of its "
                f"tokenizer: its files do not match. Download all of them again."
            ) from error
        if not is_out_of_memory(error):
            raise
        return None


def _release_gpu_cache() -> None:
    """Release cached blocks of the GPU."""
    import torch

    torch.cuda.empty_cache()
