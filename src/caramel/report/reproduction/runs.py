"""Score the models of published tables one after the other, and compute what the authors' result files give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from caramel.benchmarks.image_files import check_images
from caramel.errors import BackendError, CaramelError, DataError, ModelMemoryError, TrialError
from caramel.evaluation.benchmark_source import (
    BenchmarkSource,
    Missing,
    check_instances,
    locate_benchmark,
    read_task,
    select_scorable,
)
from caramel.evaluation.evaluate import Evaluation
from caramel.evaluation.external import run_files
from caramel.evaluation.external.runs import compute_file_metrics
from caramel.io.files import write_text
from caramel.io.output_paths import remove_file
from caramel.models.specs import get_family, hash_content, mark_local_path, missing_of, parse_spec
from caramel.registry import BENCHMARKS
from caramel.report.reproduction.roster import PublishedTable, RosterModel, build_slug, read_papers
from caramel.runtime.last_result import stamp_files
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.utils.resampling import Bootstrap

RUNS, RELEASED = "runs", "released"  # folders of results: measured here, and from the authors' files
MODEL_FILE = "model.json"  # beside the tables of a run: the spec that was scored and the hash of its weights
# Errors that are of a model or a benchmark, RuntimeError being torch's. All others end the call.
OF_A_MODEL = (BackendError, DataError, ModelMemoryError, TrialError, RuntimeError)
MOST_LINES = 4  # of the reason why a benchmark cannot be scored: it may list a thousand images
NO_DATA = "no folder of benchmarks was given (--data)"
Scorer = Callable[[Sequence[str], Sequence[BenchmarkSource]], Evaluation]


@dataclass(frozen=True)
class Inputs:
    """Where the inputs of a reproduction are.

    Attributes:
        data: folder that holds one folder per benchmark; None: no benchmark is scored.
        images: folder of the images; None: as in ``locate_benchmark``.
        models: the models of the rosters, from ``resolve_models``.
        released: folder of the authors' result files; None: none are read.
        missing: what a missing image means.
    """

    data: Path | None
    images: Path | None
    models: Mapping[str, RosterModel]
    released: Path | None
    missing: Missing

    def locate(self, benchmark: str) -> BenchmarkSource | None:
        """Return where a benchmark's files are; None without ``data``."""
        if self.data is None:
            return None
        return locate_benchmark(benchmark, self.data, self.images, self.missing)


@dataclass(frozen=True)
class Trial:
    """A model of the rosters on a benchmark."""

    model: str
    spec: str
    benchmark: str

    @property
    def slug(self) -> str:
        """Return the model's name in specs and paths."""
        return build_slug(self.model)

    def locate_results(self, out: Path, origin: str) -> Path:
        """Return the folder of its results."""
        return out / origin / self.slug / self.benchmark


@dataclass(frozen=True)
class ScoredModel:
    """The model behind the results in a folder.

    Attributes:
        spec: what was scored.
        weights: its ``hash_content``.
    """

    spec: str
    weights: str

    @classmethod
    def read(cls, folder: Path) -> ScoredModel | None:
        """Return the model of a folder's results; None if the folder does not say it.

        Raises:
            DataError: the file is broken.
        """
        path = folder / MODEL_FILE
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path} is broken: {error}. Remove it and run the same command again."
            ) from error

    def is_model_of(self, spec: str) -> bool:
        """Return whether a spec names this model; weights that are not on this machine are taken to be the same."""
        return spec == self.spec and _hash_weights(spec) in (self.weights, parse_spec(spec).target)


def _hash_weights(spec: str) -> str:
    """Return ``hash_content`` of a spec; files are read again only if they were written since."""
    local = mark_local_path(spec)
    return _hash_content_once(spec, stamp_files(local.path) if isinstance(local, LocalFile) else "")


@cache
def _hash_content_once(spec: str, stamp: str) -> str:
    """Return ``hash_content`` of a spec; ``stamp`` changes with its files."""
    return hash_content(spec)


