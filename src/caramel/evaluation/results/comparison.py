"""Model against model on the same instances: difference, interval, test, effect size, what could be seen.

The difference of two models is the mean over instances of a's hit - b's hit. Its variance has two parts.
Another sample of images would give another difference: that part comes from the bootstrap over images. So
would another training of the same recipe: where a model has several training seeds, that part is the
variance of the seeds' values over their number. The parts are added, and the degrees of freedom of the sum
are Satterthwaite's (1946). The hits of a seed vary with the images as well, so that some of the first part
is counted twice, and the interval errs on the long side. A model with one seed stands for itself: nothing is
said of its other trainings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, compress

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.arrays import Floats
from caramel.benchmarks.metrics import outcomes
from caramel.errors import DataError, shown
from caramel.evaluation.results.summary import (
    Layout,
    aligned,
    by_subset,
    clusters_of,
    subset_masks,
    variant_of,
)
from caramel.kinds.benchmark import Benchmark
from caramel.registry import BENCHMARKS
from caramel.statistics import (
    LEVEL,
    cluster_counts,
    holm,
    means,
    resampled_means,
    sign_flip_p,
    standard_errors,
)

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
    "p_holm": "p corrected by Holm over all rows of the comparison: all benchmarks, subsets and metrics",
    "significant": "p_holm < 0.05: of all such claims of the comparison any is false with 5 % at most",
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
DIFFERENCE_COLUMNS = ("a", "b", "subset", "metric", "difference", "ci_low", "ci_high", "p", "p_holm")
ALPHA = 1 - LEVEL
POWER = 0.84  # normal quantile of 80 %


def compare(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    benchmarks: Mapping[str, Benchmark] | None = None,
    *,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """Return model a against model b, per benchmark, subset and metric; see ``COMPARISON_COLUMNS``.

    Benchmarks and metrics by which no instance was scored by all runs are left out.

    The p-value is that of the sign-flip test of whole images (``statistics.sign_flip_p``), which is exact
    however few instances the two disagree on. With several seeds of a side it is the greater of this, on hits averaged
    over seeds, and of the t test of the difference by both parts of the variance: a difference must stand out
    from the choice of images *and* from the luck of training.

    The interval is difference ± t quantile * standard error. As the plain one is too short where the models
    disagree on few instances, one more image is taken to count for a and one for b (Bonett & Price 2012), each of
    the mean square weight of the images that differ.

    Args:
        a: table ``similarities`` of each training seed of a; each holds one model.
        b: of b.
        benchmarks: name -> benchmark; None: those of the registry.
        resamples: of the bootstrap.
        seed: of the bootstrap and of the sign flips.

    Raises:
        DataError: a table holds several models, the two sides have no benchmark in common, not the same
            instances of one, or no metric of any.
    """
    found = _found(a, b, benchmarks, resamples=resamples, seed=seed)
    if found is None:
        names = ", ".join(dict.fromkeys(a[0]["benchmark"].astype(str)))
        raise DataError(
            f"No instance was scored by all runs on any metric of benchmark {names}. Score them with models that can do it."
        )
    return found


def _found(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    benchmarks: Mapping[str, Benchmark] | None,
    *,
    resamples: int,
    seed: int,
) -> pd.DataFrame | None:
    """Return what ``compare`` does, None where there is no metric."""
    for rows in (*a, *b):
        _check_one_model(rows)
    lists = [list(dict.fromkeys(rows["benchmark"].astype(str))) for rows in (*a, *b)]
    common = [name for name in lists[0] if all(name in names for names in lists)]
    if not common:
        raise DataError(
            f"The runs have no benchmark in common: {shown([', '.join(names) for names in lists])}\n"
            f"Score all of them on the same benchmark."
        )
    parts = [
        _compared(a, b, name, _benchmark(name, benchmarks), resamples=resamples, seed=seed) for name in common
    ]
    known = [part for part in parts if part is not None]
    if not known:
        return None
    found = pd.concat(known, ignore_index=True)
    found["p_holm"] = holm(found["p"].to_numpy(float))
    found["significant"] = found["p_holm"] < ALPHA
    return found[list(COMPARISON_COLUMNS)]


def compare_variants(
    similarities: pd.DataFrame, benchmark: Benchmark, *, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return every variant, and the base, against every other, on one benchmark: ``DIFFERENCE_COLUMNS``.

    Models named ``<variant>-<seed>`` are training seeds of one variant. ``a`` is the variant that comes later in
    ``similarities``. Pairs of which no instance was scored by all runs on any metric are left out.

    Raises:
        DataError: the models did not score the same instances.
    """
    runs: dict[str, list[pd.DataFrame]] = {}
    for model, rows in similarities.groupby("model", sort=False):
        runs.setdefault(variant_of(str(model)), []).append(rows)
    named = dict.fromkeys(similarities["benchmark"].astype(str).unique(), benchmark)
    parts = []
    for b, a in combinations(runs, 2):
        found = _found(runs[a], runs[b], named, resamples=bootstrap, seed=seed)
        if found is not None:
            parts.append(found.assign(a=a, b=b))
    columns = list(DIFFERENCE_COLUMNS)
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _compared(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    name: str,
    benchmark: Benchmark,
    *,
    resamples: int,
    seed: int,
) -> pd.DataFrame | None:
    """Return the rows of one benchmark, all but what is corrected over the rows; None where there is no metric."""
    parts = [rows[rows["benchmark"] == name].reset_index(drop=True) for rows in (*a, *b)]
    first = parts[0]
    hits = np.stack(
        [outcomes(aligned(rows, first), benchmark.metrics).hits.to_numpy(float) for rows in parts]
    )
    hits[:, np.isnan(hits).any(axis=0)] = np.nan
    scored = ~np.isnan(hits).all(axis=(0, 1))
    metrics = list(compress(benchmark.metrics, scored))
    if not metrics:
        return None
    hits = hits[:, :, scored]
    found = compare_hits(
        hits[: len(a)],
        hits[len(a) :],
        first,
        metrics,
        benchmark.macro,
        resamples=resamples,
        seed=seed,
    )
    return found.assign(benchmark=name)


