"""Describe each annotator: agreement with the others and with known answers, pace, and habits that make answers useless.

A habit is reported with a test, and p-values are corrected over annotators (Holm 1979). A flag is a reason to look at
the answers, not to drop them: bench/annotation_coverage.py measures how often good annotators are flagged and bad ones
are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from caramel.annotation.agreement.answers import (
    FREE_TEXT,
    build_ratings,
    merge_candidates,
    select_judged,
    split_questions,
)
from caramel.annotation.agreement.coefficients import compute_agreement
from caramel.schemas.annotation import UNANSWERED
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import holm_correction, wilson_interval

ANNOTATOR_COLUMNS = (
    "question",
    "annotator",
    "answered",
    "skipped",
    "kappa",
    "kappa_low",
    "kappa_high",
    "gold_items",
    "gold_accuracy",
    "gold_low",
    "gold_high",
    "median_seconds",
    "pace",
    "first_share",
    "position_p",
    "late_drop",
    "late_p",
    "flags",
)
LEVEL = 0.05  # of the corrected p-values of habits
LEAST_ANSWERS = 30  # answers below which no habit is judged
FAST = 1 / 3  # pace below which an annotator is too fast
LEAST_GOLD = 0.8  # accuracy on known answers that a good annotator reaches


def describe_annotators(answers: pd.DataFrame, task: str, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return one row per question and annotator of a checked table ``annotations``; columns ``ANNOTATOR_COLUMNS``.

    - ``kappa``: κ with all others who answered the same items, with its 95 % interval
    - ``gold_accuracy``: share of right answers to items with a known answer, with Wilson's interval; those of the
      qualification do not count, because whoever answers them wrong gets no further items
    - ``pace``: median over items of the annotator's time over the others' median time for the same item
    - ``first_share``: share of answers that were displayed first, of those answers whose position varies
    - ``late_drop``: how much the agreement with the others falls from the first to the second half of the answers,
      beyond that of the others among themselves on the same items

    All but ``gold_accuracy`` is computed from real items and annotators who qualified (``select_judged``).

    The flags are ``failed`` (the qualification), ``random`` (κ cannot be told from 0), ``gold`` (accuracy on known
    answers below ``LEAST_GOLD``), ``position`` (answers depend on where they are displayed), ``fast`` (pace below
    ``FAST``) and ``tired`` (``late_drop`` is above 0; not judged where the order of answers is unknown). Only ``failed`` and
    ``gold`` are judged with fewer than ``LEAST_ANSWERS`` answers.
    """
    judged = select_judged(answers)
    skipped = judged.loc[judged["answer"].isna(), "annotator"].value_counts()
    failed = set(answers.loc[~answers["qualified"], "annotator"])
    parts = []
    known = split_questions(answers[answers["role"] != "qualification"], task)
    for question, answered in split_questions(judged, task).items():
        rows = merge_candidates(answered) if task == "choose" else answered
        tests = merge_candidates(known[question]) if task == "choose" else known[question]
        # Positions are those of the answers as displayed, before candidates are merged into `some`.
        described = pd.DataFrame(
            [
                {
                    "annotator": name,
                    **_measure_gold_accuracy(tests[tests["annotator"] == name]),
                    **_measure_annotator(rows, answered, str(name), task, bootstrap),
                }
                for name in sorted(answers.loc[answers["role"] != UNANSWERED, "annotator"].unique())
            ]
        )
        for column in ("position_p", "late_p"):
            described[column] = holm_correction(described[column].to_numpy(float))
        described["flags"] = [
            ["failed"] * (row["annotator"] in failed) + _list_flags(row)
            for row in described.to_dict("records")
        ]
        parts.append(described.assign(question=question))
    table = pd.concat(parts, ignore_index=True)
    table["skipped"] = table["annotator"].map(skipped).fillna(0).astype(int)
    return table[list(ANNOTATOR_COLUMNS)]