def list_trials(tables: Sequence[PublishedTable], models: Mapping[str, RosterModel]) -> list[Trial]:
    """Return each model with each benchmark that some table needs; those behind a mean are included."""
    trials: dict[tuple[str, str], Trial] = {}
    for table in tables:
        for name in table.models:
            for member in models[name].mean_of or (name,):
                for benchmark in table.list_benchmarks(name) if models[member].spec else ():
                    trial = Trial(member, models[member].spec, benchmark)
                    trials.setdefault((member, benchmark), trial)
    return sorted(trials.values(), key=lambda trial: list(models).index(trial.model))


def list_missing(tables: Sequence[PublishedTable], inputs: Inputs) -> list[str]:
    """Return what is missing for the tables and where it is published, an entry for each model, benchmark and file.

    No model is loaded. Images are decoded, if a model that needs them is in a table.
    """
    models, trials = inputs.models, list_trials(tables, inputs.models)
    entries = []
    for model in dict.fromkeys(name for table in tables for name in table.models):
        if models[model].unavailable:
            entries.append(f"model {model}: cannot be scored: {models[model].unavailable}")
    for trial in {trial.model: trial for trial in trials}.values():
        if reason := _find_model_problem(trial):
            entries.append(
                f"model {trial.model} ({trial.spec}): {reason}\n  published: {models[trial.model].source}"
            )
    for benchmark in dict.fromkeys(trial.benchmark for trial in trials):
        with_images = any(
            get_family(trial.spec).looks_at_images for trial in trials if trial.benchmark == benchmark
        )
        if reason := _find_benchmark_problem(benchmark, inputs, with_images):
            entries.append(
                f"benchmark {benchmark}: {reason}\n  published: {_find_publication(tables, benchmark)}; "
                f"`caramel benchmarks {benchmark}` says where its files and images belong"
            )
    return entries + _list_missing_files(tables, inputs)


def score_trials(
    trials: Sequence[Trial], inputs: Inputs, out: Path, score: Scorer, report: Callable[[str], None]
) -> dict[tuple[str, str], str]:
    """Score the trials and write their tables; return (model, benchmark) -> why it has no result.

    A model that does not load, or a benchmark that cannot be read, does not keep the others from being scored. The
    models of a benchmark are scored together, so that its images are checked once. If that fails, they are scored
    one by one; ``score`` does not repeat finished trials. An interrupted call is therefore continued by the same
    call. An error that is not of a model or benchmark ends the call.

    Args:
        trials: what is scored.
        inputs: where its inputs are.
        out: folder of the results.
        score: (specs, benchmark) -> tables; a spec is ``NAME=SPEC`` with the model's slug as its name.
        report: takes a line on each trial.

    Raises:
        ConfigError: the tracking server refuses this user.
        ResourceError: the tracking server does not answer, a lock is held or the disk is full.
    """
    problems: dict[tuple[str, str], str] = {}
    for benchmark in dict.fromkeys(trial.benchmark for trial in trials):
        of_it = [trial for trial in trials if trial.benchmark == benchmark]
        source = inputs.locate(benchmark)
        reasons = {trial.model: NO_DATA if source is None else _find_model_problem(trial) for trial in of_it}
        ready = [trial for trial in of_it if not reasons[trial.model]]
        if source is not None and ready:
            reasons |= _score_benchmark(ready, source, out, score)
        for trial in of_it:
            if reason := reasons[trial.model]:
                problems[trial.model, benchmark] = reason
            report(f"{trial.model} on {benchmark}: {f'not scored: {reason}' if reason else 'scored'}.")
    return problems


def _score_benchmark(
    trials: Sequence[Trial], source: BenchmarkSource, out: Path, score: Scorer
) -> dict[str, str]:
    """Score models on one benchmark; return model -> why it was not scored, empty if it was."""
    try:
        _write_results(trials, source, out, score)
    except OF_A_MODEL as error:
        if len(trials) == 1:
            return {trials[0].model: shorten_reason(str(error))}
        parts = [_score_benchmark([trial], source, out, score) for trial in trials]
        return {model: reason for part in parts for model, reason in part.items()}
    return {trial.model: "" for trial in trials}


