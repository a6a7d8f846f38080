"""Blind scores of pairs and their negatives, and how often each scorer picks the true caption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from caramel import tables
from caramel.blind.scorer_specs import scorer
from caramel.blind.scorers import DECIMALS
from caramel.errors import DataError, shown
from caramel.kinds.scorer import Scorer
from caramel.statistics import share_interval, variance_factor

Accuracies = dict[str, dict[str, dict[str, float | int]]]  # scorer -> subset -> figure


def score_pairs(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    *,
    scorers: Sequence[str],
    folds: int,
    seed: int,
    taught: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return table ``scores``: each negative and its positive under each scorer.

    Types are scored one by one: an attacker knows the type, and what gives ``add`` away (the longer
    text) would else hide what gives ``swap`` away.

    Args:
        pairs: table ``pairs``.
        negatives: table ``negatives``.
        scorers: blind scorers, see ``scorer_specs``.
        folds: of the cross-validation, grouped by image.
        seed: of folds and draws.
        taught: table ``negatives`` of rows that scorers learn from instead, such as those that refinement rejected; each
            type is learned from its own, or from all where it has none, and never from an image that is scored. None: from
            the other folds.

    Raises:
        BackendError: there is no scorer of that name, or it gives a text no number in [0, 1].
        DataError: a negative's pair is missing.
    """
    needed = ["negative_id", "pair_id", "type", "negative_caption"]
    rows = joined(pairs, negatives[needed]).assign(taught=False)
    if taught is not None:
        rows = pd.concat([rows, joined(pairs, taught[needed]).assign(taught=True)], ignore_index=True)
    parts = [_scored(rows, name, scorer(name), folds, seed) for name in dict.fromkeys(scorers)]
    scores = pd.concat(parts, ignore_index=True) if parts else tables.frame(tables.SCORES, [])
    assert len(scores) == len(parts) * len(negatives)
    return scores


def joined(pairs: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives, in their order, with ``image_id`` and ``caption`` of their pairs.

    Raises:
        DataError: a negative's pair is missing.
    """
    require_pairs(pairs, negatives)
    return negatives.merge(pairs[["pair_id", "image_id", "caption"]], "left", "pair_id", validate="m:1")


def require_pairs(pairs: pd.DataFrame, negatives: pd.DataFrame) -> None:
    """Raise a DataError if a negative's pair is missing."""
    orphans = negatives.loc[~negatives["pair_id"].isin(pairs["pair_id"]), "negative_id"]
    if len(orphans):
        raise DataError(
            f"{len(orphans)} of {len(negatives)} negatives have no pair:\n{shown([repr(n) for n in orphans])}\n"
            f"Run the stage that made the negatives again."
        )


def _scored(rows: pd.DataFrame, name: str, scorer: Scorer, folds: int, seed: int) -> pd.DataFrame:
    """Return the scores of the rows that are not taught under one scorer, type by type."""
    taught, scores = rows["taught"].to_numpy(dtype=bool), np.full((2, len(rows)), np.nan)
    for kind in rows.loc[~taught, "type"].unique():
        mine = (rows["type"] == kind).to_numpy()
        here = (mine & ~taught) | (mine & taught if (mine & taught).any() else taught)
        columns = (_texts(rows.loc[here, c]) for c in ("caption", "negative_caption", "image_id"))
        settings = {"folds": folds, "seed": seed} | ({"taught": taught[here]} if taught.any() else {})
        scores[:, here] = scorer(*columns, **settings)
    return pd.DataFrame(
        {
            "negative_id": rows["negative_id"],
            "scorer": name,
            "positive_score": scores[0].round(DECIMALS),
            "negative_score": scores[1].round(DECIMALS),
        }
    )[~taught]


def _texts(values: pd.Series[str]) -> list[str]:
    """Return the texts; of equal ones one is in memory."""
    number, distinct = pd.factorize(values)
    names: list[str] = distinct.tolist()
    return [names[i] for i in number.tolist()]


def blind_accuracy(
    scores: pd.DataFrame, negatives: pd.DataFrame, *, pairs: pd.DataFrame, folds: int
) -> Accuracies:
    """Return how often each scorer picks the positive, as scorer -> subset -> figures.

    Subsets are ``all`` (over all rows), ``macro`` (mean over the subtypes), each type and each
    subtype. The figures:

    - ``accuracy`` in [0, 1] with ``ci_low``, ``ci_high``: share of rows whose positive scores higher.
      A tie counts as half a row, so a scorer that cannot tell is at one half, whatever its ties.
    - ``strict``: the same where a tie is a miss, as for models.
    - ``n`` and ``ties``: rows, and those with equal scores.

    The 95 % intervals are Wilson's, at the effective number of rows: negatives of one image are
    not independent, so the variance is that of sums over images; nor are the ``folds`` in which the
    scores were made, so it is multiplied by ``variance_factor``.
    """
    require_pairs(pairs, negatives)
    image = negatives["pair_id"].map(pairs.set_index("pair_id")["image_id"])
    known = negatives[["negative_id", "type", "subtype"]].assign(image=pd.factorize(image, sort=True)[0])
    found: Accuracies = {}
    for name, of_scorer in scores.groupby("scorer", sort=False):  # one by one: all would not fit into memory
        rows = of_scorer.drop(columns="scorer").merge(known, "inner", "negative_id", validate="m:1")
        assert len(rows) == len(of_scorer)
        found[str(name)] = {
            subset: _figures(part, subset == "macro", variance_factor(folds))
            for subset, part in _subsets(rows.drop(columns="negative_id"))
        }
    return found


def _subsets(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the named subsets of the rows that are not empty, in the order of the taxonomy.

    Where a type and a subtype have the same name, it is the subtype's.
    """
    found = {"all": rows, "macro": rows}
    for column, usual in (("type", tables.TYPES), ("subtype", tables.SUBTYPES)):
        found |= {name: rows[rows[column] == name] for name in in_order(rows[column].unique(), usual)}
    return [(name, part) for name, part in found.items() if len(part)]


def in_order(names: Iterable[str], usual: Sequence[str]) -> list[str]:
    """Return distinct names: the usual ones in their order, then the others by name."""
    distinct = set(names)
    return [*(name for name in usual if name in distinct), *sorted(distinct - set(usual))]


def _figures(rows: pd.DataFrame, macro: bool, factor: float) -> dict[str, float | int]:
    gap = (rows["positive_score"] - rows["negative_score"]).to_numpy()
    subtype = pd.factorize(rows["subtype"], sort=True)[0]
    stratum = subtype if macro else np.zeros(len(rows), dtype=np.int64)
    image = pd.factorize(rows["image"], sort=True)[0]
    wins, ties = gap > 0, gap == 0
    accuracy, low, high = share_interval(wins + 0.5 * ties, stratum, image, factor=factor)
    strict, _, _ = share_interval(wins.astype(float), stratum, image, factor=factor)
    shares = {"accuracy": accuracy, "ci_low": low, "ci_high": high, "strict": strict}
    rounded = {name: round(share, DECIMALS) for name, share in shares.items()}
    return {**rounded, "n": len(rows), "ties": int(ties.sum())}
