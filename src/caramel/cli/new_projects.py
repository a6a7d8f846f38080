"""Commands for a project of one's own, which uses caramel as an installed package: new, upgrade."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from caramel.cli.output import say


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Make a project of your own in DIR, a new or empty folder: a git repository whose stages run the installed caramel.

    \b
    Example:
      caramel new my_benchmark
    """
    from caramel.project.create import new as make
    from caramel.project.project_files import LATEST
    from caramel.runtime.installation import of_this_machine_alone

    make(folder)
    if told := of_this_machine_alone():
        say(f"{LATEST}: {told}")
    say(f"Made a project in {folder}, for caramel {metadata.version('caramel')}. Next:")
    say(f"  cd {folder}")
    say("  git add -A && git commit -m 'A project of caramel'")
    say("  caramel profile smoke    # small; `caramel profile files` is for pictures of your own")
    say("  dvc repro")


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
    from caramel.project.upgrade import upgrade as bring
    from caramel.runtime.installation import of_this_machine_alone

    done = bring(Path())
    for name in done.written:
        say(f"wrote {name}")
    if LATEST in done.written and (told := of_this_machine_alone()):
        say(f"{LATEST}: {told}")
    for name in done.kept:
        say(
            f"kept {name}, which you changed and caramel did too; its new form is {ASIDE / name}: take what you want"
        )
    for name in done.dropped:
        say(f"{name} is no longer part of caramel: delete it, unless you use it")
    if any(name.startswith("params/") for name in (*done.written, *done.kept)):
        say(
            "params.yaml stays as it is: call `caramel profile NAME`, with the --set that you use, before `dvc repro`."
        )
    for name, why in done.rerun.items():
        more = f" and {len(why) - 3} more" if len(why) > 3 else ""
        say(f"will run again: {name} ({', '.join(why[:3])}{more})")
    if done.after:
        say(f"and, where what these make has changed: {', '.join(done.after)}")
    if not done.rerun:
        say(f"No stage will run again: all code is as it was, in caramel {metadata.version('caramel')} too.")
