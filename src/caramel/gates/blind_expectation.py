"""Define the expectation on blind accuracy, for a plain table of pairs or a table with scores.

Importing ``caramel.gates.expectations`` registers it with the others.
"""

# Great Expectations has types, but following them takes mypy minutes: its classes are Any here.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from caramel.blind.scorer_specs import load_scorer
from caramel.utils.acceptance import STATES, Acceptance, Verdict, compute_verdict
from caramel.utils.resampling import CrossValidation
from caramel.utils.stats import share_interval, variance_factor

QUICK = ("length", "final_punctuation", "casing", "ngram", "probe")  # seconds for ten thousand pairs
MOST_SHOWN = 20  # rows, as in Great Expectations' own summary
GIVEN = "given"  # value of ``scorers``: all scorers with gaps in the table
GAP = "_gap"  # suffix of a column: positive score minus negative score of a scorer; NaN: not scored
SUBSETS_SHOWN = 5
Setting = Any  # a value, or {"$PARAMETER": name}, whose value is given when the suite runs
Gaps = npt.NDArray[np.float64]


class Accuracy(NamedTuple):
    """How often one scorer prefers the captions of a subset to their negatives."""

    scorer: str
    subset: str  # empty: all rows
    rows: npt.NDArray[np.int64]  # indices of the subset's rows in the table
    gap_of: Gaps  # gap of each row of the table: positive score minus negative score; NaN: not scored
    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        where = f"{self.scorer} on {self.subset}" if self.subset else self.scorer
        if missing := int(np.isnan(self.gaps).sum()):
            return f"{where}: {missing} of {len(self.rows)} rows have no score"
        low, high = 100 * self.low, 100 * self.high
        return f"{where}: {100 * self.accuracy:.1f} % [{low:.1f}, {high:.1f}] of {len(self.rows)} rows"

    @property
    def gaps(self) -> Gaps:
        """Positive score minus negative score of the subset's rows."""
        return self.gap_of[self.rows]

    @property
    def known(self) -> bool:
        """Whether each row of the subset has a score."""
        return not np.isnan(self.gaps).any()

    def judge_limit(self, limit: float) -> Verdict:
        """Return the verdict of the interval on a limit."""
        return compute_verdict(self.accuracy, self.low, self.high, rows=len(self.rows), limit=limit)


class BlindAccuracies(NamedTuple):
    """Result of the metric: captions and negatives of the rows, for examples, and the scorers' accuracies."""

    captions: pd.Series
    negatives: pd.Series
    scorers: Sequence[str]
    accuracies: list[Accuracy]


class _BlindAccuracy(TableMetricProvider):
    metric_name = "table.caramel_blind_accuracy"
    value_keys = (
        "column_caption",
        "column_negative",
        "column_group",
        "column_type",
        "scorers",
        "folds",
        "seed",
    )

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> BlindAccuracies:
        rows, _, _ = execution_engine.get_compute_domain(
            domain_kwargs=metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE
        )
        settings = {key: metric_value_kwargs[key] for key in cls.value_keys}
        if settings["scorers"] == GIVEN:
            settings["scorers"] = sorted(c.removesuffix(GAP) for c in rows.columns if c.endswith(GAP))
        captions, negatives = (rows[settings[column]] for column in ("column_caption", "column_negative"))
        return BlindAccuracies(captions, negatives, settings["scorers"], compute_accuracies(rows, **settings))


