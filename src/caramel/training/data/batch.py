"""What one step trains on: some of the rows, with what of their negatives and paraphrases it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from caramel.interfaces.method import Method
from caramel.models.open_clip.text_padding import needed_columns
from caramel.training.data.clic_concat import joined_texts, pairs_of, side_by_side
from caramel.training.data.examples import Examples
from caramel.training.data.loader import Pixels, Rows, batch_rows, tokenized

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.checkpoints import Clip

TEXTS = ("texts", "negative_texts", "paraphrases")
Arrays = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Batch:
    """What a step trains on: n rows, with K negatives each; what the method does not take is None.

    Attributes:
        step: its number, from 0.
        columns: of the tokens that are needed; None: not known.
        rows: (n,) row numbers.
        images: uint8 (n, 3, height, width).
        texts: tokens (n, context).
        image_of: (n,), as in ``Examples``.
        negative_texts: tokens (n, K, context); of a negative that is not there, those of any.
        there, kinds: (n, K), as in ``Encoded``.
        negative_images: uint8 (n, K, 3, height, width).
        negative_image_of: (n, K).
        paraphrases: tokens (n, context).
        paraphrased: (n,).
    """

    step: int
    columns: int | None
    rows: torch.Tensor
    images: torch.Tensor
    texts: torch.Tensor
    image_of: torch.Tensor
    negative_texts: torch.Tensor | None = None
    there: torch.Tensor | None = None
    kinds: torch.Tensor | None = None
    negative_images: torch.Tensor | None = None
    negative_image_of: torch.Tensor | None = None
    paraphrases: torch.Tensor | None = None
    paraphrased: torch.Tensor | None = None

    def to(self, device: str) -> Self:
        """Return the batch on the device."""

        def moved(stack: torch.Tensor) -> torch.Tensor:
            if device.startswith("cuda"):  # from pinned memory nothing waits for the copy
                return stack.pin_memory().to(device, non_blocking=True)
            return stack.to(device)

        return self._changed(moved)

    def part(self, rows: slice) -> Self:
        """Return some of the rows."""
        return self._changed(lambda stack: stack[rows])

    def _changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        found = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        changed: dict[str, Any] = {name: change(value) for name, value in found.items() if value is not None}
        return replace(self, **changed)


def rows_of(examples: Examples, captions: int, seed: int, step: int) -> Rows:
    """Return the numbers of the rows of a step: as many as have so many captions, with their negatives and paraphrases.

    They are at least two, and in the order of ``loader.batch_rows``, whole blocks where rows stay together: rows at the end
    that fill no block are left out. Where there are neighbours, half of them are one
    of each row's, drawn from seed and step.
    """
    count = rows_at_each_step(examples.method, captions, examples.neighbours is not None)
    block = min(examples.block_size, len(examples))
    blocks = batch_rows(seed, step, len(examples) // block, max(1, count // block))
    rows = (blocks[:, None] * block + np.arange(block)).ravel()
    if examples.neighbours is None:
        return rows
    drawn = np.random.default_rng([seed, step]).integers(examples.neighbours.shape[1], size=len(rows))
    return np.concatenate([rows, examples.neighbours[rows, drawn]])


def rows_at_each_step(method: Method, captions: int, neighbours: bool) -> int:
    """Return how many rows have so many captions, with their negatives, paraphrases, neighbours and joined ones; two at least."""
    return max(
        2,
        captions // ((1 + method.negatives + method.paraphrases + 2 * bool(method.joins)) * (1 + neighbours)),
    )


def take(clip: Clip, examples: Examples, rows: Rows, seed: int, step: int, own: slice = slice(None)) -> Batch:
    """Return some of the rows for a step: of every other step joined with others, where the method joins rows.

    Of the rows, ``own`` are in the batch: what is drawn, and how many columns are needed, is a matter of all.
    """
    import torch

    if examples.joined is not None and step % 2 == 0:
        found, pictures = _joined(clip, examples, rows, seed, step)
    else:
        found, pictures = _as_they_are(examples, rows, seed, step)
    context = found["texts"].shape[-1]
    tokens = np.concatenate([found[name].reshape(-1, context) for name in TEXTS if name in found])
    columns = needed_columns(clip.model, torch.from_numpy(tokens))
    found = {name: value[own] for name, value in found.items()} | pictures(own)
    whole = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in found.items()}
    return Batch(step, columns, **{name: v.long() if name in TEXTS else v for name, v in whole.items()})


def _as_they_are(
    examples: Examples, rows: Rows, seed: int, step: int
) -> tuple[Arrays, Callable[[slice], Arrays]]:
    """Return what a batch has of the rows but pictures, and what gives those of some; what is drawn is of seed and step."""
    found: Arrays = {
        "rows": rows,
        "image_of": examples.image_of[rows],
        "texts": examples.texts[rows],
    }
    negatives, at = examples.negatives, np.empty(0, np.int64)
    if negatives is not None:
        places = _taken(negatives.places[rows], examples.method, seed, step)
        at = np.maximum(places, 0)
        found |= {"there": places >= 0, "kinds": negatives.kinds[at]}
        if examples.method.captions:
            found["negative_texts"] = negatives.texts[at]
        if negatives.images is not None:
            found["negative_image_of"] = negatives.image_of[at]
    if examples.paraphrases is not None and examples.paraphrased is not None:
        found |= {"paraphrases": examples.paraphrases[rows], "paraphrased": examples.paraphrased[rows]}

    def pictures(own: slice) -> Arrays:
        taken: Arrays = {"images": examples.images.drawn(rows[own], seed, step)}
        if negatives is not None and negatives.images is not None:
            flat = negatives.images.drawn(at[own].reshape(-1), seed, step)
            taken["negative_images"] = flat.reshape(*at[own].shape, *flat.shape[1:])
        return taken

    return found, pictures


def _joined(
    clip: Clip, examples: Examples, rows: Rows, seed: int, step: int
) -> tuple[Arrays, Callable[[slice], Arrays]]:
    """Return the same of rows that are joined, each with another: p1 and p2 in place of caption and paraphrase."""
    assert examples.joined is not None
    assert examples.method.joins is not None
    pairs = pairs_of(examples.joined, rows, seed, step)
    first, second, negatives, there = joined_texts(examples.joined, pairs, examples.method.joins, seed, step)
    shown = np.sort(examples.image_of[pairs], axis=1)
    found: Arrays = {
        "rows": rows,
        "image_of": shown[:, 0] * len(examples) + shown[:, 1],
        "texts": tokenized(clip.tokenize, first),
        "paraphrases": tokenized(clip.tokenize, second),
        "paraphrased": np.ones(len(rows), bool),
        "negative_texts": tokenized(clip.tokenize, negatives)[:, None],
        "there": there[:, None],
        "kinds": np.zeros((len(rows), 1), np.int64),
    }

    def pictures(own: slice) -> Arrays:
        images = examples.images
        assert isinstance(images, Pixels)  # vectors have no halves: ``contrastive.encode_locked``
        one, other = (images.drawn(pairs[own, place], seed, step) for place in (0, 1))
        return {"images": side_by_side(one, other, rows[own], seed, step)}

    return found, pictures


def _taken(places: Rows, method: Method, seed: int, step: int) -> Rows:
    """Return the places of the negatives that a step takes of each row, (n, K), -1 where it has fewer."""
    if method.drawn:
        rng = np.random.default_rng([seed, step])
        order = np.where(places >= 0, rng.random(places.shape), 2).argsort(axis=1)
        places = np.take_along_axis(places, order, axis=1)
    short = method.negatives - places.shape[1]
    return np.pad(places, ((0, 0), (0, max(0, short))), constant_values=-1)[:, : method.negatives]
