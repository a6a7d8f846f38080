"""Where DVC keeps objects outside of a project's folder: its remotes, and the caches of other projects.

DVC names an object by the MD5 of its bytes, and by default believes what a remote gives for it: a flipped byte is pulled
without a word. What is fetched here is compared with its name before it gets it. What a store does wrong is an error
that names store and object.
"""

from __future__ import annotations

import errno
import hashlib
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from caramel.errors import CaramelError, ConfigError, DataError, ResourceError, redact_secrets
from caramel.io.disk_space import SPENT
from caramel.io.files import write_atomically
from caramel.io.readers import load_json
from caramel.io.validators import format_value, is_plain_path
from caramel.runtime.dvc.credentials import PUBLIC, get_login_address, open_file_system
from caramel.runtime.dvc.settings import cache_folder, list_remotes

NAMED = re.compile(r"[0-9a-f]{32}(\.dir)?")
PATIENCE = 5.0  # seconds that a server may take to accept a connection; DVC itself waits 40
_REFUSED = (401, 403)  # of HTTP
# What libraries raise when a store does not do what it should, beside the system's errors, where they are loaded.
_RAISED = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("asyncssh", "Error"),
    ("aiohttp", "ClientError"),
    ("dvc.exceptions", "DvcException"),
    ("dvc_objects.fs.errors", "ConfigError"),
    ("dvc_objects.fs", "RemoteMissingDepsError"),
)


@dataclass(frozen=True)
class Store:
    """Objects by their MD5: of a remote, or of a project's cache."""

    label: str  # what messages call it
    fs: Any  # file system of DVC
    root: str  # folder of the objects
    address: str | None = None  # where a login of this user would go to, of a remote that is opened without

    def get_object_path(self, oid: str) -> str:
        """Return the path of an object, which need not be there."""
        path: str = self.fs.join(self.root, oid[:2], oid[2:])
        return path

    def fetch_object(self, oid: str, to: Path) -> None:
        """Write an object to a file, which is there only if it is whole and what its name says.

        Raises:
            DataError: the store does not have it, or has something else in its place.
            ResourceError: the store cannot be reached or refuses, or the disk is full.
        """

        def write_object(temporary: Path) -> None:
            with translate_errors(self.label, self.address):
                try:
                    self.fs.get_file(self.get_object_path(oid), str(temporary))
                except FileNotFoundError as error:
                    raise DataError(f"{self.label} does not have object {oid}.") from error
                except OSError as error:
                    if error.errno in (*SPENT, errno.EROFS):
                        error.filename = str(temporary)  # shutil names the file that is read
                    raise
            if (digest := compute_md5(temporary)) != oid.removesuffix(".dir"):
                raise DataError(
                    f"{self.label} has something else in place of object {oid}: its MD5 is {digest} "
                    f"({redact_secrets(self.get_object_path(oid))})."
                )

        write_atomically(to, write_object)

    def find_unmounted_folder(self) -> str | None:
        """Return the folder of a store on this machine if it is not there; None of all other stores."""
        home: str = self.fs.parent(self.fs.parent(self.root))
        return home if self.fs.protocol == "local" and not self.fs.exists(home) else None

    def list_objects(self) -> dict[str, Mapping[str, Any]]:
        """Return name -> what the store says of it, for all of its objects.

        Raises:
            ConfigError: it is in a bucket that is not there.
            ResourceError: it cannot be reached or refuses.
        """
        with translate_errors(self.label):
            try:
                entries = self.fs.fs.find(self.root, detail=True)
                # A folder of this machine is walked without details.
                details = (
                    entries
                    if isinstance(entries, Mapping)
                    else {path: self.fs.info(path) for path in entries}
                )
            except FileNotFoundError:
                details = {}
            bucket = self.root.partition("/")[0]
            if not details and bucket and not self.fs.exists(bucket):
                raise ConfigError(f"{self.label}: there is no bucket {bucket!r}. Make it, or mend the URL.")
        names = {"".join(path.rsplit("/", 2)[-2:]): about for path, about in details.items()}
        return {oid: about for oid, about in names.items() if NAMED.fullmatch(oid)}


