"""Refine the tables of captions: one format, no duplicates, and a balanced grid over blind scorers.

Adversarial refinement is SugarCrepe's (Hsieh et al. 2023, D.3): if a scorer prefers the true caption of one pair, it
prefers the negative of another pair by about as much. The grid is in ``mirrored_grid.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from caramel.blind.scores import require_pairs, score_pairs
from caramel.errors import ConfigError
from caramel.refine.mirrored_grid import UNIT, KeepMask, select_balanced
from caramel.sources.captions.formatting import format_caption
from caramel.utils.arrays import BLOCK, Bools, Ints, factorize_texts, find_indices
from caramel.utils.text import normalise_text

STAGE = "refine"

Within = Literal["subtype", "all"]  # a grid per subtype, or one over all rows as published
NO_WORDS = "no word in the caption"
NO_PAIR = "its pair was rejected"
SAME_AS_CAPTION = "same words in the same order as the caption"
SAME_AS_PARAPHRASE = "same words in the same order as the paraphrase"
DUPLICATE = "caption and negative stand elsewhere already"
UNBALANCED = "no mirror image in the grid of blind scores"


TEXTS = ("caption", "negative_caption", "caption2")  # text columns of pairs, negatives and paraphrases

WORDLESS, MISSING = 0, -1  # numbers of a text without words, and of a missing text
Reasons = npt.NDArray[np.object_]
Faults = tuple[Reasons, Reasons, Reasons]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


class RefinedTables(NamedTuple):
    """The kept rows, formatted, and the rejected rows with reasons; each table keeps its contract."""

    pairs: pd.DataFrame
    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame


def refine_tables(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    paraphrases: pd.DataFrame,
    scores: Iterable[pd.DataFrame],
    *,
    scorers: Sequence[str],
    cell: float,
    within: Within,
    exempt: Sequence[str],
    folds: int,
    seed: int,
) -> RefinedTables:
    """Return formatted captions without duplicates, on which no scorer of the grid tells right from wrong.

    A pair that loses all its negatives is kept: it is still an image with its true caption. The order of the input
    rows affects only the order of the output rows.

    Args:
        pairs: table ``pairs``.
        negatives: table ``negatives``.
        paraphrases: table ``paraphrases``.
        scores: table ``scores`` of the captions before formatting, in any number of parts; a scorer's scores are all in
            one part, and one part is in memory at a time. They are used if they hold all scorers and formatting
            changed no text; otherwise the formatted captions are scored again.
        scorers: scorers of the grid, any number; the published method has two.
        cell: side of a grid cell.
        within: whether each subtype has its own grid.
        exempt: types that the grid does not filter; none of their rows is a mirror image of another row.
        folds: number of folds of the cross-validation, if captions are scored again.
        seed: seed of the draw and of the folds.

    Raises:
        ConfigError: there is no scorer, a scorer is named twice, or ``cell`` is not in [1e-6, 1].
    """
    check_grid(scorers, cell)
    formatted = _format_tables(pairs, negatives, paraphrases)
    reasons = find_faults(*formatted)
    in_grid: Bools = (reasons[1] == "") & ~formatted[1]["type"].isin(exempt).to_numpy()
    keep_mask = _select_by_grid(
        formatted,
        in_grid,
        scores if _has_same_texts(formatted, (pairs, negatives)) else (),
        scorers=scorers,
        cell=cell,
        within=within,
        folds=folds,
        seed=seed,
    )
    reasons[1][np.flatnonzero(in_grid)[~keep_mask]] = UNBALANCED
    return _split_rejects(formatted, reasons)


def _select_by_grid(
    formatted: Tables,
    in_grid: Bools,
    scores: Iterable[pd.DataFrame],
    *,
    scorers: Sequence[str],
    cell: float,
    within: Within,
    folds: int,
    seed: int,
) -> KeepMask:
    """Return which negatives of the grid it keeps. (number of negatives in the grid,).

    Only they are scored: types are scored one by one, so that an exempt type changes no score of the others.

    Args:
        formatted: tables ``pairs``, ``negatives`` and ``paraphrases``.
        in_grid: (n,) whether each negative is in the grid.
        scores, scorers, cell, within, folds, seed: as in ``refine_tables``.
    """
    rows = formatted[1].loc[in_grid, ["negative_id", "subtype"]]
    gaps = compute_score_gaps(scores, rows["negative_id"], scorers)
    if gaps is None:
        new = score_pairs(formatted[0], formatted[1][in_grid], scorers=scorers, folds=folds, seed=seed)
        gaps = compute_score_gaps([new], rows["negative_id"], scorers)
    assert gaps is not None
    return select_balanced(gaps, rows["negative_id"].array, get_strata(rows, within), cell=cell, seed=seed)


def select_unbalanced(negatives: pd.DataFrame, rejects: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives that the grid left out, with their formatted texts.

    Args:
        negatives: table ``negatives`` before refinement.
        rejects: table ``rejects`` that ``refine_tables`` returned.
    """
    left_out = rejects[rejects["reason"] == UNBALANCED]
    at = find_indices(negatives["negative_id"], left_out["id"])
    rows = negatives[at >= 0].reset_index(drop=True)
    return rows.assign(negative_caption=left_out["text"].array[at[at >= 0]])


