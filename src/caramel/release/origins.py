"""Where a version is got from: a git repository or a folder, its pins, and the stores that its objects lie in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from caramel.errors import CaramelError, ConfigError, DataError, ResourceError, shown_address
from caramel.release.pin_file import NAME, Pin, pin_path, read_pin
from caramel.running.dvc_logins import used_settings, user_logins
from caramel.running.dvc_remote import Store, cache, remote
from caramel.running.dvc_settings import FOLDER, remotes, settings


class Origin:
    """One pinned version where it is kept; a remote is looked for when something is not in a cache at hand."""

    def __init__(
        self, source: str, root: Path, pinned: Pin, *, at_hand: bool, credentials: Sequence[str] = ()
    ) -> None:
        self.source, self.root, self.pinned = source, root, pinned
        self._at_hand, self._credentials = at_hand, credentials

    def _stores(self) -> Iterator[Store]:
        if self._at_hand:
            yield cache(self.root)
        yield from self._remotes

    @cached_property
    def _remote_settings(self) -> Mapping[str, Any]:
        config = settings(self.root, FOLDER, called=shown_address(self.source))
        return {"remote": {name: used_settings(options) for name, options in remotes(config).items()}}

    @cached_property
    def _remotes(self) -> list[Store]:
        """The remotes that can be opened, with logins of this user for those alone that he named."""
        logins = user_logins(self._credentials)
        opened, errors = [], []
        for name in remotes(self._remote_settings):
            try:
                opened.append(remote(self._remote_settings, name, logins))
            except CaramelError as error:
                errors.append(error)
        if errors and not opened:
            raise type(errors[0])(" ".join(map(str, errors)))
        if not opened and not self._at_hand:
            raise DataError(
                f"{shown_address(self.source)!r} names no DVC remote that keeps its data. Whoever made it has to add one, push, and "
                f"commit .dvc/config; see docs/remote.md."
            )
        return opened

    def fetch(self, oid: str, path: str, to: Path) -> None:
        """Write one object of the version to a file; the file is there only if it is whole.

        Args:
            oid: its MD5, as DVC names it.
            path: what it is in the version, for messages.
            to: the file.

        Raises:
            DataError: no store has it as it should be.
            ResourceError: a store cannot be reached or refuses, or the disk is full.
        """
        errors: list[CaramelError] = []
        for store in self._stores():
            try:
                store.fetch(oid, to)
                return
            except (DataError, ResourceError) as error:
                errors.append(error)
        refused = any(isinstance(error, ResourceError) for error in errors)
        raise (ResourceError if refused else DataError)(f"{path}: {' '.join(map(str, errors))}")


@contextmanager
def opened(source: str, credentials: Sequence[str] = ()) -> Iterator[Origin]:
    """Give the version that ``SOURCE[@PIN]`` names; without ``@PIN`` the only one that is there.

    Args:
        source: a git URL or a folder, and the name of a pin.
        credentials: addresses of remotes that may get a login of this user.

    Raises:
        ConfigError: there are several pins and none is named.
        DataError: there is no such repository or pin, or the pin is broken, or there are several of its name that differ.
        ResourceError: git is not installed.
    """
    place, name = _parted(source)
    called = shown_address(place)
    with TemporaryDirectory(prefix="caramel-get-") as temporary:
        at_hand = (Path(place) / ".dvc").is_dir()
        root = Path(place) if at_hand else Path(temporary)
        kept = (
            {p.stem: [""] for p in sorted((root / "pins").glob("*.json"))}
            if at_hand
            else _cloned(place, root, name)
        )
        names = [*kept]
        if name is None and len(names) > 1:
            raise ConfigError(
                f"{called!r} has several versions. Name one: {called}@{names[-1]}; {', '.join(names)}."
            )
        if not names or (name is not None and name not in names):
            asked = f"no pin {name!r}" if name is not None else "no pins"
            raise DataError(f"{called!r} has {asked}. Pins: {', '.join(names) or 'none'}.")
        name = name or names[0]
        first, *others = kept[name]
        if others:
            raise DataError(
                f"{called!r} has several pins {name!r}, of other data: on {first} and {others[0]}. Whoever made it has to say "
                f"which is meant."
            )
        if not at_hand:
            _take(root, first, f"pins/{name}.json", pin_path(name, root))
            _take(root, first, ".dvc/config", root / ".dvc" / "config")
        yield Origin(place, root, read_pin(name, root), at_hand=at_hand, credentials=credentials)


def _parted(source: str) -> tuple[str, str | None]:
    """Return the place and the pin's name; what stands after the last @ is a name if it can be one."""
    place, sign, name = source.rpartition("@")
    login = "://" in place and "/" not in place.partition("://")[2]  # https://ME:SECRET@HOST
    if Path(source).exists() or login or not (sign and place):
        return source, None
    return (place, name) if NAME.fullmatch(name) else (source, None)


def _cloned(url: str, folder: Path, name: str | None) -> dict[str, list[str]]:
    """Fetch the newest commit of a repository; return name of each pin in it -> the revisions, one for each that differs.

    Where the default branch has no such pin, those of all branches and tags are fetched and named.
    """
    git = ("-C", str(folder / "git"))
    _git("clone", "--quiet", "--bare", "--depth", "1", "--", url, str(folder / "git"), url=url)
    here = _pins(folder, "HEAD", url)
    if name in here or (name is None and here):
        return {pin: ["HEAD"] for pin in here}
    every = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    _git(*git, "fetch", "--quiet", "--depth", "1", "origin", *every, url=url)
    refs = _git(*git, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", url=url)
    found: dict[str, dict[str, str]] = {pin: {content: "HEAD"} for pin, content in here.items()}
    for ref in refs.decode(errors="replace").split():
        for pin, content in _pins(folder, ref, url).items():
            found.setdefault(pin, {}).setdefault(content, ref)
    return {pin: [*contents.values()] for pin, contents in sorted(found.items())}


def _pins(folder: Path, revision: str, url: str) -> dict[str, str]:
    """Return name -> git's hash of the pins of a revision."""
    listed = _git("-C", str(folder / "git"), "ls-tree", "-z", revision, "pins/", url=url)
    lines = [line.partition("\t") for line in listed.decode(errors="replace").split("\0")]
    files = {Path(path): about.split()[2] for about, _, path in lines if path.endswith(".json")}
    return {path.stem: digest for path, digest in sorted(files.items()) if NAME.fullmatch(path.stem)}


def _take(folder: Path, revision: str, name: str, to: Path) -> None:
    """Write one file of a revision; a link is what it says, and leads nowhere."""
    listed = _git("-C", str(folder / "git"), "ls-tree", "--name-only", revision, name, url=name)
    to.parent.mkdir(parents=True, exist_ok=True)
    shown = ("-C", str(folder / "git"), "show", f"{revision}:{name}")
    to.write_bytes(_git(*shown, url=name) if listed else b"")


def _git(*arguments: str, url: str) -> bytes:
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, env=quiet, check=False)
    except FileNotFoundError as error:
        raise ResourceError(
            "git is not installed, and fetches versions from repositories. Install it."
        ) from error
    if done.returncode:
        said = shown_address(" ".join(done.stderr.decode(errors="replace").split()))[-300:]
        raise DataError(
            f"{shown_address(url)!r} is no project of caramel at hand, and git cannot fetch it: {said}"
        )
    return done.stdout
