"""Compare models on the same instances, benchmark by benchmark; ``paired_tests`` documents the statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, compress
from typing import NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from caramel.benchmarks.metrics import compute_outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.content_match import note_unknown_contents
from caramel.evaluation.results.paired_tests import ALPHA, compare_hits
from caramel.evaluation.results.run_hits import RunHits
from caramel.evaluation.results.summary import align_runs, build_subset_masks
from caramel.interfaces.benchmark import Benchmark
from caramel.registry import BENCHMARKS
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.utils.arrays import Bools, Floats
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import FLIPS, holm_correction

COMPARISON_COLUMNS: Mapping[str, str] = {
    "benchmark": "benchmark",
    "subset": "`all`, `macro`, or a subset of the benchmark",
    "metric": "metric",
    "value_a": "a's value on the instances that both models scored, in [0, 1]; the mean over a's seeds",
    "value_b": "b's value on the same instances; the mean over b's seeds",
    "difference": "value_a - value_b",
    "ci_low": "lower end of the 95 % interval of the difference",
    "ci_high": "upper end",
    "p": "two-sided p-value of no difference, not corrected",
    "p_least": "the smallest p that the sign flips of the comparison can give: 1 / (flips + 1)",
    "p_holm": "p after Holm correction over all rows of the comparison: all benchmarks, subsets and metrics",
    "significant": "p_holm < 0.05: the probability that a comparison makes any false claim is at most 5 %",
    "effect": "Cohen's g: a's share of the instances that exactly one model has right, minus 1/2; in [-1/2, 1/2]",
    "a_only": "instances that a has right, or more right, and b does not; the mean over pairs of seeds",
    "b_only": "instances that b has right, or more right, and a does not; the mean over pairs of seeds",
    "detectable": "smallest true difference that would be significant (uncorrected) in 80 % of samples: "
    "(1.96 + 0.84) standard errors, with the t quantile in place of 1.96",
    "n": "instances that all runs of both models scored",
    "clusters": "images of these instances; for `macro`, the fewest among its subsets",
    "seeds_a": "training seeds of a",
    "seeds_b": "training seeds of b",
}
MetricColumn = tuple[str, str]  # subset and metric of a column of a table
DIFFERENCE_COLUMNS = (
    *("benchmark", "a", "b", "subset", "metric"),
    *("difference", "ci_low", "ci_high", "p", "p_least"),
)
MOST_THREADS = 8  # that compare variants: each has signs of 36 MB
FLIPS_PER_TEST = 100  # so that the smallest possible p is still about 1 % after Holm correction


def compare_models(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    benchmarks: Mapping[str, Benchmark] | None = None,
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Compare model a with model b by benchmark, subset and metric; return ``COMPARISON_COLUMNS``.

    ``.attrs["notes"]`` lists where it is unknown whether both models scored the same content. A benchmark or a
    metric is left out if no instance was scored by all runs.

    The p-value comes from the sign-flip test of whole images (``utils.stats.sign_flip_p_value``). That test is
    exact even if the two models disagree on few instances. The more rows are corrected for, the more flips are
    drawn. If a side has several seeds, p is the larger of two values:

    - the sign-flip p on hits averaged over seeds
    - the p of the t test of the difference, with both parts of the variance

    So a difference must exceed both the variation by images and the variation by training seeds.

    The interval is difference ± t quantile * standard error. The plain interval is too short if the models
    disagree on few instances. So one image is added that counts for a, and one that counts for b (Bonett &
    Price 2012). Each has the mean square weight of the images that differ.

    Args:
        a: table ``similarities`` of each training seed of a; each holds one model.
        b: the same for b.
        benchmarks: name -> benchmark; None: the benchmarks of the registry.
        bootstrap: settings of the intervals; its seed is also the seed of the sign flips.

    Raises:
        DataError: a table holds several models, the two sides share no benchmark or no metric, or they hold
            different instances of a benchmark.
    """
    comparison = _compute_comparison(a, b, benchmarks, bootstrap=bootstrap)
    if comparison is None:
        names = ", ".join(dict.fromkeys(a[0]["benchmark"].astype(str)))
        raise DataError(
            f"No instance was scored by all runs on any metric of benchmark {names}. Use models that can score it."
        )
    runs = [rows.assign(model=str(number)) for number, rows in enumerate((*a, *b))]  # names may be equal
    comparison.attrs["notes"] = note_unknown_contents(runs)
    return comparison