def check_grid(scorers: Sequence[str], cell: float) -> None:
    """Raise a ConfigError if there is no scorer, a scorer is named twice, or ``cell`` is not in [1e-6, 1]."""
    if not scorers or len(set(scorers)) < len(scorers) or not 1 / UNIT <= cell <= 1:
        raise ConfigError(
            f"The grid's scorers are {list(scorers)!r} and its cell is {cell!r}: give one or more different "
            f"scorers, and a cell in [{1 / UNIT}, 1]."
        )


def get_strata(rows: pd.DataFrame, within: Within) -> list[str] | None:
    """Return the part of each row, where each part has its own grid; None if one grid holds all rows."""
    if within == "all":
        return None
    number, names = pd.factorize(rows["subtype"])
    parts: list[str] = np.asarray(names, dtype=object)[
        number
    ].tolist()  # equal names share one string in memory
    return parts


def _format_tables(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> Tables:
    """Return the tables with formatted texts and a new index."""
    first, second, third = (
        rows.reset_index(drop=True).assign(**{text: _format_texts(rows[text])})
        for rows, text in zip((pairs, negatives, paraphrases), TEXTS, strict=True)
    )
    return first, second, third


def _format_texts(texts: pd.Series[str]) -> pd.Series[str]:
    """Return the formatted texts, with a new index; without a copy if formatting changes none.

    Blocks of texts are Python texts at a time: all of them would take twice the memory of Arrow's.
    """
    blocks = (texts.array[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
    parts = [pa.array(map(format_caption, block), pa.large_string()) for block in blocks]
    formatted: pd.Series[str] = pa.chunked_array(parts, pa.large_string()).to_pandas()
    same = bool(np.all(formatted.array == texts.array))
    return texts.reset_index(drop=True) if same else formatted


def _has_same_texts(formatted: Sequence[pd.DataFrame], originals: Sequence[pd.DataFrame]) -> bool:
    """Return whether formatting changed no caption and no negative."""
    return all(
        bool(np.all(new[text].array == old[text].array))
        for new, old, text in zip(formatted, originals, TEXTS, strict=False)
    )


def find_faults(
    pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame, *, whole_rows: bool = False
) -> Faults:
    """Return for each row of each table why it is unusable, or "". (n,) each.

    Texts are compared by their words in order: case, white space and punctuation do not count. If several rows without
    another fault have the same caption and the same negative, on any images, only the row with the smallest
    ``negative_id`` is usable.

    Args:
        pairs: columns of table ``pairs``.
        negatives: columns of table ``negatives``.
        paraphrases: columns of table ``paraphrases``.
        whole_rows: a negative whose pair has an unusable paraphrase is unusable, too.

    Raises:
        DataError: a negative's pair is missing.
    """
    require_pairs(pairs, negatives)
    of_pairs, negative_numbers, paraphrase_numbers = _number_texts(
        pairs["caption"], negatives["negative_caption"], paraphrases["caption2"]
    )
    caption = of_pairs[find_indices(negatives["pair_id"], pairs["pair_id"])]
    pair_index, paraphrase_index = (
        find_indices(rows["pair_id"], others["pair_id"])
        for rows, others in ((paraphrases, pairs), (negatives, paraphrases))
    )
    first, second = (
        np.append(of_pairs, WORDLESS)[pair_index],
        np.append(paraphrase_numbers, MISSING)[paraphrase_index],
    )
    of_paraphrases = _select_first_fault(
        {
            NO_PAIR: first == WORDLESS,
            NO_WORDS: paraphrase_numbers == WORDLESS,
            SAME_AS_CAPTION: paraphrase_numbers == first,
        }
    )
    of_negatives = _select_first_fault(
        {
            NO_PAIR: caption == WORDLESS,
            NO_WORDS: negative_numbers == WORDLESS,
            SAME_AS_CAPTION: negative_numbers == caption,
            SAME_AS_PARAPHRASE: negative_numbers == second,
        }
    )
    if whole_rows:
        fault = np.append(of_paraphrases, "")[paraphrase_index]
        unusable = (of_negatives == "") & (fault != "")
        of_negatives[unusable] = "paraphrase: " + fault[unusable]
    usable = np.flatnonzero(of_negatives == "")
    duplicate = _build_duplicate_mask(
        negatives["negative_id"].iloc[usable], caption[usable], negative_numbers[usable]
    )
    of_negatives[usable[duplicate]] = DUPLICATE
    return _select_first_fault({NO_WORDS: of_pairs == WORDLESS}), of_negatives, of_paraphrases


def _number_texts(*texts: pd.Series[str]) -> list[Ints]:
    """Return a number for each text, equal for equal words in order; ``WORDLESS`` without words. (n,) each."""
    ends = np.cumsum([len(column) for column in texts])
    numbers = factorize_texts(itertools.chain([""], *(map(normalise_text, column) for column in texts)))
    return np.split(numbers[1:], ends[:-1])


def _select_first_fault(faults: Mapping[str, Bools]) -> Reasons:
    """Return the name of the first condition that holds in each row, or "". (n,)."""
    number = np.select(list(faults.values()), list(range(1, len(faults) + 1)), default=0)
    reasons: Reasons = np.array(["", *faults], dtype=object)[number]
    return reasons


def _build_duplicate_mask(names: pd.Series[str], caption: Ints, negative: Ints) -> Bools:
    """Return which rows have the same texts as a row with a smaller name. (n,)."""
    order = names.argsort().to_numpy()
    mask = np.zeros(len(names), dtype=np.bool_)
    mask[order] = pd.DataFrame({"caption": caption[order], "negative": negative[order]}).duplicated()
    return mask


def compute_score_gaps(
    scores: Iterable[pd.DataFrame], names: pd.Series[str], scorers: Sequence[str]
) -> Ints | None:
    """Return the gaps under all scorers in units of 1e-6, (n, k); None if a gap is missing or NaN.

    Args:
        scores: table ``scores`` in parts; a scorer's scores are all in one part.
        names: n values of ``negative_id``.
        scorers: k names.
    """
    gaps = np.full((len(names), len(scorers)), np.nan)
    for part in scores:
        for scorer in set(scorers).intersection(part["scorer"].unique()):
            scorer_rows = part[part["scorer"] == scorer]
            at = find_indices(names, scorer_rows["negative_id"])
            gap = (scorer_rows["positive_score"] - scorer_rows["negative_score"]).to_numpy(np.float64) * UNIT
            gaps[:, scorers.index(scorer)] = np.append(gap, np.nan)[at]
    return None if np.isnan(gaps).any() else np.rint(gaps).astype(np.int64)


def _split_rejects(formatted: Tables, reasons: Faults) -> RefinedTables:
    """Return the rows without a reason, and the other rows as table ``rejects``."""
    names = (("pair_id", ""), ("negative_id", ""), ("pair_id", ":paraphrase"))
    remaining, rejects = [], []
    for rows, reason, (name, ending), text in zip(formatted, reasons, names, TEXTS, strict=True):
        bad = reason != ""
        remaining.append(rows[~bad].reset_index(drop=True))
        dropped = rows[bad]
        columns = {"id": dropped[name] + ending, "stage": STAGE, "reason": reason[bad], "text": dropped[text]}
        rejects.append(pd.DataFrame(columns, index=dropped.index))
    refined = RefinedTables(remaining[0], remaining[1], remaining[2], pd.concat(rejects, ignore_index=True))
    assert sum(map(len, refined)) == sum(map(len, formatted))
    return refined
