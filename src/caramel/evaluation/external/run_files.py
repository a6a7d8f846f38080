"""Write and read the files of an evaluation in a folder: similarities, answers and metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH
from caramel.errors import DataError
from caramel.evaluation.external.runs import ANSWERS_FILE, SIMILARITIES_FILE, read_runs, run_file
from caramel.evaluation.results.content_match import check_contents, note_unknown_contents
from caramel.io.files import forbid_overwriting_inputs, write_csv, write_text
from caramel.io.output_paths import remove_file
from caramel.plugins import Plugin, describe_plugins
from caramel.registry import BENCHMARKS
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.rejects import REJECTS

METRICS_FILES = ("metrics.parquet", "metrics.csv")
PLUGINS_FILE = "plugins.json"
RUN_TABLES = {
    "similarities.parquet": SIMILARITIES,
    "answers.parquet": ANSWERS,
    "left_out.parquet": REJECTS,
}


def prepare_folder(out: Path, sources: Sequence[tuple[str, str]]) -> None:
    """Create the output folder before any work, in case nothing can be written there.

    Args:
        out: the folder.
        sources: name and folder of each benchmark that is read.

    Raises:
        ConfigError: an output file would overwrite an input or lie in a folder that is read.
    """
    written = [out / name for name in (*RUN_TABLES, *METRICS_FILES, PLUGINS_FILE)]
    forbid_overwriting_inputs(written, [Path(folder) for _, folder in sources])
    forbid_overwriting_inputs(
        [out], [Path(folder) for name, folder in sources if BENCHMARKS[name].any_folder]
    )
    out.mkdir(parents=True, exist_ok=True)


def write_run(
    out: Path,
    similarities: pd.DataFrame,
    answers: pd.DataFrame,
    metrics: pd.DataFrame,
    rejects: pd.DataFrame,
    plugins: Sequence[Plugin] = (),
) -> None:
    """Write the tables of an evaluation, and name the plugins that it used, with version and hash of their code.

    For a table without rows, and without plugins, the file of an earlier run is removed.
    """
    for (name, table), rows in zip(RUN_TABLES.items(), (similarities, answers, rejects), strict=True):
        path = out / name
        remove_file(path)
        if len(rows):
            write_table(table, rows, path)
    remove_file(out / PLUGINS_FILE)
    if plugins:
        write_text(out / PLUGINS_FILE, json.dumps(describe_plugins(plugins), indent=2) + "\n")
    write_metrics(metrics, out)


def write_metrics(metrics: pd.DataFrame, out: Path) -> None:
    """Write table ``metrics`` as Parquet and CSV."""
    write_table(METRICS, metrics, out / METRICS_FILES[0])
    write_csv(out / METRICS_FILES[1], metrics)


def read_similarities(runs: Sequence[Path]) -> pd.DataFrame:
    """Read the similarities of all runs; runs with only answers or only metrics are skipped.

    Raises:
        DataError: a file is missing or broken, or several runs hold the same model on the same benchmark.
    """
    named = [
        str(run)
        for run in runs
        if (run / SIMILARITIES_FILE).exists()
        or not any((run / name).exists() for name in (ANSWERS_FILE, METRICS_FILES[0]))
    ]
    if not named:
        return build_frame(SIMILARITIES, [])
    rows = pd.concat(read_runs(named), ignore_index=True)
    twice = rows[rows.duplicated(["model", "benchmark", "instance_id"])]
    if len(twice):
        raise DataError(
            f"Several runs hold model {twice['model'].iloc[0]!r} on {twice['benchmark'].iloc[0]!r}. Give each model "
            f"once. Different models need different names: `caramel eval --model NAME=SPEC`."
        )
    return rows


def read_unscored_metrics(runs: Sequence[Path]) -> pd.DataFrame | None:
    """Read the metrics of models without scores; return None if there are none.

    These are models that answer in words, and external results that `caramel metrics` converted.
    """
    parts = []
    for run in runs:
        in_words, scores = (run / ANSWERS_FILE).exists(), (run / SIMILARITIES_FILE).exists()
        if in_words or (not scores and (run / METRICS_FILES[0]).exists()):
            rows = read_table(METRICS, run / METRICS_FILES[0])
            parts.append(rows[rows["metric"].str.startswith("choice_")] if scores else rows)
    return pd.concat(parts, ignore_index=True) if parts else None


def check_releases(runs: Sequence[Path], benchmark: str) -> list[str]:
    """Check that instances with the same id have the same content in all runs; return notes on unknown contents.

    The check covers runs with scores and runs with answers.

    Args:
        runs: folders or files.
        benchmark: the benchmark that the notes are about.

    Raises:
        DataError: a file is broken, or the runs use different releases; see ``check_contents``.
    """
    columns = ["model", "benchmark", "instance_id", TEXTS_HASH, IMAGES_HASH]
    parts, without_instances = [], []
    for run in runs:
        files = {SIMILARITIES_FILE: run_file(str(run)), ANSWERS_FILE: run / ANSWERS_FILE}
        of_run = [
            read_table(RUN_TABLES[name], path, columns) for name, path in files.items() if path.is_file()
        ]
        parts += of_run
        if not of_run:
            without_instances.append(str(run))
    check_contents(parts)
    notes = note_unknown_contents([part[part["benchmark"] == benchmark] for part in parts])
    if without_instances and len(runs) > 1:
        notes.append(
            f"Runs with metrics but without their instances: {', '.join(without_instances)}. It is unknown whether "
            f"they use the same release of the benchmark as the other runs."
        )
    return notes
