"""Stages, each list of them in a process that is forked from one which has imported once what stages import."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

from processes import serve

from caramel.runtime.environment import be_quiet, collect_seldom

# What stages import within functions. Whatever else they import, they import in their fork.
LATE = (
    "torch",
    "open_clip",
    "diffusers.pipelines.pixart_alpha.pipeline_pixart_sigma",
    "diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion",
    "matplotlib.pyplot",
    "mlflow.store.tracking.sqlalchemy_store",
    "sklearn.linear_model",
)


def preload() -> None:
    """Import what stages import at the top of their files, and what most of them import later."""
    be_quiet()
    collect_seldom()
    for path in sorted(Path("pipelines").glob("*.py")):
        runpy.run_path(str(path), run_name="preloaded")
    for name in LATE:
        importlib.import_module(name)


def run_stages(names: list[str]) -> int:
    """Run stages in this process, one after the other."""
    for name in names:
        runpy.run_path(f"pipelines/{name}.py", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.path[0] = ""  # a project's folder, as for `python -c`
    preload()
    serve(run_stages)