def _write_results(trials: Sequence[Trial], source: BenchmarkSource, out: Path, score: Scorer) -> None:
    """Score models on one benchmark and write the tables of each into its own folder."""
    folders = {trial.slug: trial.locate_results(out, RUNS) for trial in trials}
    for folder in folders.values():
        run_files.prepare_folder(folder, [(source.benchmark, source.data)])
    scored = {trial.slug: ScoredModel(trial.spec, _hash_weights(trial.spec)) for trial in trials}
    result = score([f"{trial.slug}={trial.spec}" for trial in trials], [source])
    for slug, folder in folders.items():
        similarities, answers, metrics = (table[table["model"] == slug] for table in result[:3])
        remove_file(folder / MODEL_FILE)  # until all tables are those of this model
        run_files.write_run(folder, similarities, answers, metrics, result.rejects, result.plugins)
        write_text(folder / MODEL_FILE, json.dumps(asdict(scored[slug]), indent=2) + "\n")


def shorten_reason(text: str) -> str:
    """Return the first line of an error without a final stop: the lines that follow list files."""
    return text.partition("\n")[0].removesuffix(".")


def compute_released(
    tables: Sequence[PublishedTable],
    inputs: Inputs,
    out: Path,
    bootstrap: Bootstrap,
    report: Callable[[str], None],
) -> int:
    """Write the metrics of the authors' result files for the tables, report each; return how many were read."""
    n_read = 0
    for model, benchmark, path in _list_released_files(tables, inputs):
        folder = Trial(model, "", benchmark).locate_results(out, RELEASED)
        try:
            metrics = compute_file_metrics([path], BENCHMARKS[benchmark], bootstrap=bootstrap)
        except CaramelError as error:
            for name in run_files.METRICS_FILES:
                remove_file(folder / name)  # of an earlier call
            report(f"{model} on {benchmark}: the authors' file was not read. {error}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        run_files.write_metrics(metrics, folder)
        n_read += 1
        report(f"{model} on {benchmark}: computed from {path}.")
    return n_read


def _list_released_files(tables: Sequence[PublishedTable], inputs: Inputs) -> list[tuple[str, str, Path]]:
    """Return model, benchmark and path of each file of the tables; none without a folder of such files."""
    if inputs.released is None:
        return []
    return [
        (model, benchmark, inputs.released / name)
        for key in dict.fromkeys(table.key for table in tables)
        for model, by_benchmark in read_papers()[key].released.items()
        for benchmark, name in by_benchmark.items()
        if any(table.key == key and benchmark in table.list_benchmarks(model) for table in tables)
    ]


def _list_missing_files(tables: Sequence[PublishedTable], inputs: Inputs) -> list[str]:
    return [
        f"result file {path} of {model} on {benchmark}: not there"
        for model, benchmark, path in _list_released_files(tables, inputs)
        if not path.is_file()
    ]


def _find_model_problem(trial: Trial) -> str:
    """Return why a model cannot be loaded: the first reason, and how many more there are; empty if it can."""
    try:
        reasons = missing_of(trial.spec)
        further = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{shorten_reason(reasons[0])}{further}" if reasons else ""
    except CaramelError as error:
        return shorten_reason(str(error))


def _find_benchmark_problem(benchmark: str, inputs: Inputs, with_images: bool) -> str:
    """Return why a benchmark cannot be scored, in at most ``MOST_LINES`` lines; empty if it can."""
    source = inputs.locate(benchmark)
    if source is None:
        return NO_DATA
    try:
        task = read_task(source)
        check_instances(task, source)
        if with_images:
            check_images(select_scorable(task, source, True).images, benchmark)
    except CaramelError as error:
        lines = str(error).splitlines()
        return "\n".join([*lines[:MOST_LINES], *["  …"] * (len(lines) > MOST_LINES)])
    return ""


def _find_publication(tables: Sequence[PublishedTable], benchmark: str) -> str:
    papers = read_papers()
    return next(papers[t.key].benchmarks[benchmark] for t in tables if benchmark in papers[t.key].benchmarks)
