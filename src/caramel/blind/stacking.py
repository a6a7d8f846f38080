"""All blind scorers together, never judged on what any of them was learned from.

The scorers' gaps (score of a true caption less that of the negative) are the features of a logistic regression
that says which of the two is true: stacking (Wolpert 1992). For honest figures it is nested:

- Pairs are judged in parts (``crossfit.lessons``); no group of a part is learned from for it.
- The pairs of a part have gaps from scorers that were learned without it.
- The combination that judges a part is learned on what may be learned from for it, from gaps that come from a
  cross-validation *within* that. So no pair of a part had a share in any number that the combination was learned
  from. Gaps from the outer cross-validation would not do: those of the other folds come from scorers
  that had learned on this one.

Which of the two captions stands first is drawn by lot, so that no method can gain from the order.

To learn on the folds of the test set itself what gives it away, and to drop rows by it, is also what the test-set stress
test and iterative bias pruning of Brown et al. 2025 (arXiv 2511.04655) do, by a fine-tuned language model and a
random forest on questions; here it is done on pairs of captions, with groups and nesting.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from caramel.blind.cross_validation import Fold, fit_pair_weights, group_folds
from caramel.blind.text.odd_one_out import ODD, build_triple, score_triples
from caramel.blind.text.surface import Rule
from caramel.interfaces.scorer import Scorer
from caramel.utils.arrays import Bools, Floats
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation

COST = 0.1  # inverse strength of the L2 penalty of the combination


def build_pairs(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return a pair for each true caption of each row, those of the first column first.

    Its columns: key (of draws), column, caption (the true one), negative_caption, third (the other true caption of the
    row, or None), subtype, group and train_only.

    Args:
        rows: audit rows of one type, with group, and train_only: whether it is learned from and not judged.
        columns: of the true captions: ``caption``, ``caption2`` or both.
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
    """What scorers make of pairs.

    Attributes:
        names: of the scorers, those first that learn.
        parts: which pairs are judged together, and learned from for it.
        outer: (n, k) gaps in [-1, 1] from scorers that were learned on what may be learned from for a pair's part;
            of rules as they measure.
        inner: of each part, the gaps of what is learned from, cross-validated within.
        alone: scorer -> (n,) its gaps by itself.
        seconds: scorer -> what it took.
    """

    names: Sequence[str]
    parts: Sequence[Fold]
    outer: Floats
    inner: Sequence[Floats]
    alone: Mapping[str, Floats]
    seconds: Mapping[str, float]


def compute_gaps(pairs: pd.DataFrame, attackers: Mapping[str, Scorer], *, folds: int, seed: int) -> Gaps:
    """Return the gaps of pairs, see ``pairs_of``, under scorers, and of those that learn also in each part."""
    # What a rule measures is not learned, and which way it points the combination finds itself.
    unwrapped = {name: inspect.unwrap(cast(Any, f)) for name, f in attackers.items()}  # without ``checked``
    rules = {name: rule for name, rule in unwrapped.items() if isinstance(rule, Rule)}
    others: dict[str, Any] = {name: f for name, f in attackers.items() if name not in rules}
    spent: dict[str, float] = defaultdict(float)
    train_only = pairs["train_only"].to_numpy(dtype=bool) if pairs["train_only"].any() else None
    cv = CrossValidation(pairs["group"].tolist(), folds, seed, train_only)
    measured = _compute_gap_columns(pairs, {name: rule.measure_texts for name, rule in rules.items()}, spent)
    outer = _compute_gap_columns(pairs, _bind_folds(others, cv), spent)
    parts = group_folds(cv)
    inner = []
    for _, learned in parts:
        within = CrossValidation(pairs["group"][learned].tolist(), max(2, folds - 1), seed)
        gaps = (
            _compute_gap_columns(pairs[learned], _bind_folds(others, within), spent)
            if learned.any()
            else outer[learned]
        )
        inner.append(np.hstack([gaps, measured[learned]]))
    oriented = _compute_gap_columns(pairs, _bind_folds(rules, cv), spent)
    names = [*others, *rules]
    alone = dict(zip(names, [*outer.T, *oriented.T], strict=True))
    return Gaps(names, parts, np.hstack([outer, measured]), inner, alone, dict(spent))


def combine_gaps(gaps: Gaps, pairs: pd.DataFrame, use: Bools, names: Sequence[str], *, seed: int) -> Floats:
    """Return 2·P(true) − 1 of the pairs in use, by all the named scorers together; 0 of others. (n,).

    Args:
        gaps: their gaps.
        pairs: see ``pairs_of``.
        use: (n,) which are judged; such are learned from too, or all where none that may be learned from is.
        names: of the scorers.
        seed: of the draw which of two captions stands first.
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


Call = Callable[[Sequence[Any], Sequence[Any]], Any]  # (positives, negatives) -> their scores, (2, n)


def _bind_folds(attackers: Mapping[str, Any], cv: CrossValidation) -> dict[str, Call]:
    """Return the scorers with all but their texts."""
    return {name: functools.partial(f, cv=cv) for name, f in attackers.items()}


def _compute_gap_columns(pairs: pd.DataFrame, calls: Mapping[str, Call], spent: dict[str, float]) -> Floats:
    """Return the gaps of the pairs, score of the true caption less that of the negative; (n, calls). Adds to ``spent``."""
    gaps = np.zeros((len(pairs), len(calls)))
    texts = [pairs[name].tolist() for name in ("caption", "negative_caption", "third")]
    for i, (name, call) in enumerate(calls.items()):
        start = time.perf_counter()
        sides: Sequence[Sequence[Any]] = texts[:2]
        if name == ODD:
            sides = [
                [build_triple(*row) for row in zip(*order, strict=True)]
                for order in (texts, [texts[1], texts[0], texts[2]])
            ]
        positive, negative = call(*sides)
        gaps[:, i] = positive - negative
        spent[name] += time.perf_counter() - start
    return gaps


def _expand_by_subtype(gaps: Floats, subtype: Any, subtypes: Any) -> Floats:
    """Return the gaps, and once more for each subtype, zero elsewhere: weights of all, and of its own."""
    if len(subtypes) == 1:
        return gaps
    return np.hstack([gaps, *(gaps * (subtype == name)[:, None] for name in subtypes)])


SEES_ALL: Mapping[str, Any] = {ODD: score_triples}
