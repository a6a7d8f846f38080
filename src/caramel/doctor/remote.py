"""What ``caramel doctor --remote`` looks at: whether DVC's remotes give back, whole, what ``dvc.lock`` needs.

DVC says that all is well where the list of a folder is in the remote, whatever became of the files in it, and it never
sends an object anew whose name is there. So all names are looked for here, and what the remote says of each.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from caramel.doctor.findings import FAIL, OK, WARN, Finding
from caramel.errors import CaramelError, DataError, shown, shown_address
from caramel.runtime.dvc.remote import Store, cache, explained, listing, md5_of, remote
from caramel.runtime.dvc.settings import remotes, settings
from caramel.runtime.dvc.state import read_lock

MD5 = re.compile(r'"?([0-9a-f]{32})"?')


def examine_remotes(root: Path) -> Iterator[Finding]:
    """Yield what is found of every remote of the project: each is reached, written to, and listed."""
    try:
        config = settings(root)
        names = list(remotes(config))
    except CaramelError as error:
        yield Finding(FAIL, "remote", str(error))
        return
    if not names:
        yield Finding(FAIL, "remote", "there is none", "dvc remote add -d NAME URL; see docs/remote.md")
    for name in names:
        try:
            yield from _examined(remote(config, name), cache(root), root, name)
        except CaramelError as error:
            yield Finding(FAIL, name, str(error))


def _examined(store: Store, mine: Store, root: Path, name: str) -> Iterator[Finding]:
    there = store.objects()
    if folder := store.unmounted():
        yield Finding(WARN, name, f"there is no folder {folder}", "mount it, or make it if it is new")
    else:
        yield Finding(OK, name, f"{shown_address(store.root)} is reached; {len(there)} objects")
        yield _writable(store, name)
    wanted = needed(store, mine, root)
    missing = [f"{path} ({oid})" for oid, path in wanted.items() if oid not in there]
    wrong = [f"{wanted[oid]} ({oid})" for oid in unlike(wanted, there, mine)]
    if missing or wrong:
        said = [
            f"{len(lines)} of {len(wanted)} objects that dvc.lock needs are {what}:\n{shown(lines)}"
            for lines, what in ((missing, "missing"), (wrong, "not what their names say"))
            if lines
        ]
        yield Finding(FAIL, name, "\n".join(said), "caramel doctor --remote --fix, where the data is")
    else:
        yield Finding(OK, name, f"all {len(wanted)} objects that dvc.lock needs are there")


def _writable(store: Store, name: str) -> Finding:
    """Whether a file can be put beside the objects and removed again."""
    place = store.fs.join(store.fs.parent(store.root), f"caramel-doctor-{secrets.token_hex(8)}")
    try:
        with explained(store.label):
            store.fs.makedirs(store.fs.parent(place), exist_ok=True)
            store.fs.pipe_file(place, b"written by caramel doctor --remote; may be removed\n")
            store.fs.rm_file(place)
    except (CaramelError, OSError) as error:
        return Finding(WARN, name, f"can be read, not written: {error}", "`dvc push` needs other credentials")
    return Finding(OK, name, "can be written")


def needed(store: Store, mine: Store, root: Path) -> dict[str, str]:
    """Return object -> path of all that ``dvc.lock`` names; the files of a folder whose list is nowhere are not known.

    Lists are taken from the project's cache, or else from the remote.

    Raises:
        DataError: ``dvc.lock`` or a list is broken.
        ResourceError: the remote fails.
    """
    outs = [out for stage in read_lock(root).get("stages", {}).values() for out in stage.get("outs", ())]
    found = {out["md5"]: out["path"] for out in outs}
    with TemporaryDirectory() as folder:
        for oid in [oid for oid in found if oid.endswith(".dir")]:
            to = Path(folder, oid)
            for place in (mine, store):
                try:
                    place.fetch(oid, to)
                    inside = listing(to, oid)
                    found |= {digest: f"{found[oid]}/{name}" for name, digest in inside.items()}
                    break
                except DataError:
                    continue  # it is told as missing, or wrong
    return found


def unlike(wanted: Mapping[str, str], there: Mapping[str, Mapping[str, Any]], mine: Store) -> list[str]:
    """Return the objects of which the remote says that they are not what their names say.

    S3 tells the MD5 of an object that was sent in one piece, unless it encrypts with keys of its own: then none is
    right, and none counts. Besides, an object has as many bytes as it has in the project's cache.
    """
    told = {
        oid: match[1] for oid in wanted if (match := MD5.fullmatch(str(there.get(oid, {}).get("ETag", ""))))
    }
    wrong = {oid for oid, digest in told.items() if digest != oid.removesuffix(".dir")}
    sizes = {oid: there[oid]["size"] for oid in wanted if oid in there and Path(mine.place(oid)).is_file()}
    cut = {oid for oid, size in sizes.items() if size != Path(mine.place(oid)).stat().st_size}
    return sorted(cut | (wrong if len(wrong) < len(told) else set()))


def mend_remotes(root: Path) -> Iterator[str]:
    """Send what the remotes lack, or have wrong, of what ``dvc.lock`` needs and the project's cache has; yield what was done.

    The folder of a remote is not made: where it is missing, the disk is likely not mounted.

    Raises:
        CaramelError: a remote cannot be reached or written.
    """
    config = settings(root)
    mine = cache(root)
    for name in remotes(config):
        store = remote(config, name)
        if store.unmounted():
            continue  # the examination tells
        there = store.objects()
        wanted = needed(store, mine, root)
        sent = 0
        for oid in [*(oid for oid in wanted if oid not in there), *unlike(wanted, there, mine)]:
            path = Path(mine.place(oid))
            if path.is_file() and md5_of(path) == oid.removesuffix(".dir"):
                _send(store, path, oid)
                sent += 1
        yield f"remote {name}: {sent} objects were sent"


def _send(store: Store, path: Path, oid: str) -> None:
    place = store.place(oid)
    with explained(store.label):
        store.fs.makedirs(store.fs.parent(place), exist_ok=True)
        store.fs.put_file(str(path), place)
