"""Per-instance results, ours or others': which instance was scored how, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH
from caramel.benchmarks.metrics import Outcomes, outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.external import answers as released_answers
from caramel.evaluation.external.rows import Scored, read_others
from caramel.evaluation.results.content_match import check_contents, note_unknown_contents
from caramel.evaluation.results.summary import judge
from caramel.interfaces.benchmark import Benchmark
from caramel.io.readers import parquet
from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import ANSWERS as ANSWERS_TABLE
from caramel.schemas.evaluation import METRICS
from caramel.schemas.evaluation import SIMILARITIES as SIMILARITIES_TABLE
from caramel.schemas.io import build_frame, read_table

SIMILARITIES, ANSWERS = "similarities.parquet", "answers.parquet"
DESCRIBED = ["model", "instance_id", "image_id", "subsets", TEXTS_HASH, IMAGES_HASH]


def metrics_of(
    paths: Sequence[str | Path], benchmark: Benchmark, *, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return table ``metrics`` of all models in the files; ``.attrs["notes"]`` lists what the files lack.

    Args:
        paths: ``similarities.parquet``, ``answers.parquet``, the folder of both, or others' files (``other_files``);
            the instances of a model may be spread over several.
        benchmark: that they are of.
        bootstrap: number of resamples.
        seed: of the bootstrap.

    Raises:
        DataError: a file is missing, broken or of another benchmark, an instance stands twice, or instances of one name
            have other texts or images in several of our files.
    """
    from caramel.evaluation.results.answers import summarise_answers

    said: list[pd.DataFrame] = []
    ours: list[pd.DataFrame] = []  # what our files say of their instances
    scored: list[Scored] = []
    chosen: list[pd.DataFrame] = []  # others' answers: a file per order of the options
    for file in (file for path in paths for file in files_of(Path(path))):
        if _is_ours(file, ANSWERS_TABLE, ANSWERS):
            said.append(_of(read_table(ANSWERS_TABLE, file), benchmark, file))
            ours.append(said[-1])
        elif (found := read_scores(file, benchmark)).answers is not None:
            chosen.append(found.answers)
        else:
            scored.append(found)
            if TEXTS_HASH in found.rows:
                ours.append(found.rows.assign(benchmark=benchmark.name))
    check_contents(ours)
    notes = [note for found in scored for note in found.notes]
    if chosen:
        answers, lacking = released_answers.joined(chosen, benchmark.name)
        said.append(answers)
        notes += lacking
    described = [found.rows.assign(benchmark=benchmark.name) for found in scored]
    notes += note_unknown_contents([*described, *said])
    parts = [
        summarise_answers(rows, {benchmark.name: benchmark}, bootstrap=bootstrap, seed=seed) for rows in said
    ]
    parts += judged_models(scored, benchmark, bootstrap=bootstrap, seed=seed)
    metrics = build_frame(METRICS, pd.concat(parts, ignore_index=True))
    metrics.attrs["notes"] = notes
    return metrics


def judged_models(
    scored: Sequence[Scored], benchmark: Benchmark, *, bootstrap: int, seed: int
) -> list[pd.DataFrame]:
    """Return the metrics of each model; the instances of one may be spread over several of what was read.

    Raises:
        DataError: an instance of a model stands twice.
    """
    by_model: dict[str, list[Scored]] = {}
    for found in scored:
        for model, places in found.rows.groupby("model", sort=False).groups.items():
            mine = Outcomes(found.outcomes.hits.loc[places], found.outcomes.ties.loc[places])
            by_model.setdefault(str(model), []).append(Scored(found.rows.loc[places], mine, ()))
    parts = []
    for model, of_model in by_model.items():
        rows, outcome = _joined(of_model, model)
        judged = judge(rows, outcome, benchmark.macro, bootstrap, seed, mean_members=benchmark.means)
        parts.append(judged.assign(model=model, benchmark=benchmark.name))
    return parts


