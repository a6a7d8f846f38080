"""DVC's own files: what a killed process leaves of them, and how that is mended without losing finished work.

DVC writes ``dvc.lock`` and ``.dvc/tmp/rwlock`` in place. A process that is killed meanwhile leaves none, or half,
of what they held, and DVC then refuses every command. ``.dvc/tmp/lock`` and ``rwlock.lock`` are held by the
system for a process, so nothing is left of those.

What ``dvc.lock`` held is also in git, as of the last commit, and in DVC's run cache, which knows the outputs of
every stage that ended on this machine. So git's version is put back, and ``dvc repro`` takes the outputs of
stages that changed since then from the run cache instead of running them.

A merge of two branches that both ran the graph stops in ``dvc.lock`` with marks of conflict, which DVC refuses as well. Git
then holds both sides whole. This branch's is put back, and what the other side has otherwise is named.
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
from caramel.runtime.git import read_git_file

LOCK = "dvc.lock"
RWLOCK = Path(".dvc", "tmp", "rwlock")
BROKEN = Path(".dvc", "tmp", "dvc.lock.broken")  # where a broken lock is kept; git ignores it
_DIGEST = re.compile(r"[0-9a-f]{32}(\.dir)?")
_CONFLICT = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)
OTHER_SIDE = ":3"  # git's revision of a file on the other side of an unfinished merge, rebase or stash


def read_lock(root: Path) -> dict[str, Any]:
    """Return what ``dvc.lock`` holds: of ``stages`` each one's ``outs`` with ``path`` and ``md5``.

    Where there is no such file it holds nothing.

    Raises:
        DataError: a killed process or an edit left it broken; DVC refuses it as well.
        ResourceError: the system does not let it be read.
    """
    try:
        content = read_plain(root / LOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ResourceError(
            f"{root / LOCK} cannot be read: {error.strerror}. Mend its permissions or its volume."
        ) from error
    try:
        return parse_lock(content, str(root / LOCK))
    except DataError as error:
        raise DataError(f"{error} Run `caramel doctor --fix`.") from error


@lru_cache(maxsize=2)  # half a second for the lock of all stages, which every tracked run asks for
def parse_lock(content: bytes, where: str) -> dict[str, Any]:
    """Return what a lock file holds, not to be changed, if DVC would take it and every output has its hash.

    An output that a version-aware remote keeps is listed file by file; it gets the hash of that listing.

    Raises:
        DataError: it is not so.
    """
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils.serialize import ParseError, parse_yaml
    from voluptuous import Invalid

    try:
        lock: dict[str, Any] = COMPILED_LOCKFILE_SCHEMA(parse_yaml(content.decode(), where))
    # YAML's constructors raise what Python's own conversions do.
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
        return "a merge of git's stopped in it, and it holds both versions between marks of conflict"
    return str(error) if content.strip() else "it is empty"


def compute_listing_hash(files: Mapping[str, str]) -> str:
    """Return DVC's hash of a folder, of path in the folder -> MD5 of all its files."""
    listing = [{"md5": digest, "relpath": name} for name, digest in sorted(files.items())]
    text = json.dumps(listing, sort_keys=True).encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest() + ".dir"


def lock_in_git(root: Path, revision: str = "HEAD") -> str | None:
    """Return ``dvc.lock`` as of a revision, the last commit; None if git has none that is whole.

    Raises:
        ResourceError: git fails, which does not say that it has none.
    """
    content = read_git_file(revision, LOCK, root)
    if content is None:
        return None
    with suppress(DataError):
        parse_lock(content, LOCK)
        return content.decode()
    return None


def mend_lock(root: Path) -> str:
    """Put git's version in place of a broken ``dvc.lock``, or remove it where git has none; say what was done.

    Raises:
        ResourceError: DVC is at work in this project, or git fails.
    """
    refuse_beside(root)
    text = lock_in_git(root)
    dropped = _describe_dropped(root, text or "")
    (root / BROKEN.parent).mkdir(parents=True, exist_ok=True)
    shutil.move(root / LOCK, root / BROKEN)  # .dvc may be a volume of its own
    done = f"{LOCK} was removed"
    if text is not None:
        write_text(root / LOCK, text)
        done = f"{LOCK} is the last commit's again"
    return f"{done}; the broken one is {BROKEN}.{dropped} Run `dvc repro`: what had ended is taken from its run cache"


def _describe_dropped(root: Path, last: str) -> str:
    """Return which results of the other side of an unfinished merge ``last``, the last commit's lock, lacks; nothing if there is no merge."""
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
    """Return the stages of a lock that git has whole; none of an empty text."""
    stages: Mapping[str, Any] = parse_lock(text.encode(), LOCK).get("stages", {}) if text else {}
    return stages


def find_rwlock_problem(root: Path) -> str | None:
    """Return why DVC would refuse ``.dvc/tmp/rwlock``, None if it would not.

    Entries of processes that have ended are no trouble: DVC drops them. Those of a process whose number was
    given to another program, after a restart of the machine, are, and those of one that was killed and that nobody has
    waited for: DVC takes it to be running, in a container whose first process is no init for ever.
    """
    try:
        held = json.loads(read_plain_text(root / RWLOCK))
        holders = [*held.get("write", {}).values(), *(i for of in held.get("read", {}).values() for i in of)]
        numbers = {(int(holder["pid"]), str(holder["cmd"])) for holder in holders}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        writing = next(_iter_dvc_processes(root.resolve()), None)  # it may be half written just now
        return None if writing else f"{RWLOCK} is cut: a process was killed while it wrote it"
    blocking = [number for number, _ in numbers if _is_stale_process(number)]
    return f"{RWLOCK} names process {blocking[0]}, which is not DVC's, or was killed" if blocking else None


def mend_rwlock(root: Path) -> str:
    """Remove ``.dvc/tmp/rwlock``, which DVC makes anew; say so.

    Raises:
        ResourceError: DVC is at work in this project.
    """
    refuse_beside(root)
    (root / RWLOCK).unlink(missing_ok=True)
    return f"{RWLOCK} was removed; DVC makes a new one"


def _is_stale_process(number: int) -> bool:
    """Return whether there is a process of that number and it is not DVC, or has ended and is still listed."""
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
    return any(Path(word).name == "dvc" for word in words[:4])


def refuse_beside(root: Path) -> None:
    """Raise a ResourceError if DVC is at work in the project."""
    for number in _iter_dvc_processes(root.resolve()):
        raise ResourceError(f"DVC is at work in {root.resolve()} (process {number}). Wait for it, or end it.")


def _iter_dvc_processes(root: Path) -> Iterator[int]:
    """Yield the numbers of DVC's processes in the project's folder."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _is_dvc(process.cmdline()) and Path(process.cwd()).is_relative_to(root):
                yield process.pid
