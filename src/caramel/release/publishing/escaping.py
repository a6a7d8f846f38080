"""Escape foreign texts for Markdown, YAML and BibTeX, so that they are never read as markup."""

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
# BibTeX counts a brace even after a backslash.
_TEX = {"\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}"}
_TEX |= {sign: f"\\{sign}" for sign in "#$%&_"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def flatten_text(text: str) -> str:
    """Return a text without line breaks and non-printing characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def escape_markdown(text: str) -> str:
    """Return a text for a line or table cell of Markdown that displays as it is."""
    return html.escape(_MARKS.sub(r"\\\1", flatten_text(text)), quote=False)


def escape_paragraphs(text: str) -> str:
    """Return a text of several paragraphs for Markdown."""
    return "\n\n".join(escape_markdown(part) for part in re.split(r"\n\s*\n", text) if part.strip())


def strip_markdown(text: str) -> str:
    """Return what a reader sees of text made by ``escape_markdown``, ``escape_paragraphs`` and ``format_code``."""
    parts, end = [], 0
    for mark in _MARKED.finditer(text):
        parts += [html.unescape(text[end : mark.start()]), mark[1] or _strip_code_padding(mark[3])]
        end = mark.end()
    return "".join([*parts, html.unescape(text[end:])]).strip()


def _strip_code_padding(inside: str) -> str:
    """Return the content of inline code without the padding that separates its own backticks from the fence."""
    return inside[1:-1] if inside.startswith(" `") or inside.endswith("` ") else inside


def format_code(text: str) -> str:
    """Return a name as inline code for Markdown."""
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
    """Return a Markdown table; cells are Markdown already, and bars inside them are escaped."""
    lines = [head, tuple("---" for _ in head), *lines]
    return "\n".join(f"| {' | '.join(re.sub(_BAR, _ESCAPED, cell) for cell in cells)} |" for cells in lines)