def compare_hits(
    a: Floats,
    b: Floats,
    rows: pd.DataFrame,
    metrics: Sequence[str],
    macro: Callable[[str], bool],
    *,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """Return a against b, with all columns but ``benchmark`` and those that are corrected over the rows.

    Args:
        a: (seeds of a, n, metrics) hits, in [0, 1]; NaN in all runs where any did not score.
        b: (seeds of b, n, metrics), likewise.
        rows: ``image_id`` and ``subsets`` of each instance.
        metrics: names.
        macro: which subsets the macro mean is over.
        resamples: of the bootstrap.
        seed: of the bootstrap and of the sign flips.
    """
    subsets, clusters = subset_masks(rows), clusters_of(rows)
    layout = Layout(tuple(subsets), tuple(metrics), macro)
    columns = by_subset(a.mean(axis=0) - b.mean(axis=0), subsets)
    point = means(columns)
    difference = layout.with_macro(point[None], point)[0]
    n = layout.of_macro((~np.isnan(columns)).sum(axis=0))
    images = layout.least_of_macro(cluster_counts(columns, clusters))
    totals = layout.with_macro(_shares(columns, clusters), point)
    samples = resampled_means(columns, clusters, resamples=resamples, seed=seed)
    of_images = standard_errors(layout.with_macro(samples, point), images) ** 2 + _of_one_more(totals, n)
    values = [layout.with_macro(_over_instances(side, subsets), point) for side in (a, b)]
    error, quantile, t_test = _combined(difference, of_images, images, values)
    flips = np.where(np.isnan(difference), np.nan, sign_flip_p(totals, seed))
    won, lost = (layout.of_macro(counts) for counts in _discordant(a, b, subsets))
    return pd.DataFrame(
        {
            **layout.labels(),
            "value_a": values[0].mean(axis=0),
            "value_b": values[1].mean(axis=0),
            "difference": difference,
            "ci_low": np.maximum(difference - quantile * error, -1),
            "ci_high": np.minimum(difference + quantile * error, 1),
            "p": flips if t_test is None else np.maximum(flips, t_test),
            "effect": _share(won, won + lost) - 1 / 2,
            "a_only": won,
            "b_only": lost,
            "detectable": (quantile + POWER) * error,
            "n": n,
            "clusters": images,
            "seeds_a": len(a),
            "seeds_b": len(b),
        }
    )


def _shares(columns: Floats, clusters: npt.NDArray[np.int64]) -> Floats:
    """Return what each image adds to the mean of each column; the sum over images is the mean. (k, m)."""
    scored = ~np.isnan(columns)
    totals = np.zeros((int(clusters.max()) + 1, columns.shape[1]))
    np.add.at(totals, clusters, np.where(scored, columns, 0.0))
    shares: Floats = totals / np.maximum(scored.sum(axis=0), 1)
    return shares


def _of_one_more(totals: Floats, n: npt.NDArray[np.int64]) -> Floats:
    """Return the variance that one more image for each model adds, (m,); of the weight of one instance if none differ."""
    differ = (totals != 0).sum(axis=0)
    square = np.where(differ > 0, (totals**2).sum(axis=0) / np.maximum(differ, 1), 1 / np.maximum(n, 1) ** 2)
    result: Floats = 2 * square
    return result


def _over_instances(side: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> Floats:
    """Return each seed's means, (seeds, subsets * metrics)."""
    return np.stack([means(by_subset(hits, subsets)) for hits in side])


def _combined(
    difference: Floats, of_images: Floats, images: npt.NDArray[np.int64], values: Sequence[Floats]
) -> tuple[Floats, Floats, Floats | None]:
    """Return standard error and t quantile of each difference, and the p-value of its t test.

    Args:
        difference: (m,).
        of_images: variance by the choice of images, (m,).
        images: number of images, (m,).
        values: (seeds, m) of each side; the test is None where both have one seed.
    """
    from scipy.stats import t

    parts = [(of_images, images - 1)]
    for side in values:
        if len(side) > 1:
            parts.append((side.var(axis=0, ddof=1) / len(side), np.full(len(difference), len(side) - 1)))
    variance = np.sum([part for part, _ in parts], axis=0)
    free = variance**2 / np.sum([part**2 / np.maximum(df, 1) for part, df in parts], axis=0)
    error: Floats = np.sqrt(variance)
    t_test = 2 * t.sf(np.abs(difference) / error, free) if len(parts) > 1 else None
    return error, t.ppf(1 - ALPHA / 2, free), t_test


def _discordant(a: Floats, b: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> tuple[Floats, Floats]:
    """Return how many instances of each column a alone has right, and b alone; means over pairs of seeds. (m,)."""
    pairs = [(left, right) for left in a for right in b]
    masks = np.stack(list(subsets.values())).astype(float)  # (subsets, n)
    won, lost = (
        np.mean([np.greater(*pair) for pair in each], axis=0) for each in (pairs, [p[::-1] for p in pairs])
    )
    return (masks @ won).reshape(-1), (masks @ lost).reshape(-1)


def _share(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where the whole is zero."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _benchmark(name: str, benchmarks: Mapping[str, Benchmark] | None) -> Benchmark:
    return BENCHMARKS[name] if benchmarks is None else benchmarks[name]


def _check_one_model(rows: pd.DataFrame) -> None:
    models = list(dict.fromkeys(rows["model"].astype(str)))
    if len(models) != 1:
        raise DataError(
            f"Each run compared must hold one model; one holds {len(models)}:\n{shown([repr(m) for m in models])}\n"
            f"Name the one that is meant: FOLDER::MODEL."
        )
