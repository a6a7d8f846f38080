"""Load parsers, which turn texts into constituency trees, by spec.

dependency:MODEL  dependency trees by spaCy; see ``dependency_trees``

world         exact trees of the embedded world's captions; see ``world_trees``
given:FILE    a file of trees from any parser. One line per caption with its Penn-style trees, one tree per sentence:
              (ROOT (S (NP (DT A) (NN cat)) (VP (VBZ sits)) (. .)))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from caramel.errors import BackendError, DataError, format_items
from caramel.interfaces.parser import Parse, Parser, Tree
from caramel.io.readers import iter_lines
from caramel.io.validators import format_value
from caramel.registry import PARSERS

ROOTS = ("", "ROOT", "TOP", "S1")  # labels that parsers give to the node above a sentence
MAX_DEPTH = 200
_BRACKETS = re.compile(r"[()]|[^\s()]+")
# Words are compared as before tokenization: the parser's escapes for brackets and quotes are undone.
_SIGNS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_QUOTES = str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'", "`": "'", "\\": None})


def load_parser(spec: str) -> Parser:
    """Return the parser of a spec, ``NAME`` or ``NAME:TARGET``.

    Raises:
        BackendError: there is no parser with that name, or its target is missing or not allowed.
        DataError: the target is not a file of trees.
    """
    name, _, target = spec.partition(":")
    return PARSERS[name](target)


def cache_parses(parser: Parser) -> Parser:
    """Return a parser that parses each text once; errors as in ``parser``."""
    known: dict[str, Parse] = {}

    def parse(texts: Sequence[str]) -> list[Parse]:
        new = sorted({*texts} - known.keys())
        known.update(zip(new, parser(new), strict=True))
        return [known[text] for text in texts]

    return parse


def given_parser(target: str) -> Parser:
    """Return a parser that looks texts up in a file of trees, by their words.

    Raises:
        BackendError: no file is named.
        DataError: the file cannot be read, a line is not a tree, or a text has two different trees.
    """
    if not target:
        raise BackendError("Parser 'given' needs a file of trees: write given:FILE.")
    known = _read_parses(Path(target))

    def look_up(texts: Sequence[str]) -> list[Parse]:
        parses = [known.get(_normalise_text(text)) for text in texts]
        lacking = sorted({text for text, parse in zip(texts, parses, strict=True) if parse is None})
        if lacking:
            raise DataError(
                f"{target!r} lacks the trees of some texts (number of texts: {len(lacking)}):\n"
                f"{format_items([repr(t) for t in lacking])}\n"
                f"Parse each text as written, including punctuation, and write its trees in one line."
            )
        return [parse for parse in parses if parse is not None]

    return look_up


def _read_parses(file: Path) -> dict[str, Parse]:
    """Return normalised text -> parse, for the lines of a file that are not empty."""
    known: dict[str, Parse] = {}
    for number, line in enumerate(iter_lines(file), 1):
        if not line.strip():
            continue
        parse = read_trees(line, f"{str(file)!r}, line {number}")
        key = _normalise_text("".join(_SIGNS.get(word, word) for tree in parse for word in tree.list_words()))
        if known.setdefault(key, parse) != parse:
            raise DataError(
                f"{str(file)!r}, line {number}: the same text has another tree in an earlier line: {format_value(line)}. "
                f"Remove one of them."
            )
    return known


def _normalise_text(text: str) -> str:
    """Return a form that is equal for a text and the joined words of its tree."""
    text = text.casefold().replace("``", '"').replace("''", '"').translate(_QUOTES)
    return "".join(text.split())


def read_trees(text: str, where: str) -> Parse:
    """Return the bracketed trees of a text, each below a node ``ROOT``, however its parser labelled this node.

    Args:
        text: one or several trees, ``(LABEL child …)`` or ``(TAG word)``.
        where: location of the text, for messages.

    Raises:
        DataError: a bracket is not closed or is empty, a word has no tag of its own, there is no tree, or a
            tree is deeper than ``MAX_DEPTH``.
    """
    bad = DataError(
        f"{where}: not a bracketed tree: {format_value(text)}. Write (LABEL child …), with (TAG word) for each word, at "
        f"most {MAX_DEPTH} levels deep."
    )
    levels: list[list[Tree]] = [[]]  # finished children of each open bracket, outermost first
    labels: list[str] = []
    words: list[str] = []
    before = ""
    for piece in _BRACKETS.findall(text):
        if piece == "(":
            if words and words[-1]:
                raise bad
            levels.append([])
            labels.append("")
            words.append("")
        elif piece == ")":
            if not labels:
                raise bad
            children, label, word = tuple(levels.pop()), labels.pop(), words.pop()
            if bool(children) == bool(word):
                raise bad
            levels[-1].append(Tree(label, children, word))
        elif not labels or words[-1] or levels[-1]:
            raise bad
        elif before == "(":
            labels[-1] = piece
        else:
            words[-1] = piece
        before = piece
        if len(labels) > MAX_DEPTH:
            raise bad
    if labels or not levels[0]:
        raise bad
    return tuple(_add_root(tree) for tree in levels[0])


def _add_root(tree: Tree) -> Tree:
    return Tree("ROOT", tree.children if tree.label in ROOTS and tree.children else (tree,))
