"""Refinement: captions in one format, no duplicates, and an even grid over two blind scorers.

Adversarial refinement is SugarCrepe's (Hsieh et al. 2023, D.3): where a scorer prefers the true
caption of one pair, it prefers the negative of another by about as much. The grid is in ``balanced``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.captions.formatting import format_caption
from caramel.errors import ConfigError
from caramel.quality.blind import DECIMALS, Ints, stable_keys, words_only
from caramel.quality.scores import joined, score_pairs

STAGE = "refine"
UNIT = 10**DECIMALS  # scores are whole multiples of 1 / UNIT
ZERO_BINS = 10  # bins per side where one of the gaps is zero

NO_WORDS = "no word in the caption"
NO_PAIR = "its pair was rejected"
SAME_AS_CAPTION = "same words in the same order as the caption"
SAME_AS_PARAPHRASE = "same words in the same order as the paraphrase"
DUPLICATE = "caption and negative stand elsewhere already"
UNBALANCED = "no mirror image in the grid of blind scores"


TEXTS = ("caption", "negative_caption", "caption2")  # of pairs, negatives and paraphrases

Reasons = npt.NDArray[np.object_]
Faults = tuple[Reasons, Reasons, Reasons]
Kept = npt.NDArray[np.bool_]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


class Refined(NamedTuple):
    """What is kept, formatted, and what is not, with the reason; each keeps its contract."""

    pairs: pd.DataFrame
    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame


def refine(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    paraphrases: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    scorers: tuple[str, str],
    cell: float,
    exempt: Sequence[str],
    folds: int,
    seed: int,
) -> Refined:
    """Return formatted captions without duplicates, on which neither scorer tells right from wrong.

    A pair that loses all its negatives is kept: it is still an image with its true caption.

    Args:
        pairs: table ``pairs``.
        negatives: table ``negatives``.
        paraphrases: table ``paraphrases``.
        scores: table ``scores`` of the captions as they came. It is used where it holds both scorers
            and formatting changed no text; else the formatted captions are scored anew.
        scorers: the two scorers of the grid.
        cell: side of a grid cell.
        exempt: types that the grid leaves as they are.
        folds: of the cross-validation, where captions are scored anew.
        seed: of the draw and of the folds.

    The order of the rows changes nothing but the order of the rows.

    Raises:
        ConfigError: the two scorers are one and the same, or ``cell`` is not in [1e-6, 1].
    """
    if scorers[0] == scorers[1] or not 1 / UNIT <= cell <= 1:
        raise ConfigError(
            f"refine.scorers = {scorers!r} and refine.cell = {cell!r}: give two different scorers, and a "
            f"cell in [{1 / UNIT}, 1]."
        )
    found = _formatted(pairs, negatives, paraphrases)
    reasons = find_faults(*found)
    usable = reasons[1] == ""
    rows = found[1][usable]
    gaps = _gaps(scores, rows["negative_id"], scorers) if _same_texts(found, (pairs, negatives)) else None
    if gaps is None:
        scores = score_pairs(found[0], rows, scorers=scorers, folds=folds, seed=seed)
        gaps = _gaps(scores, rows["negative_id"], scorers)
    assert gaps is not None
    names, subtypes = rows["negative_id"].tolist(), rows["subtype"].tolist()
    kept = balanced(gaps, names, subtypes, cell=cell, seed=seed) | rows["type"].isin(exempt).to_numpy()
    reasons[1][np.flatnonzero(usable)[~kept]] = UNBALANCED
    return _split(found, reasons)


def _formatted(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> Tables:
    """Return the tables with their texts formatted and rows numbered anew."""
    first, second, third = (
        rows.assign(**{text: rows[text].map(format_caption)}).reset_index(drop=True)
        for rows, text in zip((pairs, negatives, paraphrases), TEXTS, strict=True)
    )
    return first, second, third


def _same_texts(found: Sequence[pd.DataFrame], came: Sequence[pd.DataFrame]) -> bool:
    """Return whether formatting changed no caption and no negative."""
    return all(
        np.array_equal(new[text].to_numpy(dtype=str), old[text].to_numpy(dtype=str))
        for new, old, text in zip(found, came, TEXTS, strict=False)
    )


def find_faults(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> Faults:
    """Return for each row of each table why it is of no use, or the empty text. (n,) each.

    Texts are compared by their words in order: case, space and punctuation do not count. Of equal
    pairs of caption and negative, on whatever images, that of the smallest negative_id is good.

    Raises:
        DataError: a negative's pair is missing.
    """
    rows = joined(pairs, negatives)
    everything = {*pairs["caption"], *negatives["negative_caption"], *paraphrases["caption2"]}
    words = {text: " ".join(words_only(text)) for text in everything}
    said, caption = rows["negative_caption"].map(words), rows["caption"].map(words)
    second = rows["pair_id"].map(paraphrases.set_index("pair_id")["caption2"]).map(words)
    said2 = paraphrases["caption2"].map(words)
    first = paraphrases["pair_id"].map(pairs.set_index("pair_id")["caption"]).map(words)
    of_negatives = _first_that_holds(
        {
            NO_PAIR: caption == "",
            NO_WORDS: said == "",
            SAME_AS_CAPTION: said == caption,
            SAME_AS_PARAPHRASE: said == second,
            DUPLICATE: _stands_elsewhere(rows["negative_id"], caption, said),
        }
    )
    of_paraphrases = _first_that_holds(
        {NO_PAIR: first.isna() | (first == ""), NO_WORDS: said2 == "", SAME_AS_CAPTION: said2 == first}
    )
    return _first_that_holds({NO_WORDS: pairs["caption"].map(words) == ""}), of_negatives, of_paraphrases


def _first_that_holds(faults: Mapping[str, pd.Series[bool]]) -> Reasons:
    """Return the name of the first condition that holds in each row, or the empty text. (n,)."""
    conditions = [np.asarray(holds, dtype=bool) for holds in faults.values()]
    return np.select(conditions, list(faults), default="").astype(object)


def _stands_elsewhere(
    names: pd.Series[str], caption: pd.Series[str], negative: pd.Series[str]
) -> pd.Series[bool]:
    """Return which rows hold the texts of another row with a smaller name."""
    rows = pd.DataFrame({"name": names, "caption": caption, "negative": negative}).sort_values("name")
    return rows.duplicated(["caption", "negative"]).reindex(names.index)


def balanced(gaps: Ints, names: Sequence[str], subtypes: Sequence[str], *, cell: float, seed: int) -> Kept:
    """Return which pairs to keep so that each of two scorers is right on half of them. (n,).

    Within a subtype the gaps (g¹, g²) of a pair, positive less negative score, lie in [−1, 1]².

    - Both not zero: of each cell of the grid and its mirror image through the origin the same number
      is kept, all of the smaller and a random part of the larger. No cell reaches over an axis.
    - Exactly one zero: the same for the sign of the other, in 10 bins per side.
    - Both zero: kept.

    Args:
        gaps: (n, 2) in units of 1e-6, so that a gap and its mirror image are exactly opposite.
        names: n unique names; with the seed they decide the draw, whatever the order of the rows.
        subtypes: n subtypes.
        cell: side of a cell.
        seed: of the draw.
    """
    zeros = (gaps == 0).sum(axis=1)
    step = np.where(zeros == 1, UNIT // ZERO_BINS, round(cell * UNIT))[:, None]
    cells = np.sign(gaps) * ((np.abs(gaps) - 1) // step + 1)
    side = np.where(cells[:, 0] != 0, np.sign(cells[:, 0]), np.sign(cells[:, 1]))
    subtype = np.unique(np.array(subtypes, dtype=str), return_inverse=True)[1]
    place = np.column_stack([subtype, zeros, cells * side[:, None]])
    place = np.unique(place, axis=0, return_inverse=True)[1].reshape(-1)
    count = int(place.max(initial=-1)) + 1
    sizes = np.stack([np.bincount(place[side == s], minlength=count) for s in (1, -1)])
    rank = _rank_within(place * 2 + (side > 0), stable_keys(names, seed))
    kept: Kept = (zeros == 2) | (rank < sizes.min(axis=0)[place])
    return kept


def _rank_within(groups: Ints, keys: npt.NDArray[np.uint64]) -> Ints:
    """Return each row's rank by its key among the rows of its group, from 0. (n,)."""
    order = np.lexsort((keys, groups))
    ordered, at = groups[order], np.arange(len(groups))
    starts = np.r_[True, ordered[1:] != ordered[:-1]][: len(groups)]
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = at - np.maximum.accumulate(np.where(starts, at, 0))
    return rank


