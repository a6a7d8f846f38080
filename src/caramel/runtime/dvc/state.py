"""Repair DVC's own files after a process was killed, without losing finished work.

DVC writes ``dvc.lock`` and ``.dvc/tmp/rwlock`` in place. A process that is killed meanwhile leaves them empty
or truncated, and DVC then refuses every command. The system holds ``.dvc/tmp/lock`` and ``rwlock.lock`` for a
process, so nothing remains of those.

The content of ``dvc.lock`` is also in git, as of the last commit, and in DVC's run cache, which knows the
outputs of every stage that finished on this machine. So git's version is restored, and ``dvc repro`` takes
the outputs of stages that changed since then from the run cache instead of running them.

A merge of two branches that both ran the graph stops in ``dvc.lock`` with conflict markers, which DVC refuses
as well. Git then has both complete versions. This branch's version is restored, and the differences of the
other one are listed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from caramel.errors import DataError, ResourceError, format_items
from caramel.io.files import write_text
from caramel.io.regular_files import read_plain, read_plain_text
from caramel.runtime.fork_client import FORK_SERVER
from caramel.runtime.git import read_git_file

LOCK = "dvc.lock"
RWLOCK = Path(".dvc", "tmp", "rwlock")
BROKEN = Path(".dvc", "tmp", "dvc.lock.broken")  # backup of a broken lock; git ignores it
_DIGEST = re.compile(r"[0-9a-f]{32}(\.dir)?")
_CONFLICT = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)
OTHER_SIDE = ":3"  # git's revision of a file on the other side of an unfinished merge, rebase or stash


def read_lock(root: Path) -> dict[str, Any]:
    """Return the content of ``dvc.lock``: for each of its ``stages`` the ``outs`` with ``path`` and ``md5``.

    If the file is missing, the result is empty.

    Raises:
        DataError: a killed process or an edit broke the file; DVC refuses it as well.
        ResourceError: the system does not allow reading it.
    """
    try:
        content = read_plain(root / LOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ResourceError(
            f"{root / LOCK} cannot be read: {error.strerror}. Fix its permissions or its volume."
        ) from error
    try:
        return parse_lock(content, str(root / LOCK))
    except DataError as error:
        raise DataError(f"{error} Run `caramel doctor --fix`.") from error


@lru_cache(maxsize=2)  # parsing takes half a second for all stages, and every tracked run needs it
def parse_lock(content: bytes, where: str) -> dict[str, Any]:
    """Return the content of a lock file, read-only, if DVC would accept it and every output has its hash.

    An output in a version-aware remote is listed file by file. It gets the hash of that listing.

    Raises:
        DataError: the file is invalid.
    """
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils.serialize import ParseError, parse_yaml
    from voluptuous import Invalid

    try:
        lock: dict[str, Any] = COMPILED_LOCKFILE_SCHEMA(parse_yaml(content.decode(), where))
    # YAML's constructors raise the errors of Python's own conversions.
    except (Invalid, ParseError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{where} is not what DVC writes: {_explain_broken(content, error)}.") from error
    for out in (out for stage in lock.get("stages", {}).values() for out in stage.get("outs", ())):
        files = {file["relpath"]: file.get("md5", "") for file in out.get("files", ())}
        if files and "md5" not in out:
            out["md5"] = compute_listing_hash(files)
        if not all(_DIGEST.fullmatch(digest) for digest in (out.get("md5", ""), *files.values())):
            raise DataError(f"{where} is not what DVC writes: the hash of {out['path']!r} is cut or missing.")
    return lock


def _explain_broken(content: bytes, error: Exception) -> str:
    """Return why a lock file cannot be parsed."""
    if _CONFLICT.search(content):
        return "a git merge stopped in it, and it holds both versions between conflict markers"
    return str(error) if content.strip() else "it is empty"


def compute_listing_hash(files: Mapping[str, str]) -> str:
    """Return DVC's hash of a folder from the MD5 of each file by path."""
    listing = [{"md5": digest, "relpath": name} for name, digest in sorted(files.items())]
    text = json.dumps(listing, sort_keys=True).encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest() + ".dir"


def lock_in_git(root: Path, revision: str = "HEAD") -> str | None:
    """Return ``dvc.lock`` as of a revision, by default the last commit; None if git has no valid one.

    Raises:
        ResourceError: git fails, so it is unknown whether it has one.
    """
    content = read_git_file(revision, LOCK, root)
    if content is None:
        return None
    with suppress(DataError):
        parse_lock(content, LOCK)
        return content.decode()
    return None


