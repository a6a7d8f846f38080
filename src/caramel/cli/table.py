"""Command ``table``: write a results table beside the published rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import ERRATA_FILE, add_bootstrap_options, collect_options
from caramel.cli.output import add_json_option, echo, print_json
from caramel.errors import ConfigError
from caramel.io.files import forbid_overwriting_inputs, write_csv, write_text
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from caramel.interfaces.benchmark import Task


@dataclass(frozen=True)
class AdditionOptions:
    """What the table shows besides scores."""

    data: Path | None
    skill: tuple[str, ...]
    ranks: bool
    errata: str | None


@click.command("table")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark of the table.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric to show, repeatable.  [default: the benchmark's own metrics]",
)
@click.option(
    "--subset", "subsets", multiple=True, help="Subset to show, repeatable.  [default: all subsets]"
)
@click.option(
    "--style",
    default="markdown",
    show_default=True,
    type=click.Choice(["markdown", "latex", "csv"]),
    help="Format of the table.",
)
@click.option(
    "--published/--no-published", default=True, show_default=True, help="Add the rows of the papers."
)
@click.option(
    "--seeds",
    is_flag=True,
    help="Treat models NAME-1, NAME-2 … as training seeds of NAME, in one row.",
)
@click.option("--intervals", is_flag=True, help="Show 95 % intervals.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the benchmark, as for `caramel eval`. Adds its ceilings: the most that models can reach which do not "
    "see word order, the image, or all but nouns or attributes.",
)
@click.option(
    "--skill",
    multiple=True,
    metavar="CLASS",
    help="With --data: class of models above whose ceiling each score is also shown: bag_of_words, nouns_only, "
    "attributes_only or no_image; repeatable.  [default: bag_of_words]",
)
@click.option(
    "--errata",
    type=ERRATA_FILE,
    help="With --data: corrections of the benchmark's items (docs/evaluation.md), or `known` for those that caramel holds. "
    "The figures are then of the corrected items, and a line says how much each moved.",
)
@click.option(
    "--ranks", is_flag=True, help="Show the ranks that each model may have (95 %), and groups of ties."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.  [default: the terminal]  With --style csv, the notes go to NAME.notes.txt beside it, one a line.",
)
@click.option(
    "--failures",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write with the instances that most of the models fail, by metric.",
)
@add_json_option
@add_bootstrap_options
@collect_options(AdditionOptions, "additions")
def write_results_table(
    runs: tuple[Path, ...],
    benchmark: str,
    metrics: tuple[str, ...],
    subsets: tuple[str, ...],
    style: str,
    published: bool,
    seeds: bool,
    intervals: bool,
    additions: AdditionOptions,
    out: Path | None,
    failures: Path | None,
    bootstrap: Bootstrap,
) -> None:
    """Write a paper's results table beside the published rows.

    RUNS are folders of `caramel eval` or `caramel metrics`. A published row is shown if a measured model has the same
    type of score: cosine, matching head, VQAScore … The best model is bold only if it is significantly better than
    every other measured model.

    \b
    Example:
      caramel table results/vit-b-32 results/tuned --benchmark sugarcrepe --style latex --out table.tex
      caramel table results/* --benchmark sugarcrepe_pp --metric itt --data data/ --ranks
      caramel table results/* --benchmark sugarcrepe_pp --metric itt --metric tot --failures failures.csv
      caramel table results/* --benchmark sugarcrepe --data data/ --errata known
    """
    from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES
    from caramel.benchmarks.errata import find_errata_file
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import ANSWERS_FILE, run_file
    from caramel.evaluation.results.common_failures import find_common_failures
    from caramel.evaluation.results.errata_effect import correct_similarities, read_corrections
    from caramel.registry import BENCHMARKS
    from caramel.report.paper_table import build_paper_table
    from caramel.report.table_lines import Additions
    from caramel.report.table_styles import render_table

    for option in ("skill", "errata"):
        if getattr(additions, option) and additions.data is None:
            raise ConfigError(
                f"--{option} needs --data, the folder of the benchmark's files: ceilings and errata are of its texts."
            )
    if unknown := [name for name in additions.skill if name not in MODEL_CLASSES]:
        raise ConfigError(
            f"--skill {unknown[0]!r} is no class of models. Choices: {', '.join(MODEL_CLASSES)}."
        )
    notes_file = out.with_suffix(".notes.txt") if out is not None and style == "csv" else None
    targets = [path for path in (out, notes_file, failures) if path is not None]
    if targets:
        read = [
            file
            for run in runs
            for file in (run_file(str(run)), run / ANSWERS_FILE, run / run_files.METRICS_FILES[0])
        ]
        read += [find_errata_file(additions.errata, benchmark)] if additions.errata else []
        forbid_overwriting_inputs(targets, read)
    similarities = run_files.read_similarities(runs)
    further = run_files.read_unscored_metrics(runs)
    notes = run_files.check_releases(runs, benchmark)
    task = None if additions.data is None else _read_benchmark(additions.data, benchmark)
    uncorrected = None
    if additions.errata and task is not None:
        _check_all_scored(further, benchmark)
        corrections = read_corrections(additions.errata, benchmark, task)
        uncorrected, task = similarities, corrections.task
        similarities, lacking = correct_similarities(similarities, benchmark, corrections)
        notes += lacking
    ceilings, chance = (None, None) if task is None else _compute_limits(task, benchmark, similarities)
    if failures is not None:
        chosen = metrics or BENCHMARKS[benchmark].metrics
        write_csv(failures, find_common_failures(similarities, benchmark, chosen))
    grid = build_paper_table(
        similarities,
        BENCHMARKS[benchmark],
        metrics=metrics,
        subsets=subsets,
        published=published,
        bootstrap=bootstrap,
        further=further,
        seeds=seeds,
        intervals=intervals,
        notes=notes,
        additions=Additions(
            ceilings, additions.skill or ("bag_of_words",), additions.ranks, uncorrected, chance
        ),
    )
    text = render_table(grid, style)  # type: ignore[arg-type]
    if out is None:
        for note in grid.notes if style == "csv" else ():  # the other styles have them below the table
            echo(f"Note: {note}", err=True)
        echo(text)
    else:
        write_text(out, text + "\n")
        if notes_file is not None:
            write_text(notes_file, "".join(f"{' '.join(note.split())}\n" for note in grid.notes))
        echo(f"Wrote {out}{'' if notes_file is None else f' and {notes_file}'}.")
    print_json({"benchmark": benchmark, "out": out, **asdict(grid)})


def _read_benchmark(data: Path, benchmark: str) -> Task:
    from caramel.evaluation.benchmark_source import locate_benchmark, read_task

    return read_task(locate_benchmark(benchmark, data, None))


def _check_all_scored(further: pd.DataFrame | None, benchmark: str) -> None:
    """Raise a ConfigError if figures have no scores of instances, so that errata cannot be applied."""
    if further is None:
        return
    models = list(dict.fromkeys(further.loc[further["benchmark"] == benchmark, "model"].astype(str)))
    if models:
        raise ConfigError(
            f"--errata needs scores of instances, but these models have only answers or metrics: {', '.join(models)}. "
            f"Correct them with `caramel metrics --errata`, or leave them out."
        )


def _compute_limits(
    task: Task, benchmark: str, similarities: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the ceilings, and for rankings the chance, of the scored instances; of all, if there are only answers."""
    from caramel.evaluation.results.task_ceilings import compute_task_ceilings, compute_task_chance
    from caramel.interfaces.benchmark import Rankings
    from caramel.registry import BENCHMARKS

    scored = similarities.loc[similarities["benchmark"] == benchmark, "instance_id"].unique()
    selected = scored if len(scored) else None
    ceilings = compute_task_ceilings(task, BENCHMARKS[benchmark], selected)
    if not isinstance(task, Rankings):
        return ceilings, None
    return ceilings, compute_task_chance(task, BENCHMARKS[benchmark], selected)