def _compute_comparison(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    benchmarks: Mapping[str, Benchmark] | None,
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame | None:
    """Return the rows of ``compare_models``; None if no metric was scored by all runs."""
    for rows in (*a, *b):
        _check_one_model(rows)
    lists = [list(dict.fromkeys(rows["benchmark"].astype(str))) for rows in (*a, *b)]
    common = [name for name in lists[0] if all(name in names for names in lists)]
    if not common:
        raise DataError(
            f"The runs have no benchmark in common: {format_items([', '.join(names) for names in lists])}\n"
            f"Score all runs on the same benchmark."
        )
    scored = [
        benchmark_hits
        for name in common
        if (benchmark_hits := _compute_hits(a, b, name, _get_benchmark(name, benchmarks)))
    ]
    if not scored:
        return None
    return _compute_corrected_rows(scored, len(a), bootstrap=bootstrap)[list(COMPARISON_COLUMNS)]


def _compute_corrected_rows(
    scored: Sequence[_BenchmarkHits], runs_of_a: int, *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return the rows of all scored benchmarks, at least one, with Holm correction over all rows."""
    flips = max(FLIPS, FLIPS_PER_TEST * sum(benchmark_hits.tests for benchmark_hits in scored))
    parts = [
        _compare_benchmark(benchmark_hits, runs_of_a, bootstrap=bootstrap, flips=flips)
        for benchmark_hits in scored
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows["p_least"] = 1 / (flips + 1)
    rows["p_holm"] = holm_correction(rows["p"].to_numpy(float))
    rows["significant"] = rows["p_holm"] < ALPHA
    return rows


def find_leaders(
    values: Mapping[MetricColumn, Mapping[str, float]], p: Callable[[str, str, MetricColumn], float]
) -> set[tuple[str, MetricColumn]]:
    """Return (model, column) where a model is significantly better than all others: the cells that may be bold.

    The best model of a column is tested against every other model. Holm correction covers all these tests of the
    table. This keeps the probability of any false claim in the table at 5 % or less: a column's claim is false
    only if a model beats the truly best one, and that takes at most one comparison per other model.

    Args:
        values: value of each model in each column, (subset, metric); NaN and missing models are ignored.
        p: returns the p-value of two models in a column, two-sided and not corrected; 1 where they cannot be
            compared.
    """
    tests: list[tuple[str, MetricColumn, float]] = []
    for column, of in values.items():
        scored = {name: value for name, value in of.items() if not math.isnan(value)}
        if scored:
            best = max(scored, key=lambda name: scored[name])
            tests += [(best, column, p(best, other, column)) for other in scored if other != best]
    corrected = holm_correction(np.array([value for *_, value in tests], float))
    failed = {test[:2] for test, value in zip(tests, corrected, strict=True) if not value < ALPHA}
    return {test[:2] for test in tests} - failed


def compare_variants(runs: RunHits, benchmark: Benchmark, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Compare all variants and the base pairwise on one benchmark; return ``DIFFERENCE_COLUMNS``.

    Models named ``<variant>-<seed>`` are training seeds of one variant. ``a`` is the variant that comes later
    among the runs. A pair is left out if no instance was scored by all its runs on any metric. ``p`` is not
    corrected: code that shows some of the rows must correct over those rows.

    Args:
        runs: hits by the metrics of the benchmark.
        benchmark: its metrics and macro subsets.
        bootstrap: as in ``compare_models``.
    """
    hits = runs.group_by_variant()

    def compare_pair(names: tuple[str, str]) -> pd.DataFrame | None:
        b, a = names
        scored = _select_scored(np.concatenate([hits[a], hits[b]]), runs.rows, runs.benchmark, benchmark)
        if scored is None:
            return None
        return _compute_corrected_rows([scored], len(hits[a]), bootstrap=bootstrap).assign(a=a, b=b)

    with threadpool_limits(1, user_api="blas"):  # threads of each product would wait for those of the others
        compared = map_in_threads(compare_pair, list(combinations(hits, 2)), MOST_THREADS)
    parts = [comparison for comparison in compared if comparison is not None]
    columns = list(DIFFERENCE_COLUMNS)
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def compare_forms(
    one: RunHits, other: RunHits, benchmark: Benchmark, *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Compare the differences between variants in two forms of a benchmark; return ``DIFFERENCE_COLUMNS``.

    A row is the interaction of form and variants, (a − b in ``one``) − (a − b in ``other``), paired on the
    instances, which both forms share. The test is the one of ``compare_models``, on the hits in ``one`` minus the
    hits in ``other``. The image clusters are those of ``other``. Column ``benchmark`` names both forms.

    Args:
        one, other: hits on the two forms, by the metrics of the benchmark.
        benchmark: metrics and macro subsets of both forms.
        bootstrap: as in ``compare_variants``.

    Raises:
        DataError: the forms hold different instances or different models.
    """
    positions = pd.Index(one.rows["instance_id"]).get_indexer(other.rows["instance_id"])
    if len(positions) != len(one.rows) or (positions < 0).any() or one.hits.keys() != other.hits.keys():
        raise DataError(
            f"{one.benchmark} and {other.benchmark} are not forms of one benchmark: they hold different instances or "
            f"models. Run `dvc repro -f assemble evaluate`."
        )
    hit_differences = {model: hits[positions] - other.hits[model] for model, hits in one.hits.items()}
    runs = other._replace(benchmark=f"{one.benchmark} − {other.benchmark}", hits=hit_differences)
    return compare_variants(runs, benchmark, bootstrap=bootstrap)


def compare_versions(
    after: pd.DataFrame, before: pd.DataFrame, *, bootstrap: Bootstrap
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Compare each model's scores with its scores in another version; return the rows, column ``model`` first.

    ``a`` is ``after``. A model on a benchmark is left out if the two versions did not score the same instances;
    the second result gives the reason, by model and benchmark. Holm correction covers all rows: all models,
    benchmarks, subsets and metrics.

    Args:
        after, before: tables ``similarities``, each of any number of models.
        bootstrap: as in ``compare_models``.
    """
    scored: list[_BenchmarkHits] = []
    unpaired: dict[str, str] = {}
    for (model, benchmark), rows in after.groupby(["model", "benchmark"], sort=False):
        others = before[(before["model"] == model) & (before["benchmark"] == benchmark)]
        if not len(others):
            continue
        try:
            benchmark_hits = _compute_hits([rows], [others], str(benchmark), BENCHMARKS[str(benchmark)])
        except DataError as error:  # different instances
            unpaired[f"{model} on {benchmark}"] = str(error).splitlines()[0]
            continue
        scored += [benchmark_hits._replace(model=str(model))] if benchmark_hits else []
    columns = ["model", *COMPARISON_COLUMNS]
    if not scored:
        return pd.DataFrame(columns=columns), unpaired
    return _compute_corrected_rows(scored, 1, bootstrap=bootstrap)[columns], unpaired


class _BenchmarkHits(NamedTuple):
    """Hits that all runs of both sides have on one benchmark."""

    benchmark: str
    hits: Floats  # (runs, n, metrics), the runs of a first; NaN where any run has no score
    rows: pd.DataFrame  # the instances
    metrics: Sequence[str]
    macro: Callable[[str], bool]
    model: str | None = None  # name of the model, where several models are compared

    @property
    def tests(self) -> int:
        """Largest number of rows that a comparison can have for this benchmark."""
        return (len(build_subset_masks(self.rows)) + 1) * len(self.metrics)


def _compute_hits(
    a: Sequence[pd.DataFrame], b: Sequence[pd.DataFrame], name: str, benchmark: Benchmark
) -> _BenchmarkHits | None:
    """Return the hits on one benchmark; None if no metric was scored by all runs."""
    parts = [rows[rows["benchmark"] == name].reset_index(drop=True) for rows in (*a, *b)]
    hits = np.stack(
        [compute_outcomes(rows, benchmark.metrics).hits.to_numpy(float) for rows in align_runs(parts)]
    )
    return _select_scored(hits, parts[0], name, benchmark)


def _select_scored(
    hits: Floats, rows: pd.DataFrame, name: str, benchmark: Benchmark
) -> _BenchmarkHits | None:
    """Return hits (runs, n, metrics) of the metrics that all runs have scores for; None if there are none."""
    hits[:, np.isnan(hits).any(axis=0)] = np.nan
    scored: Bools = np.asarray(~np.isnan(hits).all(axis=(0, 1)))
    if not scored.any():
        return None
    return _BenchmarkHits(
        name, hits[:, :, scored], rows, list(compress(benchmark.metrics, scored)), benchmark.macro
    )


def _compare_benchmark(
    scored: _BenchmarkHits, runs_of_a: int, *, bootstrap: Bootstrap, flips: int
) -> pd.DataFrame:
    """Return the rows of one benchmark without the columns that are corrected over all rows."""
    return compare_hits(
        scored.hits[:runs_of_a],
        scored.hits[runs_of_a:],
        scored.rows,
        scored.metrics,
        scored.macro,
        bootstrap=bootstrap,
        flips=flips,
    ).assign(benchmark=scored.benchmark, model=scored.model)


def _get_benchmark(name: str, benchmarks: Mapping[str, Benchmark] | None) -> Benchmark:
    return BENCHMARKS[name] if benchmarks is None else benchmarks[name]


def _check_one_model(rows: pd.DataFrame) -> None:
    models = list(dict.fromkeys(rows["model"].astype(str)))
    if len(models) != 1:
        raise DataError(
            f"Each compared run must hold one model; one holds {len(models)}:\n"
            f"{format_items([repr(m) for m in models])}\n"
            f"Select one of them: FOLDER::MODEL."
        )
