"""What must hold after a fault: one clear message or none, equal outputs, nothing left behind."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

from filelock import FileLock, Timeout
from sandbox import BEHIND, ELSEWHERE, OF_OTHERS, RAN, Sandbox, end, wait_for

CURE = re.compile(r"dvc |caramel |free|room|remove|move|wait|end that|mount|writable|again", re.IGNORECASE)
TUNE = re.compile(r"== |[|+]|(Current time|Using|Logical|Result|Number of|More|Trial|\.\.\.)\b")  # its report
NOISE = 8  # lines that may stand before a message
LEFT = 60.0  # seconds after which nothing of a run may be left


def message(said: str) -> str:
    """Return the message with which a run ended: the stage's, else DVC's own."""
    found = re.findall(r"^Error: .*?(?=\n\n|\nERROR: |\Z)", said, re.MULTILINE | re.DOTALL)
    found += re.findall(r"^(?:ERROR: |'.*dvc\.lock').*", said, re.MULTILINE)
    return str(found[0]) if found else ""


def broken_promises(said: str, *, failed: bool, volume: str = "") -> list[str]:
    """Return what is wrong with what a run said: a traceback, no message, several, one without a cure.

    ``volume`` is the mount point of the one that is full, out of inodes or read-only: a stage that stops names it.
    """
    problems = ["a traceback"] if "Traceback (most recent call last)" in said else []
    if not failed:
        return problems
    own, text = len(re.findall(r"^Error: ", said, re.MULTILINE)), message(said)
    if own > 1:
        problems.append(f"{own} messages")
    elif own == 0 and "failed to run: " in said:
        problems.append(f"no message of the stage: {text}")
    elif not text:
        problems.append("no message")
    elif own and not CURE.search(text):
        problems.append("no cure")
    elif own and volume and f"its volume {volume}" not in text and "already running" not in text:
        problems.append("the volume is not named")
    noise = _before_message(said) if own else []
    if len(noise) > NOISE:
        problems.append(f"{len(noise)} lines before the message")
    return problems


def _before_message(said: str) -> list[str]:
    before = said.partition("\nError: ")[0]
    stage = before.rpartition("\n> python ")[2].splitlines()[1:]
    return [line for line in stage if line.strip() and not TUNE.match(line)]


def differing(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return the outputs that are missing, more, or other than those of the undisturbed run."""
    return sorted(name for name in expected | found if expected.get(name) != found.get(name))


def left_running(sandbox: Sandbox) -> list[str]:
    """Return what does not end by itself, and end it."""
    wait_for(sandbox.processes(), seconds=LEFT)
    return end(sandbox.processes())


def left_locked(sandbox: Sandbox) -> list[str]:
    """Return the lock files that are held."""
    held = []
    for path in [*sandbox.folder.glob("work/locks/*"), *sandbox.folder.glob("mlruns/*.lock")]:
        try:
            with FileLock(path, timeout=0):
                pass
        except Timeout:
            held.append(str(path.relative_to(sandbox.folder)))
    return held


def reached_outside(sandbox: Sandbox) -> list[str]:
    """Return what happened that a link or a planted setting wanted."""
    aim = sandbox.root / ELSEWHERE
    changed = aim.exists() and aim.read_bytes() != ELSEWHERE.encode()
    behind = [sandbox.root / BEHIND / name for name in OF_OTHERS]
    changed |= behind[0].parent.exists() and any(_read(path) != ELSEWHERE for path in behind)
    ran = sandbox.root / RAN
    said = [f"a program that was planted was run {ran.read_text()[:200]}".rstrip()] if ran.exists() else []
    return said + (["a file that a link leads to was changed"] if changed else [])


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def left_open(sandbox: Sandbox) -> list[str]:
    """Return the tracked runs that stand twice or did not finish."""
    database = sandbox.folder / "mlruns" / "mlflow.db"
    if not database.exists():
        return []
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT name, count(*), max(status) FROM runs GROUP BY name").fetchall()
    except sqlite3.DatabaseError as error:
        return [f"{database}: {error}"]
    finally:
        connection.close()
    return [json.dumps(row) for row in rows if row[1:] != (1, "FINISHED")]


def seconds(base: Path) -> dict[str, float]:
    """Return how long each stage took in the undisturbed run."""
    rows = [json.loads(line) for line in (base / "work" / "timings.jsonl").read_text().splitlines()]
    return {row["stage"]: row["seconds"] for row in rows}
