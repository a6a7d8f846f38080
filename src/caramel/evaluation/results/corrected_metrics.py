"""Compute metrics on the truly right instances of a benchmark, from verdicts of a judge and answers of people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.summary import assign_clusters, build_subset_masks
from caramel.interfaces.benchmark import Benchmark
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value
from caramel.utils.corrected_scores import (
    UNKNOWN,
    CorrectedScore,
    ErrorCount,
    correct_prediction_powered,
    correct_rogan_gladen,
)
from caramel.utils.stats import share_interval

PLAIN, ROGAN_GLADEN, PREDICTION_POWERED = "plain", "rogan_gladen", "prediction_powered"
CORRECTED_COLUMNS = ("model", "subset", "metric", "method", "value", "ci_low", "ci_high", "n", "known")
VERDICT_COLUMNS = ("instance_id", "verdict", "truth")
_VALUES = {"1": 1.0, "0": 0.0, "": np.nan}


def read_verdicts(path: Path) -> pd.DataFrame:
    """Return the verdicts of a CSV file with ``VERDICT_COLUMNS``; ``verdict`` and ``truth`` are floats.

    1 says that the instance is right, 0 that it is wrong. An empty ``truth`` says that nobody knows.

    Raises:
        DataError: the file is broken, a value is none of these, a verdict is empty, or an instance is a duplicate.
    """
    rows: dict[str, tuple[float, float]] = {}
    for where, row in iter_csv_rows(path, VERDICT_COLUMNS):
        for name in VERDICT_COLUMNS[1:]:
            if row[name].strip() not in _VALUES or (name == "verdict" and not row[name].strip()):
                raise DataError(
                    f"{where}: {name} must be 1 (the instance is right) or 0 (it is wrong)"
                    f"{' or empty' if name == 'truth' else ''}, not {format_value(row[name])}."
                )
        if row["instance_id"] in rows:
            raise DataError(
                f"{where}: instance {format_value(row['instance_id'])} is a duplicate. Keep one row."
            )
        verdict, truth = (_VALUES[row[name].strip()] for name in VERDICT_COLUMNS[1:])
        rows[row["instance_id"]] = (verdict, truth)
    if not rows:
        raise DataError(f"{str(path)!r} holds no verdict.")
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(VERDICT_COLUMNS[1:]))


def compute_corrected_metrics(
    similarities: pd.DataFrame,
    benchmark: Benchmark,
    verdicts: pd.DataFrame,
    *,
    metrics: Sequence[str] = (),
    false_accepts: ErrorCount | None = None,
) -> pd.DataFrame:
    """Return each model's metrics on the truly right instances: ``CORRECTED_COLUMNS``.

    The method ``plain`` is the score over all instances, for comparison; see ``utils.corrected_scores`` for
    ``rogan_gladen`` and ``prediction_powered``. ``n`` counts the scored instances, ``known`` those of them whose
    truth is known. A value is NaN where the data do not determine it; its interval then is [0, 1].

    Args:
        similarities: table ``similarities``; rows of other benchmarks are dropped.
        benchmark: its metrics and subsets.
        verdicts: of ``read_verdicts``, of every scored instance.
        metrics: names; if empty, those of the benchmark.
        false_accepts: of the judge on wrong instances in a test with known answers. None: those of the instances
            that are known to be wrong here. ``rogan_gladen`` then uses only images without an instance whose truth is
            known, because its interval takes the rate as independent of the hits and verdicts.

    Raises:
        DataError: a metric is unknown, nothing was scored, or a scored instance has no verdict.
    """
    runs = compute_run_hits(similarities, benchmark.name, list(metrics) or list(benchmark.metrics))
    if not runs.hits:
        raise DataError(
            f"No model was scored on benchmark {benchmark.name!r}, so there is nothing to correct."
        )
    ids = runs.rows["instance_id"]
    if lacking := sorted(set(ids) - set(verdicts.index)):
        raise DataError(
            f"Scored instances without a verdict: {len(lacking)}\n{format_items([format_value(i) for i in lacking])}\n"
            f"Give a verdict for each of them."
        )
    judged = verdicts.loc[ids]
    verdict, truth = judged["verdict"].to_numpy(float), judged["truth"].to_numpy(float)
    clusters = assign_clusters(runs.rows)
    rate, tested = false_accepts, np.zeros(len(ids), bool)
    if rate is None:
        rate, tested = _count_false_accepts(verdict, truth), np.isin(clusters, clusters[~np.isnan(truth)])
    lines = []
    for model, hits in runs.hits.items():
        for subset, mask in build_subset_masks(runs.rows).items():
            for column, metric in enumerate(runs.metrics):
                chosen = mask & ~np.isnan(hits[:, column])
                if not chosen.any():
                    continue
                codes = np.unique(clusters[chosen], return_inverse=True)[1].astype(np.int64)
                columns = (hits[chosen, column], verdict[chosen], truth[chosen], codes, tested[chosen])
                known = int((~np.isnan(truth[chosen])).sum())
                for method, score in _correct(*columns, rate).items():
                    lines.append((model, subset, metric, method, *score, int(chosen.sum()), known))
    return pd.DataFrame(lines, columns=list(CORRECTED_COLUMNS))


def _count_false_accepts(verdicts: np.ndarray, truths: np.ndarray) -> ErrorCount:
    wrong = truths == 0
    return ErrorCount(int(verdicts[wrong].sum()), int(wrong.sum()))


def _correct(
    hits: np.ndarray,
    verdicts: np.ndarray,
    truths: np.ndarray,
    clusters: np.ndarray,
    tested: np.ndarray,
    false_accepts: ErrorCount,
) -> dict[str, CorrectedScore]:
    """Return the score by each method; ``tested`` instances have images from which the false accepts were counted."""
    plain = share_interval(hits, np.zeros(len(hits), np.int64), clusters, factor=1)
    return {
        PLAIN: CorrectedScore(*plain),
        ROGAN_GLADEN: UNKNOWN
        if tested.all()
        else correct_rogan_gladen(
            hits[~tested],
            verdicts[~tested],
            np.unique(clusters[~tested], return_inverse=True)[1],
            false_accepts,
        ),
        PREDICTION_POWERED: correct_prediction_powered(hits, verdicts, truths, clusters),
    }
