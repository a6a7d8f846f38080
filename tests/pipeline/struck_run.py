"""One run of the graph that is struck by faults, one after the other, and what comes of each."""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox import VOLUMES, Attempt, Sandbox
from strikes import MOUNTED, Fault, Struck, strike
from verdicts import broken_promises, message

LIMIT = 600.0  # seconds in which a run that was struck must end or go on
GONE = "the run was gone; the next one went on"


@dataclass
class Event:
    """A fault, its moment, and what came of it."""

    run: int
    fault: str
    stage: str
    delay: float  # seconds after the stage's start
    at_end: bool  # or after its process has ended, when DVC writes
    place: str = ""
    seen: str = ""  # healed, or the messages
    seconds: float = 0.0  # until the stage was done
    problems: list[str] = field(default_factory=list)


class Violation(Exception):
    """The run cannot go on."""


class Run:
    """The attempts of one run. ``later`` are the events so far whose damage may be met by a later stage."""

    def __init__(self, sandbox: Sandbox, logs: Path, rng: random.Random) -> None:
        self.sandbox, self.logs, self.rng = sandbox, logs, rng
        self.attempt: Attempt | None = None
        self.later: list[Event] = []

    def suffer(self, event: Event) -> None:
        """Strike once, see what comes of it, and go on until the struck stage is done."""
        attempt, struck = self._strike(event)
        event.place, began, since = struck.place, time.monotonic(), len(attempt.said())
        seen: list[str] = []
        while self._failed(event, attempt, struck, since):
            seen.append(GONE if struck.gone else message(attempt.said()))
            event.seen = " | ".join(seen)
            if not struck.gone:
                struck.relieve()
                if sum(text != GONE and "already running" not in text for text in seen) > 1:
                    raise Violation("the cure did not help")
                self._cure(attempt.said())
            # What lasts and ended the run itself is met by the next one; all else is over.
            struck = replace(struck, gone=False) if struck.lasting and struck.gone else Struck(struck.place)
            attempt, since = self._start(), 0
        struck.relieve()
        event.seconds = round(time.monotonic() - began, 1)
        event.seen = event.seen or ("not felt" if struck.lasting else "healed")
        if event.seen == "healed" and not event.fault.startswith("kill"):
            self.later.append(event)

    def finish(self) -> None:
        """Go on until nothing is to be done; what DVC finds changed, it may do again, twice."""
        for _ in range(3 + len(self.later)):
            attempt = self._attempt()
            if not attempt.wait(lambda: False, 3 * LIMIT):
                raise Violation("no end of the run")
            if attempt.process.returncode == 0 and "Running stage" not in attempt.said():
                return
        raise Violation("DVC always finds something to do")

    def _start(self) -> Attempt:
        self.attempt = self.sandbox.attempt(self.logs)
        return self.attempt

    def _attempt(self) -> Attempt:
        """Return the attempt that runs, or a new one if the last ended well.

        It may also have ended with a message on what an earlier event has damaged, once for each.
        """
        if self.attempt is None or not self.attempt.ended():
            return self.attempt or self._start()
        if self.attempt.process.returncode:
            said = self.attempt.said()
            if not self.later:
                raise Violation(f"the run ended later: {message(said)}")
            event = self.later.pop()
            event.seen = f"later: {message(said)}"
            event.problems += broken_promises(said, failed=True)
            self._cure(said)
        return self._start()

    def _failed(self, event: Event, attempt: Attempt, struck: Struck, since: int) -> bool:
        """Wait until the stage is done, or the run ended; note what was said, and return whether it failed."""
        passed = (lambda: False) if struck.lasting else (lambda: attempt.passed(event.stage, since))
        if not attempt.wait(passed, LIMIT):
            raise Violation(f"no end within {LIMIT:.0f} s")
        failed = attempt.ended() and attempt.process.returncode != 0
        if not struck.gone:
            kind, where = event.fault.split(":")
            volume = str(self.sandbox.root / VOLUMES[where][0]) if kind in MOUNTED else ""
            event.problems += broken_promises(attempt.said(), failed=failed, volume=volume)
        return failed

    def _strike(self, event: Event) -> tuple[Attempt, Struck]:
        """Wait for the moment and strike; a stage that has ended before is done again, and struck sooner."""
        fault = Fault(*event.fault.split(":"))
        for tries in range(5):
            if self.attempt and self.attempt.ended() and self.attempt.process.returncode == 0:
                self.sandbox.undo({event.stage})
                event.delay = round(event.delay / (2 if tries else 1), 2)
            attempt = self._attempt()
            if not attempt.wait(lambda: attempt.driver(event.stage), LIMIT):  # noqa: B023
                raise Violation(f"stage {event.stage} did not start within {LIMIT:.0f} s")
            driver = attempt.driver(event.stage)
            if event.at_end:
                attempt.wait(lambda: not attempt.driver(event.stage), LIMIT)  # noqa: B023
            time.sleep(event.delay)
            while not attempt.ended():
                stage = attempt.stage()
                if stage and fault.stages([stage]):  # the next one, if that was over sooner
                    event.stage = stage
                struck = strike(fault, self.sandbox, attempt, event.stage, self.rng)
                if struck is not None:
                    return attempt, struck
                if driver is None or not driver.is_running():
                    attempt.wait(lambda: False, LIMIT)
                time.sleep(0.05)
        raise Violation("could not be struck")

    def _cure(self, said: str) -> None:
        """Do what the message says."""
        if "already running" in said:
            end = time.monotonic() + LIMIT
            while self.sandbox.drivers():
                if time.monotonic() > end:
                    raise Violation("a stage that was left behind does not end")
                time.sleep(0.5)
        if link := re.search(r"'([^']+)' is a link to", message(said)):
            (self.sandbox.folder / link[1]).unlink(missing_ok=True)
        if folder := re.search(r"'([^']+)' of Ray's temporary files", message(said)):
            shutil.rmtree(folder[1])
        if move := re.search(r"`(mv [^`]+)`", said):
            self.sandbox.project.run(*move[1].split())
        if "doctor" in said or "dvc.lock" in message(said) or "RWLock" in said:
            self.sandbox.project.run("caramel", "doctor", "--fix", check=False)
