"""Assemble the batch of a step: rows with the negatives and paraphrases that the method uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from caramel.interfaces.method import Method
from caramel.models.open_clip.text_padding import count_needed_columns
from caramel.training.data.clic_concat import draw_pairs, join_image_halves, join_texts
from caramel.training.data.examples import Examples
from caramel.training.data.loader import ImageDataset, RowIds, draw_batch_rows
from caramel.training.data.tokens import tokenize_texts

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip

TEXTS = ("texts", "negative_texts", "paraphrases", "phrases", "foils")
Arrays = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Batch:
    """The data of a step: n rows with K negatives each. What the method does not use is None.

    Attributes:
        step: step number, from 0.
        columns: number of token columns that are needed; None: not known.
        rows: (n,) row numbers.
        images: uint8 (n, 3, height, width).
        texts: tokens (n, context).
        image_ids: (n,), as in ``Examples``.
        negative_texts: tokens (n, K, context); a missing negative has arbitrary tokens.
        negative_mask, negative_types: (n, K), as in ``Features``.
        negative_images: uint8 (n, K, 3, height, width).
        negative_image_ids: (n, K), as in ``Features``.
        paraphrases: tokens (n, context).
        paraphrased: (n,), as in ``Features``.
        phrases, foils: tokens (n, P, context); a missing phrase has arbitrary tokens.
        phrase_mask: (n, P), as in ``Features``.
    """

    step: int
    columns: int | None
    rows: torch.Tensor
    images: torch.Tensor
    texts: torch.Tensor
    image_ids: torch.Tensor
    negative_texts: torch.Tensor | None = None
    negative_mask: torch.Tensor | None = None
    negative_types: torch.Tensor | None = None
    negative_images: torch.Tensor | None = None
    negative_image_ids: torch.Tensor | None = None
    paraphrases: torch.Tensor | None = None
    paraphrased: torch.Tensor | None = None
    phrases: torch.Tensor | None = None
    phrase_mask: torch.Tensor | None = None
    foils: torch.Tensor | None = None

    def to(self, device: str) -> Self:
        """Return the batch on the device."""

        def move_tensor(stack: torch.Tensor) -> torch.Tensor:
            if device.startswith("cuda"):  # a copy from pinned memory does not block
                return stack.pin_memory().to(device, non_blocking=True)
            return stack.to(device)

        return self._map_tensors(move_tensor)

    def split_rows(self, size: int | None) -> list[Self]:
        """Return batches of at most ``size`` of the rows, in their order; None: the batch itself."""
        size = size or len(self.texts)
        return [self.slice_rows(slice(start, start + size)) for start in range(0, len(self.texts), size)]

    def slice_rows(self, rows: slice) -> Self:
        """Return a batch of some of the rows."""
        return self._map_tensors(lambda stack: stack[rows])

    def _map_tensors(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        tensors = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        changed: dict[str, Any] = {
            name: change(value) for name, value in tensors.items() if value is not None
        }
        return replace(self, **changed)


def draw_step_rows(examples: Examples, captions: int, seed: int, step: int) -> RowIds:
    """Return the row numbers of a step: as many rows as have ``captions`` texts in total; at least two.

    A row's texts are its caption, its negatives, its paraphrase and its phrases. Rows are in the order of
    ``loader.draw_batch_rows``. If rows stay together in blocks, the step has whole blocks, and rows at the
    end that do not fill a block are left out. If the examples have neighbours, half of the step's rows are
    neighbours of the other half, one for each row, drawn from seed and step.
    """
    count = count_rows_per_step(examples.method, captions, examples.neighbours is not None)
    block = min(examples.block_size, len(examples))
    blocks = draw_batch_rows(seed, step, len(examples) // block, max(1, count // block))
    rows = (blocks[:, None] * block + np.arange(block)).ravel()
    if examples.neighbours is None:
        return rows
    drawn = np.random.default_rng([seed, step]).integers(examples.neighbours.shape[1], size=len(rows))
    return np.concatenate([rows, examples.neighbours[rows, drawn]])


def count_rows_per_step(method: Method, captions: int, neighbours: bool) -> int:
    """Return how many rows have ``captions`` texts in total; at least two.

    The texts include those of negatives, paraphrases, phrases, neighbours and joined rows.
    """
    return max(2, captions // count_texts_per_row(method, neighbours))


def count_texts_per_row(method: Method, neighbours: bool) -> int:
    """Return how many texts a row of a step takes: its own, and those of its neighbour if it has one."""
    phrases = method.most_phrases + 2 * method.negatives * bool(method.units)  # a unit has a foil
    texts = 1 + method.negatives + method.paraphrases + phrases + 2 * bool(method.joins)
    return texts * (1 + neighbours)


def assemble_batch(
    clip: Clip, examples: Examples, rows: RowIds, seed: int, step: int, row_slice: slice = slice(None)
) -> Batch:
    """Return the batch of a step; every other step joins rows with others if the method joins rows.

    Only the rows in ``row_slice`` are in the batch. The draws and the number of columns depend on all
    ``rows``.
    """
    import torch

    if examples.joined is not None and step % 2 == 0:
        arrays, load_images = _collect_joined_rows(clip, examples, rows, seed, step)
    else:
        arrays, load_images = _collect_rows(examples, rows, seed, step)
    context = arrays["texts"].shape[-1]
    tokens = np.concatenate([arrays[name].reshape(-1, context) for name in TEXTS if name in arrays])
    columns = count_needed_columns(clip.model, torch.from_numpy(tokens))
    arrays = {name: value[row_slice] for name, value in arrays.items()} | load_images(row_slice)
    whole = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
    return Batch(step, columns, **{name: v.long() if name in TEXTS else v for name, v in whole.items()})


def _collect_rows(
    examples: Examples, rows: RowIds, seed: int, step: int
) -> tuple[Arrays, Callable[[slice], Arrays]]:
    """Return the rows' arrays without images, and a function that loads the images of a slice.

    Draws depend on seed and step.
    """
    arrays: Arrays = {
        "rows": rows,
        "image_ids": examples.image_ids[rows],
        "texts": examples.texts[rows],
    }
    negatives, at = examples.negatives, np.empty(0, np.int64)
    if negatives is not None:
        positions = _select_negatives(negatives.positions[rows], examples.method, seed, step)
        at = np.maximum(positions, 0)
        arrays |= {"negative_mask": positions >= 0, "negative_types": negatives.subtypes[at]}
        if examples.method.captions:
            arrays["negative_texts"] = negatives.texts[at]
        if negatives.images is not None:
            arrays["negative_image_ids"] = negatives.image_ids[at]
        if negatives.units is not None and negatives.foils is not None:
            units, foils = negatives.units[at], negatives.foils[at]
            arrays |= {"phrases": units, "foils": foils, "phrase_mask": positions >= 0}
    if examples.phrases is not None:
        arrays |= examples.phrases.select_rows(rows)
    if examples.paraphrases is not None and examples.paraphrased is not None:
        arrays |= {"paraphrases": examples.paraphrases[rows], "paraphrased": examples.paraphrased[rows]}

    def load_images(row_slice: slice) -> Arrays:
        taken: Arrays = {"images": examples.images.load_for_step(rows[row_slice], seed, step)}
        if negatives is not None and negatives.images is not None:
            flat = negatives.images.load_for_step(at[row_slice].reshape(-1), seed, step)
            taken["negative_images"] = flat.reshape(*at[row_slice].shape, *flat.shape[1:])
        return taken

    return arrays, load_images


def _collect_joined_rows(
    clip: Clip, examples: Examples, rows: RowIds, seed: int, step: int
) -> tuple[Arrays, Callable[[slice], Arrays]]:
    """Return the same as ``_collect_rows`` for rows that are each joined with another row.

    Caption and paraphrase are p1 and p2 (``clic_concat``).
    """
    assert examples.joined is not None
    assert examples.method.joins is not None
    pairs = draw_pairs(examples.joined, rows, seed, step)
    first, second, negatives, negative_mask = join_texts(
        examples.joined, pairs, examples.method.joins, seed, step
    )
    image_ids = np.sort(examples.image_ids[pairs], axis=1)
    arrays: Arrays = {
        "rows": rows,
        "image_ids": image_ids[:, 0] * len(examples) + image_ids[:, 1],
        "texts": tokenize_texts(clip.tokenize, first),
        "paraphrases": tokenize_texts(clip.tokenize, second),
        "paraphrased": np.ones(len(rows), bool),
        "negative_texts": tokenize_texts(clip.tokenize, negatives)[:, None],
        "negative_mask": negative_mask[:, None],
        "negative_types": np.zeros((len(rows), 1), np.int64),
    }

    def load_images(row_slice: slice) -> Arrays:
        images = examples.images
        assert isinstance(images, ImageDataset)  # ``encode_locked`` keeps images here: vectors have no halves
        one, other = (images.load_for_step(pairs[row_slice, side], seed, step) for side in (0, 1))
        return {"images": join_image_halves(one, other, rows[row_slice], seed, step)}

    return arrays, load_images


def _select_negatives(positions: RowIds, method: Method, seed: int, step: int) -> RowIds:
    """Return the positions of each row's negatives for a step, (n, K), -1 where a row has fewer."""
    if method.drawn:
        rng = np.random.default_rng([seed, step])
        order = np.where(positions >= 0, rng.random(positions.shape), 2).argsort(axis=1)
        positions = np.take_along_axis(positions, order, axis=1)
    short = method.negatives - positions.shape[1]
    return np.pad(positions, ((0, 0), (0, max(0, short))), constant_values=-1)[:, : method.negatives]
