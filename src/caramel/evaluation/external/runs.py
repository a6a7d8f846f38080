"""Read per-instance results from files of caramel or of other programs, and compute their metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH
from caramel.benchmarks.metrics import Outcomes, compute_outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.external import answers as released_answers
from caramel.evaluation.external.rows import InstanceResults, read_others, select_benchmark
from caramel.evaluation.results.content_match import check_contents, note_unknown_contents
from caramel.evaluation.results.summary import compute_metrics
from caramel.interfaces.benchmark import Benchmark
from caramel.io.readers import open_parquet
from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, read_table
from caramel.utils.resampling import Bootstrap

SIMILARITIES_FILE, ANSWERS_FILE = "similarities.parquet", "answers.parquet"
DESCRIBED = ["model", "instance_id", "image_id", "subsets", TEXTS_HASH, IMAGES_HASH]


def compute_file_metrics(
    paths: Sequence[str | Path],
    benchmark: Benchmark,
    *,
    bootstrap: Bootstrap,
    select: Callable[[pd.DataFrame], pd.Series[bool]] | None = None,
) -> pd.DataFrame:
    """Return table ``metrics`` of all models in the files; ``.attrs["notes"]`` lists what the files lack.

    Args:
        paths: ``similarities.parquet``, ``answers.parquet``, the folder of both, or files of other programs
            (``external.rows``). The instances of a model may be spread over several files.
        benchmark: the benchmark of the files.
        bootstrap: settings of the intervals.
        select: returns whether each result counts, given their models, instances and hashes; None: all do.

    Raises:
        DataError: a file is missing, broken or of another benchmark, an instance is a duplicate, or instances with
            the same id have different texts or images in several of caramel's files.
    """
    from caramel.evaluation.results.answers import summarise_answers

    answer_tables: list[pd.DataFrame] = []
    ours: list[pd.DataFrame] = []  # instances of caramel's files
    scored: list[InstanceResults] = []
    chosen: list[pd.DataFrame] = []  # answers of other programs, one file per order of the options
    for file in (file for path in paths for file in list_result_files(Path(path))):
        if _is_ours(file, ANSWERS, ANSWERS_FILE):
            answer_tables.append(_read_benchmark(ANSWERS, file, benchmark))
            ours.append(answer_tables[-1])
        elif (result := read_scores(file, benchmark)).answers is not None:
            chosen.append(result.answers)
        else:
            scored.append(result)
            if TEXTS_HASH in result.rows:
                ours.append(result.rows.assign(benchmark=benchmark.name))
    check_contents(ours)
    notes = [note for result in scored for note in result.notes]
    if chosen:
        answers, lacking = released_answers.join_answers(chosen, benchmark.name)
        answer_tables.append(answers)
        notes += lacking
    answer_tables = _join_answer_tables(answer_tables)
    described = [result.rows.assign(benchmark=benchmark.name) for result in scored]
    notes += note_unknown_contents([*described, *answer_tables])
    if select is not None:
        answer_tables = [rows[select(rows)].reset_index(drop=True) for rows in answer_tables]
        scored = [_select_results(result, select(result.rows)) for result in scored]
        if not any(len(rows) for rows in (*answer_tables, *(result.rows for result in scored))):
            raise DataError("No result is left, so there is nothing to compute. Give more results.")
    parts = [
        summarise_answers(rows, {benchmark.name: benchmark}, bootstrap=bootstrap) for rows in answer_tables
    ]
    parts += compute_model_metrics(scored, benchmark, bootstrap=bootstrap)
    metrics = build_frame(METRICS, pd.concat(parts, ignore_index=True))
    metrics.attrs["notes"] = notes
    return metrics


def _select_results(results: InstanceResults, counts: pd.Series[bool]) -> InstanceResults:
    """Return the results that count."""
    outcomes = Outcomes(results.outcomes.hits[counts], results.outcomes.ties[counts])
    return InstanceResults(results.rows[counts], outcomes, results.notes)


def compute_model_metrics(
    scored: Sequence[InstanceResults], benchmark: Benchmark, *, bootstrap: Bootstrap
) -> list[pd.DataFrame]:
    """Return the metrics of each model; the instances of a model may be spread over several results.

    Raises:
        DataError: an instance of a model is a duplicate.
    """
    by_model: dict[str, list[InstanceResults]] = {}
    for result in scored:
        for model, row_index in result.rows.groupby("model", sort=False).groups.items():
            model_outcomes = Outcomes(
                result.outcomes.hits.loc[row_index], result.outcomes.ties.loc[row_index]
            )
            by_model.setdefault(str(model), []).append(
                InstanceResults(result.rows.loc[row_index], model_outcomes, ())
            )
    parts = []
    for model, of_model in by_model.items():
        rows, outcome = _join_results(of_model, model)
        judged = compute_metrics(rows, outcome, benchmark.macro, bootstrap, mean_members=benchmark.means)
        parts.append(judged.assign(model=model, benchmark=benchmark.name))
    return parts


def read_scores(path: str | Path, benchmark: Benchmark) -> InstanceResults:
    """Read the instances of a file, from caramel or another program, with their outcomes.

    Raises:
        DataError: the file is missing, broken, or of another benchmark.
    """
    path = Path(path)
    if not _is_ours(path, SIMILARITIES, SIMILARITIES_FILE):
        return read_others(path, benchmark)
    rows = _read_benchmark(SIMILARITIES, path, benchmark)
    return InstanceResults(rows[DESCRIBED], compute_outcomes(rows, benchmark.metrics), ())


def read_runs(texts: Sequence[str]) -> list[pd.DataFrame]:
    """Read table ``similarities`` of each PATH or PATH::MODEL, a folder written by caramel or its file.

    Raises:
        DataError: the file does not exist, lacks the model, or a run is given twice.
    """
    runs: list[pd.DataFrame] = []
    known_runs: set[tuple[Path, str]] = set()
    for text in texts:
        path_text, _, model = text.partition("::")
        path = Path(path_text)
        if path.is_dir() and not (path / SIMILARITIES_FILE).is_file():
            raise DataError(
                f"{path_text!r} holds no {SIMILARITIES_FILE}. Give a folder that `caramel eval --out` wrote. "
                f"Models that answer in words have no scores to compare."
            )
        file = run_file(text)
        if not _is_ours(file, SIMILARITIES, ""):
            what = "is not a file of per-instance scores" if path.exists() else "does not exist"
            raise DataError(
                f"{path_text!r} {what}. Give a folder that `caramel eval --out` wrote, or its {SIMILARITIES_FILE}. "
                f"A file of an earlier version has other columns: write it again with the same command."
            )
        rows = read_table(SIMILARITIES, file)
        models = list(dict.fromkeys(rows["model"]))
        if model and model not in models:
            raise DataError(
                f"{path_text!r} has no model {model!r}. It has:\n{format_items([repr(m) for m in models])}"
            )
        if (run := (file.resolve(), model or " ".join(models))) in known_runs:
            raise DataError(
                f"{text!r} is given twice. Give each run once. The seeds of a model are different runs."
            )
        known_runs.add(run)
        runs.append(rows[rows["model"] == model].reset_index(drop=True) if model else rows)
    return runs


def run_file(text: str) -> Path:
    """Return the path of the similarities file for PATH or PATH::MODEL, whether or not it exists."""
    path = Path(text.partition("::")[0])
    return path / SIMILARITIES_FILE if path.is_dir() else path


def list_result_files(path: Path) -> list[Path]:
    """Return the file itself, or the result files of a folder written by caramel.

    Raises:
        DataError: the folder holds no result file.
    """
    if not path.is_dir():
        return [path]
    files = [path / name for name in (SIMILARITIES_FILE, ANSWERS_FILE) if (path / name).is_file()]
    if not files:
        raise DataError(
            f"{str(path)!r} holds neither {SIMILARITIES_FILE} nor {ANSWERS_FILE}. "
            f"Give a file, or a folder with one of them."
        )
    return files


def _is_ours(path: Path, table: Table, name: str) -> bool:
    """Return whether the path is a Parquet file with this name or with the table's columns."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    if path.name == name:
        return True
    with open_parquet(path) as file:
        return table.map_stored_names(file.schema_arrow.names) is not None