def mend_lock(root: Path) -> str:
    """Replace a broken ``dvc.lock`` by git's version, or remove it if git has none; return a message.

    Raises:
        ResourceError: DVC is running in this project, or git fails.
    """
    refuse_beside(root)
    text = lock_in_git(root)
    dropped = _describe_dropped(root, text or "")
    (root / BROKEN.parent).mkdir(parents=True, exist_ok=True)
    shutil.move(root / LOCK, root / BROKEN)  # .dvc may be a separate volume
    done = f"{LOCK} was removed"
    if text is not None:
        write_text(root / LOCK, text)
        done = f"{LOCK} is the last commit's again"
    return f"{done}; the broken one is {BROKEN}.{dropped} Run `dvc repro`: what had ended is taken from its run cache"


def _describe_dropped(root: Path, last: str) -> str:
    """Return which results of an unfinished merge's other side are missing in the last commit's lock.

    ``last`` is that lock. Without a merge the text is empty.
    """
    other_side = lock_in_git(root, OTHER_SIDE)
    if other_side is None:
        return ""
    stages = [_read_stages(text) for text in (last, other_side)]
    dropped = [name for name, stage in stages[1].items() if stages[0].get(name) != stage]
    if not dropped:
        return f" The other side of the merge has the same results. `git add {LOCK}` ends the conflict."
    return (
        f" It lacks what the other side of the merge has of {len(dropped)} stages:\n{format_items(dropped, 50)}\n"
        f"Stages that this machine has not run are run again. `git checkout --theirs {LOCK}` takes the other side's instead, and "
        f"lacks this one's. `git add {LOCK}` ends the conflict."
    )


def _read_stages(text: str) -> Mapping[str, Any]:
    """Return the stages of a valid lock in git; empty for an empty text."""
    stages: Mapping[str, Any] = parse_lock(text.encode(), LOCK).get("stages", {}) if text else {}
    return stages


def find_rwlock_problem(root: Path) -> str | None:
    """Return why DVC would refuse ``.dvc/tmp/rwlock``, or None if it would not.

    Entries of ended processes do no harm: DVC drops them. Two other kinds of entries do:

    - entries of a process whose number now belongs to another program, after a restart of the machine
    - entries of a killed process that its parent has not waited for. DVC takes it to be running, in a
      container whose first process is not an init even forever.
    """
    try:
        held = json.loads(read_plain_text(root / RWLOCK))
        holders = [*held.get("write", {}).values(), *(i for of in held.get("read", {}).values() for i in of)]
        numbers = {(int(holder["pid"]), str(holder["cmd"])) for holder in holders}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        writing = next(_iter_dvc_processes(root.resolve()), None)  # it may be writing the file right now
        return None if writing else f"{RWLOCK} is truncated: a process was killed while it wrote it"
    blocking = [number for number, _ in numbers if _is_stale_process(number)]
    return f"{RWLOCK} names process {blocking[0]}, which is not DVC's, or was killed" if blocking else None


def mend_rwlock(root: Path) -> str:
    """Remove ``.dvc/tmp/rwlock``, which DVC creates anew; return a message.

    Raises:
        ResourceError: DVC is running in this project.
    """
    refuse_beside(root)
    (root / RWLOCK).unlink(missing_ok=True)
    return f"{RWLOCK} was removed; DVC makes a new one"


def _is_stale_process(number: int) -> bool:
    """Return whether a process of that number exists and is not DVC, or has ended but is still listed."""
    import psutil

    try:
        return not _is_dvc(psutil.Process(number).cmdline())
    except psutil.ZombieProcess:
        return True
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _is_dvc(words: list[str]) -> bool:
    """Return whether a command line is DVC's; that of ``fork_server``, whose forks are stages, has its name too."""
    return any(Path(word).name == "dvc" for word in words[:4]) and FORK_SERVER not in words


def refuse_beside(root: Path) -> None:
    """Raise a ResourceError if DVC is running in the project."""
    for number in _iter_dvc_processes(root.resolve()):
        raise ResourceError(f"DVC is at work in {root.resolve()} (process {number}). Wait for it, or end it.")


def _iter_dvc_processes(root: Path) -> Iterator[int]:
    """Yield the numbers of DVC's processes in the project's folder."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _is_dvc(process.cmdline()) and Path(process.cwd()).is_relative_to(root):
                yield process.pid
