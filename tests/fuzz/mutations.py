"""Structured mutations of files: every function returns the new bytes; what is drawn comes from hypothesis."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from mutations_tables import mutate_image, mutate_parquet

Draw = Callable[[st.SearchStrategy[Any]], Any]
ABSOLUTE = "@ABSOLUTE@"  # stands for the absolute path of the picture outside of the sandbox

SIGNS = (
    "\0", "\x1b[31mred", "\x07", "\x85", "\u2028", "\ufeff", "\u202e", "\u200b", "\ud800", "\udfff", "🙂", "é", "e\u0301",
    "ﷺ" * 30, '"', '""', "'", ",", ", and ", ";", "\t", "\n", "\r", "\r\n", "\\", "\\u0000", "\\ud800", "{}", "{0}", "%s", "$HOME",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&amp;", "=1+1", "[", "]", "{", "}", "(" * 5, " ", "\xa0",
)  # fmt: skip
TEXTS = (
    "", " ", "nan", "NaN", "None", "null", "true", "inf", "-inf", "1e999", "-1", "0", "9" * 30, "9" * 5000, "0x10", "1_000", "²", "١٢",
    "a" * 300, "word " * 20_000, "[" * 3000, "('a',) * 10", "2024-01-01", "../secret.png", "../../secret.png",
    "images/../../secret.png", ABSOLUTE, "/etc/hostname", ".", "..", "/", "~", "-", "a/b/../../..", "con", "a\0b",
    "file:///etc/passwd", "http://127.0.0.1:9/x.png", "A" * 70_000,
)  # fmt: skip


class Pairs(list[tuple[str, Any]]):
    """An object of JSON as its pairs, so that a key can stand in it twice."""


def text_of(data: bytes) -> str | None:
    """Return the bytes as text, None if they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def encoded(text: str) -> bytes:
    """Return UTF-8 in which a lone surrogate stays what it is."""
    return text.encode("utf-8", "surrogatepass")


def _place(draw: Draw, size: int) -> int:
    return int(draw(st.integers(0, max(size, 0))))


