"""Summarise the agreement on a table of people's answers: one row per question, coefficient and pair of annotators."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.annotation.agreement.answers import (
    FREE_TEXT,
    Ratings,
    build_ratings,
    merge_candidates,
    select_judged,
    split_questions,
)
from caramel.annotation.agreement.coefficients import (
    Agreement,
    compute_agreement,
    compute_pairwise_agreement,
)
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import bootstrap_means, fraction_intervals

AGREEMENT_COLUMNS = (
    "question",
    "measure",
    "annotator_a",
    "annotator_b",
    "value",
    "ci_low",
    "ci_high",
    "items",
)
COEFFICIENTS = {"krippendorff_alpha": "krippendorff", "fleiss_kappa": "fleiss"}


def summarise_agreement(answers: pd.DataFrame, task: str, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return the agreement on a checked table ``annotations``; the columns are ``AGREEMENT_COLUMNS``.

    The measures are ``observed_agreement`` (share of pairs of answers that are equal, not corrected for chance),
    ``krippendorff_alpha``, ``fleiss_kappa``, ``mean_cohen_kappa`` (over pairs of annotators, as BiVLC reports it;
    without an interval, because the pairs may share annotators) and ``cohen_kappa`` of each pair. For texts only
    ``observed_agreement`` exists. For task ``choose``, an answer is whether any candidate was chosen. Items with known
    answers, and annotators who failed the qualification, are left out (``select_judged``).
    """
    rows: list[tuple[object, ...]] = []
    for question, answered in split_questions(select_judged(answers), task).items():
        ratings = build_ratings(merge_candidates(answered) if task == "choose" else answered)
        measured = {"observed_agreement": compute_observed_agreement(ratings, bootstrap=bootstrap)}
        pairs = {}
        if task not in FREE_TEXT:
            for measure, coefficient in COEFFICIENTS.items():
                measured[measure] = compute_agreement(ratings.codes, coefficient, bootstrap=bootstrap)
            pairs = compute_pairwise_agreement(ratings.codes, bootstrap=bootstrap)
            kappas = [pair.value for pair in pairs.values() if not np.isnan(pair.value)]
            mean = float(np.mean(kappas)) if kappas else np.nan
            measured["mean_cohen_kappa"] = Agreement(
                mean, np.nan, np.nan, sum(p.items for p in pairs.values())
            )
        rows += [(question, measure, None, None, *agreement) for measure, agreement in measured.items()]
        rows += [
            (question, "cohen_kappa", ratings.annotators[a], ratings.annotators[b], *agreement)
            for (a, b), agreement in pairs.items()
        ]
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def compute_observed_agreement(ratings: Ratings, *, bootstrap: Bootstrap) -> Agreement:
    """Return the mean over items of the share of equal pairs of answers, with its 95 % interval."""
    counts = (ratings.codes[:, :, None] == np.arange(len(ratings.categories))).sum(axis=1).astype(float)
    size = counts.sum(axis=1)
    pairable = size >= 2
    shares = ((counts[pairable] ** 2).sum(axis=1) - size[pairable]) / (size[pairable] * (size[pairable] - 1))
    items = int(pairable.sum())
    if not items:
        return Agreement(np.nan, np.nan, np.nan, 0)
    samples = bootstrap_means(
        shares[:, None], np.arange(items), resamples=bootstrap.n_bootstrap, seed=bootstrap.seed
    )
    value = np.array([shares.mean()])
    low, high = fraction_intervals(value, samples, np.array([items]))
    return Agreement(float(value[0]), float(low[0]), float(high[0]), items)
