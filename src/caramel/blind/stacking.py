"""Combine all blind scorers by nested stacking, and test the combination only on held-out rows.

A scorer's gap is its score of the true caption minus its score of the negative. The gaps of all scorers are
the features of a logistic regression that predicts which caption is true: stacking (Wolpert 1992). It is
nested, so that the figures are honest:

- Pairs are tested fold by fold (``cross_validation.group_folds``). No group of a fold is in its training
  rows.
- The gaps of a fold's test pairs come from scorers that were trained without these pairs.
- The combination that is tested on a fold is trained on the fold's training rows. Their gaps come from a
  cross-validation *within* these rows. So the test pairs have no influence on any number that the combination
  trains on. Gaps from the outer cross-validation would break this: the gaps of the other folds come from
  scorers that trained on this fold.

The order of the two captions is random, so that no method can gain from it.

The test-set stress test and iterative bias pruning of Brown et al. 2025 (arXiv 2511.04655) also train on
folds of the test set to find shortcuts, and drop rows accordingly. They use a fine-tuned language model and a
random forest on questions. This module works on pairs of captions, with groups and nesting.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from caramel.blind.cross_validation import Fold, fit_pair_weights, group_folds
from caramel.blind.scorers import ScoreRows, TextScorer
from caramel.blind.text.kneser_ney import LikelihoodScorer
from caramel.blind.text.odd_one_out import ODD, build_triple, score_triples
from caramel.blind.text.surface import Rule, orient_scores
from caramel.interfaces.scorer import Scorer
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation

COST = 0.1  # inverse strength of the L2 penalty of the combination


def build_pairs(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return a pair for each true caption of each row; pairs of the first column come first.

    The columns are:

    - key: key for random draws
    - column: column of the true caption
    - caption: the true caption
    - negative_caption
    - third: the other true caption of the row, or None
    - subtype, group, train_only

    Args:
        rows: audit rows of one type, with the columns group and train_only (True: trained on and not tested).
        columns: columns of the true captions: ``caption``, ``caption2`` or both.
    """
    parts = []
    for column in columns:
        captioned_rows = rows[rows[column].notna()]
        others = [name for name in columns if name != column]
        keys = captioned_rows["pair_id"] if column == "caption" else captioned_rows["pair_id"] + f"\n{column}"
        parts.append(
            captioned_rows[["negative_caption", "subtype", "group", "train_only"]].assign(
                key=keys,
                column=column,
                caption=captioned_rows[column],
                third=captioned_rows[others[0]] if others else None,
            )
        )
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Gaps:
    """The gaps of pairs under scorers.

    Attributes:
        names: names of the scorers; scorers that learn come first.
        parts: the folds.
        outer: (n, k) gaps in [-1, 1] from scorers that were trained on the training rows of a pair's fold.
            The gaps of rules are as measured.
        inner: for each fold, the gaps of its training rows, from cross-validation within them.
        alone: scorer -> (n,) gaps of this scorer alone.
        seconds: scorer -> seconds that it took.
    """

    names: Sequence[str]
    parts: Sequence[Fold]
    outer: Floats
    inner: Sequence[Floats]
    alone: Mapping[str, Floats]
    seconds: Mapping[str, float]


def compute_gaps(pairs: pd.DataFrame, attackers: Mapping[str, Scorer], *, folds: int, seed: int) -> Gaps:
    """Return the gaps of pairs under scorers, and the gaps of learned scorers within each fold.

    Args:
        pairs: see ``build_pairs``.
        attackers: scorers by name.
        folds: number of cross-validation folds.
        seed: random seed for folds and sampling.
    """
    # A rule's measure is not learned. The combination finds its direction.
    # Unwrapping removes ``check_scorer``.
    unwrapped = {name: inspect.unwrap(cast(Any, f)) for name, f in attackers.items()}
    rules = {name: rule for name, rule in unwrapped.items() if isinstance(rule, Rule)}
    names = [*(name for name in attackers if name not in rules), *rules]
    train_only = pairs["train_only"].to_numpy(dtype=bool) if pairs["train_only"].any() else None
    cv = CrossValidation(pairs["group"].tolist(), folds, seed, train_only)
    parts = group_folds(cv)
    training = [np.flatnonzero(learned) for _, learned in parts]
    within = [
        CrossValidation(pairs["group"].iloc[rows].tolist(), max(2, folds - 1), seed) for rows in training
    ]
    outer = np.zeros((len(pairs), len(names)))
    inner = [np.zeros((len(rows), len(names))) for rows in training]
    alone, seconds = {}, {}
    for i, name in enumerate(names):
        start = time.perf_counter()
        positives, negatives = _build_sides(pairs, triples=name == ODD)
        if name in rules:
            measured = rules[name].measure_texts(positives, negatives)
            outer[:, i] = _subtract_sides(measured)
            alone[name] = _subtract_sides(orient_scores(measured, parts))
            for gaps, rows in zip(inner, training, strict=True):
                gaps[:, i] = outer[rows, i]
        else:
            score_rows = _bind_texts(attackers[name], positives, negatives)
            alone[name] = outer[:, i] = _subtract_sides(score_rows(np.arange(len(pairs)), cv))
            for gaps, rows, folds_within in zip(inner, training, within, strict=True):
                if len(rows):
                    gaps[:, i] = _subtract_sides(score_rows(rows, folds_within))
        seconds[name] = time.perf_counter() - start
    return Gaps(names, parts, outer, inner, alone, seconds)


