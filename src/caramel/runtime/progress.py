"""Show the graph with expected times (`python -m caramel.runtime.progress`), and format each stage's first line.

Times are those of the last run here. For a stage that has never run here they come from
``docs/timings.json``, which `make figures` writes. DVC skips a stage whose inputs have not changed, and says
so only when it reaches the stage. So the remaining time is an upper bound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from caramel.config.schema import load_config
from caramel.errors import CaramelError, format_error
from caramel.io.regular_files import read_plain_text
from caramel.runtime.code_manifest import load_stages
from caramel.runtime.timings import get_last_seconds

SHIPPED = Path("docs/timings.json")


def estimate_seconds(profile: str) -> tuple[dict[str, float], str]:
    """Return the expected wall time of each stage that has one, in seconds, and the source of the times."""
    here = get_last_seconds(profile)
    shipped: dict[str, float] = {}
    with suppress(
        OSError, ValueError, KeyError, TypeError, AttributeError, CaramelError
    ):  # missing or not as written
        known = json.loads(read_plain_text(SHIPPED))
        if known["profile"] == profile:
            shipped = {str(name): float(seconds) for name, seconds in known["seconds"].items()}
    source = "the last run's times" if here.keys() >= shipped.keys() else f"the times in {SHIPPED}"
    return shipped | here, source


def format_start(stage: str, profile: str) -> str | None:
    """Return a stage's first line: its number, time and remaining time; None if no graph has the stage."""
    with suppress(CaramelError):  # no readable graph: DVC did not start this
        names = list(load_stages(Path()))
        if stage in names:
            return _format_line(names, stage, *estimate_seconds(profile))
    return None


def _format_line(names: list[str], stage: str, seconds: Mapping[str, float], source: str) -> str:
    rest = names[names.index(stage) :]
    text = f"Stage {names.index(stage) + 1} of {len(names)}: {stage}"
    if stage in seconds:
        text += f", about {format_seconds(seconds[stage])}"
    if all(name in seconds for name in rest):
        text += f"; at most {format_seconds(sum(seconds[name] for name in rest))} left by {source}"
    return text


def format_seconds(seconds: float) -> str:
    """Return a time in readable form: "40 s" or "3 min"."""
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"


def draw_graph(graph: Mapping[str, Mapping[str, Any]], seconds: Mapping[str, float], source: str) -> str:
    """Return the stages in DVC's order, each with its time and the stages that it depends on.

    A stage is left out of this list if another one in the list depends on it.

    Args:
        graph: stages of a ``dvc.yaml``.
        seconds, source: as returned by ``estimate_seconds``.
    """
    inputs = list_inputs(graph)
    above: dict[str, set[str]] = {}  # all direct and indirect dependencies of a stage
    lines = []
    for number, (name, of) in enumerate(inputs.items(), 1):
        above[name] = {*of, *(far for near in of for far in above[near])}
        direct = [near for near in of if not any(near in above[other] for other in of)]
        time = format_seconds(seconds[name]) if name in seconds else ""
        arrow = f"  ← {', '.join(direct)}" if direct else ""
        lines.append(f"{number:3} {name:20}{time:>7}{arrow}")
    if all(name in seconds for name in inputs):
        total = format_seconds(sum(seconds[name] for name in inputs))
        lines.append(f"At most {total} by {source}: DVC skips what has not changed.")
    return "\n".join(lines)


def list_inputs(graph: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each stage the earlier stages whose outputs it reads, in the graph's order."""
    outputs: dict[str, list[str]] = {}
    inputs = {}
    for name, stage in graph.items():
        inputs[name] = [
            other
            for other, paths in outputs.items()
            if any(_is_nested(dep, out) for dep in stage.get("deps", []) for out in paths)
        ]
        outputs[name] = [
            next(iter(out)) if isinstance(out, dict) else out
            for key in ("outs", "metrics", "plots")
            for out in stage.get(key, [])
        ]
    return inputs


def _is_nested(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def main() -> None:
    """Print the graph of this folder; exit with 1 and a message if the graph or the params are broken."""
    try:
        print(draw_graph(load_stages(Path()), *estimate_seconds(load_config().profile)))
    except CaramelError as error:
        sys.exit(format_error(error))


if __name__ == "__main__":
    main()
