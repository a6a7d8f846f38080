"""Command ``study``: repeat the graph with other seeds."""

from __future__ import annotations

import json
from pathlib import Path

import click

from caramel.cli.options import FOLDER, add_set_option, parse_set_options
from caramel.cli.output import echo


@click.command("study")
@click.option(
    "--profile", default="study", show_default=True, help="Profile to run: a file params/NAME.yaml."
)
@add_set_option
@click.option("--out", default="study", show_default=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only print the cells, their seeds, and the hash of sources and settings.",
)
def run_study(profile: str, sets: tuple[str, ...], out: Path, dry_run: bool) -> None:
    """Repeat the graph with other seeds: does the result hold?

    Scenes, generator, base model and fine-tuning get other seeds. report.primary_comparison of the params is the comparison,
    study.draws gives the cells, and report.plan says whether the study is confirmatory. Writes study.json, study.parquet
    (every result of every run) and study.html: the comparison with an interval that covers all these sources of variance,
    the share of each source, how many seeds and instances an effect would need, and all other comparisons,
    Holm-corrected.

    A killed study continues where it stopped; finished work is stored in work/study.

    \b
    Example:
      caramel study
      caramel study --set "study.draws=[[2, 2], [2, 2]]" --out study-of-two
      caramel study --dry-run
    """
    from caramel.doctor.local import fix_project
    from caramel.io.files import forbid_overwriting_inputs, write_text
    from caramel.report.sections.study_sections import format_claim
    from caramel.report.study_page import render_study_page
    from caramel.runtime.mlflow.tracking import get_git_commit
    from caramel.schemas.io import write_table
    from caramel.schemas.study import STUDY
    from caramel.study import workspace
    from caramel.study.code_hash import hash_fixed
    from caramel.study.study import check_plan, plan_study, run_cells, summarise_study

    names = [out / name for name in ("study.json", "study.parquet", "study.html")]
    forbid_overwriting_inputs(names, [Path("params"), Path("dvc.yaml")])
    plan_arguments = (profile, parse_set_options(sets), Path())
    config, todo = plan_study(*plan_arguments)
    if dry_run:
        for number, (_, seeds) in enumerate(todo, start=1):
            drawn = ", ".join(f"{key} {seed}" for key, seed in seeds.items())
            echo(f"cell {number}: {drawn}")
        echo(f"sources and settings, as entry code of a plan: {hash_fixed(Path(), config)}")
        return
    commit = get_git_commit(Path())  # before the run, which copies the sources now
    with workspace.hold_study_lock(workspace.FOLDER):
        registration = check_plan(config, Path(), workspace.read_begin(workspace.FOLDER))
        for done in fix_project(workspace.FOLDER):
            echo(f"fixed in {workspace.FOLDER}: {done}.")
        ran = run_cells(*plan_arguments, workspace.FOLDER)
    result = summarise_study(ran, config, commit, registration)
    write_table(STUDY, ran.runs, names[1])
    texts = json.dumps(result, indent=2) + "\n", render_study_page(result)
    for path, text in zip((names[0], names[2]), texts, strict=True):
        write_text(path, text)
    echo(f"{format_claim(result)}\nWritten to {out}.")
