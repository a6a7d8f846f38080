"""Accounts hold pseudonyms and hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from caramel.annotation.accounts import add_accounts, check_pseudonym, find_annotator, read_accounts
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
