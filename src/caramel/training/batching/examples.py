"""What a method trains on: the rows of a table, with their negatives and paraphrases, and a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError, shown
from caramel.kinds.method import Method
from caramel.models.clip.trimming import needed_columns
from caramel.tables import SUBTYPES
from caramel.training.batching.loader import Pixels, Rows, batch_rows, tokenized

if TYPE_CHECKING:
    import torch

    from caramel.models.clip.checkpoints import Clip

Tokens = npt.NDArray[np.int32]
LISTS = ["negative_captions", "negative_image_ids", "subtypes"]  # of table ``training``, place by place


@dataclass(frozen=True)
class Negatives:
    """Hard negatives of all rows, one after the other, and where those of a row are.

    Attributes:
        texts: tokens (N, context).
        kinds: (N,) whole numbers, places in ``tables.SUBTYPES``.
        places: (n, most) of the negatives of each row, in its order; -1 where it has fewer.
        images: pictures of which they are true, where the method takes them.
        image_of: (N,), as in ``Examples``.
    """

    texts: Tokens
    kinds: Rows
    places: Rows
    images: Pixels | None
    image_of: Rows


@dataclass(frozen=True)
class Examples:
    """Training rows for one method; what belongs to row i is at place i of each.

    Attributes:
        method: which says what is here.
        names: of the rows, in messages.
        images: pictures by an array of row numbers.
        image_of: (n,) numbers of the images, the same in two rows that show one.
        texts: tokens (n, context).
        negatives: of the rows.
        paraphrases: tokens (n, context).
        paraphrased: (n,) which rows have one.
        neighbours: (n, several) rows of other images that look alike, where batches are made with them.
    """

    method: Method
    names: npt.NDArray[np.object_]
    images: Pixels
    image_of: Rows
    texts: Tokens
    negatives: Negatives | None = None
    paraphrases: Tokens | None = None
    paraphrased: npt.NDArray[np.bool_] | None = None
    neighbours: Rows | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def held(self) -> bool:
        """Whether all pictures are in memory, decoded."""
        further = self.negatives.images if self.negatives else None
        return self.images.held and (further is None or further.held)


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


def require(rows: pd.DataFrame, method: Method) -> None:
    """Raise a DataError that says what rows to train on lack for a method.

    Each must have a negative, with its image where the method takes images; a negative fewer than it takes is no error. Of
    paraphrases there must be one.
    """
    if rows.empty:
        raise DataError("There is no row to train on: no pair of the train split was kept.")
    cure = f"Leave {method.name!r} out of finetune.variants, or give them"
    if method.negatives:
        numbers = rows[LISTS].map(lambda values: 0 if values is None else len(values))
        equal = numbers.nunique(axis=1).eq(1)
        _check(
            rows,
            equal,
            f"have not as many entries in each of {', '.join(LISTS)}",
            "Give them, empty where there is none",
        )
        column = "negative_image_ids" if method.images else "negative_captions"
        has = rows[column].map(lambda values: any(value is not None for value in values)).astype(bool)
        _check(rows, has, f"have no {column}, which method {method.name!r} trains on", cure)
    if method.paraphrases and rows["caption2"].isna().all():
        raise DataError(
            f"None of {len(rows)} rows has a caption2, a paraphrase, which method {method.name!r} trains on. {cure}: "
            f"`negatives.backend` world and lexicon write them."
        )


def load_examples(clip: Clip, rows: pd.DataFrame, images: Mapping[str, bytes], *, method: Method) -> Examples:
    """Return the rows of a ``training`` table, with their tokens; of pictures only those of a small set are decoded.

    Args:
        clip: model whose tokenizer and preprocessing are used.
        rows: table ``training``, or ``pairs``, which has no negatives.
        images: encoded files by image_id.
        method: how they are trained on, or measured: with which negatives.

    Raises:
        DataError: they lack what the method trains on (``require``), or an image is not there.
    """
    require(rows, method)
    size = clip.config["preprocess_cfg"]["size"]
    shape = (size[0], size[1]) if isinstance(size, list) else (size, size)

    def pixels(names: pd.Series[str], of: pd.DataFrame) -> Pixels:
        known = names.map(images.__contains__).astype(bool)
        _check(of, known, "name an image that is not in the images", "Run `dvc repro` to make the set again")
        return Pixels(images, names, clip.to_pixels, shape)

    def tokens(texts: pd.Series[str]) -> Tokens:
        return tokenized(clip.tokenize, texts.tolist())

    further = _negatives(rows, method) if method.negatives else rows.iloc[:0]
    shown_images = [rows["image_id"], *([further["negative_image_ids"]] if method.images else [])]
    image_of = pd.factorize(pd.concat(shown_images))[0].astype(np.int64)
    found = Examples(
        method,
        rows["pair_id"].to_numpy(object),
        pixels(rows["image_id"], rows),
        image_of[: len(rows)],
        tokens(rows["caption"]),
    )
    if method.negatives:
        negatives = Negatives(
            tokens(further["negative_captions"]),
            further["subtypes"].map(SUBTYPES.index).to_numpy(np.int64),
            _places(further["row"].to_numpy(np.int64), len(rows)),
            pixels(further["negative_image_ids"], further) if method.images else None,
            image_of[len(rows) :],
        )
        found = replace(found, negatives=negatives)
    if method.paraphrases:
        has = rows["caption2"].notna().to_numpy(bool)
        found = replace(found, paraphrases=tokens(rows["caption2"].fillna("")), paraphrased=has)
    return found


def _check(rows: pd.DataFrame, good: pd.Series[bool], problem: str, cure: str) -> None:
    """Raise a DataError that names rows which are not good, if there are any."""
    bad = rows.loc[~good, ["image_id", "caption"]]
    if len(bad):
        named = [f"{image!r}: {caption!r}" for image, caption in bad.itertuples(index=False)]
        raise DataError(f"{len(bad)} of {len(rows)} rows {problem}:\n{shown(named)}\n{cure}.")


def _negatives(rows: pd.DataFrame, method: Method) -> pd.DataFrame:
    """Return a row for each negative that the method may take, with the number of its ``row``."""
    found = rows.assign(row=np.arange(len(rows))).explode(LISTS, ignore_index=True)
    found = found[found["negative_captions"].notna()]
    if method.images:
        found = found[found["negative_image_ids"].notna()]
    return found if method.drawn else found.groupby("row").head(method.negatives)


def _places(row_of: Rows, rows: int) -> Rows:
    """Return where the negatives of each row are, (rows, most), -1 where there is none; ``row_of`` ascends."""
    counts = np.bincount(row_of, minlength=rows)
    within = np.arange(len(row_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.full((rows, int(counts.max())), -1, np.int64)
    out[row_of, within] = np.arange(len(row_of))
    return out


def rows_of(examples: Examples, captions: int, seed: int, step: int) -> Rows:
    """Return the numbers of the rows of a step: as many as have so many captions, with their negatives and paraphrases.

    They are at least two, and in the order of ``loader.batch_rows``. Where there are neighbours, half of them are one
    of each row's, drawn from seed and step.
    """
    count = rows_at_each_step(examples.method, captions, examples.neighbours is not None)
    rows = batch_rows(seed, step, len(examples), count)
    if examples.neighbours is None:
        return rows
    drawn = np.random.default_rng([seed, step]).integers(examples.neighbours.shape[1], size=len(rows))
    return np.concatenate([rows, examples.neighbours[rows, drawn]])


def rows_at_each_step(method: Method, captions: int, neighbours: bool) -> int:
    """Return how many rows have so many captions, with their negatives, paraphrases and neighbours; two at least."""
    return max(2, captions // ((1 + method.negatives + method.paraphrases) * (1 + neighbours)))


def take(clip: Clip, examples: Examples, rows: Rows, seed: int, step: int, own: slice = slice(None)) -> Batch:
    """Return some of the rows for a step; where their negatives are drawn, from seed and step.

    Of the rows, ``own`` are in the batch: what is drawn, and how many columns are needed, is a matter of all.
    """
    import torch

    texts = [examples.texts[rows]]
    found: dict[str, npt.NDArray[np.generic]] = {
        "rows": rows,
        "image_of": examples.image_of[rows],
    }
    if examples.negatives is not None:
        places = _taken(examples.negatives.places[rows], examples.method, seed, step)
        there, at = places >= 0, np.maximum(places, 0)
        texts.append(examples.negatives.texts[at])
        found |= {"negative_texts": texts[-1], "there": there, "kinds": examples.negatives.kinds[at]}
        if examples.negatives.images is not None:
            found["negative_image_of"] = examples.negatives.image_of[at]
    if examples.paraphrases is not None and examples.paraphrased is not None:
        texts.append(examples.paraphrases[rows])
        found |= {"paraphrases": texts[-1], "paraphrased": examples.paraphrased[rows]}
    found["texts"] = texts[0]
    context = texts[0].shape[-1]
    columns = needed_columns(
        clip.model, torch.from_numpy(np.concatenate([t.reshape(-1, context) for t in texts]))
    )
    found = {name: value[own] for name, value in found.items()}
    found["images"] = examples.images.drawn(rows[own], seed, step)
    if examples.negatives is not None and examples.negatives.images is not None:
        flat = examples.negatives.images.drawn(at[own].reshape(-1), seed, step)
        found["negative_images"] = flat.reshape(*at[own].shape, *flat.shape[1:])
    whole = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in found.items()}
    for name in ("texts", "negative_texts", "paraphrases"):
        if name in whole:
            whole[name] = whole[name].long()
    return Batch(step, columns, **whole)


def _taken(places: Rows, method: Method, seed: int, step: int) -> Rows:
    """Return the places of the negatives that a step takes of each row, (n, K), -1 where it has fewer."""
    if method.drawn:
        rng = np.random.default_rng([seed, step])
        order = np.where(places >= 0, rng.random(places.shape), 2).argsort(axis=1)
        places = np.take_along_axis(places, order, axis=1)
    short = method.negatives - places.shape[1]
    return np.pad(places, ((0, 0), (0, max(0, short))), constant_values=-1)[:, : method.negatives]
