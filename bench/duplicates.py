"""Runs of equal lines in two places of the source: what should be shared code.

Lines are compared stripped, without blank lines, comments, imports and docstrings. Of overlapping finds the longest is reported.

    python bench/duplicates.py
    python bench/duplicates.py src/caramel/blind --most 8
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import click

FOLDERS = ("src", "pipelines", "bench")


class Line(NamedTuple):
    """A line of code and its number in the file."""

    text: str
    number: int


class Duplicate(NamedTuple):
    """Two places with the same lines: path and first and last number of each, and how many lines of code are equal."""

    first: str
    second: str
    lines: int


def read_lines(path: Path) -> list[Line]:
    """Return the lines of code of a file, stripped, without comments, imports and docstrings.

    Raises:
        SyntaxError: it is not Python.
    """
    source = path.read_text(encoding="utf-8")
    left_out = _find_left_out(ast.parse(source, str(path)))
    code = {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type
        not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        for number in range(token.start[0], token.end[0] + 1)
    }
    return [
        Line(text.strip(), number)
        for number, text in enumerate(source.splitlines(), 1)
        if number in code and number not in left_out and text.strip()
    ]


def _find_left_out(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of imports and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes: list[ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            nodes.append(node)
        elif isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            nodes.append(node.body[0])
    return {number for node in nodes for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def find_duplicates(files: Sequence[Path], most: int) -> list[Duplicate]:
    """Return all maximal runs of more than ``most`` equal lines in two places, the longest first."""
    lines = {path: read_lines(path) for path in files}
    size = most + 1
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path, of_file in lines.items():
        for start in range(len(of_file) - most):
            places[tuple(line.text for line in of_file[start : start + size])].append((path, start))
    matches = {
        (one, other)
        for starts in places.values()
        for number, one in enumerate(starts)
        for other in starts[number + 1 :]
        if one[0] != other[0] or other[1] - one[1] >= size  # a run does not overlap itself
    }
    duplicates = []
    for (one, i), (other, j) in sorted(matches):
        if ((one, i - 1), (other, j - 1)) in matches:
            continue  # not where the run begins
        length = size
        while ((one, i + length - most), (other, j + length - most)) in matches:
            length += 1
        first, second = (
            f"{path}:{lines[path][start].number}-{lines[path][start + length - 1].number}"
            for path, start in ((one, i), (other, j))
        )
        duplicates.append(Duplicate(first, second, length))
    return sorted(duplicates, key=lambda duplicate: -duplicate.lines)


def list_files(paths: Iterable[Path]) -> list[Path]:
    """Return the Python files among and below the paths, in order."""
    return sorted({file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])})


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--most", default=12, show_default=True, help="Equal lines that are allowed.")
def main(paths: tuple[Path, ...], most: int) -> None:
    """Print the duplicates; exit with code 1 if there is one."""
    duplicates = find_duplicates(list_files(paths or map(Path, FOLDERS)), most)
    for duplicate in duplicates:
        click.echo(f"{duplicate.lines} equal lines: {duplicate.first} and {duplicate.second}")
    sys.exit(bool(duplicates))


if __name__ == "__main__":
    main()
