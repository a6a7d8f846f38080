"""Texts of others put into Markdown, YAML and BibTeX: as what they say, and never as markup."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

_MARKS = re.compile(r"([\\`*_{}\[\]|~$@^]|^[#+=-]|:(?=//)|(?<=^\d)[.)])")
_MARKED = re.compile(r"\\([\W_])|(`+)(.*?)(?<!`)\2(?!`)", re.DOTALL)
_BAR, _ESCAPED = re.compile(r"(?<!\\)\|"), r"\\|"
# BibTeX counts a brace with a backslash before it, too.
_TEX = {"\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}"}
_TEX |= {sign: f"\\{sign}" for sign in "#$%&_"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def flatten_text(text: str) -> str:
    """Return a text without line breaks and signs that do not print."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def escape_markdown(text: str) -> str:
    """Return a text for a line or a table's cell of Markdown, as it is read there."""
    return html.escape(_MARKS.sub(r"\\\1", flatten_text(text)), quote=False)


def escape_paragraphs(text: str) -> str:
    """Return a text of several paragraphs for Markdown."""
    return "\n\n".join(escape_markdown(part) for part in re.split(r"\n\s*\n", text) if part.strip())


def strip_markdown(text: str) -> str:
    """Return what ``markdown``, ``paragraph`` and ``code`` made as it is read."""
    parts, end = [], 0
    for mark in _MARKED.finditer(text):
        parts += [html.unescape(text[end : mark.start()]), mark[1] or _strip_code_padding(mark[3])]
        end = mark.end()
    return "".join([*parts, html.unescape(text[end:])]).strip()


def _strip_code_padding(inside: str) -> str:
    """Return what stands in the letters of code, without the spaces that keep its own backticks from the fence."""
    return inside[1:-1] if inside.startswith(" `") or inside.endswith("` ") else inside


def format_code(text: str) -> str:
    """Return a name for Markdown in the letters of code."""
    plain = flatten_text(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def escape_tex(text: str) -> str:
    """Return a text for a field of BibTeX."""
    return "".join(_TEX.get(sign, sign) for sign in flatten_text(text))


def format_yaml(values: Mapping[str, Any]) -> str:
    """Return plain data as YAML, keys in their order."""
    to = io.StringIO()
    writer = YAML()
    writer.width = 10_000
    writer.dump(dict(values), to)
    return to.getvalue()


def format_table(head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    """Return a table of Markdown; its cells are Markdown already, and no bar in them is a border."""
    lines = [head, tuple("---" for _ in head), *lines]
    return "\n".join(f"| {' | '.join(re.sub(_BAR, _ESCAPED, cell) for cell in cells)} |" for cells in lines)