def _gaps(scores: pd.DataFrame, names: pd.Series[str], scorers: tuple[str, str]) -> Ints | None:
    """Return the gaps under both scorers in units of 1e-6, (n, 2); None if one is missing or NaN."""
    gap = (scores["positive_score"] - scores["negative_score"]).astype(float) * UNIT
    columns = []
    for scorer in scorers:
        mine = (scores["scorer"] == scorer).to_numpy()
        columns.append(gap[mine].set_axis(scores.loc[mine, "negative_id"]).reindex(names).to_numpy())
    both = np.stack(columns, axis=1)
    return None if np.isnan(both).any() else np.rint(both).astype(np.int64)


def _split(found: Tables, reasons: Faults) -> Refined:
    """Return the rows without a reason, and the others as rejects."""
    names = (("pair_id", ""), ("negative_id", ""), ("pair_id", ":paraphrase"))
    kept, rejects = [], []
    for rows, reason, (name, ending), text in zip(found, reasons, names, TEXTS, strict=True):
        bad = reason != ""
        kept.append(rows[~bad].reset_index(drop=True))
        dropped = rows[bad]
        columns = {"id": dropped[name] + ending, "stage": STAGE, "reason": reason[bad], "text": dropped[text]}
        rejects.append(pd.DataFrame(columns, index=dropped.index))
    refined = Refined(kept[0], kept[1], kept[2], pd.concat(rejects, ignore_index=True))
    assert sum(map(len, refined)) == sum(map(len, found))
    return refined