def compute_accuracies(
    rows: pd.DataFrame,
    *,
    column_caption: str,
    column_negative: str,
    column_group: str | None,
    column_type: str | None,
    scorers: Sequence[str],
    folds: int,
    seed: int,
) -> list[Accuracy]:
    """Return how often each scorer prefers the caption, on all rows and on each type.

    Arguments are those of ``ExpectBlindAccuracyToBeAtMost``.

    Raises:
        KeyError: a column is missing.
        BackendError: a scorer is unknown and has no column with its gaps.
    """
    rows = rows.reset_index(drop=True)
    group = rows[column_group].astype(str) if column_group else _take_texts(rows[column_caption])
    types = rows[column_type].astype(str) if column_type else pd.Series("", index=rows.index)
    subsets = {"": rows.index.to_numpy()} if len(rows) else {}
    if types.nunique() > 1:
        subsets |= {name: np.flatnonzero(types == name) for name in sorted(types.unique())}
    clusters = pd.factorize(group, sort=True)[0]
    results = []
    for name in dict.fromkeys(scorers):
        if name + GAP in rows.columns:
            gaps = rows[name + GAP].to_numpy(dtype=np.float64)
        else:
            texts = [_take_texts(rows[column]) for column in (column_caption, column_negative)]
            gaps = _compute_gaps(name, texts, group, types, folds=folds, seed=seed)
        factor = variance_factor(folds)
        results += [
            _compute_accuracy(name, subset, at, gaps, clusters[at], factor) for subset, at in subsets.items()
        ]
    return results


def _take_texts(values: pd.Series) -> pd.Series[str]:
    """Return the values of a column, also of a categorical one, as texts; a missing one is empty."""
    return values.astype(object).fillna("").astype(str)


def _compute_gaps(
    name: str,
    texts: Sequence[pd.Series[str]],
    group: pd.Series[str],
    types: pd.Series[str],
    *,
    folds: int,
    seed: int,
) -> Gaps:
    """Return positive score minus negative score of each row, scored type by type."""
    blind, gaps = load_scorer(name), np.full(len(group), np.nan)
    for one in types.unique():
        here = (types == one).to_numpy()
        true, false = (column[here].tolist() for column in texts)
        positive, negative = blind(true, false, CrossValidation(group[here].tolist(), folds, seed))
        gaps[here] = positive - negative
    return gaps


def _compute_accuracy(
    name: str,
    subset: str,
    at: npt.NDArray[np.int64],
    gap_of: Gaps,
    clusters: npt.NDArray[np.int64],
    factor: float,
) -> Accuracy:
    gaps = gap_of[at]
    if np.isnan(gaps).any():
        return Accuracy(name, subset, at, gap_of, np.nan, np.nan, np.nan)
    hits = (gaps > 0) + 0.5 * (gaps == 0)
    cluster = np.unique(clusters, return_inverse=True)[1]
    stratum = np.zeros(len(at), dtype=np.int64)
    return Accuracy(name, subset, at, gap_of, *share_interval(hits, stratum, cluster, factor=factor))


