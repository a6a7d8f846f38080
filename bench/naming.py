"""Measure the naming and layout of the code: `python bench/naming.py`.

It counts functions and methods of `src/caramel`, without dunder methods and properties: whether the name begins with a
verb, whether it has more than one word, and banned names of functions, arguments and locals. It also prints lines,
arguments, files per room, `Any`, imports within functions, and the longest stage of `dvc.yaml`. It reads syntax trees
and imports nothing. `--list verbs` (or words, banned, arguments) prints the names behind a number.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "caramel"
ARGUMENTS = 12  # most arguments of a function
# Verbs that may begin a name.
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    accept add aggregate align allow answer append apply ask assemble assign audit be begin bring build cache call cap carry cast
    change check choose claim clean clear close collect combine compare complete compose compress compute convert copy correct count
    create crop cut deal decode deduplicate delete derive describe detect determine disable discard dispatch distribute divide download
    draw drop dump embed enable encode end ensure enumerate escape estimate evaluate exclude expand explain export extend extract fetch
    fill filter find finish fit fix flatten flip fold follow forbid forget format forward freeze gather generate get give group guard
    guess handle hash hide hold import include infer init initialise insert inspect install interleave interpolate intersect invert is
    iter join judge keep label launch lay learn leave limit link list load locate lock log look lower make map mark mask match measure
    mend merge migrate mine mix move name need negate normalise note notice number open order pack pad pair parse pass patch pick place
    plan plant plot pool predict prefer prefetch prepare print probe profile project prompt propose prune publish pull push put raise
    rank read realise rebuild receive record redact reduce refine refuse register reject release reload remove rename render repair
    repeat replace report require resample rescore reserve reset resize resolve restore resume retry return revert rewrite rotate round
    run sample save scale scan schedule score search seed select send serve set shard shift shorten show shuffle skip sleep slice solve
    sort spell split spread stack stamp standardise start step stop store stream strip submit substitute subtract suggest sum summarise
    swap sync take tally teach tell test throw tie time tokenize track train translate trim truncate try tune turn undo unfreeze unify
    unlink unlock unpack update upgrade upload use validate verify visit wait walk warm warn watch weigh wrap write yield
    has can may should will was are
    advance attack bind bootstrap calibrate canonicalise capitalise clamp compile darken diff echo edit examine factorize finetune from index
    nest orient query reword replay share sign simulate tag to adopt
    """,
    )
)
BANNED = frozenset(
    re.findall(
        r"\w+",
        """
    found said told asked made kept shown seen each mine own there apart together ahead place places kind kinds thing things
    """,
    )
)


@dataclass
class Counts:
    """Counts with their sources: `path:line name`."""

    functions: int = 0
    verbs: list[str] = field(default_factory=list)  # names without a verb first
    words: list[str] = field(default_factory=list)  # names of one word
    banned: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # more than ARGUMENTS arguments
    lines: int = 0
    anys: int = 0
    inner_imports: int = 0


def split_name(name: str) -> list[str]:
    """Return the words of a snake-case name, without leading underscores."""
    return [word for word in name.strip("_").split("_") if word]


def count_file(path: Path, counts: Counts) -> None:
    """Add the counts of a source file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    counts.lines += text.count("\n")
    where = path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _count_function(node, where, counts)
        elif isinstance(node, ast.Name) and node.id == "Any":
            counts.anys += 1
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BANNED:
            counts.banned.append(f"{where}:{node.lineno} {node.id}")


def _count_function(node: ast.FunctionDef | ast.AsyncFunctionDef, where: str, counts: Counts) -> None:
    at = f"{where}:{node.lineno} {node.name}"
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given = [argument for argument in given if argument.arg not in ("self", "cls")]
    counts.banned += [f"{where}:{a.lineno} {a.arg}" for a in given if a.arg in BANNED]
    if len(given) > ARGUMENTS:
        counts.arguments.append(f"{at} ({len(given)})")
    counts.inner_imports += sum(isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node))
    if node.name.startswith("__") and node.name.endswith("__"):
        return
    words = split_name(node.name)
    if any(_is_property(decorator) for decorator in node.decorator_list) or not words:
        return
    counts.functions += 1
    if words[0] not in VERBS:
        counts.verbs.append(at)
    if len(words) == 1:
        counts.words.append(at)
    if node.name.strip("_") in BANNED:
        counts.banned.append(at)


def _is_property(decorator: ast.expr) -> bool:
    name = decorator.id if isinstance(decorator, ast.Name) else getattr(decorator, "attr", "")
    return name in ("property", "cached_property", "setter")


def iter_sources(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder and those below it."""
    yield from sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def count_rooms(package: Path) -> Mapping[str, int]:
    """Return the number of files by room, without `__init__.py`."""
    files = (path for path in iter_sources(package) if path.name != "__init__.py")
    return Counter(path.parent.relative_to(package).as_posix() for path in files)


def measure_stages(graph: Path) -> Mapping[str, int]:
    """Return the number of lines of each stage of `dvc.yaml`."""
    text = graph.read_text(encoding="utf-8")
    parts = re.split(r"^  (\w+):", text[text.index("\nstages:") :], flags=re.MULTILINE)
    return {name: body.rstrip().count("\n") + 1 for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@click.command()
@click.option(
    "--list", "listed", type=click.Choice(["verbs", "words", "banned", "arguments"]), help="Print these."
)
def main(listed: str | None) -> None:
    """Print the table, or one list."""
    counts = Counts()
    for path in iter_sources(PACKAGE):
        count_file(path, counts)
    if listed:
        click.echo("\n".join(getattr(counts, listed)))
        return
    rooms, stages = count_rooms(PACKAGE), measure_stages(ROOT / "dvc.yaml")
    lines = {
        name: sum(p.read_text(encoding="utf-8").count("\n") for p in iter_sources(ROOT / name))
        for name in ("src", "tests")
    }
    rows = {
        "functions and methods": f"{counts.functions:,}",
        "verb first": f"{1 - len(counts.verbs) / counts.functions:.1%}",
        "one word": f"{len(counts.words) / counts.functions:.1%}",
        "banned names": f"{len(counts.banned):,}",
        f"functions of more than {ARGUMENTS} arguments": str(len(counts.arguments)),
        "lines in src": f"{lines['src']:,}",
        "lines in tests": f"{lines['tests']:,}",
        "Any per 1,000 lines": f"{1000 * counts.anys / counts.lines:.1f}",
        "imports in functions per 1,000 lines": f"{1000 * counts.inner_imports / counts.lines:.1f}",
        "largest room": "{1} ({0})".format(*max(rooms.items(), key=lambda item: item[1])),
        "rooms of more than 15 files": str(sum(size > 15 for size in rooms.values())),
        "longest stage of dvc.yaml, lines": "{1} ({0})".format(
            *max(stages.items(), key=lambda item: item[1])
        ),
        "dvc.yaml, lines": str((ROOT / "dvc.yaml").read_text(encoding="utf-8").count("\n")),
    }
    for name, value in rows.items():
        click.echo(f"{name:<42} {value}")


if __name__ == "__main__":
    main()