def mutate_bytes(draw: Draw, data: bytes) -> bytes:
    """Flip, cut, insert, repeat, zero, or replace."""
    kind = draw(
        st.sampled_from(
            ("flip", "byte", "cut", "hole", "insert", "twice", "zeros", "empty", "tail", "other", "head")
        )
    )
    at = _place(draw, len(data) - 1)
    end = min(len(data), at + draw(st.sampled_from((1, 2, 4, 16, 256, 4096))))
    if kind == "flip" and data:
        return data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
    if kind == "byte" and data:
        return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "hole":
        return data[:at] + data[end:]
    if kind == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=40)) + data[at:]
    if kind == "twice":
        return data[:end] + data[at:]
    if kind == "zeros":
        return data[:at] + bytes(end - at) + data[end:]
    if kind == "tail":
        return data + draw(st.sampled_from((b"\0" * 64, b"\n", b"PK\3\4", b"}", b"x" * 5000)))
    if kind == "head":
        return (
            draw(st.sampled_from((b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\0", b"#!/bin/sh\n", b"%!PS\n")))
            + data
        )
    if kind == "other":
        return draw(
            st.sampled_from(
                (
                    b"\x89PNG\r\n\x1a\n",
                    b"PAR1" + b"\0" * 20 + b"PAR1",
                    b"\x1f\x8b\x08",
                    b"\x80\x04.",
                    b"null",
                    b"[]",
                    b"{}",
                    b"\n",
                    b"\0" * 1000,
                )
            )
        )
    return b""


def mutate_text(draw: Draw, data: bytes) -> bytes:
    """Insert signs, move lines, or encode it otherwise."""
    text = text_of(data)
    if text is None:
        return mutate_bytes(draw, data)
    kind = draw(
        st.sampled_from(
            (
                "sign",
                "sign",
                "sign",
                "delete",
                "double",
                "swap",
                "join",
                "blank",
                "encoding",
                "ends",
                "huge",
                "half",
            )
        )
    )
    if kind == "sign":
        at = _place(draw, len(text))
        return encoded(text[:at] + draw(st.sampled_from(SIGNS)) + text[at:])
    if kind == "encoding":
        name = draw(
            st.sampled_from(("utf-8-sig", "utf-16", "utf-32", "cp1252", "shift_jis", "utf-7", "cp037"))
        )
        return (text + "é").encode(name, "ignore")
    if kind == "ends":
        return encoded(text.replace("\n", draw(st.sampled_from(("\r", "\r\n", "\n\n", "\x0b", "\u2028")))))
    if kind == "half":
        return encoded(text[: len(text) // 2])
    lines = text.split("\n")
    at = _place(draw, len(lines) - 1)
    other = _place(draw, len(lines) - 1)
    if kind == "delete":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "join":
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    elif kind == "blank":
        lines.insert(at, draw(st.sampled_from(("", " ", "#", ",", "\t"))))
    else:
        lines[at] = lines[at] * draw(st.sampled_from((3, 50, 2000)))
    return encoded("\n".join(lines))


def _slots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in it."""
    found = [path]
    items = (
        enumerate(v for _, v in value)
        if isinstance(value, Pairs)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for place, item in items:
        found += _slots(item, (*path, place))
    return found


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for place in path:
        value = value[place][1] if isinstance(value, Pairs) else value[place]
    return value


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    parent = _at(value, path[:-1])
    parent[path[-1]] = (parent[path[-1]][0], new) if isinstance(parent, Pairs) else new
    return value


class Raw(str):
    """A piece of JSON text as it is."""


def emit(value: Any) -> str:
    """Return JSON text of a value that may hold ``Pairs`` and ``Raw``."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(k)}: {emit(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(emit(v) for v in value) + "]"
    return json.dumps(value)


def new_text(draw: Draw, old: str) -> str:
    """Return a text with signs in it, or another one."""
    if draw(st.booleans()):
        at = _place(draw, len(old))
        return old[:at] + draw(st.sampled_from(SIGNS)) + old[at:]
    return str(draw(st.sampled_from(TEXTS)))


def new_value(draw: Draw, old: Any) -> Any:
    """Return a value of another kind, or an odd one of the same."""
    if isinstance(old, str) and draw(st.booleans()):
        return new_text(draw, old)
    odd = draw(st.integers(0, 12))
    return (
        None, True, 0, -1, 1.5, "", [], Pairs(), [old], Pairs([("a", old)]),
        Raw(draw(st.sampled_from(("NaN", "Infinity", "-Infinity", "1e400", "1" * 5000, "-0", "1" + "0" * 308, "9007199254740993")))),
        Raw("[" * draw(st.sampled_from((50, 1500, 100_000)))),
        Raw(_nested(draw(st.sampled_from((50, 900, 100_000))))),
    )[odd]  # fmt: skip


def _nested(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def mutate_value(draw: Draw, value: Any) -> Any:
    """Change one place of a JSON value; objects are ``Pairs``."""
    path = draw(st.sampled_from(_slots(value)))
    here = _at(value, path)
    kind = draw(st.sampled_from(("value", "value", "delete", "twice", "rename", "empty", "swap", "wrap")))
    if kind == "value" or not isinstance(here, list):
        return _put(value, path, new_value(draw, here))
    if not here:
        return _put(value, path, new_value(draw, here))
    place = _place(draw, len(here) - 1)
    if kind == "delete":
        del here[place]
    elif kind == "twice":
        here.insert(_place(draw, len(here)), here[place])
    elif kind == "rename" and isinstance(here, Pairs):
        here[place] = (
            draw(st.sampled_from((*TEXTS[:30], here[place][0].upper(), here[place][0] + " "))),
            here[place][1],
        )
    elif kind == "empty":
        return _put(value, path, Pairs() if isinstance(here, Pairs) else [])
    elif kind == "swap":
        return _put(
            value,
            path,
            [v for _, v in here]
            if isinstance(here, Pairs)
            else Pairs([(str(n), v) for n, v in enumerate(here)]),
        )
    else:
        return _put(value, path, [here])
    return value


def mutate_json(draw: Draw, data: bytes) -> bytes:
    """Change a place of a JSON file, or of one line of JSON Lines."""
    text = text_of(data)
    if (text or "").count("[" * 40):  # nested already
        return mutate_text(draw, data)
    try:
        value = json.loads(text or "", object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return mutate_text(draw, data)
    return encoded(emit(mutate_value(draw, value)))


def mutate_jsonl(draw: Draw, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = _place(draw, len(lines) - 1)
    lines[at] = mutate_json(draw, lines[at])
    return b"\n".join(lines)


def mutate_csv(draw: Draw, data: bytes) -> bytes:
    """Change cells, rows or the header of a CSV file."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return mutate_text(draw, data)
    if not rows or not all(rows):
        return mutate_text(draw, data)
    at = _place(draw, len(rows) - 1)
    row = rows[at]
    cell = _place(draw, len(row) - 1)
    kind = draw(st.sampled_from((
        "longer", "shorter", "unquoted", "cell", "cell", "header", "header twice", "header empty", "no header", "header again",
        "column", "column twice", "quote", "delimiter", "blank", "wide", "only header", "quote all",
    )))  # fmt: skip
    raw: dict[int, str] = {}
    if kind == "longer":
        row.insert(cell, draw(st.sampled_from(("", "x", " and big"))))
    elif kind == "shorter":
        del row[cell]
    elif kind == "unquoted":
        raw[at] = ",".join(row)
    elif kind == "cell":
        row[cell] = new_text(draw, row[cell])
    elif kind == "header":
        rows[0][_place(draw, len(rows[0]) - 1)] = draw(st.sampled_from(TEXTS[:30]))
    elif kind == "header twice":
        rows[0][_place(draw, len(rows[0]) - 1)] = rows[0][_place(draw, len(rows[0]) - 1)]
    elif kind == "header empty":
        rows[0] = draw(st.sampled_from(([], [""], [""] * len(rows[0]), [" "] * len(rows[0]))))
    elif kind == "no header":
        del rows[0]
    elif kind == "header again":
        rows.insert(at, list(rows[0]))
    elif kind == "column":
        rows = [[c for n, c in enumerate(r) if n != cell] for r in rows]
    elif kind == "column twice":
        rows = [[*r, r[cell] if cell < len(r) else ""] for r in rows]
    elif kind == "quote":
        raw[at] = ",".join(f'"{c}' if n == cell else c for n, c in enumerate(row))
    elif kind == "wide":
        row.extend([""] * draw(st.sampled_from((1, 5, 5000))))
    elif kind == "blank":
        rows.insert(at, draw(st.sampled_from(([], [""], [" "], [""] * len(rows[0])))))
    elif kind == "only header":
        del rows[1:]
    return encoded(
        _joined(
            rows,
            raw,
            ";" if kind == "delimiter" else ",",
            csv.QUOTE_ALL if kind == "quote all" else csv.QUOTE_MINIMAL,
        )
    )


def _joined(rows: list[list[str]], raw: dict[int, str], delimiter: str, quoting: Any) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    for n, row in enumerate(rows):
        if n in raw:
            out.write(raw[n] + "\n")
        else:
            writer.writerow(row)
    return out.getvalue()


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
VALUES = (
    "", "null", "[]", "{}", "yes", "-1", "0", "1.5", ".nan", ".inf", "-.inf", "1e400", "9" * 30, "9" * 5000, "2024-01-01", "'text'", "[1, 2]",
    "{a: 1}", "&x [*x]", "&y {k: *y}", "*nothing", "!!python/object:os.system x", "!!binary aGk=", "!!set {a}", "0o17", "0x1F", '"\\ud800"',
    "'\u202e'", "[" * 3000, "[" * 400 + "]" * 400, "1:30", "~", "|\n  text", "@x", "`x`", "? a", "- b", "'", "\t", "1_000", "!!str 5", "<<",
    "a" * 5000, "../up", "/", "''",
)  # fmt: skip


def mutate_yaml(draw: Draw, data: bytes) -> bytes:
    """Change a value, a key or the structure of a YAML file."""
    text = text_of(data)
    if text is None:
        return mutate_bytes(draw, data)
    lines = text.split("\n")
    keyed = [n for n, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    kind = draw(
        st.sampled_from(
            ("value", "value", "value", "key", "twice", "bomb", "document", "whole", "tab", "text", "indent")
        )
    )
    if kind == "text" or not keyed:
        return mutate_text(draw, data)
    at = draw(st.sampled_from(keyed))
    key, _, rest = lines[at].partition(":")
    if kind == "value":
        lines[at] = f"{key}: {draw(st.sampled_from(VALUES))}"
    elif kind == "key":
        indent = key[: len(key) - len(key.lstrip())]
        lines[at] = (
            f"{indent}{draw(st.sampled_from(('x', '1', 'null', '[a]', '? [a]', '2024-01-01', '<<', '*x', '1.5', 'é', '')))}:{rest}"
        )
    elif kind == "twice":
        lines.insert(at, lines[at])
    elif kind == "bomb":
        return encoded(BOMB + text)
    elif kind == "document":
        lines.insert(at, draw(st.sampled_from(("---", "...", "%YAML 1.1", "# c"))))
    elif kind == "whole":
        return encoded(draw(st.sampled_from((*VALUES, BOMB))))
    elif kind == "tab":
        lines[at] = "\t" + lines[at]
    else:
        lines[at] = "  " + lines[at]
    return encoded("\n".join(lines))


Mutator = Callable[[Draw, bytes], bytes]
BY_SUFFIX: dict[str, tuple[Mutator, ...]] = {
    ".csv": (mutate_csv, mutate_csv, mutate_csv, mutate_text, mutate_bytes),
    ".json": (mutate_json, mutate_json, mutate_json, mutate_text, mutate_bytes),
    ".jsonl": (mutate_jsonl, mutate_jsonl, mutate_jsonl, mutate_text, mutate_bytes),
    ".parquet": (mutate_parquet, mutate_parquet, mutate_parquet, mutate_bytes),
    ".yaml": (mutate_yaml, mutate_yaml, mutate_yaml, mutate_text, mutate_bytes),
    ".lock": (mutate_yaml, mutate_text, mutate_bytes),
    ".txt": (mutate_text, mutate_text, mutate_bytes),
    **dict.fromkeys((".jpg", ".jpeg", ".png"), (mutate_image, mutate_image, mutate_bytes)),
}


def mutate_file(draw: Draw, path: Path, outside: Path) -> str:
    """Mutate a file in place; return what was done."""
    if draw(st.integers(0, 24)) == 0:
        return _replace_file(draw, path, outside)
    mutate = draw(st.sampled_from(BY_SUFFIX.get(path.suffix, (mutate_bytes, mutate_text))))
    data = mutate(draw, path.read_bytes()).replace(ABSOLUTE.encode(), str(outside).encode())
    path.write_bytes(data)
    return mutate.__name__


def _replace_file(draw: Draw, path: Path, outside: Path) -> str:
    """Put something else in the place of a file."""
    kind = draw(st.sampled_from(("delete", "folder", "link", "dangling", "loop", "empty")))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "empty":
        path.touch()
    return kind
