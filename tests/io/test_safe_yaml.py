"""A YAML file is plain data of bounded size, or one message that names the file."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from caramel.errors import ConfigError
from caramel.io.safe_yaml import MOST_BYTES, parse_yaml, read_yaml


def levels(width: int, line: str) -> str:
    """Return lines b, c, … i, each of which names the one before ``width`` times."""
    names = "abcdefghi"
    return "".join(
        line.format(name=name, items=",".join([f"*{before}"] * width)) + "\n"
        for before, name in itertools.pairwise(names)
    )


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + levels(9, "{name}: &{name} [{items}]")
MERGE_BOMB = "a: &a {x: 1}\n" + levels(9, "{name}: &{name} {{<<: [{items}]}}")
CHAIN = "k0: &k0 [x]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 1500))


def test_plain_data_of_every_kind_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: &x {b: [1, 2.5, true, null, text]}\nc: *x\nd:\n  <<: *x\n", encoding="utf-8")
    part = {"b": [1, 2.5, True, None, "text"]}
    assert read_yaml(path, "") == {"a": part, "c": part, "d": part}
    path.write_bytes("\ufeffa: 1".encode())
    assert read_yaml(path, "") == {"a": 1}, "a byte order mark is no part of the text"


def test_a_changed_value_is_not_that_of_the_next_reader() -> None:
    text = "a: {b: [1]}"
    parse_yaml(text, "params.yaml")["a"]["b"].append(2)
    assert parse_yaml(text, "params.yaml") == {"a": {"b": [1]}}


def test_an_error_names_the_file_that_was_read_each_time() -> None:
    for where in ("params.yaml", "dvc.yaml", "params.yaml"):
        with pytest.raises(ConfigError, match=where):
            parse_yaml("a: [", where)


@pytest.mark.parametrize("text", [BOMB, MERGE_BOMB])
def test_aliases_that_stand_for_much_are_refused_before_they_are_written_out(text: str) -> None:
    assert len(text) < 500
    with pytest.raises(ConfigError, match="its aliases expanded"):
        parse_yaml(text, "params.yaml")


@pytest.mark.parametrize(
    "text",
    ["&a [*a]", "&a [*a, *a, *a]", "a: &a {b: &b [*a]}", "a: &a\n  <<: *a\n", CHAIN, "[" * 300 + "]" * 300],
)
def test_what_holds_itself_or_is_too_deep_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested more than 50 deep"):
        parse_yaml(text, "params.yaml")


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse_yaml("[" * 500, "params.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {b: 2024-01-02}", r"a\.b = datetime\.date\(2024, 1, 2\): date"),
        ("a: !!set {x}", "a = .*: set"),
        ("a: !!binary aGk=", "a = b'hi': bytes"),
        ("1: x", "top: the key 1 is not text"),
        ("a: {.nan: x}", "a: the key nan is not text"),
        ("[a]: x", "top: the key .* is not text"),
        (r'a: "\ud800"', "a = .*surrogate"),
        (r'a: "\0"', "a = .*NUL"),
        (f"a: 0x{'f' * 5000}", "a: a whole number of 20000 bits"),
    ],
)
def test_what_is_not_plain_is_named_with_its_key(text: str, said: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"params\.yaml contains values that are not plain data:\n  - {said}"
    ):
        parse_yaml(text, "params.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: 2024-13-45",
        "a: !!int x",
        "a: !!int ''",
        "a: !!float x",
        "a: !!bool x",
        f"a: {'9' * 5000}",
        "a: !!python/object:os.system x",
        "a: 1\na: 2",
        "a: 1\n---\nb: 2",
        "a: \0",
        "a: *nowhere",
    ],
)
def test_what_is_no_yaml_is_one_message(text: str) -> None:
    with pytest.raises(ConfigError, match=r"params\.yaml is not valid YAML: "):
        parse_yaml(text, "params.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with pytest.raises(ConfigError, match=r"a\.yaml is missing\. Do this\."):
        read_yaml(path, "Do this.")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path, "")
    path.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        read_yaml(path, "")
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ConfigError, match="longer than 262,144 bytes"):
        read_yaml(path, "")
