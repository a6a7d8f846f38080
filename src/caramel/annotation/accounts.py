"""Accounts of annotators: pseudonyms, each with a random secret of which only the hash is stored.

A secret has 256 random bits, so that one SHA-256 suffices: there is nothing to guess, unlike with passwords.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from caramel.errors import ConfigError, DataError
from caramel.io.files import write_json
from caramel.io.readers import read_json

LOGGER = logging.getLogger(__name__)
_PSEUDONYM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def check_pseudonym(name: object, where: str) -> str:
    """Return a valid pseudonym.

    Raises:
        DataError: it is anything but 1 to 40 letters, digits, `_`, `.` and `-`, such as an e-mail address or HTML.
    """
    if not isinstance(name, str) or not _PSEUDONYM.fullmatch(name):
        raise DataError(
            f"{where}: {name!r} is no pseudonym of an annotator. Use 1 to 40 letters, digits, `_`, `.` and `-`, and no names "
            "of people."
        )
    return name


def create_secret() -> str:
    """Return a new random secret, which can stand in a URL."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """Return the hash that is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find_annotator(accounts: Mapping[str, str], secret: str) -> str | None:
    """Return the pseudonym whose secret this is, or None.

    All accounts are compared, each in constant time, so that the time tells nothing about a guess.
    """
    digest = hash_secret(secret)
    matches = [name for name, stored in accounts.items() if hmac.compare_digest(stored, digest)]
    return matches[0] if matches else None


def read_accounts(path: Path) -> dict[str, str]:
    """Return the hashes of an accounts file by pseudonym.

    Raises:
        DataError: the file is missing or damaged, or holds no account.
    """
    accounts = _read_annotators(path)
    if not accounts:
        raise DataError(f"{str(path)!r} holds no accounts. `caramel annotate accounts` adds some.")
    return accounts


def _read_annotators(path: Path) -> dict[str, str]:
    stored = read_json(path)
    accounts = stored.get("annotators") if isinstance(stored, dict) else None
    if not isinstance(accounts, dict):
        raise DataError(f"{str(path)!r} holds no accounts. `caramel annotate accounts` writes such a file.")
    for name, digest in accounts.items():
        check_pseudonym(name, str(path))
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise DataError(f"{str(path)!r}: the hash of {name!r} is damaged. Add the account again.")
    return accounts


UNREADABLE = (
    "The list of annotators cannot be read at the moment. Tell whoever runs this server."  # without its path
)


class AccountsFile:
    """The accounts of a file, which is read again once it has changed: who was removed gets in no longer."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises the errors of ``read_accounts``.
        """
        self._path = path
        # One attribute, so that threads that read the file at the same time cannot mix a stamp with other accounts.
        self._read: tuple[tuple[int, ...] | None, dict[str, str] | None] = (
            self._get_stamp(path),
            read_accounts(path),
        )

    def __call__(self) -> dict[str, str]:
        """Return the hashes by pseudonym.

        Raises:
            DataError: the file has become unreadable, perhaps because it is being written.
        """
        stamp = self._get_stamp(self._path)  # before reading: a change in between is seen at the next request
        known, accounts = self._read
        if stamp != known:
            try:
                accounts = _read_annotators(self._path)
            except DataError as error:
                LOGGER.warning("%s Until it is repaired, no annotator gets in.", error)
                accounts = None
            self._read = (stamp, accounts)
        if accounts is None:
            raise DataError(UNREADABLE)
        return accounts

    @staticmethod
    def _get_stamp(path: Path) -> tuple[int, ...] | None:
        try:
            state = path.stat()
        except OSError:
            return None
        return state.st_ino, state.st_mtime_ns, state.st_size


def add_accounts(path: Path, names: Sequence[str], *, renew: bool = False) -> dict[str, str]:
    """Add accounts to a file, which may be new; return the new secrets by pseudonym. They are stored nowhere.

    Args:
        renew: give accounts that exist a new secret, in place of the old one.

    Raises:
        DataError: a name is no pseudonym, or the file is damaged.
        ConfigError: a name occurs twice or has an account already, or has none that could be renewed.
    """
    accounts = _read_annotators(path) if path.exists() else {}
    for number, name in enumerate(names):
        check_pseudonym(name, "annotator")
        if name in names[:number]:
            raise ConfigError(f"Annotator {name!r} is named twice.")
        if not renew and name in accounts:
            raise ConfigError(
                f"Annotator {name!r} has an account already in {str(path)!r}. `--renew` replaces the secret."
            )
    if renew:
        _check_known(path, names, accounts)
    new = {name: create_secret() for name in names}
    hashes = {name: hash_secret(secret) for name, secret in new.items()}
    _write_annotators(path, {**accounts, **hashes})
    return new


def remove_accounts(path: Path, names: Sequence[str]) -> None:
    """Remove accounts from a file. Answers of their annotators stay.

    Raises:
        DataError: the file is missing or damaged.
        ConfigError: a name has no account.
    """
    accounts = _read_annotators(path)
    _check_known(path, names, accounts)
    _write_annotators(path, {name: digest for name, digest in accounts.items() if name not in names})


def _check_known(path: Path, names: Sequence[str], accounts: Mapping[str, str]) -> None:
    if unknown := [name for name in names if name not in accounts]:
        raise ConfigError(
            f"Annotator {unknown[0]!r} has no account in {str(path)!r}. It holds: {', '.join(accounts) or 'none'}."
        )


def _write_annotators(path: Path, accounts: Mapping[str, str]) -> None:
    write_json(path, {"annotators": dict(accounts)})
    path.chmod(0o600)
