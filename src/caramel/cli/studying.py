"""The command study: the graph again, with other seeds of everything."""

from __future__ import annotations

import json
from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.cli.project import parse_set_options


@click.command()
@click.option("--profile", default="study", show_default=True, help="A file params/NAME.yaml.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A further value, by dotted key.")
@click.option("--out", default="study", show_default=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--dry-run", is_flag=True, help="Only print the cells, their seeds, and the hash of sources and settings."
)
def study(profile: str, sets: tuple[str, ...], out: Path, dry_run: bool) -> None:
    """Run the graph with other seeds of scenes, generator, base and fine-tuning: does the claim hold?

    The comparison is report.primary_comparison of the params, the cells are study.draws; report.plan says whether it is confirmatory. Written are study.json, study.parquet (every
    figure of every run) and study.html: the contrast with an interval that counts all of that luck, what share each kind
    has in it, how many seeds and instances an effect would need, and all other comparisons, Holm-corrected.

    A study that was killed goes on where it was: all that was finished is in work/study.

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
    commit = get_git_commit(Path())  # before the run: its sources are copied now
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