def read_scores(path: str | Path, benchmark: Benchmark) -> Scored:
    """Return the instances of a file, ours or others', and what it says of them.

    Raises:
        DataError: it is missing, broken, or of another benchmark.
    """
    path = Path(path)
    if not _is_ours(path, SIMILARITIES_TABLE, SIMILARITIES):
        return read_others(path, benchmark.metrics)
    rows = _of(read_table(SIMILARITIES_TABLE, path), benchmark, path)
    return Scored(rows[DESCRIBED], outcomes(rows, benchmark.metrics), ())


def read_runs(texts: Sequence[str]) -> list[pd.DataFrame]:
    """Return table ``similarities`` of each PATH or PATH::MODEL, a folder of ours or its file.

    Raises:
        DataError: there is no such file, or no such model in it.
    """
    runs: list[pd.DataFrame] = []
    seen: set[tuple[Path, str]] = set()
    for text in texts:
        place, _, model = text.partition("::")
        path = Path(place)
        if path.is_dir() and not (path / SIMILARITIES).is_file():
            raise DataError(
                f"{place!r} holds no {SIMILARITIES}. Give the folder that `caramel eval --out` wrote; models that "
                f"answer in words have no scores to compare."
            )
        file = run_file(text)
        if not _is_ours(file, SIMILARITIES_TABLE, ""):
            what = "is no file of per-instance scores" if path.exists() else "is not there"
            raise DataError(
                f"{place!r} {what}. Give a folder that `caramel eval --out` wrote, or its {SIMILARITIES}. One of an earlier "
                f"version has other columns: write it again by the same call."
            )
        rows = read_table(SIMILARITIES_TABLE, file)
        models = list(dict.fromkeys(rows["model"]))
        if model and model not in models:
            raise DataError(
                f"{place!r} has no model {model!r}. It has:\n{format_items([repr(m) for m in models])}"
            )
        if (run := (file.resolve(), model or " ".join(models))) in seen:
            raise DataError(
                f"{text!r} stands twice. Give each run once; the seeds of a model are different ones."
            )
        seen.add(run)
        runs.append(rows[rows["model"] == model].reset_index(drop=True) if model else rows)
    return runs


def run_file(text: str) -> Path:
    """Return the file of similarities that PATH or PATH::MODEL stands for, whether it is there or not."""
    path = Path(text.partition("::")[0])
    return path / SIMILARITIES if path.is_dir() else path


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or those of our folder.

    Raises:
        DataError: the folder holds none of ours.
    """
    if not path.is_dir():
        return [path]
    files = [path / name for name in (SIMILARITIES, ANSWERS) if (path / name).is_file()]
    if not files:
        raise DataError(
            f"{str(path)!r} holds neither {SIMILARITIES} nor {ANSWERS}. Give a file, or such a folder."
        )
    return files


def _is_ours(path: Path, table: Table, name: str) -> bool:
    """Return whether it is a Parquet file of our name, or with the table's columns."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    if path.name == name:
        return True
    with parquet(path) as file:
        return bool(file.schema_arrow.names == list(table.columns))


def _of(rows: pd.DataFrame, benchmark: Benchmark, path: Path) -> pd.DataFrame:
    """Return the rows of the benchmark."""
    found = rows[rows["benchmark"] == benchmark.name].reset_index(drop=True)
    if found.empty:
        names = list(dict.fromkeys(rows["benchmark"]))
        raise DataError(f"{str(path)!r} has no instance of benchmark {benchmark.name!r}; it is of {names}.")
    return found


def _joined(scored: Sequence[Scored], model: str) -> tuple[pd.DataFrame, Outcomes]:
    """Return rows and outcomes of one model from several files; a metric that a file lacks is unscored there."""
    rows = pd.concat([found.rows for found in scored], ignore_index=True)
    hits = pd.concat([found.outcomes.hits for found in scored], ignore_index=True)
    ties = pd.concat([found.outcomes.ties for found in scored], ignore_index=True)
    twice = rows["instance_id"][rows["instance_id"].duplicated()]
    if len(twice):
        raise DataError(
            f"{len(twice)} instances of model {model!r} stand twice:\n{format_items([repr(name) for name in twice])}\n"
            f"Give each file once; files of different models need a column `model`, or different names."
        )
    return rows, Outcomes(hits, ties.eq(True))
