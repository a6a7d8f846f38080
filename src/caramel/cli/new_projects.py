"""Commands for a project of one's own, which uses caramel as an installed package: new, upgrade."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from caramel.cli.output import echo


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Make a project of your own in DIR, a new or empty folder: a git repository whose stages run the installed caramel.

    \b
    Example:
      caramel new my_benchmark
    """
    from caramel.project.create import create_project as make
    from caramel.project.project_files import LATEST
    from caramel.runtime.installation import format_local_warning

    make(folder)
    if note := format_local_warning():
        echo(f"{LATEST}: {note}")
    echo(f"Made a project in {folder}, for caramel {metadata.version('caramel')}. Next:")
    echo(f"  cd {folder}")
    echo("  git add -A && git commit -m 'A project of caramel'")
    echo("  caramel profile smoke    # small; `caramel profile files` is for pictures of your own")
    echo("  dvc repro")


@click.command()
def upgrade() -> None:
    """After another caramel was installed: bring this project (of `caramel new`) up to date, and say what will run again.

    Files that you changed stay as they are. Nothing is run.

    \b
    Example:
      caramel upgrade
    """
    from caramel.project.project_files import LATEST
    from caramel.project.upgrade import ASIDE
    from caramel.project.upgrade import upgrade_project as bring
    from caramel.runtime.installation import format_local_warning

    done = bring(Path())
    for name in done.written:
        echo(f"wrote {name}")
    if LATEST in done.written and (note := format_local_warning()):
        echo(f"{LATEST}: {note}")
    for name in done.renamed:
        echo(f"renamed keys in {name}")
    for name in done.conflicts:
        echo(
            f"kept {name}, which you changed and caramel did too; its new form is {ASIDE / name}: take what you want"
        )
    for name in done.dropped:
        echo(f"{name} is no longer part of caramel: delete it, unless you use it")
    if any(name.startswith("params/") for name in (*done.written, *done.conflicts)):
        echo(
            "params.yaml stays as it is: call `caramel profile NAME`, with the --set that you use, before `dvc repro`."
        )
    for name, why in done.rerun.items():
        more = f" and {len(why) - 3} more" if len(why) > 3 else ""
        echo(f"will run again: {name} ({', '.join(why[:3])}{more})")
    if done.after:
        echo(f"and, where what these make has changed: {', '.join(done.after)}")
    if not done.rerun:
        echo(f"No stage will run again: all code is as it was, in caramel {metadata.version('caramel')} too.")