def _read_benchmark(table: Table, path: Path, benchmark: Benchmark) -> pd.DataFrame:
    """Return the rows of the benchmark in one of caramel's tables."""
    return select_benchmark(read_table(table, path), benchmark.name, repr(str(path))).reset_index(drop=True)


def _join_answer_tables(tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return all answers as one table, so that a model's may be spread over several; none if there are no tables."""
    if not tables:
        return []
    answers = pd.concat(tables, ignore_index=True)
    twice = answers[answers.duplicated(list(ANSWERS.key))]
    if len(twice):
        model, name = twice[["model", "instance_id"]].iloc[0]
        raise DataError(
            f"Answers are given twice ({len(twice)}), such as that of model {model!r} to instance {name!r}. "
            f"Give each file once."
        )
    return [answers]


def _join_results(scored: Sequence[InstanceResults], model: str) -> tuple[pd.DataFrame, Outcomes]:
    """Return rows and outcomes of one model from several files; a metric that a file lacks is unscored for its rows."""
    rows = pd.concat([result.rows for result in scored], ignore_index=True)
    hits = pd.concat([result.outcomes.hits for result in scored], ignore_index=True)
    ties = pd.concat([result.outcomes.ties for result in scored], ignore_index=True)
    twice = rows["instance_id"][rows["instance_id"].duplicated()]
    if len(twice):
        raise DataError(
            f"Duplicate instances ({len(twice)}) of model {model!r}:\n{format_items([repr(name) for name in twice])}\n"
            f"Give each file once. Files of different models need a column `model`, or different names."
        )
    return rows, Outcomes(hits, ties.eq(True))
