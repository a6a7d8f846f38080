"""Render a table of results as Markdown, LaTeX or CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import pandas as pd

from caramel.io.files import format_csv

Style = Literal["markdown", "latex", "csv"]
Column = tuple[str, str]  # subset, metric


@dataclass(frozen=True)
class TableCell:
    """A cell: its text, and whether it is bold."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class TableLine:
    """A row: its name, its cells and their source (empty: measured here)."""

    name: str
    cells: tuple[TableCell, ...]
    source: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: its columns, groups of rows separated by rules, and notes."""

    columns: tuple[Column, ...]
    parts: tuple[tuple[TableLine, ...], ...]
    notes: tuple[str, ...]

    @property
    def titles(self) -> list[str]:
        """Return one title per column, without the part that all columns share."""
        subsets, metrics = ({column[i] for column in self.columns} for i in (0, 1))
        if len(subsets) == 1:
            return [metric if subset == "all" else f"{subset} {metric}" for subset, metric in self.columns]
        return [subset if len(metrics) == 1 else f"{subset} {metric}" for subset, metric in self.columns]

    @property
    def has_source(self) -> bool:
        """Return whether any row has a source."""
        return any(line.source for part in self.parts for line in part)

    @property
    def head(self) -> list[str]:
        """Return the titles of all columns."""
        return ["Model", *self.titles, *(["Source"] if self.has_source else [])]


def render_table(grid: Grid, style: Style) -> str:
    """Return the table in a style, without a final line break."""
    styles: Mapping[Style, Callable[[Grid], str]] = {
        "markdown": _render_markdown,
        "latex": _render_latex,
        "csv": _render_csv,
    }
    return styles[style](grid)


def _render_csv(grid: Grid) -> str:
    rows = []
    for line in (line for part in grid.parts for line in part):
        source = [line.source] if grid.has_source else []
        rows.append([line.name, *(cell.text for cell in line.cells), *source])
    return format_csv(pd.DataFrame(rows, columns=grid.head)).rstrip("\r\n")


def _render_markdown(grid: Grid) -> str:
    def format_row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = [":--", *["--:"] * len(grid.columns), *([":--"] if grid.has_source else [])]
    lines = [format_row([_escape_markdown(title) for title in grid.head]), format_row(rule)]
    for line in (line for part in grid.parts for line in part):
        cells = [
            f"**{_escape_markdown(c.text)}**" if c.bold else _escape_markdown(c.text) for c in line.cells
        ]
        source = [_escape_markdown(line.source)] if grid.has_source else []
        lines.append(format_row([_escape_markdown(line.name), *cells, *source]))
    return "\n".join([*lines, "", *(f"{_escape_markdown(note)}  " for note in grid.notes)]).rstrip()


def _escape_markdown(text: str) -> str:
    """Return the text with every special character of Markdown escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))


def _render_latex(grid: Grid) -> str:
    shape = "l" + "r" * len(grid.columns) + ("l" if grid.has_source else "")
    body = [
        "\\midrule\n" + "\n".join(_render_latex_line(grid, line) for line in part)
        for part in grid.parts
        if part
    ]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_escape_latex(' '.join(grid.notes))}}}",
            f"\\begin{{tabular}}{{{shape}}}",
            "\\toprule",
            *_render_latex_head(grid),
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
        ]
    )


def _render_latex_head(grid: Grid) -> list[str]:
    """Return the lines of the head: subsets above metrics, if there are several of both."""
    subsets = [(subset, len(list(group))) for subset, group in groupby(subset for subset, _ in grid.columns)]
    if len(subsets) == 1 or all(size == 1 for _, size in subsets):
        return [" & ".join(_escape_latex(title) for title in grid.head) + " \\\\"]
    over, rules, start = [], [], 2
    for subset, size in subsets:
        over.append(f"\\multicolumn{{{size}}}{{c}}{{{_escape_latex(subset)}}}")
        rules.append(f"\\cmidrule(lr){{{start}-{start + size - 1}}}")
        start += size
    last = [""] if grid.has_source else []
    names = ["Model", *(metric for _, metric in grid.columns), *(["Source"] if grid.has_source else [])]
    return [
        " & ".join(["", *over, *last]) + " \\\\",
        " ".join(rules),
        " & ".join(_escape_latex(name) for name in names) + " \\\\",
    ]


def _render_latex_line(grid: Grid, line: TableLine) -> str:
    cells = [f"\\textbf{{{_escape_latex(c.text)}}}" if c.bold else _escape_latex(c.text) for c in line.cells]
    source = [_escape_latex(line.source)] if grid.has_source else []
    return " & ".join([_escape_latex(line.name), *cells, *source]) + " \\\\"


_LATEX = {
    "\\": "\\textbackslash{}",
    "{": "\\{",
    "}": "\\}",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "''",  # \\textquotedbl is missing in some fonts
    "[": "{[}",  # after \\ LaTeX would take it for a length
    "]": "{]}",
    "±": "$\\pm$",
    "×": "$\\times$",
    "–": "--",
    "…": "\\dots{}",
    "’": "'",
}


def _escape_latex(text: str) -> str:
    """Return the text with every special character of LaTeX escaped."""
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
