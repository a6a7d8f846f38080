"""Command ``correct-score``: estimate scores on the instances that are truly right."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError, DataError
from caramel.io.files import forbid_overwriting_inputs, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from caramel.utils.corrected_scores import ErrorCount


@click.command("correct-score")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark of the scores.")
@click.option(
    "--verdicts",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV file with instance_id, verdict (of a judge: 1 right, 0 wrong) and truth (1, 0, or empty: unknown).",
)
@click.option(
    "--false-accepts",
    metavar="K/N",
    help="The judge accepted K of N wrong instances in a test with known answers.  [default: counted where the truth "
    "is known, and applied to the other images]",
)
@click.option(
    "--metric", "metrics", multiple=True, help="Metric, repeatable.  [default: the benchmark's own]"
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="CSV file to write the figures to."
)
def correct_scores(
    runs: tuple[Path, ...],
    benchmark: str,
    verdicts: Path,
    false_accepts: str | None,
    metrics: tuple[str, ...],
    out: Path | None,
) -> None:
    """Estimate scores on the instances that are truly right.

    RUNS are folders of `caramel eval`. A data set has instances that are wrong: a negative that is true, a caption that
    is not. Their share of a score is removed, from a judge's verdicts on all instances and people's answers on a random
    sample (prediction-powered inference), or from the judge's known rate of false accepts (Rogan–Gladen, which assumes
    that the judge does not err as the model does). Intervals are of 95 % and clustered on the image.

    \b
    Example:
      caramel correct-score results/vit-b-32 --benchmark sugarcrepe --verdicts verdicts.csv --out corrected.csv
    """
    from caramel.evaluation.external import run_files
    from caramel.evaluation.results.corrected_metrics import compute_corrected_metrics, read_verdicts
    from caramel.registry import BENCHMARKS

    rate = None if false_accepts is None else parse_false_accepts(false_accepts)
    if out is not None:
        forbid_overwriting_inputs([out], [verdicts, *(run / "similarities.parquet" for run in runs)])
    rows = compute_corrected_metrics(
        run_files.read_similarities(runs),
        BENCHMARKS[benchmark],
        read_verdicts(verdicts),
        metrics=metrics,
        false_accepts=rate,
    )
    check_determined(rows, verdicts)
    if out is not None:
        write_csv(out, rows)
    echo(format_corrected(rows))


def parse_false_accepts(text: str) -> ErrorCount:
    """Return the counts of ``K/N``.

    Raises:
        ConfigError: it is not two whole numbers with 0 <= K <= N and N >= 1.
    """
    from caramel.utils.corrected_scores import ErrorCount

    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or not 0 < int(match[2]) >= int(match[1]):
        raise ConfigError(f"--false-accepts {text!r} is not K/N with K of N wrong instances, as in 3/40.")
    return ErrorCount(int(match[1]), int(match[2]))


def check_determined(rows: pd.DataFrame, verdicts: Path) -> None:
    """Raise a DataError if no score was corrected by any method."""
    from caramel.evaluation.results.corrected_metrics import PLAIN

    if not rows.loc[rows["method"] != PLAIN, "value"].isna().all():
        return
    raise DataError(
        f"{str(verdicts)!r} does not determine any corrected score: truth is known of {rows['known'].max()} scored "
        f"instances.\nFill column truth for a random sample of the instances, right ones among them, or give "
        f"--false-accepts K/N, with K/N less than the share of the instances that the judge accepts."
    )


def format_corrected(rows: pd.DataFrame) -> str:
    """Return the figures of ``corrected_metrics.compute_corrected_metrics`` as a table, in per cent."""
    from caramel.report.terminal import align_columns

    methods = list(dict.fromkeys(rows["method"]))
    lines = [["model", "subset", "metric", *methods, "n", "known"]]
    for labels, part in rows.groupby(["model", "subset", "metric"], sort=False):
        cells = [
            "–" if math.isnan(value) else f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for value, low, high in zip(part["value"], part["ci_low"], part["ci_high"], strict=True)
        ]
        lines.append([*map(str, labels), *cells, *(str(part[name].iloc[0]) for name in ("n", "known"))])
    return align_columns(lines)
