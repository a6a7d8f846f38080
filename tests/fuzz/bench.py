"""The bench: templates of valid inputs, batches of mutated ones in forked processes, and what failed, kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import harness
from arguments import mutate_arguments
from harness import Outcome, Target
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from mutations import mutate_file
from mutations_of_rows import VALUES
from sandbox import fresh, in_child, number, snapshot
from tally import Tally

from caramel.report import figures

BATCH = 60  # inputs of one process
PATIENCE = 45.0  # seconds without a word after which a process is killed


class Bench:
    """Prepares templates, runs batches in forked processes, and keeps what fails."""

    def __init__(self, root: Path, kept: Path) -> None:
        from corpus import picture

        self.root, self.kept, self.secret = root, kept, picture(99, "PNG")
        self.store = root / "store"
        self.store.mkdir()
        self.templates: dict[str, Path] = {}

    def template(self, target: Target) -> Path:
        """Return the folder of the valid input, which is written by a process of its own."""
        if target.name not in self.templates:
            folder = self.root / "templates" / str(len(self.templates))
            folder.mkdir(parents=True)

            def write(tell: Callable[[str], None]) -> None:
                os.chdir(folder)
                target.write()

            problem = in_child(write, print, lambda: 300.0)
            if problem:
                raise SystemExit(f"The valid input of {target.name!r} cannot be written: {problem}.")
            self.templates[target.name] = folder
        return self.templates[target.name]

    def valid(self, target: Target) -> Outcome:
        """Return what becomes of the valid input."""
        lines: list[str] = []
        template = self.template(target)
        command = [word.replace("@SET@", "scenes.train=20") for word in target.command]
        ended = in_child(
            lambda tell: tell(self._once(target, template, None, command).line()), lines.append, lambda: 120.0
        )
        return Outcome(**json.loads(lines[0])) if lines else Outcome(-1, ended, wrong=[("crash", ended)])

    def _once(self, target: Target, template: Path, draw: Any, arguments: list[str]) -> Outcome:
        """Run one input in this process."""
        os.environ["DVC_ROOT"] = str(self.store)
        box = fresh(self.root, template, self.secret)
        valid = snapshot(template)
        if draw is not None:
            self._mutate(target, box, draw, arguments)
        if target.serve is not None:
            if target.name not in _SERVING:
                _SERVING[target.name] = target.serve(box)
            arguments = [word.replace("@URL@", _SERVING[target.name]) for word in arguments]
        sketched = draw is not None and draw(st.integers(0, 9)) < 9
        (self.root / "case.json").write_text(json.dumps({"target": target.name, "arguments": arguments}))
        shutil.rmtree(self.root / "given", ignore_errors=True)
        shutil.copytree(box, self.root / "given", symlinks=True)
        with _sketches() if sketched else nullcontext():
            return harness.judge(target, arguments, box, valid)

    def _mutate(self, target: Target, box: Path, draw: Any, arguments: list[str]) -> None:
        """Mutate files and arguments in place."""
        if target.options:
            files = sorted(p.relative_to(box).as_posix() for p in box.rglob("*") if p.is_file())
            for _ in range(draw(st.integers(1, 2))):
                arguments[:] = mutate_arguments(draw, arguments, files[0] if files else "nowhere")
        for _ in range(draw(st.sampled_from((1, 1, 1, 1, 2, 3)))):
            files = _files(target, box)
            if files:
                mutate_file(draw, draw(st.sampled_from(files)), box.parent / "secret.png")
        if "@SET@" in arguments:
            key = draw(st.sampled_from(_keys(box)))
            arguments[arguments.index("@SET@")] = f"{key}={draw(st.sampled_from(VALUES))}"

    def batch(self, target: Target, count: int, start: int, tell: Callable[[str], None]) -> None:
        """Run ``count`` inputs that hypothesis draws; tell of each."""
        template = self.template(target)

        @seed(start)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def one(data: Any) -> None:
            outcome = self._once(target, template, data.draw, list(target.command))
            tell(outcome.line())

        one()

    def keep(self, target: Target, outcome: dict[str, Any], place: int) -> str:
        """Keep the input that failed; return the name of its folder."""
        folder = self.kept / f"{target.name.replace(' ', '_').replace('/', '_')}-{place}"
        shutil.rmtree(folder, ignore_errors=True)
        if (self.root / "given").is_dir():
            shutil.copytree(self.root / "given", folder / "box", symlinks=True)
        case = json.loads((self.root / "case.json").read_text()) if (self.root / "case.json").exists() else {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "case.json").write_text(json.dumps({**case, **outcome}, indent=1))
        return folder.name


@contextmanager
def _sketches() -> Iterator[None]:
    """Leave figures white: drawing them takes most of an audit's time, so that not every input has them drawn."""
    from corpus import picture

    drawn, blank = figures._png, picture(0, "PNG")
    figures._png = lambda draw, theme: blank
    try:
        yield
    finally:
        figures._png = drawn


_SERVING: dict[str, str] = {}


def _files(target: Target, box: Path) -> list[Path]:
    found = {p for pattern in target.files for p in box.glob(pattern) if p.is_file() and not p.is_symlink()}
    return sorted(found)


def _keys(box: Path) -> list[str]:
    from ruamel.yaml import YAML

    whole = YAML(typ="safe").load(box / "params" / "default.yaml")
    keys = [f"{name}.{key}" for name, part in whole.items() if isinstance(part, dict) for key in part]
    return [
        *keys,
        "profile",
        "scenes",
        "x",
        "scenes.x",
        "",
        ".",
        "scenes.",
        "synthesize.grid.guidance",
        "scenes.seed.x",
        "é.é",
    ]


def fuzz(bench: Bench, target: Target, count: int, start: int, bar: Any) -> Tally:
    """Run ``count`` inputs of one target; a process that dies costs the input it died of."""
    tally, batch, silent = Tally(), 0, 0
    while tally.tried < count and silent < 3:
        before = tally.tried

        def heard(line: str) -> None:
            outcome = json.loads(line)
            kept = bench.keep(target, outcome, tally.tried) if _is_new(tally, outcome) else ""
            tally.add(outcome, kept)
            bar.update()

        size = min(BATCH, count - tally.tried)
        ended = in_child(
            partial(bench.batch, target, size, number(start, target.name, batch)), heard, lambda: PATIENCE
        )
        if ended:
            outcome = {
                "code": -1,
                "wrong": [("hang" if ended == "hang" else "crash", ended)],
                "said": "",
                "trace": "",
            }
            tally.add(outcome, bench.keep(target, outcome, tally.tried))
            bar.update()
        silent = silent + 1 if tally.tried == before else 0  # hypothesis has no further input
        batch += 1
    return tally


def _is_new(tally: Tally, outcome: dict[str, Any]) -> bool:
    return any(len(tally.distinct.get((kind, detail), ())) < 3 for kind, detail in outcome["wrong"])


def shares(targets: list[Target], inputs: int) -> dict[str, int]:
    """Return how many inputs each target has, at least one."""
    whole = sum(t.weight for t in targets)
    found = {t.name: max(1, int(inputs * t.weight / whole)) for t in targets}
    rest = inputs - sum(found.values())
    for t in sorted(targets, key=lambda t: -t.weight)[: max(0, rest)]:
        found[t.name] += 1
    return found
