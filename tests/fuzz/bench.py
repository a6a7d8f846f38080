"""The bench: templates of valid inputs, batches of mutated ones in forked processes, and what failed, kept."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import harness
from arguments import mutate_arguments
from harness import Outcome, Target
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from mutations import mutate_file
from mutations_of_paths import ODD_FOLDERS
from mutations_of_rows import VALUES
from sandbox import SECRET, STOP, STOPPED, Files, copy, fresh, in_child, number, snapshot
from specials import make_all
from tally import Tally, report

from caramel.report import plots

BATCH = 60  # inputs of one process
PATIENCE = 300.0  # seconds without a word after which a process is killed: its own alarm rings long before


@dataclass(frozen=True)
class Job:
    """So many inputs of a target, from a seed."""

    target: Target
    count: int
    start: int


class Bench:
    """Prepares templates, runs batches in forked processes, and keeps what fails."""

    def __init__(self, root: Path, kept: Path, targets: Sequence[Target]) -> None:
        from corpus import picture

        self.root, self.kept, self.secret = root, kept, picture(99, "PNG")
        self.store = root / "store"
        self.store.mkdir()
        self.templates: dict[Callable[[], None], Path] = {}
        for target in targets:
            self.templates.setdefault(target.write, root / "templates" / target.name)

    def template(self, target: Target) -> Path:
        """Return the folder of the valid input, which is written once for all targets that begin with it."""
        folder = self.templates[target.write]
        if not folder.is_dir():
            new = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            os.chdir(new)
            target.write()
            os.chdir("/")
            new.rename(folder)
        return folder

    def valid(self, target: Target) -> Outcome:
        """Return what becomes of the valid input."""
        lines: list[str] = []
        command = [word.replace("@SET@", "scenes.train=20") for word in target.command]

        def once(tell: Callable[[str], None]) -> None:
            tell(self._once(target, self.template(target), None, command).line())

        ended = in_child(once, lines.append, 120.0)
        return Outcome(**json.loads(lines[0])) if lines else Outcome(-1, ended, wrong=[("crash", ended)])

    def _once(self, target: Target, template: Path, draw: Any, arguments: list[str]) -> Outcome:
        """Run one input in this process."""
        os.environ["DVC_ROOT"] = str(self.store)
        name = draw(st.sampled_from(ODD_FOLDERS)) if target.odd and draw is not None else "box"
        box = fresh(self.root, template, self.secret, name)
        valid = snapshot(template)
        if target.options:
            make_all(box)
        if draw is not None:
            self._mutate(target, box, draw, arguments)
        sketched = draw is not None and draw(st.integers(0, 9)) < 9
        case = {"target": target.name, "arguments": arguments, "folder": name}
        (self.root / "case.json").write_text(json.dumps(case))
        shutil.rmtree(self.root / "given", ignore_errors=True)
        copy(box, self.root / "given")
        url = ""
        if target.serve is not None:
            url = _SERVING.get(target.name) or target.serve(box)
            _SERVING[target.name] = url
        with _sketches() if sketched else nullcontext():
            return run_case(target, arguments, box, valid, url)

    def _mutate(self, target: Target, box: Path, draw: Any, arguments: list[str]) -> None:
        """Mutate files and arguments in place."""
        if target.options:
            files = sorted(p.relative_to(box).as_posix() for p in box.rglob("*") if p.is_file())
            for _ in range(draw(st.integers(1, 2))):
                arguments[:] = mutate_arguments(draw, arguments, files[0] if files else "nowhere")
        for _ in range(draw(st.sampled_from((1, 1, 1, 1, 2, 3)))):
            files = _files(target, box)
            if files:
                mutate_file(draw, draw(st.sampled_from(files)), box.parent / SECRET)
        if "@SET@" in arguments:
            key = draw(st.sampled_from(_keys(box)))
            arguments[arguments.index("@SET@")] = f"{key}={draw(st.sampled_from(VALUES))}"

    def batch(self, job: Job, tell: Callable[[str], None]) -> None:
        """Run the inputs that hypothesis draws for a job; tell what became of each."""
        tell(json.dumps({"began": job.target.name}))
        template = self.template(job.target)

        @seed(job.start)
        @settings(
            max_examples=job.count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def one(data: Any) -> None:
            outcome = self._once(job.target, template, data.draw, list(job.target.command))
            kept = self.keep(asdict(outcome)) if outcome.wrong else ""
            tell(json.dumps({**asdict(outcome), "kept": kept}))
            if any(kind == "hang" for kind, _ in outcome.wrong):
                os._exit(STOP)  # it was stopped anywhere, in an import too: the process is not to be trusted

        one()

    def keep(self, outcome: dict[str, Any]) -> str:
        """Keep the input that was run last; return the name of its folder."""
        case = json.loads((self.root / "case.json").read_text())
        name = f"{case['target'].replace(' ', '_')}-{secrets.token_hex(3)}"
        copy(self.root / "given", self.kept / name / "box")
        (self.kept / name / "case.json").write_text(json.dumps({**case, **outcome}, indent=1))
        return name


def run_case(target: Target, arguments: list[str], box: Path, valid: Files, url: str) -> Outcome:
    """Run a command on a prepared sandbox; the server of the target is at ``url``."""
    environment = {key: value.replace("@URL@", url) for key, value in target.environment.items()}
    with patch.dict(os.environ, environment):
        return harness.judge(target, [word.replace("@URL@", url) for word in arguments], box, valid)


@contextmanager
def _sketches() -> Iterator[None]:
    """Leave figures white: drawing them takes most of an audit's time, so that not every input has them drawn."""
    from corpus import picture

    drawn, blank = plots._render_png, picture(0, "PNG")
    plots._render_png = lambda draw, theme: blank
    try:
        yield
    finally:
        plots._render_png = drawn


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
        *[
            "profile",
            "scenes",
            "x",
            "scenes.x",
            ".",
            "scenes.",
            ".x",
            "synthesize.grid.guidance",
            "scenes.seed.x",
            "é.é",
        ],
    ]


