"""The best blind attacker: all blind scorers together, never judged on what any of them was learned from.

The scorers' gaps (score of one caption less that of the other) are the features of a logistic regression
that says which of the two is true: stacking (Wolpert 1992). For honest figures it is nested:

- Rows are dealt into folds by groups (``grouping``): an image, or a near-duplicate caption, is in one fold.
- The rows of fold k have gaps from scorers that were learned on the other folds.
- The combination that judges fold k is learned on the other folds alone, from gaps that come from a cross-
  validation *within* them. So no row of fold k had a part in any number that the combination was learned
  from. Gaps from the outer cross-validation would not do: those of the other folds come from scorers
  that had learned on fold k.

Which of the two captions stands first is drawn by lot, so that no method can gain from the order.

To learn on the folds of the test set itself what gives it away, and to drop rows by it, is also what the test-set stress
test and iterative bias pruning of Brown et al. 2025 (arXiv 2511.04655) do, by a fine-tuned language model and a
random forest on questions; here it is done on pairs of captions, with groups and nesting.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from caramel.arrays import Floats
from caramel.audit.attack_figures import Figures, figures
from caramel.audit.grouping import grouped
from caramel.blind.crossfit import pair_weights
from caramel.blind.scorer_specs import scorer
from caramel.blind.scorers import DECIMALS
from caramel.blind.surface import Rule
from caramel.draws import assign_folds, stable_keys
from caramel.errors import ConfigError, DataError
from caramel.kinds.scorer import Scorer

BEST = "best_blind_attacker"
COST = 0.1  # inverse strength of the L2 penalty of the combination
MOST = 50_000  # rows of one type that are attacked; of larger types a random part is


@dataclass(frozen=True)
class Attack:
    """What blind attackers make of a data set.

    Attributes:
        rows: the audit rows that were attacked, by pair_id; without types whose rows are all one group.
        gaps: scorer -> (n,) gap in [-1, 1], true caption less negative, out of fold; ``BEST`` is one of them,
            with 2·P(true) − 1.
        figures: scorer -> figures, see ``attack_figures``.
        grouped_by: what was never in two folds.
        groups: number of groups.
    """

    rows: pd.DataFrame
    gaps: Mapping[str, Floats]
    figures: Mapping[str, Figures]
    grouped_by: str
    groups: int


def best_blind_attacker(
    rows: pd.DataFrame,
    scorers: Sequence[str],
    *,
    folds: int,
    seed: int,
    corpus: Sequence[str] | None = None,
) -> Attack:
    """Return what each scorer, and all together, make of the audit rows.

    Types are attacked one by one. The order of the rows changes nothing.

    Args:
        rows: audit rows: pair_id, image_id, type, subtype, caption, caption2 (or None), negative_caption.
        scorers: see ``found_scorer``; at least one.
        folds: of the cross-validation; one less within the other folds.
        seed: of folds and draws.
        corpus: texts that language models learn from, instead of the other folds.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
        ConfigError: no scorer is named.
        DataError: the rows of each type are all one group.
    """
    if not scorers:
        raise ConfigError("No blind scorer is named. Name one at least, such as 'length'.")
    attackers = {name: found_scorer(name, corpus) for name in dict.fromkeys(scorers)}
    rows = _drawn(rows.sort_values("pair_id", ignore_index=True), seed)
    groups, by = grouped(rows)
    names = np.array(groups, dtype=object)
    # Of a type whose rows are all one group nothing can be learned that it was not judged on.
    several = pd.Series(names).groupby(rows["type"]).transform("nunique").to_numpy() > 1
    if not several.any():
        raise DataError(
            f"The {len(rows)} rows cannot be attacked: those of a type are all one group (by {by}), so that nothing "
            f"is left to learn from. Give more images, or correct the column of the images."
        )
    rows, names = rows[several].reset_index(drop=True), names[several]
    gaps = {name: np.zeros(len(rows)) for name in (*attackers, BEST)}
    for kind in rows["type"].unique():
        here = (rows["type"] == kind).to_numpy()
        part = _attacked(rows[here], names[here].tolist(), attackers, folds, seed)
        for name, values in part.items():
            gaps[name][here] = values.round(DECIMALS)
    number = np.unique(names.astype(str), return_inverse=True)[1]
    found = figures(rows, gaps, number, folds=folds, seed=seed)
    return Attack(rows, gaps, found, by, len(set(names.tolist())))


def found_scorer(spec: str, corpus: Sequence[str] | None = None) -> Scorer:
    """Return the scorer of a spec (``scorer_specs``), one that sees both captions too.

    Raises:
        BackendError: there is no such scorer.
    """
    found = scorer(spec, both=True)
    if corpus is not None and "corpus" in inspect.signature(found).parameters:
        return cast(Scorer, functools.partial(cast(Any, found), corpus=corpus))
    return found


def _drawn(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return all rows of types of at most ``MOST`` rows, and of larger ones whole images up to it."""
    kept = []
    for kind in rows["type"].unique():
        part = rows[rows["type"] == kind]
        if len(part) > MOST:
            sizes = part["image_id"].value_counts().sort_index()
            sizes = sizes.iloc[np.argsort(stable_keys(sizes.index.tolist(), seed), kind="stable")]
            within = sizes.cumsum() <= MOST
            within.iloc[0] = True  # an image that has more rows alone
            part = part[part["image_id"].isin(sizes.index[within])]
        kept.append(part)
    return pd.concat(kept).sort_values("pair_id", ignore_index=True) if kept else rows


