"""Model against model on the same instances, benchmark by benchmark; see ``paired_hits`` for the statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, compress
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import compute_outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.content_match import note_unknown_contents
from caramel.evaluation.results.paired_tests import ALPHA, compare_hits
from caramel.evaluation.results.run_hits import RunHits
from caramel.evaluation.results.summary import align_rows, build_subset_masks
from caramel.interfaces.benchmark import Benchmark
from caramel.registry import BENCHMARKS
from caramel.utils.arrays import Bools, Floats
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import FLIPS, holm_correction

COMPARISON_COLUMNS: Mapping[str, str] = {
    "benchmark": "benchmark",
    "subset": "`all`, `macro`, or a subset of the benchmark",
    "metric": "metric",
    "value_a": "a's value on the instances that both scored, in [0, 1]; the mean over its seeds",
    "value_b": "b's value, likewise",
    "difference": "value_a - value_b",
    "ci_low": "lower end of the 95 % interval of the difference",
    "ci_high": "upper end",
    "p": "two-sided p-value of no difference, not corrected",
    "p_least": "the smallest p that the sign flips of the comparison could give: 1 / (flips + 1)",
    "p_holm": "p corrected by Holm over all rows of the comparison: all benchmarks, subsets and metrics",
    "significant": "p_holm < 0.05: of all such claims of a comparison any is false with 5 % at most",
    "effect": "Cohen's g: a's share of the instances that one of both alone has right, minus 1/2; in [-1/2, 1/2]",
    "a_only": "instances that a has right, or more right, and b not; the mean over pairs of seeds",
    "b_only": "instances that b has right and a not, likewise",
    "detectable": "smallest true difference that would have been significant (uncorrected) in 80 % of samples: "
    "(1.96 + 0.84) standard errors, the t quantile for 1.96",
    "n": "instances that all runs of both scored",
    "clusters": "images of these instances; of `macro`, the fewest among its subsets",
    "seeds_a": "training seeds of a",
    "seeds_b": "training seeds of b",
}
MetricColumn = tuple[str, str]  # subset and metric of a column of a table
DIFFERENCE_COLUMNS = (
    *("benchmark", "a", "b", "subset", "metric"),
    *("difference", "ci_low", "ci_high", "p", "p_least"),
)
FLIPS_PER_TEST = 100  # so that Holm's correction of the smallest p that flips can give leaves 1 %


def compare_models(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    benchmarks: Mapping[str, Benchmark] | None = None,
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Return model a against model b, per benchmark, subset and metric; see ``COMPARISON_COLUMNS``.

    ``.attrs["notes"]`` says where it is not known whether both were asked the same. Benchmarks and metrics by which no instance was scored by all runs are left out.

    The p-value is that of the sign-flip test of whole images (``statistics.sign_flip_p``), which is exact
    however few instances the two disagree on; the more rows are corrected for, the more flips are drawn. With several seeds of a side it is the greater of this, on hits averaged
    over seeds, and of the t test of the difference by both parts of the variance: a difference must stand out
    from the choice of images *and* from the luck of training.

    The interval is difference ± t quantile * standard error. As the plain one is too short where the models
    disagree on few instances, one more image is taken to count for a and one for b (Bonett & Price 2012), each of
    the mean square weight of the images that differ.

    Args:
        a: table ``similarities`` of each training seed of a; each holds one model.
        b: of b.
        benchmarks: name -> benchmark; None: those of the registry.
        bootstrap: of the intervals; its seed is also that of the sign flips.

    Raises:
        DataError: a table holds several models, the two sides have no benchmark in common, not the same
            instances of one, or no metric of any.
    """
    comparison = _compute_comparison(a, b, benchmarks, bootstrap=bootstrap)
    if comparison is None:
        names = ", ".join(dict.fromkeys(a[0]["benchmark"].astype(str)))
        raise DataError(
            f"No instance was scored by all runs on any metric of benchmark {names}. Score them with models that can do it."
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
    """Return what ``compare`` does, None where there is no metric."""
    for rows in (*a, *b):
        _check_one_model(rows)
    lists = [list(dict.fromkeys(rows["benchmark"].astype(str))) for rows in (*a, *b)]
    common = [name for name in lists[0] if all(name in names for names in lists)]
    if not common:
        raise DataError(
            f"The runs have no benchmark in common: {format_items([', '.join(names) for names in lists])}\n"
            f"Score all of them on the same benchmark."
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
    """Return the rows of all that was scored, at least one, with Holm's correction over all of them."""
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
    """Return (model, column) where a model is better than every other one of a table by test: what may be bold.

    The best of a column is tested against every other model, and Holm's correction is over all these tests of the table.
    That keeps any false claim in it to 5 %: a column's is false only if a model beats the truly best one, which is no more
    than one comparison per other model.

    Args:
        values: of each model in each column, (subset, metric); NaN and models that are left out take no part.
        p: of two models in a column, two-sided and not corrected; 1 where they cannot be compared.
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
    """Return every variant, and the base, against every other, on one benchmark: ``DIFFERENCE_COLUMNS``.

    Models named ``<variant>-<seed>`` are training seeds of one variant. ``a`` is the variant that comes later among the
    runs. Pairs of which no instance was scored by all runs on any metric are left out. ``p`` is not corrected:
    who shows some of the rows corrects over these.

    Args:
        runs: by the metrics of the benchmark.
        benchmark: how it is judged.
        bootstrap: as of ``compare_models``.
    """
    hits, parts = runs.group_by_variant(), []
    for b, a in combinations(hits, 2):
        scored = _select_scored(np.concatenate([hits[a], hits[b]]), runs.rows, runs.benchmark, benchmark)
        if scored is not None:
            comparison = _compute_corrected_rows([scored], len(hits[a]), bootstrap=bootstrap)
            parts.append(comparison.assign(a=a, b=b))
    columns = list(DIFFERENCE_COLUMNS)
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def compare_forms(
    one: RunHits, other: RunHits, benchmark: Benchmark, *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return by how much each difference of two variants is larger in one form of a benchmark: ``DIFFERENCE_COLUMNS``.

    That is the interaction of form and variants, (a − b in one) − (a − b in the other), paired on the instances, which both
    forms have; its test is that of any difference of two models (``compare``), on hits of one form minus those of the other, and
    the images are those of the other. ``benchmark`` names both.

    Args:
        one, other: of both forms, by the metrics of the benchmark.
        benchmark: how both are judged.
        bootstrap: as of ``compare_variants``.

    Raises:
        DataError: the forms do not hold the same instances, or models.
    """
    positions = pd.Index(one.rows["instance_id"]).get_indexer(other.rows["instance_id"])
    if len(positions) != len(one.rows) or (positions < 0).any() or one.hits.keys() != other.hits.keys():
        raise DataError(
            f"{one.benchmark} and {other.benchmark} are no forms of one benchmark: they have other instances or models. "
            f"Run `dvc repro -f assemble evaluate`."
        )
    hit_differences = {model: hits[positions] - other.hits[model] for model, hits in one.hits.items()}
    runs = other._replace(benchmark=f"{one.benchmark} − {other.benchmark}", hits=hit_differences)
    return compare_variants(runs, benchmark, bootstrap=bootstrap)


def compare_versions(
    after: pd.DataFrame, before: pd.DataFrame, *, bootstrap: Bootstrap
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return each model's scores against those of the same model in another version, with a column ``model`` first.

    ``a`` is ``after``. What the two did not score on the same instances is left out; the second result says why, by model
    and benchmark. Holm's correction is over all rows: all
    models, benchmarks, subsets and metrics.

    Args:
        after, before: tables ``similarities``, of any models each.
        bootstrap: as of ``compare``.
    """
    scored: list[_BenchmarkHits] = []
    unpaired: dict[str, str] = {}
    for (model, benchmark), rows in after.groupby(["model", "benchmark"], sort=False):
        others = before[(before["model"] == model) & (before["benchmark"] == benchmark)]
        if not len(others):
            continue
        try:
            benchmark_hits = _compute_hits([rows], [others], str(benchmark), BENCHMARKS[str(benchmark)])
        except DataError as error:  # other instances
            unpaired[f"{model} on {benchmark}"] = str(error).splitlines()[0]
            continue
        scored += [benchmark_hits._replace(model=str(model))] if benchmark_hits else []
    columns = ["model", *COMPARISON_COLUMNS]
    if not scored:
        return pd.DataFrame(columns=columns), unpaired
    return _compute_corrected_rows(scored, 1, bootstrap=bootstrap)[columns], unpaired


class _BenchmarkHits(NamedTuple):
    """What all runs of both sides scored of one benchmark."""

    benchmark: str
    hits: Floats  # (runs, n, metrics), those of a first; NaN where any run did not score
    rows: pd.DataFrame  # of the instances
    metrics: Sequence[str]
    macro: Callable[[str], bool]
    model: str | None = None  # of which it is, where several are compared

    @property
    def tests(self) -> int:
        """The most rows that a comparison has of it."""
        return (len(build_subset_masks(self.rows)) + 1) * len(self.metrics)


def _compute_hits(
    a: Sequence[pd.DataFrame], b: Sequence[pd.DataFrame], name: str, benchmark: Benchmark
) -> _BenchmarkHits | None:
    """Return the hits of one benchmark; None where there is no metric."""
    parts = [rows[rows["benchmark"] == name].reset_index(drop=True) for rows in (*a, *b)]
    first = parts[0]
    hits = np.stack(
        [compute_outcomes(align_rows(rows, first), benchmark.metrics).hits.to_numpy(float) for rows in parts]
    )
    return _select_scored(hits, first, name, benchmark)


def _select_scored(
    hits: Floats, rows: pd.DataFrame, name: str, benchmark: Benchmark
) -> _BenchmarkHits | None:
    """Return hits (runs, n, metrics) by the metrics of which there are any in all runs; None where there is none."""
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
    """Return the rows of one benchmark, all but what is corrected over the rows."""
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
            f"Each run compared must hold one model; one holds {len(models)}:\n{format_items([repr(m) for m in models])}\n"
            f"Name the one that is meant: FOLDER::MODEL."
        )
