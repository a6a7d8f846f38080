"""Read objects outside a project's folder: from DVC's remotes, and from the caches of other projects.

DVC names an object by the MD5 of its bytes. By default it trusts a remote's content, so a flipped byte is
pulled silently. Here every fetched object is checked against its name first. Errors of a store name the store
and the object.
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
_REFUSED = (401, 403)  # HTTP status
# Exceptions of libraries for faulty stores, besides system errors, with the modules that define them.
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
    """Objects by their MD5, in a remote or a project's cache."""

    label: str  # name in messages
    fs: Any  # DVC's file system
    root: str  # folder of the objects
    address: str | None = None  # address that a login would go to, for a remote that is opened without one

    def get_object_path(self, oid: str) -> str:
        """Return the path of an object, which need not exist."""
        path: str = self.fs.join(self.root, oid[:2], oid[2:])
        return path

    def fetch_object(self, oid: str, to: Path) -> None:
        """Write an object to a file. The file exists afterwards only if it is complete and matches its name.

        Raises:
            DataError: the store does not have the object, or has other content in its place.
            ResourceError: the store cannot be reached or refuses access, or the disk is full.
        """

        def write_object(temporary: Path) -> None:
            with translate_errors(self.label, self.address):
                try:
                    self.fs.get_file(self.get_object_path(oid), str(temporary))
                except FileNotFoundError as error:
                    raise DataError(f"{self.label} does not have object {oid}.") from error
                except OSError as error:
                    if error.errno in (*SPENT, errno.EROFS):
                        error.filename = str(temporary)  # shutil names the source file
                    raise
            if (digest := compute_md5(temporary)) != oid.removesuffix(".dir"):
                raise DataError(
                    f"{self.label} has something else in place of object {oid}: its MD5 is {digest} "
                    f"({redact_secrets(self.get_object_path(oid))})."
                )

        write_atomically(to, write_object)

    def find_unmounted_folder(self) -> str | None:
        """Return the folder of a local store if it is missing; None for all other stores."""
        home: str = self.fs.parent(self.fs.parent(self.root))
        return home if self.fs.protocol == "local" and not self.fs.exists(home) else None

    def list_objects(self) -> dict[str, Mapping[str, Any]]:
        """Return the store's information on each object, by name.

        Raises:
            ConfigError: the bucket does not exist.
            ResourceError: the store cannot be reached or refuses access.
        """
        with translate_errors(self.label):
            try:
                entries = self.fs.fs.find(self.root, detail=True)
                # A local folder is walked without details.
                details = (
                    entries
                    if isinstance(entries, Mapping)
                    else {path: self.fs.info(path) for path in entries}
                )
            except FileNotFoundError:
                details = {}
            bucket = self.root.partition("/")[0]
            if not details and bucket and not self.fs.exists(bucket):
                raise ConfigError(f"{self.label}: there is no bucket {bucket!r}. Create it, or fix the URL.")
        names = {"".join(path.rsplit("/", 2)[-2:]): about for path, about in details.items()}
        return {oid: about for oid, about in names.items() if NAMED.fullmatch(oid)}


def compute_md5(path: Path) -> str:
    """Return the MD5 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_listing(path: Path, oid: str) -> dict[str, str]:
    """Return the object of each path in a folder, from the object that lists the folder.

    Raises:
        DataError: it is not such a list, or a name in it leads out of the folder or is not canonical.
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
                f"{where} has a duplicate name, or one that leads out of the folder or is not canonical: {format_value(name)}."
            )
        if not isinstance(digest, str) or not NAMED.fullmatch(digest) or digest.endswith(".dir"):
            raise DataError(f"{where} has no MD5 of {format_value(name)}.")
        digests[name] = digest
    return digests


def open_remote(
    config: Mapping[str, Any], name: str, logins: Mapping[str, Mapping[str, Any]] | None = None
) -> Store:
    """Return a remote as a store. The only connection made is a check that its server listens.

    Args:
        config: DVC's settings.
        name: name of the remote.
        logins: for a remote that others configured: the addresses that may receive a login of this user, with
            the user's settings for each. None: the remote is the user's own.

    Raises:
        ConfigError: the settings are wrong, the remote stores files in another form, or a package is missing.
        ResourceError: the server cannot be reached.
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
                raise ConfigError(f"{label} is of a type that needs a login. {_format_login_advice(address)}")
            fs_class, options, path = get_cloud_fs(config, **{**resolved, **(login or {})})
        except ImportError as error:
            raise ConfigError(f"{label}: {error}. See docs/remote.md.") from error
        except RecursionError as error:  # a remote:// that refers to itself
            raise ConfigError(f"{label} has an address that refers to itself. Fix its URL.") from error
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
    """Raise a ResourceError if nothing accepts connections at the address in a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443, "ssh": 22}.get(parts.scheme)
    except ValueError as error:
        raise ConfigError(f"{label} has an invalid address: {error}. Fix its URL.") from error
    if parts.hostname is None or port is None:
        return  # a folder, or a service whose address only its library knows
    try:
        socket.create_connection((parts.hostname, port), PATIENCE).close()
    except OSError as error:
        raise ResourceError(
            f"{label} cannot be reached: {parts.hostname}:{port}: {error.strerror or error}. Is its server running?"
        ) from error


@contextmanager
def translate_errors(label: str, address: str | None = None) -> Iterator[None]:
    """Turn exceptions of libraries into errors that name the store and say what to do.

    Args:
        label: name of the store in messages.
        address: address that a login would go to, for a store that is opened without one.

    Raises:
        ConfigError: a package is missing, or a setting is wrong.
        ResourceError: the store cannot be reached, or refuses access.
    """
    try:
        yield
    except (CaramelError, FileNotFoundError):
        raise
    except _list_error_types() as error:
        error_name, status = type(error).__name__, getattr(error, "status", None)
        message = redact_secrets(" ".join(str(error).split()))[:300]
        if isinstance(error, OSError) and error.errno in (*SPENT, errno.EROFS):
            raise  # an error of the local disk
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