def combine_gaps(gaps: Gaps, pairs: pd.DataFrame, use: Bools, names: Sequence[str], *, seed: int) -> Floats:
    """Return 2·P(true) − 1 of the pairs in use, by all the named scorers combined; 0 for the others. (n,).

    Args:
        gaps: gaps of the pairs.
        pairs: see ``build_pairs``.
        use: (n,) mask of the pairs that are tested. A fold also trains on the training pairs in this mask, or
            on all its training pairs if none is in it.
        names: names of the scorers.
        seed: random seed for the order of the two captions.
    """
    subtype = pairs["subtype"].to_numpy(dtype=str)
    subtypes = np.unique(subtype)
    signs = np.where(compute_stable_keys(pairs["key"].tolist(), seed) % 2, 1.0, -1.0)
    which = [gaps.names.index(name) for name in names]
    best = np.zeros(len(pairs))
    for (judged, learned), inner in zip(gaps.parts, gaps.inner, strict=True):
        here, of = (
            judged & use,
            use[learned] if use[learned].any() else np.ones(int(learned.sum()), dtype=bool),
        )
        if not of.any():
            continue
        features = _expand_by_subtype(inner[of][:, which], subtype[learned][of], subtypes)
        weights = fit_pair_weights(features, cost=COST, signs=signs[learned][of])
        judged_features = _expand_by_subtype(gaps.outer[here][:, which], subtype[here], subtypes)
        best[here] = np.tanh((judged_features * signs[here, None]) @ weights / 2) * signs[here]
    return best


def _build_sides(pairs: pd.DataFrame, *, triples: bool) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the texts of both sides of the pairs, or their triples."""
    true, false, third = (pairs[name].tolist() for name in ("caption", "negative_caption", "third"))
    if not triples:
        return true, false
    sides = ((true, false), (false, true))
    first, second = ([build_triple(*row) for row in zip(*side, third, strict=True)] for side in sides)
    return first, second


def _bind_texts(
    attacker: Scorer | TextScorer | LikelihoodScorer, positives: Sequence[Any], negatives: Sequence[Any]
) -> ScoreRows:
    """Return a function that scores rows of the texts; scorers that can read the texts only once do so."""
    unwrapped = inspect.unwrap(cast(Any, attacker))
    if isinstance(unwrapped, TextScorer | LikelihoodScorer):
        return unwrapped.bind_texts(positives, negatives)

    def score_rows(rows: Ints, cv: CrossValidation) -> tuple[Floats, Floats]:
        first, second = ([texts[row] for row in rows.tolist()] for texts in (positives, negatives))
        return attacker(first, second, cv)

    return score_rows


def _subtract_sides(sides: Floats | tuple[Floats, Floats]) -> Floats:
    """Return the scores of the true captions minus those of the negatives. (n,)."""
    positive, negative = sides
    gaps: Floats = positive - negative
    return gaps


def _expand_by_subtype(gaps: Floats, subtype: Any, subtypes: Any) -> Floats:
    """Return the gaps, and a copy per subtype that is 0 elsewhere, for shared weights and weights per subtype."""
    if len(subtypes) == 1:
        return gaps
    return np.hstack([gaps, *(gaps * (subtype == name)[:, None] for name in subtypes)])


SEES_ALL: Mapping[str, Any] = {ODD: score_triples}
