"""Command ``new``: create a project that uses caramel as an installed package."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("new")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def create_new_project(folder: Path) -> None:
    """Create a project that runs the installed caramel.

    DIR is a new or empty folder. It becomes a git repository with stages, params and a README.

    \b
    Example:
      caramel new my_benchmark
    """
    from caramel.project.create import create_project
    from caramel.project.project_files import LATEST
    from caramel.runtime.installation import format_local_warning

    create_project(folder)
    if note := format_local_warning():
        echo(f"{LATEST}: {note}")
    echo(f"Created a project in {folder}, for caramel {metadata.version('caramel')}. Next:")
    echo(f"  cd {folder}")
    echo("  git add -A && git commit -m 'A project of caramel'")
    echo("  caramel config use smoke    # small; `caramel config use files` is for images of your own")
    echo("  dvc repro")
