"""Command ``upgrade``: update a project to the installed caramel."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("upgrade")
def upgrade_this_project() -> None:
    """Update this project after a new caramel was installed.

    Works on projects of `caramel new`, and says which stages will run again. Files that you changed are kept.
    No stage is run.

    \b
    Example:
      caramel upgrade
    """
    from caramel.project.project_files import LATEST
    from caramel.project.upgrade import ASIDE, upgrade_project
    from caramel.runtime.installation import format_local_warning

    done = upgrade_project(Path())
    for name in done.written:
        echo(f"wrote {name}")
    if LATEST in done.written and (note := format_local_warning()):
        echo(f"{LATEST}: {note}")
    for name in done.renamed:
        echo(f"renamed keys in {name}")
    for name in done.conflicts:
        echo(
            f"kept {name}, which both you and caramel changed; the new version is {ASIDE / name}: copy what you need from it"
        )
    for name in done.dropped:
        echo(f"{name} is no longer part of caramel: delete it, unless you use it")
    if any(name.startswith("params/") for name in (*done.written, *done.conflicts)):
        echo(
            "The values in params.yaml are unchanged: run `caramel config use NAME`, with the --set options that you use, before `dvc repro`."
        )
    for name, why in done.rerun.items():
        more = f" and {len(why) - 3} more" if len(why) > 3 else ""
        echo(f"will run again: {name} ({', '.join(why[:3])}{more})")
    if done.after:
        echo(f"will run again if their inputs change: {', '.join(done.after)}")
    if not done.rerun:
        echo(
            f"No stage will run again: the code of all stages is unchanged in caramel {metadata.version('caramel')}."
        )