def _measure_annotator(
    rows: pd.DataFrame, displayed: pd.DataFrame, name: str, task: str, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Return the measures of one annotator on one question; p-values are not corrected."""
    answered = rows[rows["annotator"] == name].sort_values("turn", kind="stable")
    kappa = (np.nan,) * 3
    if task not in FREE_TEXT and len(answered):
        ratings = build_ratings(rows)
        order = np.argsort([annotator != name for annotator in ratings.annotators], kind="stable")
        kappa = compute_agreement(ratings.codes[:, order], "cohen", bootstrap=bootstrap)[:3]
    first_share, position_p = _test_positions(displayed, name)
    is_ordered = answered["turn"].notna().all()
    late_drop, late_p = _test_late_agreement(rows, answered) if is_ordered else (np.nan, np.nan)
    return {
        "answered": len(answered),
        **dict(zip(("kappa", "kappa_low", "kappa_high"), kappa, strict=True)),
        "median_seconds": float(answered["seconds"].median()),
        "pace": _compute_pace(rows, answered),
        "first_share": first_share,
        "position_p": position_p,
        "late_drop": late_drop,
        "late_p": late_p,
    }


def _measure_gold_accuracy(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the share of right answers of one annotator to items with a known answer, with its interval."""
    gold = rows[rows["gold"].notna()]
    right, low, high = np.nan, np.nan, np.nan
    if len(gold):
        right = float((gold["gold"] == gold["answer"]).mean())
        low, high = (float(end) for end in wilson_interval(right, len(gold)))
    return {"gold_items": len(gold), "gold_accuracy": right, "gold_low": low, "gold_high": high}


def _list_flags(row: dict[Any, Any]) -> list[str]:
    """Return the flags of an annotator; a measure that is NaN gives none."""
    enough = row["answered"] >= LEAST_ANSWERS
    flags = {
        "random": enough and row["kappa_low"] <= 0,
        "gold": row["gold_high"] < LEAST_GOLD,
        "position": enough and row["position_p"] < LEVEL,
        "fast": enough and row["pace"] < FAST,
        "tired": enough and row["late_p"] < LEVEL,
    }
    return [name for name, is_set in flags.items() if is_set]


def _compute_pace(rows: pd.DataFrame, answered: pd.DataFrame) -> float:
    """Return the median ratio of an annotator's seconds to the others' median seconds; NaN without common items."""
    others = rows[~rows["annotator"].isin(answered["annotator"])]
    typical = answered["item_id"].map(others.groupby("item_id")["seconds"].median()).astype(float)
    ratio = (answered["seconds"] / typical.where(typical > 0)).dropna()
    return float(ratio.median()) if len(ratio) else np.nan


def _test_positions(rows: pd.DataFrame, name: str) -> tuple[float, float]:
    """Return how often the annotator's answer was displayed first, and the p-value of its positions.

    Options are displayed in random order, so the position of a considered answer is uniform whatever it is. Options
    that are always displayed first or last (`none`, `both`) have no random position and are left out. The p-value is
    that of a χ² test of uniform positions, summed over numbers of options; NaN with fewer than five expected answers
    at a position.
    """
    from scipy.stats import chi2

    fixed = _find_fixed_options(rows["order"].tolist())
    answered = rows[rows["annotator"] == name]
    indices_by_number: dict[int, list[int]] = {}
    for answer, order in zip(answered["answer"], answered["order"], strict=True):
        options = [option for option in order if option not in fixed]
        if answer in options and len(options) > 1:
            indices_by_number.setdefault(len(options), []).append(options.index(answer))
    total = sum(map(len, indices_by_number.values()))
    first = sum(index == 0 for indices in indices_by_number.values() for index in indices)
    statistic, freedom = 0.0, 0
    for number, indices in indices_by_number.items():
        expected = len(indices) / number
        if expected >= 5:
            counts = np.bincount(indices, minlength=number)
            statistic += float(((counts - expected) ** 2).sum() / expected)
            freedom += number - 1
    share = first / total if total else np.nan
    return share, float(chi2.sf(statistic, freedom)) if freedom else np.nan


def _find_fixed_options(orders: list[list[str]]) -> set[str]:
    """Return the options that are displayed at the same place from the start, or from the end, in every order."""
    starts: dict[str, set[int]] = {}
    ends: dict[str, set[int]] = {}
    for order in orders:
        for index, option in enumerate(order):
            starts.setdefault(option, set()).add(index)
            ends.setdefault(option, set()).add(len(order) - index)
    return {option for option in starts if min(len(starts[option]), len(ends[option])) == 1}


def _test_late_agreement(rows: pd.DataFrame, answered: pd.DataFrame) -> tuple[float, float]:
    """Return how much the agreement with the others falls from the first to the second half, and its p-value.

    From the agreement on an item, that of the others among themselves is subtracted: who tires lowers the agreement
    of all others, too, and late items may be harder. Items with one other answer get the mean over the other items.
    If no item has two other answers, nothing is subtracted, and who of two people tired cannot be told.

    The p-value is that of Welch's one-sided t test over items.
    """
    from scipy.stats import ttest_ind

    pairs = answered[["item_id", "answer"]].reset_index(drop=True).reset_index(names="number")
    others = rows.loc[~rows["annotator"].isin(answered["annotator"]), ["item_id", "answer"]]
    joined = pairs.merge(others, on="item_id", suffixes=("", "_other"))
    is_equal = (joined["answer"] == joined["answer_other"]).astype(float)
    by_item = is_equal.groupby([joined["number"], joined["item_id"]], sort=True).mean()
    usual = _compute_item_agreement(others).reindex(by_item.index.get_level_values("item_id"))
    agreement = by_item.to_numpy(float) - usual.fillna(usual.mean()).fillna(0.0).to_numpy(float)
    early, late = agreement[: len(agreement) // 2], agreement[len(agreement) // 2 :]
    if len(early) < 2 or not (early.var() + late.var()) > 0:
        return np.nan, np.nan
    p = float(ttest_ind(early, late, equal_var=False, alternative="greater").pvalue)
    return float(early.mean() - late.mean()), p


def _compute_item_agreement(rows: pd.DataFrame) -> pd.Series:
    """Return the share of pairs of answers that are equal, by item; NaN with one answer."""
    counts = rows.groupby(["item_id", "answer"]).size()
    pairs, equal = (
        (number * (number - 1)).groupby("item_id").sum()
        for number in (counts.groupby("item_id").sum(), counts)
    )
    return equal / pairs.where(pairs > 0)
