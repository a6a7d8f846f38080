"""Load the examples that a method trains on: a table's rows with their negatives and paraphrases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.method import Method
from caramel.training.data.clic_concat import PairingIndex, extract_first_sentence
from caramel.training.data.list_columns import LISTS, FlatLists, count_listed
from caramel.training.data.listed_negatives import (
    build_negative_positions,
    build_separate_rows,
    draw_other_rows,
    list_negatives,
    number_subtypes,
)
from caramel.training.data.loader import ImageDataset, ImageFeatures, RowIds, Stack
from caramel.training.data.phrase_table import PhraseTable
from caramel.training.data.row_units import Unit, find_usable_rows, get_needed_list, has_row_per_negative
from caramel.training.data.tokens import Tokens, TokenTable

if TYPE_CHECKING:
    from caramel.models.open_clip.config import Clip


@dataclass(frozen=True)
class Negatives:
    """Hard negatives of all rows in one list, and the positions of each row's negatives in it.

    Attributes:
        texts: tokens by an array of numbers of negatives.
        subtypes: (N,) integers, indices into ``SUBTYPES``.
        positions: (n, most) positions of each row's negatives, in the row's order; -1 where a row has fewer.
        images: images for which the negatives are true; None if the method does not use them.
        image_ids: (N,), as in ``Examples``.
        units, foils: tokens, like ``texts``, of the phrases of caption and negative in which they differ; None if
            the method does not use them.
    """

    texts: Tokens
    subtypes: RowIds
    positions: RowIds
    images: ImageDataset | ImageFeatures | None
    image_ids: RowIds
    units: Tokens | None = None
    foils: Tokens | None = None


@dataclass(frozen=True)
class Examples:
    """Training rows for one method; index i of each array belongs to row i.

    Attributes:
        method: the method; it determines which attributes are None.
        names: (n,) names of the rows for messages.
        images: images by an array of row numbers, or their vectors if the tower is locked.
        image_ids: (n,) numbers of the images, equal for rows that show the same image.
        texts: tokens by an array of row numbers.
        negatives: hard negatives of the rows.
        paraphrases: tokens by an array of row numbers.
        paraphrased: (n,) booleans: which rows have a paraphrase.
        neighbours: (n, several) rows with other, similar images, if batches contain such rows.
        phrases: phrases of the captions.
        joined: index of the pairs to join, if the method joins rows.
        block_size: number of consecutive rows that stay together in a batch, such as the rows of one group of
            scenes, so that every step has to tell them from each other. 1: each row is drawn by itself.
    """

    method: Method
    names: npt.NDArray[np.object_] | pd.api.extensions.ExtensionArray
    images: ImageDataset | ImageFeatures
    image_ids: RowIds
    texts: Tokens
    negatives: Negatives | None = None
    paraphrases: Tokens | None = None
    paraphrased: npt.NDArray[np.bool_] | None = None
    neighbours: RowIds | None = None
    phrases: PhraseTable | None = None
    joined: PairingIndex | None = None
    block_size: int = 1

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def held(self) -> bool:
        """Whether all decoded images are in memory."""
        further = self.negatives.images if self.negatives else None
        return self.images.held and (further is None or further.held)


def encode_examples(examples: Examples, encode: Callable[[Stack], npt.NDArray[np.float32]]) -> Examples:
    """Return the examples with vectors in place of images; see ``ImageDataset.encode_images``."""

    def encode_dataset(images: ImageDataset | ImageFeatures) -> ImageFeatures:
        return images.encode_images(encode) if isinstance(images, ImageDataset) else images

    negatives = examples.negatives
    if negatives is not None and negatives.images is not None:
        negatives = replace(negatives, images=encode_dataset(negatives.images))
    return replace(examples, images=encode_dataset(examples.images), negatives=negatives)


def check_rows(rows: pd.DataFrame, method: Method, unit: Unit = "pairs") -> None:
    """Raise a DataError if the rows of a ``training`` table lack what a method needs.

    - With unit ``pairs``, each row must have a negative if the method uses negatives, with an image if it uses their
      images. Fewer negatives than the method uses are no error. With unit ``negatives``, rows without one do not count.
    - At least one row must have a paraphrase if the method uses paraphrases.
    - The rows must show at least two images if the method joins rows.
    - At least one caption must have a phrase if the method uses phrases.
    """
    cure = f"Remove {method.name!r} from finetune.variants, or add the missing data"
    has = find_usable_rows(rows, method)
    if method.negatives:
        first, *others = (count_listed(rows, name) for name in LISTS)
        equal = np.logical_and.reduce([first == other for other in others])
        _check_all_valid(
            rows,
            equal,
            f"have lists of different lengths in {', '.join(LISTS)}",
            "Make the lists equally long, with empty entries where a value is missing",
        )
        column = get_needed_list(method)
        if unit == "pairs":
            _check_all_valid(rows, has, f"have no {column}, which method {method.name!r} trains on", cure)
    rows = rows.drop(columns=LISTS, errors="ignore")[has]
    if rows.empty:
        raise DataError("There is no row to train on: no pair of the train split was kept.")
    if method.joins and rows["image_id"].nunique() == 1:
        raise DataError(
            f"All rows show one image, and method {method.name!r} joins two images. "
            f"{cure}: rows with another image."
        )
    if method.phrases and not any(map(method.phrases, rows["caption"])):
        raise DataError(
            f"None of {len(rows)} captions has a noun phrase that the word lists know, such as "
            f"{rows['caption'].iloc[0]!r}, and method {method.name!r} trains on them. Remove {method.name!r} from "
            "finetune.variants, or use English captions."
        )
    if method.paraphrases and rows["caption2"].isna().all():
        raise DataError(
            f"None of {len(rows)} rows has a caption2 (a paraphrase), which method {method.name!r} trains "
            f"on. {cure}: `negatives.backend` world and lexicon write paraphrases."
        )


def load_examples(
    clip: Clip,
    rows: pd.DataFrame,
    images: Mapping[str, bytes],
    *,
    method: Method,
    unit: Unit = "pairs",
    seed: int = 0,
) -> Examples:
    """Return the rows that a method trains on, with their tokens; images are decoded only if the set is small.

    Args:
        clip: model whose tokenizer and preprocessing are used.
        rows: table ``training``, or ``pairs``, which has no negatives.
        images: encoded files by image_id.
        method: method of the training or validation; it determines which negatives are used.
        unit: what a row is; see ``row_units``.
        seed: seed for drawing the other row, if a row takes the negatives of another row.

    Raises:
        DataError: the rows lack what the method needs (``check_rows``), or an image is missing.
    """
    check_rows(rows, method, unit)
    rows, listed = list_negatives(rows, method, unit)
    # Numbers of the pair that each training row and each negative belongs to, and of the negatives' training rows.
    per_negative = has_row_per_negative(method, unit)
    pair_of = listed.row if per_negative else np.arange(len(rows))
    row_of = np.arange(len(listed.row)) if per_negative else listed.row
    if method.pairing == "apart":
        rows = pd.concat([rows.iloc[pair_of], build_separate_rows(rows, listed)], ignore_index=True)
        pair_of, method = np.arange(len(rows)), replace(method, negatives=0, images=False)
    captions = rows["caption"].map(extract_first_sentence) if method.joins else rows["caption"]
    image_names = rows["image_id"].iloc[pair_of]
    negative_images = listed.values.column("negative_image_ids").to_pandas() if method.images else None
    image_ids = pd.factorize(pd.concat([image_names, negative_images]))[0].astype(np.int64)
    examples = Examples(
        method,
        rows["pair_id"].iloc[pair_of].array,
        _build_images(clip, images, rows, image_names, pair_of),
        image_ids[: len(pair_of)],
        TokenTable(clip.tokenize, captions, pair_of),
        joined=PairingIndex.from_sentences(captions.to_numpy(object)[pair_of], image_ids[: len(pair_of)])
        if method.joins
        else None,
    )
    if method.negatives:
        positions = build_negative_positions(row_of, len(pair_of))
        if method.pairing == "other":
            positions = positions[draw_other_rows(len(pair_of), seed)]
        negatives = _load_negatives(
            clip, rows, images, listed, method, positions=positions, image_ids=image_ids[len(pair_of) :]
        )
        examples = replace(examples, negatives=negatives)
    if method.phrases:
        phrases = [method.phrases(caption)[: method.most_phrases] for caption in captions.iloc[pair_of]]
        table = PhraseTable.from_phrases(phrases, method.most_phrases, clip.tokenize)
        examples = replace(examples, phrases=table)
    if method.paraphrases:
        has = rows["caption2"].notna().to_numpy(bool)[pair_of]
        paraphrases = TokenTable(clip.tokenize, rows["caption2"].fillna(""), pair_of)
        examples = replace(examples, paraphrases=paraphrases, paraphrased=has)
    return examples


def _load_negatives(
    clip: Clip,
    rows: pd.DataFrame,
    images: Mapping[str, bytes],
    listed: FlatLists,
    method: Method,
    *,
    positions: RowIds,
    image_ids: RowIds,
) -> Negatives:
    """Return the listed negatives of the rows; ``positions`` and ``image_ids`` as in ``Negatives``."""
    texts = listed.values.column("negative_captions")
    negatives = Negatives(
        TokenTable(clip.tokenize, texts),
        number_subtypes(listed.values.column("subtypes")),
        positions,
        None,
        image_ids,
    )
    if method.images:
        names = listed.values.column("negative_image_ids").to_pandas()
        negatives = replace(negatives, images=_build_images(clip, images, rows, names, listed.row))
    if method.units:
        pairs = zip(rows["caption"].iloc[listed.row], texts.to_pylist(), strict=True)
        changes = [method.units(caption, negative) for caption, negative in pairs]
        units, foils = (
            TokenTable(clip.tokenize, pd.Series(phrases)) for phrases in zip(*changes, strict=True)
        )
        negatives = replace(negatives, units=units, foils=foils)
    return negatives


def _build_images(
    clip: Clip, images: Mapping[str, bytes], rows: pd.DataFrame, names: pd.Series[str], row_of: RowIds
) -> ImageDataset:
    """Return the images with n names; ``row_of`` is the number of each one's row, for messages."""
    size = clip.config["preprocess_cfg"]["size"]
    numbers, different = pd.factorize(names)
    known = np.array([name in images for name in different], dtype=np.bool_)[numbers]
    problem, cure = "name an image that is not in the images table", "Run `dvc repro` to rebuild the set"
    _check_all_valid(rows, known, problem, cure, row_of)
    shape = (size[0], size[1]) if isinstance(size, list) else (size, size)
    return ImageDataset(images, names, clip.to_pixels, shape)


def _check_all_valid(
    rows: pd.DataFrame,
    good: npt.NDArray[np.bool_],
    problem: str,
    cure: str,
    row_of: RowIds | None = None,
) -> None:
    """Raise a DataError that names the rows that are not ``good``, if there are any.

    Args:
        good: one boolean for each row, or for each value of ``row_of``.
        row_of: numbers of rows; None: all rows.
    """
    if good.all():
        return
    bad = rows[["image_id", "caption"]].iloc[(np.arange(len(rows)) if row_of is None else row_of)[~good]]
    named = [f"{image!r}: {caption!r}" for image, caption in bad.itertuples(index=False)]
    raise DataError(f"{len(bad)} of {len(good)} rows {problem}:\n{format_items(named)}\n{cure}.")
