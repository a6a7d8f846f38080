"""Strike a running graph at random moments, and see that it heals or says what to do: `make chaos`.

A run is `dvc repro` of the smoke profile in a copy of the repository, whose folders are volumes of their own.
Its plan draws faults and moments from the seed. After each fault the run must go on by itself, or end in bounded
time with one message and no traceback, and do what is left once its cure was applied: space was freed, the volume
made writable, `caramel doctor --fix` called where the message says so, `dvc repro` called again. At the end of the run
all outputs are those of an undisturbed one, nothing is left running or locked, and every tracked run is finished.

The first run of six starts from nothing; the others redo the stages that are struck. Mounting needs root;
without it no volume is filled or made read-only. 100 events take about an hour on two cores.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click
from project import Project
from sandbox import Attempt, Sandbox, isolated
from strikes import FAULTS, Fault, Struck, strike
from verdicts import broken_promises, differing, left_locked, left_open, left_running, message, seconds

LIMIT = 600.0  # seconds in which a run that was struck must end or go on
WHOLE = 6  # one run of so many starts from nothing
# The page tells what changed since the one before it. Nothing else differs between two undisturbed runs.
GONE = "the run was gone; the next one went on"
UNEQUAL = ("report/report.html",)


@dataclass
class Event:
    """A fault, its moment, and what came of it."""

    run: int
    fault: str
    stage: str
    delay: float  # seconds after the stage's start
    at_end: bool  # or after its process has ended, when DVC writes
    place: str = ""
    seen: str = ""  # healed, or the message
    seconds: float = 0.0  # until the stage was done
    problems: list[str] = field(default_factory=list)


class Violation(Exception):
    """The run cannot go on."""


class Run:
    """One run: a plan of faults, and the attempts that it takes."""

    def __init__(self, sandbox: Sandbox, base: Path, out: Path, rng: random.Random) -> None:
        self.sandbox, self.base, self.rng = sandbox, base, rng
        self.logs = out
        self.attempt: Attempt | None = None

    def start(self) -> Attempt:
        self.attempt = self.sandbox.attempt(self.logs)
        return self.attempt

    def suffer(self, event: Event) -> None:
        """Strike once, see what comes of it, and go on until the struck stage is done."""
        attempt, struck = self._strike(event)
        began, since = time.monotonic(), len(attempt.said())
        event.place, event.seen, failures = struck.place, "", 0
        while True:
            passed = (lambda: False) if struck.lasting else (lambda: attempt.passed(event.stage, since))  # noqa: B023
            if not attempt.wait(passed, LIMIT):
                raise Violation(f"no end within {LIMIT:.0f} s")
            failed = attempt.ended() and attempt.process.returncode != 0
            if not struck.gone:
                event.problems += broken_promises(attempt.said(), failed=failed)
            if failed and not struck.gone:
                event.seen = " | ".join(
                    [event.seen, message(attempt.said())] if event.seen else [message(attempt.said())]
                )
                failures += "already running" not in event.seen
            if not (struck.lasting and struck.gone):
                struck.relieve()
            if not failed:
                quiet = "not felt" if struck.lasting else "healed"
                break
            if failures > 1:
                raise Violation("the cure did not help")
            if not struck.gone:
                self._cure(attempt.said())
            event.seen = event.seen or GONE
            # What ended the run itself and lasts is met by the next one; all else is over.
            struck = replace(struck, gone=False) if struck.lasting and struck.gone else Struck(struck.place)
            attempt, since = self.start(), 0
        event.seconds = round(time.monotonic() - began, 1)
        event.seen = event.seen or quiet

    def _strike(self, event: Event) -> tuple[Attempt, Struck]:
        """Wait for the moment and strike; a stage that has ended before is done again."""
        fault = Fault(*event.fault.split(":"))
        for _ in range(4):
            attempt = self.attempt
            if attempt is None or attempt.ended():
                self._expect_success(attempt)
                if attempt is not None:  # the stage was over before the moment came
                    self.sandbox.undo({event.stage})
                    event.delay = round(event.delay / 2, 2)
                attempt = self.start()
            if not attempt.wait(lambda: attempt.driver(event.stage), LIMIT):  # noqa: B023
                raise Violation(f"stage {event.stage} did not start within {LIMIT:.0f} s")
            driver = attempt.driver(event.stage)
            if event.at_end:
                attempt.wait(lambda: not attempt.driver(event.stage), LIMIT)  # noqa: B023
            time.sleep(event.delay)
            while not attempt.ended():
                struck = strike(fault, self.sandbox, attempt, event.stage, self.rng)
                if struck is not None:
                    return attempt, struck
                if driver is None or not driver.is_running():
                    attempt.wait(lambda: False, LIMIT)
                time.sleep(0.05)
        raise Violation("could not be struck")

    def _expect_success(self, attempt: Attempt | None) -> None:
        if attempt is not None and attempt.process.returncode != 0:
            raise Violation(f"the run ended later: {message(attempt.said())}")

    def _cure(self, said: str) -> None:
        """Do what the message says."""
        if "already running" in said:
            end = time.monotonic() + LIMIT
            while any("pipelines/" in " ".join(p.cmdline()) for p in self.sandbox.processes()):
                if time.monotonic() > end:
                    raise Violation("a stage that was left behind does not end")
                time.sleep(0.5)
        if "doctor" in said or "dvc.lock" in message(said):
            self.sandbox.project.run("caramel", "doctor", "--fix", check=False)

    def finish(self) -> None:
        """Go on until nothing is to be done; what DVC finds changed, it may do again, twice."""
        for _ in range(3):
            attempt = self.attempt if self.attempt and not self.attempt.ended() else self.start()
            if not attempt.wait(lambda: False, 3 * LIMIT):
                raise Violation("no end of the run")
            if attempt.process.returncode:
                raise Violation(f"the run ended later: {message(attempt.said())}")
            if "Running stage" not in attempt.said():
                return
        raise Violation("DVC always finds something to do")


def plan(
    run: int, faults: list[Fault], stages: tuple[str, ...], times: dict[str, float], rng: random.Random
) -> list[Event]:
    """Draw stage and moment of each fault, in order of the graph."""
    names, events = list(times), []
    for fault in faults:
        stage = rng.choice(fault.stages([name for name in names if not stages or name in stages]))
        at_end = fault.where in ("dvc", "group", "everything") and rng.random() < 0.4
        latest = 0.6 if at_end else times[stage] * (0.7 if fault.kind in ("fill", "readonly") else 1)
        delay = rng.uniform(0, latest)
        events.append(Event(run, str(fault), stage, round(delay, 2), at_end))
    return sorted(events, key=lambda event: names.index(event.stage))


def play(
    number: int,
    faults: list[Fault],
    stages: tuple[str, ...],
    sandbox: Sandbox,
    base: Path,
    out: Path,
    rng: random.Random,
) -> tuple[list[Event], list[str]]:
    """Play one run; return its events, and what is wrong with its end."""
    sandbox.restore(base)
    expected = sandbox.outputs()
    times = {name: t for name, t in seconds(base).items() if name in sandbox.stages()}
    events = plan(number, faults, stages, times, rng)
    sandbox.undo(set(times) if number % WHOLE == 0 and not stages else {event.stage for event in events})
    logs = out / "runs" / f"{number:03}"
    logs.mkdir(parents=True)
    run, done = Run(sandbox, base, logs, rng), []
    try:
        for event in events:
            done.append(event)
            try:
                run.suffer(event)
            except Violation as violation:
                event.problems.append(str(violation))
                raise
            finally:
                _note(out, asdict(event))
                show(event)
        run.finish()
    except Violation as violation:
        return done, [f"not finished: {violation}"]
    different = [name for name in differing(expected, sandbox.outputs()) if name not in UNEQUAL]
    problems = [f"other output: {name}" for name in different]
    problems += [f"left running: {name}" for name in left_running(sandbox)]
    problems += [f"held: {name}" for name in left_locked(sandbox)]
    return done, problems + [f"tracked run: {row}" for row in left_open(sandbox)]


def _note(out: Path, row: dict[str, object]) -> None:
    with (out / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


def deck(only: tuple[str, ...], stages: tuple[str, ...], mounts: bool, rng: random.Random) -> Iterator[Fault]:
    """Yield faults without end, each as often as the others."""
    able = [fault for fault in FAULTS if mounts or fault.kind not in ("fill", "readonly")]
    able = [fault for fault in able if not stages or fault.stages(list(stages))]
    wanted = [fault for fault in able if not only or any(str(fault).startswith(name) for name in only)]
    if not wanted:
        raise click.BadParameter(f"no fault is called {only!r}; there are {', '.join(map(str, able))}")
    while True:
        yield from rng.sample(wanted, len(wanted))


@click.command(epilog="Example: python tests/pipeline/chaos.py --events 5 --only kill --only fill:work")
@click.option("--events", default=100, show_default=True, help="Faults in all.")
@click.option("--per-run", default=8, show_default=True, help="Faults in one run.")
@click.option("--seed", default=0, show_default=True, help="Of faults and moments.")
@click.option("--only", multiple=True, help="A fault or the start of its name; may be given several times.")
@click.option("--stage", "stages", multiple=True, help="Strike this stage alone; may be given several times.")
@click.option("--base", type=click.Path(path_type=Path), help="A finished project; else one is made.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("work/chaos"), show_default=True)
def main(
    events: int,
    per_run: int,
    seed: int,
    only: tuple[str, ...],
    stages: tuple[str, ...],
    base: Path | None,
    out: Path,
) -> None:
    """Strike the smoke graph with faults; exit with 1 if a promise was broken.

    Events are written to OUT/events.jsonl as they happen; what the runs said lies beside it.
    """
    mounts, rng, out = isolated(), random.Random(seed), out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / "runs", ignore_errors=True)
    (out / "events.jsonl").unlink(missing_ok=True)
    if not mounts:
        print("No volume is filled or made read-only: mounting needs root.")
    base = base or finished(out / "base")
    print(f"run  {'fault':16}  {'moment':29}  {'until done':8}  {'what was hit':64}  what was seen")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the sandbox is removed
    played: list[Event] = []
    cards, number, broken = deck(only, stages, mounts, rng), 0, 0
    while len(played) < events:
        faults = [next(cards) for _ in range(min(per_run, events - len(played)))]
        with tempfile.TemporaryDirectory(prefix="cc-") as root:
            sandbox = Sandbox(Path(root, "s"), mounts=mounts)
            try:
                done, problems = play(number, faults, stages, sandbox, base, out, rng)
            finally:
                sandbox.remove()
        verdict = "; ".join(problems) or "all outputs equal, nothing left behind"
        print(f"     {'BROKEN  ' if problems else ''}run {number}: {verdict}", flush=True)
        _note(out, {"run": number, "events": len(done), "problems": problems})
        played, number = played + done, number + 1
        broken += bool(problems or any(event.problems for event in done))
    healed = sum(event.seen == "healed" for event in played)
    print(
        f"{len(played)} events in {number} runs: {healed} healed, {len(played) - healed} ended with a message."
    )
    sys.exit(1 if broken else 0)


def show(event: Event) -> None:
    """Print a row of the table."""
    moment = f"{event.stage} {'end ' if event.at_end else ''}+{event.delay} s"
    seen = " ".join(event.seen.split())[:100]
    print(f"{event.run:3}  {event.fault:16}  {moment:29}  {event.seconds:6} s  {event.place[:64]:64}  {seen}")
    for problem in event.problems:
        print(f"     BROKEN  {problem}")
    sys.stdout.flush()


def finished(folder: Path) -> Path:
    """Return a new copy of the repository after an undisturbed run of the smoke profile."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    project = Project.create(folder)
    project.environment["PYTHONPATH"] = str(folder / "src")
    project.run("caramel", "profile", "smoke")
    project.run("dvc", "repro")
    return folder


if __name__ == "__main__":
    main()
