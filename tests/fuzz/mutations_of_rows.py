"""Mutations of CSV and YAML."""

from __future__ import annotations

import csv
import io
from typing import Any

from hypothesis import strategies as st
from mutations_of_text import (
    TEXTS,
    Draw,
    encoded,
    mutate_bytes,
    mutate_text,
    new_text,
    place_in,
    text_of,
)


def mutate_csv(draw: Draw, data: bytes) -> bytes:
    """Change cells, rows or the header of a CSV file."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return mutate_text(draw, data)
    if not rows or not all(rows):
        return mutate_text(draw, data)
    at = place_in(draw, len(rows) - 1)
    row = rows[at]
    cell = place_in(draw, len(row) - 1)
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
        rows[0][place_in(draw, len(rows[0]) - 1)] = draw(st.sampled_from(TEXTS[:30]))
    elif kind == "header twice":
        rows[0][place_in(draw, len(rows[0]) - 1)] = rows[0][place_in(draw, len(rows[0]) - 1)]
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
