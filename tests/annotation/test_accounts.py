"""Accounts hold pseudonyms and hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from caramel.annotation.accounts import (
    add_accounts,
    check_pseudonym,
    find_annotator,
    read_accounts,
    remove_accounts,
)
from caramel.errors import ConfigError, DataError


def test_a_file_of_accounts_holds_no_secret_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    secrets = add_accounts(path, ["a01", "a02"])
    more = add_accounts(path, ["a03"])
    assert path.stat().st_mode & 0o077 == 0
    assert not any(secret in path.read_text() for secret in (*secrets.values(), *more.values()))
    accounts = read_accounts(path)
    assert [find_annotator(accounts, secret) for secret in (*secrets.values(), *more.values())] == [
        "a01",
        "a02",
        "a03",
    ]
    with pytest.raises(ConfigError, match="a02"):
        add_accounts(path, ["a04", "a02"])
    assert set(read_accounts(path)) == {"a01", "a02", "a03"}


def test_a_secret_is_renewed_and_an_account_removed(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    old = add_accounts(path, ["a01", "a02"])
    (new,) = add_accounts(path, ["a01"], renew=True).values()
    accounts = read_accounts(path)
    assert find_annotator(accounts, new) == "a01"
    assert find_annotator(accounts, old["a01"]) is None
    assert find_annotator(accounts, old["a02"]) == "a02"
    remove_accounts(path, ["a02"])
    assert set(read_accounts(path)) == {"a01"}
    assert path.stat().st_mode & 0o077 == 0
    for change in (lambda: add_accounts(path, ["a09"], renew=True), lambda: remove_accounts(path, ["a09"])):
        with pytest.raises(ConfigError, match=r"'a09' has no account .* It holds: a01"):
            change()


@pytest.mark.parametrize(
    "name", ["", "<b>me</b>", "Jane Doe", "jane@example.org", "x" * 41, ".x", "a/b", "é", 3, None, "a\n"]
)
def test_what_is_no_pseudonym_is_refused(name: object) -> None:
    with pytest.raises(DataError, match="pseudonym"):
        check_pseudonym(name, "here")


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"annotators": {}}', '{"annotators": {"a": "x"}}', '{"annotators": {"<b>": "x"}}', "{"],
)
def test_a_damaged_file_of_accounts_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accounts.json"
    path.write_text(text)
    with pytest.raises(DataError):
        read_accounts(path)
