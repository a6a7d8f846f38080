"""Check DVC's remotes for ``caramel doctor --remote``: whether they hold correct copies of what ``dvc.lock`` needs.

DVC reports success if a remote has a folder's listing, even if files of the folder are missing. It also never
replaces an object whose name exists. Therefore this module looks up every object and checks what the remote
reports about it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from caramel.doctor.findings import FAIL, OK, WARN, Finding
from caramel.errors import CaramelError, DataError, format_items, redact_secrets
from caramel.runtime.dvc.remote import (
    Store,
    compute_md5,
    open_cache,
    open_remote,
    read_listing,
    translate_errors,
)
from caramel.runtime.dvc.settings import list_remotes, load_settings
from caramel.runtime.dvc.state import read_lock

MD5 = re.compile(r'"?([0-9a-f]{32})"?')


def examine_remotes(root: Path) -> Iterator[Finding]:
    """Yield the findings on every remote of the project: each is contacted, written to, and listed."""
    try:
        config = load_settings(root)
        names = list(list_remotes(config))
    except CaramelError as error:
        yield Finding(FAIL, "remote", str(error))
        return
    if not names:
        yield Finding(FAIL, "remote", "no remote", "dvc remote add -d NAME URL; see docs/remote.md")
    for name in names:
        try:
            yield from _examine_remote(open_remote(config, name), open_cache(root), root, name)
        except CaramelError as error:
            yield Finding(FAIL, name, str(error))


def _examine_remote(store: Store, local_cache: Store, root: Path, name: str) -> Iterator[Finding]:
    remote_objects = store.list_objects()
    if folder := store.find_unmounted_folder():
        yield Finding(WARN, name, f"no folder {folder}", "mount it, or create it if it is new")
    else:
        yield Finding(OK, name, f"{redact_secrets(store.root)} is reachable; {len(remote_objects)} objects")
        yield _test_writable(store, name)
    wanted = list_needed_objects(store, local_cache, root)
    missing = [f"{path} ({oid})" for oid, path in wanted.items() if oid not in remote_objects]
    wrong = [
        f"{wanted[oid]} ({oid})" for oid in find_wrong_objects(store, wanted, remote_objects, local_cache)
    ]
    if missing or wrong:
        messages = [
            f"{len(lines)} of {len(wanted)} objects that dvc.lock needs are {what}:\n{format_items(lines)}"
            for lines, what in ((missing, "missing"), (wrong, "damaged"))
            if lines
        ]
        yield Finding(
            FAIL, name, "\n".join(messages), "caramel doctor --remote --fix, on a machine with the data"
        )
    else:
        yield Finding(OK, name, f"all {len(wanted)} objects that dvc.lock needs are available")


def _test_writable(store: Store, name: str) -> Finding:
    """Check whether a file can be written beside the objects and removed again."""
    path = store.fs.join(store.fs.parent(store.root), f"caramel-doctor-{secrets.token_hex(8)}")
    try:
        with translate_errors(store.label):
            store.fs.makedirs(store.fs.parent(path), exist_ok=True)
            store.fs.pipe_file(path, b"written by caramel doctor --remote; may be removed\n")
            store.fs.rm_file(path)
    except (CaramelError, OSError) as error:
        return Finding(
            WARN, name, f"readable, but not writable: {error}", "`dvc push` needs other credentials"
        )
    return Finding(OK, name, "writable")


def list_needed_objects(store: Store, local_cache: Store, root: Path) -> dict[str, str]:
    """Return object -> path of all that ``dvc.lock`` names; files of a folder whose listing is missing are unknown.

    Listings come from the project's cache, or else from the remote.

    Raises:
        DataError: ``dvc.lock`` or a listing is broken.
        ResourceError: the remote fails.
    """
    outs = [out for stage in read_lock(root).get("stages", {}).values() for out in stage.get("outs", ())]
    objects = {out["md5"]: out["path"] for out in outs}
    with TemporaryDirectory() as folder:
        for oid in [oid for oid in objects if oid.endswith(".dir")]:
            to = Path(folder, oid)
            for source in (local_cache, store):
                try:
                    source.fetch_object(oid, to)
                    inside = read_listing(to, oid)
                    objects |= {digest: f"{objects[oid]}/{name}" for name, digest in inside.items()}
                    break
                except DataError:
                    continue  # reported as missing or damaged
    return objects


def find_wrong_objects(
    store: Store,
    wanted: Mapping[str, str],
    remote_objects: Mapping[str, Mapping[str, Any]],
    local_cache: Store,
) -> list[str]:
    """Return the objects that do not match their names, according to the remote.

    S3 reports the MD5 of an object that was uploaded in one part, unless it encrypts with custom keys. If no
    MD5 matches, the smallest object is read: either all are damaged, or none of the MD5s is that of an object
    and none is used. In addition, an object must have as many bytes as in the project's cache.

    Raises:
        ResourceError: the remote fails.
    """
    etags = {
        oid: match[1]
        for oid in wanted
        if (match := MD5.fullmatch(str(remote_objects.get(oid, {}).get("ETag", ""))))
    }
    wrong = {oid for oid, digest in etags.items() if digest != oid.removesuffix(".dir")}
    if wrong and len(wrong) == len(etags):
        smallest = min(wrong, key=lambda oid: int(remote_objects[oid]["size"]))
        if _compute_remote_md5(store, smallest) != etags[smallest]:
            wrong = set()
    sizes = {
        oid: remote_objects[oid]["size"]
        for oid in wanted
        if oid in remote_objects and Path(local_cache.get_object_path(oid)).is_file()
    }
    cut = {
        oid for oid, size in sizes.items() if size != Path(local_cache.get_object_path(oid)).stat().st_size
    }
    return sorted(cut | wrong)


def _compute_remote_md5(store: Store, oid: str) -> str:
    """Return the MD5 of what a remote has in place of an object."""
    with TemporaryDirectory() as folder:
        path = Path(folder, oid)
        with translate_errors(store.label):
            store.fs.get_file(store.get_object_path(oid), str(path))
        return compute_md5(path)


def fix_remotes(root: Path) -> Iterator[str]:
    """Upload objects that ``dvc.lock`` needs and that remotes lack or have damaged, from the project's cache.

    Yields what was done. A remote's missing folder is not created, because the disk is probably not mounted.

    Raises:
        CaramelError: a remote cannot be reached or written.
    """
    config = load_settings(root)
    local_cache = open_cache(root)
    for name in list_remotes(config):
        store = open_remote(config, name)
        if store.find_unmounted_folder():
            continue  # reported by the check
        remote_objects = store.list_objects()
        wanted = list_needed_objects(store, local_cache, root)
        sent = 0
        for oid in [
            *(oid for oid in wanted if oid not in remote_objects),
            *find_wrong_objects(store, wanted, remote_objects, local_cache),
        ]:
            path = Path(local_cache.get_object_path(oid))
            if path.is_file() and compute_md5(path) == oid.removesuffix(".dir"):
                _send_object(store, path, oid)
                sent += 1
        yield f"remote {name}: {sent} objects were uploaded"


def _send_object(store: Store, path: Path, oid: str) -> None:
    target = store.get_object_path(oid)
    with translate_errors(store.label):
        store.fs.makedirs(store.fs.parent(target), exist_ok=True)
        store.fs.put_file(str(path), target)