def _attacked(
    rows: pd.DataFrame, groups: Sequence[str], attackers: Mapping[str, Scorer], folds: int, seed: int
) -> dict[str, Floats]:
    """Return the gaps of the rows of one type under each scorer and under their combination."""
    fold = assign_folds(groups, folds=folds, seed=seed)
    subtype = rows["subtype"].to_numpy(dtype=str)
    kinds = np.unique(subtype)
    signs = np.where(stable_keys(rows["pair_id"].tolist(), seed) % 2, 1.0, -1.0)
    # What a rule measures is not learned, and which way it points the combination finds itself.
    unwrapped = {name: inspect.unwrap(cast(Any, f)) for name, f in attackers.items()}  # without ``checked``
    rules = {name: rule for name, rule in unwrapped.items() if isinstance(rule, Rule)}
    others = {name: f for name, f in attackers.items() if name not in rules}
    measured = _gaps(rows, [rule.measured for rule in rules.values()])
    outer = _gaps(rows, _calls(others, groups, folds, seed))
    best = np.zeros(len(rows))
    for k in np.unique(fold):
        out, here = fold != k, fold == k
        if not out.any():
            continue
        mine = [group for group, used in zip(groups, out, strict=True) if used]
        inner = _gaps(rows[out], _calls(others, mine, max(2, folds - 1), seed))
        learned = _by_subtype(np.hstack([measured[out], inner]), subtype[out], kinds)
        judged = _by_subtype(np.hstack([measured[here], outer[here]]), subtype[here], kinds)
        logits = (judged * signs[here, None]) @ pair_weights(learned, cost=COST, signs=signs[out])
        best[here] = np.tanh(logits / 2) * signs[here]
    oriented = _gaps(rows, _calls(rules, groups, folds, seed))
    return {**dict(zip([*others, *rules], [*outer.T, *oriented.T], strict=True)), BEST: best}


Call = Callable[[Sequence[str], Sequence[str]], Any]  # (positives, negatives) -> their scores, (2, n)


def _calls(attackers: Mapping[str, Scorer], groups: Sequence[str], folds: int, seed: int) -> list[Call]:
    """Return the scorers with all but their texts."""
    return [functools.partial(f, groups=groups, folds=folds, seed=seed) for f in attackers.values()]


def _gaps(rows: pd.DataFrame, calls: Sequence[Call]) -> Floats:
    """Return the gaps of the rows, score of the true caption less that of the negative. (n, calls)."""
    found = np.zeros((len(rows), len(calls)))
    for i, call in enumerate(calls):
        positive, negative = call(rows["caption"].tolist(), rows["negative_caption"].tolist())
        found[:, i] = positive - negative
    return found


def _by_subtype(gaps: Floats, subtype: Any, kinds: Any) -> Floats:
    """Return the gaps, and once more for each subtype, zero elsewhere: weights of all, and of its own."""
    if len(kinds) == 1:
        return gaps
    return np.hstack([gaps, *(gaps * (subtype == kind)[:, None] for kind in kinds)])
