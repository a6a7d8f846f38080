"""Decide which captions refinement keeps: one format, no duplicates, and a balanced grid over blind scorers.

Adversarial refinement is SugarCrepe's (Hsieh et al. 2023, D.3): if a scorer prefers the true caption of one pair, it
prefers the negative of another pair by about as much. The grid is in ``mirrored_grid.py``, and
``stored_tables.py`` writes the tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from caramel.blind.scored_rows import find_pairs
from caramel.blind.scores import score_by_scorer
from caramel.errors import ConfigError, DataError
from caramel.refine.mirrored_grid import UNIT, select_balanced
from caramel.sources.captions.formatting import format_caption
from caramel.utils.arrays import BLOCK, Bools, Ints, TextIndex, factorize_texts, find_indices, iter_texts
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


class Refinement(NamedTuple):
    """What becomes of the rows of the tables ``pairs``, ``negatives`` and ``paraphrases``.

    Attributes:
        texts: the formatted text of each row. (n,) each.
        reasons: why a row is rejected; "" if it is kept. (n,) each.
    """

    texts: tuple[pd.Series[str], ...]
    reasons: Faults


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
) -> Refinement:
    """Return formatted captions without duplicates, on which no scorer of the grid tells right from wrong.

    Only negatives of the grid are scored: types are scored one by one, so that an exempt type changes no score of the
    others. A pair that loses all its negatives is kept: it is still an image with its true caption. The order of the
    input rows affects only the order of the results.

    Args:
        pairs: columns pair_id, image_id and caption of table ``pairs``.
        negatives: columns ``blind.scores.SCORED`` of table ``negatives``.
        paraphrases: columns pair_id and caption2 of table ``paraphrases``.
        scores: table ``scores`` of the captions before formatting, in any number of parts; one part is in memory at a
            time. They are used if they hold all scorers and formatting changed no text; otherwise the formatted
            captions are scored again.
        scorers: scorers of the grid, any number; the published method has two.
        cell: side of a grid cell.
        within: whether each subtype has its own grid.
        exempt: types that the grid does not filter; none of their rows is a mirror image of another row.
        folds: number of folds of the cross-validation, if captions are scored again.
        seed: seed of the draw and of the folds.

    Raises:
        ConfigError: there is no scorer, a scorer is named twice, or ``cell`` is not in [1e-6, 1].
        DataError: a negative's pair is missing, or as in ``compute_score_gaps``.
    """
    check_grid(scorers, cell)
    formatted = _format_tables(pairs, negatives, paraphrases)
    has_same_texts = _has_same_texts(formatted, (pairs, negatives))
    del pairs, negatives, paraphrases  # here and below: so that no text is in memory longer than it is used
    texts = tuple(rows[text] for rows, text in zip(formatted, TEXTS, strict=True))
    reasons = find_faults(*formatted)
    in_grid: Bools = (reasons[1] == "") & ~formatted[1]["type"].isin(exempt).to_numpy()
    rows = formatted[1].loc[in_grid, ["negative_id", "subtype"]]
    names, strata = rows["negative_id"], get_strata(rows, within)
    gaps = compute_score_gaps(scores if has_same_texts else (), names, scorers)
    if gaps is None:
        new = score_by_scorer(formatted[0], formatted[1][in_grid], scorers=scorers, folds=folds, seed=seed)
        gaps = compute_score_gaps(new, names, scorers)
    del formatted
    assert gaps is not None
    keep_mask = select_balanced(gaps, iter_texts(names), strata, cell=cell, seed=seed)
    reasons[1][np.flatnonzero(in_grid)[~keep_mask]] = UNBALANCED
    return Refinement(texts, reasons)


def select_unbalanced(negatives: pd.DataFrame, rejects: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives that the grid left out, with their formatted texts.

    Args:
        negatives: table ``negatives`` before refinement.
        rejects: table ``rejects`` of that refinement.
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
    blocks = (texts.iloc[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
    parts = [pa.array(map(format_caption, block.tolist()), pa.large_string()) for block in blocks]
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
    pair = find_pairs(pairs, negatives)
    of_pairs, negative_numbers, paraphrase_numbers = number_texts(
        pairs["caption"], negatives["negative_caption"], paraphrases["caption2"]
    )
    caption = of_pairs[pair]
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
    both = caption[usable] * (int(negative_numbers.max(initial=0)) + 1) + negative_numbers[usable]
    duplicate = build_duplicate_mask(negatives["negative_id"], usable, both)
    of_negatives[usable[duplicate]] = DUPLICATE
    return _select_first_fault({NO_WORDS: of_pairs == WORDLESS}), of_negatives, of_paraphrases


def number_texts(*texts: pd.Series[str]) -> list[Ints]:
    """Return a number for each text, equal for equal words in order; ``WORDLESS`` without words. (n,) each."""
    ends = np.cumsum([len(column) for column in texts])
    words = (map(normalise_text, iter_texts(column)) for column in texts)
    numbers = factorize_texts(itertools.chain([""], *words))
    return np.split(numbers[1:], ends[:-1])


def _select_first_fault(faults: Mapping[str, Bools]) -> Reasons:
    """Return the name of the first condition that holds in each row, or "". (n,)."""
    number = np.select(list(faults.values()), list(range(1, len(faults) + 1)), default=0)
    reasons: Reasons = np.array(["", *faults], dtype=object)[number]
    return reasons


def build_duplicate_mask(names: pd.Series[str], rows: Ints, keys: Ints) -> Bools:
    """Return which rows have the same key as one of these rows with a smaller name. (n,).

    Args:
        names: names of at least these rows.
        rows: (n,) positions of the rows in ``names``.
        keys: (n,) key of each row.
    """
    order = np.argsort(keys, kind="stable")
    is_equal = np.diff(keys[order]) == 0
    is_shared = (np.r_[False, is_equal] | np.r_[is_equal, False])[: len(order)]
    shared = order[is_shared]  # only their names must be compared
    shared = shared[names.iloc[rows[shared]].argsort().to_numpy()]
    mask = np.zeros(len(rows), dtype=np.bool_)
    mask[shared] = pd.Series(keys[shared]).duplicated()
    return mask


def compute_score_gaps(
    scores: Iterable[pd.DataFrame], names: pd.Series[str], scorers: Sequence[str]
) -> Ints | None:
    """Return the gaps under all scorers in units of 1e-6, (n, k); None if a gap is missing or NaN.

    Args:
        scores: table ``scores`` in any number of parts.
        names: n values of ``negative_id``.
        scorers: k names.

    Raises:
        DataError: two parts have a score of one negative by one scorer.
    """
    index, gaps = TextIndex(names), np.full((len(names), len(scorers)), np.nan)
    for part in scores:
        rows = part[part["scorer"].isin(scorers)]
        at, column = index.find_indices(rows["negative_id"]), find_indices(rows["scorer"], pd.Series(scorers))
        gap = (rows["positive_score"] - rows["negative_score"]).to_numpy(np.float64) * UNIT
        known = at >= 0
        if not np.isnan(gaps[at[known], column[known]]).all():
            raise DataError("Table 'scores' has two scores of one scorer for a negative. Rerun stage scores.")
        gaps[at[known], column[known]] = gap[known]
    return None if np.isnan(gaps).any() else np.rint(gaps, out=gaps).astype(np.int64)