def fuzz(bench: Bench, targets: list[Target], inputs: int, start: int, bar: Any) -> dict[str, Tally]:
    """Run so many inputs over all targets; return what became of them."""
    tallies = {target.name: Tally() for target in targets}
    counts = shares(targets, inputs)
    jobs = [
        Job(target, min(BATCH, counts[target.name] - begun), number(start, target.name, begun))
        for target in targets
        for begun in range(0, counts[target.name], BATCH)
    ]
    while jobs:
        pack = [jobs.pop(0)]
        while jobs and sum(job.count for job in (*pack, jobs[0])) <= BATCH:
            pack.append(jobs.pop(0))
        _run(bench, pack, tallies, bar)
        report(tallies, bench.kept)  # what there is so far, should this be stopped
    return tallies


def _run(bench: Bench, pack: list[Job], tallies: dict[str, Tally], bar: Any) -> None:
    """Run jobs in one process after another; one that dies costs the input that it died of."""
    while pack:
        done: Counter[str] = Counter()
        now = [pack[0].target.name]

        def heard(line: str, done: Counter[str] = done, now: list[str] = now) -> None:
            outcome = json.loads(line)
            if "began" in outcome:
                now[0] = outcome["began"]
                bar.set_postfix_str(now[0])
                return
            _note(bench, tallies[now[0]], outcome)
            done[now[0]] += 1
            bar.update()

        ended = in_child(partial(_each, bench, pack), heard, PATIENCE)
        if not ended:
            return
        place = [job.target.name for job in pack].index(now[0])
        if ended != STOPPED:
            kind = "hang" if ended == "hang" else "crash"
            outcome = {"code": -1, "wrong": [(kind, ended)], "said": "", "trace": ""}
            _note(bench, tallies[now[0]], {**outcome, "kept": bench.keep(outcome)})
            done[now[0]] += 1
            bar.update()
        job, left = pack[place], pack[place].count - done[now[0]]
        rest = [Job(job.target, left, number(job.start))] if left > 0 else []
        pack = [*rest, *pack[place + 1 :]]


def _each(bench: Bench, pack: list[Job], tell: Callable[[str], None]) -> None:
    for job in pack:
        bench.batch(job, tell)


def _note(bench: Bench, tally: Tally, outcome: dict[str, Any]) -> None:
    """Count an input; of those that failed in the same way, three are kept."""
    if outcome["kept"] and all(len(tally.distinct[kind, what]) >= 3 for kind, what in outcome["wrong"]):
        shutil.rmtree(bench.kept / outcome["kept"])
        outcome["kept"] = ""
    tally.add(outcome)


def shares(targets: list[Target], inputs: int) -> dict[str, int]:
    """Return how many inputs each target has, at least one."""
    whole = sum(t.weight for t in targets)
    found = {t.name: max(1, int(inputs * t.weight / whole)) for t in targets}
    rest = inputs - sum(found.values())
    for t in sorted(targets, key=lambda t: -t.weight)[: max(0, rest)]:
        found[t.name] += 1
    return found
