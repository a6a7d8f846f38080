"""What is printed of data cannot steer a terminal."""

from __future__ import annotations

import pytest

from caramel.errors import count_of, escape_unprintable, redact_secrets


def test_a_count_has_its_noun_in_singular_or_plural() -> None:
    assert [count_of(n, "file") for n in (0, 1, 2, 1024)] == ["0 files", "1 file", "2 files", "1,024 files"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog – «größer»,\n\t犬 👩‍🚀", "A dog – «größer»,\n\t犬 👩‍🚀"),
        ("\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"),
        ("a\rPASSED\x00\x7f\x9b", "a\\rPASSED\\x00\\x7f\\x9b"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_signs_that_a_terminal_obeys_become_escapes(text: str, expected: str) -> None:
    assert escape_unprintable(text) == expected
    assert escape_unprintable(expected) == expected
    escape_unprintable(text).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:secret@host:9/a@v1", "https://host:9/a@v1"),
        (
            "fatal: 'https://ghp_secret@host/x/': and ssh://me:p@w@host/y.",
            "fatal: 'https://host/x/': and ssh://host/y.",
        ),
        (
            "http://h/x?token=abc&page=2&API_KEY=d; s3://b/k?X-Amz-Signature=9f#a",
            "http://h/x?token=…&page=2&API_KEY=… s3://b/k?X-Amz-Signature=…#a",
        ),
        ("http://me:pa/ss@host/x and pg+x://me:p/@h", "http://host/x and pg+x://h"),
        ("http://host:8000/x@v1, http://host/x:y@v1", "http://host:8000/x@v1, http://host/x:y@v1"),
        ("https://host/a@b, /mnt/a@b, git@host:me/x.git", "https://host/a@b, /mnt/a@b, git@host:me/x.git"),
    ],
)
def test_addresses_are_shown_without_name_and_password(text: str, expected: str) -> None:
    assert redact_secrets(text) == expected
