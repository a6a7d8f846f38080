"""Strike a running graph at random moments, and see that it heals or says what to do: `make chaos`.

A run is `dvc repro` of the smoke profile in a copy of the repository, whose folders are volumes of their own.
Its plan draws faults and moments from the seed. After each fault the run must go on by itself, or end in bounded
time with one message and no traceback, and do what is left once its cure was applied: space was freed, the volume
made writable, a link removed, `caramel doctor --fix` called where the message says so, `dvc repro` called again. At the end of the run
all outputs are those of an undisturbed one, nothing is left running or locked, and every tracked run is finished.

One run of six starts from nothing; the others redo the stages that are struck. Mounting needs root;
without it no volume is filled or made read-only. Ten events took eleven minutes on two cores with other work beside.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from project import Project
from sandbox import Sandbox, isolated
from strikes import FAULTS, MOUNTED, Fault
from struck_run import GONE, Event, Run, Violation
from verdicts import differing, left_locked, left_open, left_running, reached_outside, seconds

WHOLE = 1 / 6  # of the runs start from nothing
# The page tells what changed since the one before it. Nothing else differs between two undisturbed runs.
UNEQUAL = ("report/report.html",)


def plan(
    run: int, faults: list[Fault], stages: tuple[str, ...], times: dict[str, float], rng: random.Random
) -> list[Event]:
    """Draw stage and moment of each fault, in order of the graph; of one stage again only when there is no other."""
    names, events, free = list(times), [], set(times)
    for fault in sorted(faults, key=lambda fault: len(fault.stages(names))):
        able = fault.stages([name for name in names if not stages or name in stages])
        stage = rng.choice([name for name in able if name in free] or able)
        free.discard(stage)
        at_end = fault.where in ("dvc", "group", "everything") and rng.random() < 0.4
        latest = 0.6 if at_end else times[stage] * 0.8
        delay = 0.0 if fault.where == "starting raylet" else rng.uniform(0, latest)
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
    whole = rng.random() < WHOLE and not stages
    sandbox.undo(set(times) if whole else {event.stage for event in events})
    logs = out / "runs" / f"{number:03}"
    logs.mkdir(parents=True)
    run, done = Run(sandbox, logs, rng), []
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
        sandbox.project.run(
            "caramel", "doctor", "--fix", check=False
        )  # is free to remove what is broken, no more
    except Violation as violation:
        return done, [f"not finished: {violation}"]
    different = [name for name in differing(expected, sandbox.outputs()) if name not in UNEQUAL]
    problems = [f"other output: {name}" for name in different]
    problems += [f"left running: {name}" for name in left_running(sandbox)]
    problems += [f"held: {name}" for name in left_locked(sandbox)]
    problems += reached_outside(sandbox)
    if not any(event.fault.endswith(":mlruns") for event in events):  # a flipped byte may be in a name
        problems += [f"tracked run: {row}" for row in left_open(sandbox)]
    return done, problems


def _note(out: Path, row: dict[str, object]) -> None:
    with (out / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


def deck(only: tuple[str, ...], stages: tuple[str, ...], mounts: bool, rng: random.Random) -> Iterator[Fault]:
    """Yield faults without end, each as often as the others."""
    able = [fault for fault in FAULTS if mounts or fault.kind not in MOUNTED]
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
    kinds = Counter(
        event.seen if event.seen in ("healed", "not felt", GONE) else "a message" for event in played
    )
    counts = "; ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"{len(played)} events in {number} runs: {counts}. Runs with a broken promise: {broken}.")
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
    project.run("caramel", "config", "use", "smoke")
    project.run("dvc", "repro")
    return folder


if __name__ == "__main__":
    main()
