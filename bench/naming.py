"""Measures and checks how the code is named and laid out: `python bench/naming.py`.

The script reads the syntax trees of `src/caramel` and imports nothing. It counts functions and methods
(without dunder methods, properties and click commands): whether the name begins with a verb, whether it has
more than one word, whether a function, an argument or a local has a banned name, and how many arguments there
are. It also counts lines, files per room, `Any`, imports within functions, and the lines of the longest stage
of `dvc.yaml`.

`--list verbs` (or words, banned, arguments, docstrings) prints what a number counts. `--check`, which `make
check` runs, fails on

- a name that does not begin with a verb and is not in `EXCEPTIONS`,
- more than a quarter of names with one word,
- a banned name,
- a function of more than 12 arguments,
- a docstring that describes an argument or attribute that does not exist.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "caramel"
ARGUMENTS = 12  # most arguments of a function
MOST_WORDS = 0.25  # share of names with one word
# Verbs that may begin a name.
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    accept add aggregate align allow answer append apply ask assemble assign audit be begin bring build cache call cap carry cast
    change check choose claim clean clear close collect combine compare complete compose compress compute convert copy correct count
    create crop cut deal decide decode deduplicate delete derive describe detect determine disable discard dispatch distribute divide download
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
    advance attack bind bootstrap calibrate canonicalise capitalise clamp compile darken decorate diff echo edit examine factorize finetune from index
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


# Names that do not begin with a verb, with the reason.
EXCEPTIONS: Mapping[str, frozenset[str]] = {
    "a pure function with the name of the quantity that it returns, as in numpy and scikit-learn": frozenset(
        [
            "above_chance_p_value",
            "best_step",
            "calibrated_cross_entropy",
            "clip_loss",
            "contrastive_cross_entropy",
            "cosine_lr",
            "cross_entropy",
            "cross_modal_rank_loss",
            "distance",
            "distinct_image_mask",
            "effective_sample_size",
            "ema_decay_at",
            "exhaustive_p_value",
            "any_text_mask",
            "contradiction_mask",
            "flow_matching_loss",
            "fraction_intervals",
            "hard_negative_clip_loss",
            "holm_correction",
            "intra_modal_loss",
            "local_similarity",
            "metrics",
            "negative_softplus_loss",
            "negclip_loss",
            "per_row_cross_entropy",
            "per_row_logits",
            "quadratic_forms",
            "required_sample_size",
            "standard_errors",
            "teacher_distance",
            "variance_factor",
            "variance_of_mean",
            "wilson_interval",
        ]
    ),
    "an entry of a registry, with the name of what it builds or is": frozenset(
        [
            "clip_judge",
            "reading_judge",
            "given_negatives",
            "given_parser",
            "language_negatives",
            "lexicon_negatives",
            "world_negatives",
            "world_parser",
            "missing_language_model",
            "missing_of",
            "missing_scorer",
            "pretrain_base",
        ]
    ),
    "its qualified name is part of the keys of finished results, which a rename would discard": frozenset(
        [
            "counts",
            "embedded",
            "embedded_table",
            "finetune_trial",
            "grid_trial",
            "names",
            "ready",
            "scored_table",
            "tuned_table",
        ]
    ),
    "the name by which a library calls it (Great Expectations, Ray, transformers' processors, torch)": frozenset(
        [
            "pandas",
            "on_step_begin",
            "on_trial_complete",
            "on_trial_recover",
            "on_trial_result",
            "serialize",
            "trainable",
            "center_crop",
            "all_reduce_gradients",
        ]
    ),
    "the entry point of a program": frozenset({"main"}),
    "a conversion or a relation between two things, which reads as a phrase": frozenset(
        {"data_beside", "holds_sources", "leakage_to_dict", "shortcuts_to_dict"}
    ),
}
# Banned names that stay, with the reason.
EXCUSED: Mapping[str, str] = {
    "src/caramel/sources/world/scenes.py things": "a field of the scenes in column `scene` of the table of pairs",
    "src/caramel/training/methods/clic.py together": "a weight that finetune.overrides may set",
}
ENTRY = re.compile(
    r"(\*{0,2}[A-Za-z_]\w*(?:, \*{0,2}[A-Za-z_]\w*)*)(?: \([^)]*\))?: "
)  # an entry of a docstring's section


@dataclass
class Counts:
    """Counts with their sources: `path:line name`."""

    functions: int = 0
    verbs: list[str] = field(default_factory=list)  # names without a verb first
    words: list[str] = field(default_factory=list)  # names of one word
    banned: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # more than ARGUMENTS arguments
    docstrings: list[str] = field(default_factory=list)  # docstring entries without a counterpart in the code
    lines: int = 0
    anys: int = 0
    inner_imports: int = 0


def split_name(name: str) -> list[str]:
    """Return the words of a name in snake case, without leading underscores."""
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
        elif isinstance(node, ast.ClassDef):
            _count_entries(node, _list_attributes(node), where, counts)
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
    variadic = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
    _count_entries(node, {argument.arg for argument in [*given, *variadic]}, where, counts)
    counts.inner_imports += sum(isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node))
    if node.name.startswith("__") and node.name.endswith("__"):
        return
    words = split_name(node.name)
    if (
        any(_is_property(decorator) or _is_command(decorator) for decorator in node.decorator_list)
        or not words
    ):
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


def _is_command(decorator: ast.expr) -> bool:
    """Return whether a decorator makes a click command, whose name is what users type."""
    return isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") in ("command", "group")


def _list_attributes(node: ast.ClassDef) -> set[str]:
    """Return the names that a class's docstring may describe: fields, methods, what methods set, arguments of ``__init__``."""
    names = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            names.add(item.name)
            if item.name == "__init__":
                names |= {argument.arg for argument in [*item.args.args, *item.args.kwonlyargs]}
        names |= {
            inner.attr
            for inner in ast.walk(item)
            if isinstance(inner, ast.Attribute)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
        }
    return names


