"""Standardise figures on seen and unseen compounds by subtype, and test whether differences depend on the compounds.

Seen and unseen instances have different shares of the subtypes, and subtypes differ far more than compounds do. So
the figure of each group is a mean over subtypes with the same weights: the shares of the subtypes in both groups
together (direct standardisation; Rothman, Greenland & Lash 2008, chapter 4). A subtype that one group lacks is left
out of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.evaluation.results.paired_tests import combine_variances
from caramel.evaluation.results.run_hits import RunHits
from caramel.evaluation.results.summary import assign_clusters
from caramel.schemas.columns import COMPOUNDS, SUBTYPES
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import bootstrap_means, compute_means, standard_errors

SEEN, UNSEEN = COMPOUNDS
INTERACTION = "interaction"  # figure on seen compounds minus figure on unseen compounds
STANDARDISED_COLUMNS = ("benchmark", "a", "b", "metric", "compounds", "value", "ci_low", "ci_high", "p", "n")


class _Strata(NamedTuple):
    """Instances by compounds and subtype, and the weights of the standardised figures."""

    masks: npt.NDArray[np.bool_]  # (2 * subtypes, n), seen compounds first
    weights: Floats  # (3, 2 * subtypes): seen, unseen, interaction


def standardise_compounds(runs: RunHits, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return the standardised figures of each variant and of each pair of variants: ``STANDARDISED_COLUMNS``.

    For one variant ``a``, ``b`` is empty, the value is in [0, 1], and only the interaction has a p. For a pair, the
    value is the difference a - b. Intervals and p (two-sided t test, not corrected) cover the variance by images,
    from the bootstrap, and by training seeds, as in ``paired_tests``.

    Args:
        runs: hits of all runs on the benchmark.
        bootstrap: settings of the intervals.
    """
    strata = _find_strata(runs.rows) if runs.hits else None
    if strata is None:
        return pd.DataFrame(columns=list(STANDARDISED_COLUMNS))
    hits = runs.group_by_variant()
    sides: list[tuple[str, str, list[Floats]]] = [(name, "", [of]) for name, of in hits.items()]
    sides += [(a, b, [hits[a], hits[b]]) for b, a in combinations(hits, 2)]
    clusters = assign_clusters(runs.rows)
    parts = []
    for a, b, values in sides:
        for column, metric in enumerate(runs.metrics):
            of_metric = [side[:, :, column] for side in values]
            estimate = _estimate_groups(of_metric, strata, clusters, bootstrap=bootstrap)
            parts.append(estimate.assign(benchmark=runs.benchmark, a=a, b=b, metric=metric))
    return pd.concat(parts, ignore_index=True)[list(STANDARDISED_COLUMNS)]


def _find_strata(rows: pd.DataFrame) -> _Strata | None:
    """Return the strata of the instances whose compounds are known; None if the groups share no subtype."""
    names = [set(of) for of in rows["subsets"]]
    masks: Mapping[str, list[npt.NDArray[np.bool_]]] = {
        group: [np.array([{group, subtype} <= of for of in names], bool) for subtype in SUBTYPES]
        for group in (SEEN, UNSEEN)
    }
    shared = [i for i in range(len(SUBTYPES)) if masks[SEEN][i].any() and masks[UNSEEN][i].any()]
    if not shared:
        return None
    seen_masks, unseen_masks = (np.stack([masks[group][i] for i in shared]) for group in (SEEN, UNSEEN))
    share = (seen_masks.sum(axis=1) + unseen_masks.sum(axis=1)).astype(float)
    share /= share.sum()
    none = np.zeros_like(share)
    weights = np.stack([np.r_[share, none], np.r_[none, share], np.r_[share, -share]])
    return _Strata(np.concatenate([seen_masks, unseen_masks]), weights)


def _estimate_groups(
    sides: Sequence[Floats], strata: _Strata, clusters: npt.NDArray[np.int64], *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return value, interval, p and n on seen and unseen compounds, and of their difference.

    Args:
        sides: hits (seeds, n) of one variant, or of the two variants to subtract; NaN where a run has no score.
        strata: strata of the n instances.
        clusters: number of each instance's image, (n,).
    """
    from scipy.stats import t

    mean = [side.mean(axis=0) for side in sides]
    values = mean[0] if len(mean) == 1 else mean[0] - mean[1]
    columns = np.where(strata.masks, values, np.nan).T  # (n, 2 * subtypes)
    value = strata.weights @ compute_means(columns)
    samples = (
        bootstrap_means(columns, clusters, resamples=bootstrap.n_bootstrap, seed=bootstrap.seed)
        @ strata.weights.T
    )
    scored = ~np.isnan(columns)
    groups = np.stack([row != 0 for row in strata.weights])  # (3, 2 * subtypes)
    used = [(scored[:, group].any(axis=1)) for group in groups]
    images = np.array([len(np.unique(clusters[of])) for of in used], np.int64)
    count = np.array([int(of.sum()) for of in used])
    # One instance is added for each side, as in ``paired_tests``, so that the spread is not 0 where all agree.
    of_images = standard_errors(samples, images) ** 2 + 2 / count**2
    per_seed = [
        np.stack([strata.weights @ compute_means(np.where(strata.masks, hits, np.nan).T) for hits in side])
        for side in sides
    ]
    error, quantile, p = combine_variances(value, of_images, images, per_seed)
    if p is None:
        p = 2 * t.sf(np.abs(value) / error, images - 1)
    return pd.DataFrame(
        {
            "compounds": [SEEN, UNSEEN, INTERACTION],
            "value": value,
            "ci_low": value - quantile * error,
            "ci_high": value + quantile * error,
            # The figure of one variant is not tested against 0, but its difference between the groups is.
            "p": p if len(sides) == 2 else np.where([False, False, True], p, np.nan),
            "n": count,
        }
    )