def compute_md5(path: Path) -> str:
    """Return the MD5 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_listing(path: Path, oid: str) -> dict[str, str]:
    """Return path in the folder -> object, of the object that lists a folder.

    Raises:
        DataError: it is no such list, or a name in it leads out of the folder, or is not in its plain form.
    """
    where = f"Object {oid}, the list of a folder,"
    rows = load_json(path.read_text(encoding="utf-8", errors="replace"), where)
    digests: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or not isinstance(row.get("relpath"), str):
            raise DataError(f"{where} is none of DVC's: {format_value(row)}.")
        name, digest = row["relpath"], row.get("md5")
        if not is_plain_path(name) or name in digests:
            raise DataError(
                f"{where} has a name twice, or one that leads out of the folder or is not in its plain form: {format_value(name)}."
            )
        if not isinstance(digest, str) or not NAMED.fullmatch(digest) or digest.endswith(".dir"):
            raise DataError(f"{where} has no MD5 of {format_value(name)}.")
        digests[name] = digest
    return digests


def open_remote(
    config: Mapping[str, Any], name: str, logins: Mapping[str, Mapping[str, Any]] | None = None
) -> Store:
    """Return a remote as a store; no connection is made yet, but for a look whether its server listens.

    Args:
        config: DVC's settings.
        name: the remote's.
        logins: of a remote that others named: the addresses that may get a login of this user, with his settings for
            each. None: it is a remote of his own.

    Raises:
        ConfigError: its settings are wrong, or keep files in another form, or a package is missing.
        ResourceError: its server cannot be reached.
    """
    from dvc.fs import get_cloud_fs, get_fs_config

    url = str(list_remotes(config)[name].get("url"))
    label = f"Remote {name!r} ({redact_secrets(url)})"
    with translate_errors(label):
        try:
            resolved = get_fs_config(config, name=name)
            address = None if logins is None else get_login_address(resolved)
            login = {} if logins is None else logins.get(address or "")
            public = login is None
            if public and urlsplit(resolved["url"]).scheme not in PUBLIC:
                raise ConfigError(f"{label} is of a kind that needs a login. {_format_login_advice(address)}")
            fs_class, options, path = get_cloud_fs(config, **{**resolved, **(login or {})})
        except ImportError as error:
            raise ConfigError(f"{label}: {error}. See docs/remote.md.") from error
        except RecursionError as error:  # remote:// that leads to itself
            raise ConfigError(f"{label} has an address that is none: {error}. Mend its URL.") from error
        if options.get("version_aware") or options.get("worktree"):
            raise ConfigError(
                f"{label} keeps versions in its own way. caramel reads remotes that keep objects."
            )
        _check_server(label, options.get("endpointurl") or url)
        fs = open_file_system(fs_class, options, resolved["url"], public=public)
        return Store(label, fs, fs.join(path, "files", "md5"), address if public else None)


def _format_login_advice(address: str | None) -> str:
    named = f"If you trust it with yours: --credentials {address}; see" if address else "See"
    return f"{named} docs/remote.md."


def open_cache(folder: Path) -> Store:
    """Return a project's own cache as a store.

    Raises:
        ConfigError: a file of DVC's settings cannot be read.
    """
    from dvc.fs import localfs

    path = str(cache_folder(folder))
    return Store(f"Cache {path!r}", localfs, localfs.join(path, "files", "md5"))


def _check_server(label: str, url: str) -> None:
    """Raise a ResourceError if nothing accepts connections at the address that a URL names itself."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443, "ssh": 22}.get(parts.scheme)
    except ValueError as error:
        raise ConfigError(f"{label} has an address that is none: {error}. Mend its URL.") from error
    if parts.hostname is None or port is None:
        return  # a folder, or a service whose address its library knows
    try:
        socket.create_connection((parts.hostname, port), PATIENCE).close()
    except OSError as error:
        raise ResourceError(
            f"{label} cannot be reached: {parts.hostname}:{port}: {error.strerror or error}. Is its server running?"
        ) from error


@contextmanager
def translate_errors(label: str, address: str | None = None) -> Iterator[None]:
    """Turn what libraries raise about a store into an error that names it and says what to do.

    Args:
        label: what messages call it.
        address: where a login would go to, of a store that is opened without.

    Raises:
        ConfigError: a package is missing, or a setting is wrong.
        ResourceError: it cannot be reached, or refuses.
    """
    try:
        yield
    except (CaramelError, FileNotFoundError):
        raise
    except _list_error_types() as error:
        error_name, status = type(error).__name__, getattr(error, "status", None)
        message = redact_secrets(" ".join(str(error).split()))[:300]
        if isinstance(error, OSError) and error.errno in (*SPENT, errno.EROFS):
            raise  # of the disk that is written
        if error_name == "RemoteMissingDepsError":
            raise ConfigError(f"{label}: {message} See docs/remote.md.") from error
        if error_name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
            raise ResourceError(
                f"{label} needs credentials, and there are none: {message}. Set AWS_ACCESS_KEY_ID and "
                f"AWS_SECRET_ACCESS_KEY, or `dvc remote modify --local`; see docs/remote.md."
            ) from error
        if isinstance(error, PermissionError) or "Permission" in error_name or status in _REFUSED:
            how = "access without a login" if address else "these credentials"
            raise ResourceError(
                f"{label} refuses {how}: {message}. {_format_login_advice(address)}"
            ) from error
        raise ResourceError(f"{label} failed: {error_name}: {message}.") from error


def _list_error_types() -> tuple[type[BaseException], ...]:
    candidates = [
        getattr(sys.modules[module], name, None) for module, name in _RAISED if module in sys.modules
    ]
    return (
        OSError,
        *(
            candidate
            for candidate in candidates
            if isinstance(candidate, type) and issubclass(candidate, BaseException)
        ),
    )