class ExpectBlindAccuracyToBeAtMost(BatchExpectation):
    """Expect text-only scorers not to tell captions from their negatives.

    The expectation passes if the upper end of each scorer's 95 % interval is at most ``max_accuracy``, on all rows and
    on the rows of each type. Acceptance is a claim that few rows cannot support; see ``caramel.utils.acceptance``.
    If an interval contains ``max_accuracy``, the verdict is undecided: the result says how many rows would be
    enough, and ``not_refuted`` lets it pass. The expectation also fails if a row has no score, or if no scorer is
    named.

    Chance is 0.5; a tie counts half. Scores are out of fold, and the intervals are widened accordingly
    (``utils.stats.variance_factor``). If a scorer is shown to be above ``max_accuracy``, the result lists the rows
    that the worst scorer gets right, the largest gap first.

    Args:
        max_accuracy: the highest accuracy that is accepted, in [0, 1].
        column_caption: column of the true captions.
        column_negative: column of the hard negatives.
        column_group: column whose equal values mark dependent rows, such as the rows of one image; these stay in
            one fold. None: rows with the same caption.
        column_type: column of the negatives' types. Each type is scored by itself, and also judged by itself.
            None: all rows are of one type.
        scorers: blind scorers by name; see ``caramel.blind.scorer_specs``. If the table has a column ``NAME_gap``,
            positive score minus negative score, the scorer's gaps are read from there. "given": all scorers with
            such a column.
        folds: number of folds of the cross-validation, also of the one that scores in the table come from.
        seed: seed of folds and sampling.
        acceptance: ``equivalence``, or ``not_refuted`` for sets that are too small for a claim.
    """

    column_caption: str = "caption"
    column_negative: str = "negative_caption"
    column_group: str | None = None
    column_type: str | None = None
    scorers: Setting = QUICK
    folds: Setting = 5
    seed: int = 0
    max_accuracy: Setting
    acceptance: Setting = "equivalence"
    metric_dependencies: ClassVar[tuple[str, ...]] = (_BlindAccuracy.metric_name,)
    success_keys: ClassVar[tuple[str, ...]] = (*_BlindAccuracy.value_keys, "max_accuracy", "acceptance")
    args_keys: ClassVar[tuple[str, ...]] = ("max_accuracy", "acceptance")

    def _validate(
        self, metrics: Mapping[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        settings = self._get_success_kwargs()
        limit, acceptance = settings["max_accuracy"], settings["acceptance"]
        judged: BlindAccuracies = metrics[_BlindAccuracy.metric_name]
        results = judged.accuracies
        if not judged.scorers:
            return _build_failure("no scorer is named")
        if not 0 <= limit <= 1:
            return _build_failure(f"max_accuracy = {limit} is not in [0, 1]")
        if acceptance not in get_args(Acceptance):
            return _build_failure(
                f"acceptance = {acceptance!r} is not one of {', '.join(get_args(Acceptance))}"
            )
        # An unknown accuracy fails too, and counts as the worst.
        worst = sorted(((a, a.judge_limit(limit)) for a in results), key=_build_sort_key)
        failed = [(a, v) for a, v in worst if not (a.known and v.is_passing(acceptance))]
        reported = failed or [(a, v) for a, v in worst if v.state != "accepted"] or worst[:1]
        summary = "; ".join(f"{a}, {v}" if a.known else str(a) for a, v in reported[:SUBSETS_SHOWN])
        more = f"; and {len(reported) - SUBSETS_SHOWN} more" if len(reported) > SUBSETS_SHOWN else ""
        result = {"element_count": len(judged.captions), "observed_value": (summary or "no rows") + more}
        # No row is at fault for an undecided verdict, which needs more rows.
        faulty = [a for a, v in failed[:1] if not a.known or v.state == "refused"]
        return {
            "success": not failed,
            "result": result | (_describe_failures(judged, faulty[0]) if faulty else {}),
        }


def _build_failure(why: str) -> dict[str, Any]:
    return {"success": False, "result": {"observed_value": why}}


def _build_sort_key(judged: tuple[Accuracy, Verdict]) -> tuple[bool, int, float, str, str]:
    """Return a sort key: unknown accuracies first, then refused, undecided and accepted, each by interval."""
    accuracy, decision = judged
    end = accuracy.low if decision.state == "refused" else accuracy.high
    key = -end if accuracy.known else 0.0
    return accuracy.known, -STATES.index(decision.state), key, accuracy.scorer, accuracy.subset


def _describe_failures(judged: BlindAccuracies, worst: Accuracy) -> dict[str, Any]:
    """Return the failing rows in the fields of Great Expectations."""
    failing = _select_clearest_rows(worst)
    examples = (column.iloc[failing[:MOST_SHOWN]] for column in (judged.captions, judged.negatives))
    return {
        "unexpected_count": len(failing),
        "unexpected_percent": 100 * len(failing) / len(judged.captions),
        "partial_unexpected_list": [f"{a} / {b}" for a, b in zip(*examples, strict=True)],
        "partial_unexpected_index_list": failing[:MOST_SHOWN].tolist(),
    }


def _select_clearest_rows(accuracy: Accuracy) -> npt.NDArray[np.int64]:
    """Return the rows that the scorer gets right, the largest gap first; if rows have no score, return these."""
    if not accuracy.known:
        return accuracy.rows[np.isnan(accuracy.gaps)]
    order = np.argsort(-accuracy.gaps, kind="stable")
    return accuracy.rows[order][accuracy.gaps[order] > 0]