def _count_entries(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, known: set[str], where: str, counts: Counts
) -> None:
    """Add the docstring entries in Args and Attributes that match no argument or attribute."""
    inside: int | None = None
    for line in (ast.get_docstring(node) or "").splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() in ("Args:", "Attributes:"):
            inside = indent
        elif line.strip() and inside is not None and indent <= inside:
            inside = None
        elif inside is not None and indent == inside + 4 and (entry := ENTRY.match(line.strip())):
            names = {name.strip().lstrip("*") for name in entry[1].split(",")}
            counts.docstrings += [
                f"{where}:{node.lineno} {node.name}: {name}" for name in sorted(names - known)
            ]


def find_violations(counts: Counts) -> list[str]:
    """Return a line for each name that breaks a rule, and for each share that is too large."""
    excused = frozenset[str]().union(*EXCEPTIONS.values())
    lines = [
        f"{at}: does not begin with a verb" for at in counts.verbs if at.split()[-1].strip("_") not in excused
    ]
    lines += [f"{at}: a banned name" for at in counts.banned if re.sub(r":\d+", "", at) not in EXCUSED]
    lines += [f"{at}: more than {ARGUMENTS} arguments" for at in counts.arguments]
    lines += [f"{at}: described in the docstring and no argument or attribute" for at in counts.docstrings]
    if len(counts.words) > MOST_WORDS * counts.functions:
        lines.append(
            f"{len(counts.words)} of {counts.functions} names have one word: more than {MOST_WORDS:.0%}"
        )
    return lines


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
    "--list",
    "listed",
    type=click.Choice(["verbs", "words", "banned", "arguments", "docstrings"]),
    help="Print the names behind a number.",
)
@click.option("--check", "checks", is_flag=True, help="Fail on a name that breaks a rule.")
def main(listed: str | None, checks: bool) -> None:
    """Print the table, one list, or the violations.

    \b
    Example:
      python bench/naming.py --list banned
    """
    counts = Counts()
    for path in iter_sources(PACKAGE):
        count_file(path, counts)
    if checks:
        violations = find_violations(counts)
        click.echo("\n".join(violations or ["All names keep the rules."]))
        sys.exit(bool(violations))
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
        "docstring entries of what does not exist": str(len(counts.docstrings)),
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
