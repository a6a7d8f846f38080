"""Runs a command on one mutated input, and judges what a user would see."""

from __future__ import annotations

import json
import os
import runpy
import signal
import stat
import sys
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from click.testing import CliRunner
from sandbox import GIB, RAN, SECRET, Files, peak, reset_peak, snapshot
from specials import attended, describe

import caramel
from caramel import cli

SECONDS = 20  # of the processor: a command that takes more hangs
LONGEST = 60  # seconds on the clock, where it waits for something, or the machine has much else to do


MEMORY = 2 * GIB  # more than this on top of what the process has is too much


PACKAGE = Path(caramel.__file__).parent


PIPELINES = PACKAGE.parents[1] / "pipelines"


@dataclass(frozen=True)
class Seen:
    """What an oracle looks at."""

    arguments: list[str]
    valid: Files  # the input before it was mutated
    files: Files  # what the command was given
    code: int
    said: str
    box: Path
    outside: Path
    run: Callable[[list[str]], Outcome]


Oracle = Callable[[Seen], Iterator[str]]


@dataclass(frozen=True)
class Target:
    """One reader through one command.

    Attributes:
        name: in tables and of ``--only``.
        write: writes a valid input into the current folder.
        command: arguments of ``caramel``, or ``stage NAME``.
        files: patterns of the files that are mutated.
        oracles: say what is silently wrong.
        weight: share of the inputs.
        options: mutated are also the arguments.
        rewrites: files that the command may change.
        serve: started once a batch; returns what ``@URL@`` in the arguments stands for.
        codes: exit codes of the valid input.
        build: makes what the command reads of the files that were mutated.
        environment: variables of the command; ``@URL@`` as in the arguments.
        odd: the name of the sandbox's folder is odd.
    """

    name: str
    write: Callable[[], None]
    command: tuple[str, ...]
    files: tuple[str, ...] = ("data/**/*",)
    oracles: tuple[Oracle, ...] = ()
    weight: float = 1.0
    options: bool = False
    rewrites: tuple[str, ...] = ()
    serve: Callable[[Path], str] | None = None
    codes: tuple[int, ...] = (0,)
    build: Callable[[Path], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    odd: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a user saw, and what was wrong with it: (kind, detail) each."""

    code: int
    said: str = ""
    trace: str = ""
    wrong: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    growth: int = 0

    def line(self) -> str:
        return json.dumps(asdict(self))


class Hang(BaseException):
    """Raised by the clock; nothing may catch it."""


def _ring(sign: int, _: object) -> None:
    """Stop the command, unless it was the machine that gave it no processor for so long."""
    starved = _starved() - _since[0]
    if sign == signal.SIGALRM and starved > 1:
        _since[0] += starved
        signal.setitimer(signal.ITIMER_REAL, starved)
    else:
        raise Hang


_since = [0.0]


def _starved() -> float:
    """Return the seconds that this process was ready to run and could not."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def _wind(clock: float, processor: float) -> None:
    """Let the alarm ring after so many seconds of either; never for 0."""
    _since[0] = _starved()
    for sign, timer, seconds in (
        (signal.SIGALRM, signal.ITIMER_REAL, clock),
        (signal.SIGPROF, signal.ITIMER_PROF, processor),
    ):
        signal.signal(sign, _ring)
        signal.setitimer(timer, seconds)


def invoke(arguments: list[str]) -> Outcome:
    """Run a command as a user would, and return what is seen."""
    start, base = time.monotonic(), reset_peak()
    code, trace, wrong = 0, "", []
    _wind(LONGEST, SECONDS)
    with CliRunner().isolation() as streams:
        try:
            try:
                _call(arguments)
            finally:
                _wind(0, 0)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except Hang as error:
            code, wrong = -1, [("hang", place_of(error))]
        except BaseException as error:  # noqa: BLE001 whatever a user would see as a traceback
            code, trace = -1, "".join(traceback.format_exception(error))[-6000:]
            kind = "memory" if isinstance(error, MemoryError) else "traceback"
            wrong = [(kind, f"{type(error).__name__} in {place_of(error)}")]
        sys.stdout.flush()
        sys.stderr.flush()
        said = streams[-1].getvalue().decode("utf-8", "backslashreplace")
    growth = peak() - base
    if growth > MEMORY:
        wrong.append(("memory", f"{growth / GIB:.1f} GiB"))
    return Outcome(code, said, trace, wrong, time.monotonic() - start, growth)


def _call(arguments: list[str]) -> None:
    if arguments[:1] == ["stage"]:
        runpy.run_path(str(PIPELINES / f"{arguments[1]}.py"), run_name="__main__")
    else:
        cli.main(arguments)


def place_of(error: BaseException) -> str:
    """Return the innermost place in caramel that an error passed: file and function."""
    found = "outside"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        for root in (PACKAGE, PIPELINES):
            if file.is_relative_to(root):
                found = f"{file.relative_to(root)}:{frame.f_code.co_name}"
    return found


def judge(target: Target, arguments: list[str], box: Path, valid: Files) -> Outcome:
    """Run a command on a prepared sandbox and return its outcome, with all that is wrong."""
    _forget()
    if target.build is not None:
        target.build(box)
    files, secret, special = snapshot(box), (box.parent / SECRET).read_bytes(), describe(box)
    os.chdir(box)
    with attended([box / name for name, about in special.items() if about[0] == stat.S_IFIFO]):
        outcome = invoke(arguments)
    wrong = list(outcome.wrong) + [("wrong", text) for text in _escaped(box, special, arguments)]
    if not wrong:
        seen = Seen(arguments, valid, files, outcome.code, outcome.said, box, box.parent / SECRET, invoke)
        wrong += [("wrong", text) for text in _said_badly(outcome)]
        wrong += [("wrong", text) for text in _changed(target, box, files, secret)]
        for oracle in target.oracles:
            wrong += [("wrong", f"{oracle.__name__}: {text}") for text in oracle(seen)]
    os.chdir("/")
    return Outcome(outcome.code, outcome.said, outcome.trace, wrong, outcome.seconds, outcome.growth)


_CACHES: dict[ModuleType, list[Any]] = {}


def _forget() -> None:
    """Empty all caches of caramel: what an earlier input left in the process is not for this one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "caramel":
            if module not in _CACHES:
                _CACHES[module] = [*_list_caches(module)]
            for cached in _CACHES[module]:
                cached.cache_clear()


def _list_caches(module: ModuleType) -> Iterator[Any]:
    """Yield the functions in a module that have a cache."""
    for value in list(vars(module).values()):
        if not isinstance(value, type) and callable(getattr(value, "cache_clear", None)):
            yield value


def _escaped(box: Path, special: Mapping[str, tuple[int, int, str]], arguments: list[str]) -> Iterator[str]:
    """Yield what ran, was written outside of the folder, or is no longer the device, FIFO or link that it was."""
    if (box.parent / RAN).exists():
        yield "a program that the input names was run, or a server asked"
    others = {path.name for path in box.parent.iterdir()} - {box.name, SECRET, RAN}
    if others and not any(".." in word for word in arguments):
        yield f"wrote outside of the folder: {sorted(others)[0]!r}"
    now = describe(box)
    if lost := [name for name, about in special.items() if now.get(name) != about]:
        yield f"{lost[0]} is no longer what it was"


def _said_badly(outcome: Outcome) -> Iterator[str]:
    if outcome.code not in (0, 1, 2):
        yield f"exit code {outcome.code}"
    if outcome.code and not outcome.said.strip():
        yield "ends in silence"
    if "Traceback (most recent call last)" in outcome.said:
        yield "prints a traceback"
    said = outcome.said.replace("\r", "").replace("\x1b[A", "")  # of progress bars
    odd = sorted(
        {f"U+{ord(c):04X}" for c in said if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}
    )
    if odd:
        yield f"prints control characters {' '.join(odd[:3])}"


def _changed(target: Target, box: Path, files: Files, secret: bytes) -> Iterator[str]:
    """Yield the inputs that are not what they were."""
    for name, data in files.items():
        path = box / name
        if not name.startswith(target.rewrites or "\0") and (not path.is_file() or path.read_bytes() != data):
            yield f"the input changed or is gone (.{name.rpartition('.')[2]})"
    outside = box.parent / SECRET
    if not outside.is_file() or outside.read_bytes() != secret:
        yield "a file outside of the folder changed or is gone"
