"""Write a caption of a scene graph by CREPE's template (appendix A.3), with the positions of its atoms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from caramel.interfaces.scene_graph import GraphPosition, SceneGraph
from caramel.sources.captions.words import choose_article
from caramel.utils.text import is_word_character

# There are at most 12 atoms in a caption.
ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)
Span = tuple[int, int]  # text[start:end]


class Caption(NamedTuple):
    """A caption, and the spans in which it names each atom of its graph: at least one per atom."""

    text: str
    spans: Mapping[GraphPosition, tuple[Span, ...]]


class _CaptionBuilder:
    """Builds a text from left to right and records where each atom is written."""

    def __init__(self) -> None:
        self.text = ""
        self.spans: dict[GraphPosition, tuple[Span, ...]] = {}

    def add_text(self, text: str, position: GraphPosition | None = None) -> None:
        self.text += " " if self.text else ""
        if position is not None:
            span = (len(self.text), len(self.text) + len(text))
            self.spans[position] = (*self.spans.get(position, ()), span)
        self.text += text


def write_template_caption(graph: SceneGraph) -> Caption:
    """Return a caption: attributes before objects; subject, relation and object in order.

    The rest is joined by "and a".

    An object that was named before is named again with "the". Example: "tall and blue boy on green grass and
    a bench". The second object of a name is "another": "window above another window", then "the second window".
    """
    writer, named = _CaptionBuilder(), dict[int, None]()
    last = -1
    for number, edge in enumerate(graph.edges):
        if edge.subject != last:
            if named:
                writer.add_text("and")
            _write_name(writer, graph, edge.subject, named, bool(named))
        writer.add_text(edge.name, GraphPosition("rel", number))
        last = edge.object
        _write_name(writer, graph, edge.object, named, False)
    for number in range(len(graph.nodes)):
        if number not in named:
            if named:
                writer.add_text("and")
            _write_name(writer, graph, number, named, bool(named))
    return Caption(writer.text, writer.spans)


def _write_name(
    writer: _CaptionBuilder, graph: SceneGraph, number: int, named: dict[int, None], loose: bool
) -> None:
    """Write an object; ``named`` has the objects so far, in their order."""
    node = graph.nodes[number]
    namesakes = [other for other in named if graph.nodes[other].name == node.name]
    if number in named:
        has_twin = number in graph.list_namesakes()
        writer.add_text(f"the {ORDINALS[namesakes.index(number)]}" if has_twin else "the")
        writer.add_text(node.name, GraphPosition("obj", number))
        return
    named[number] = None
    if namesakes:
        writer.add_text("another")
    elif loose:
        writer.add_text(choose_article(node.attributes[0] if node.attributes else node.name))
    for rank, word in enumerate(node.attributes):
        if rank:
            writer.add_text("and")
        writer.add_text(word, GraphPosition("att", number, rank))
    writer.add_text(node.name, GraphPosition("obj", number))


def locate_atoms(text: str, graph: SceneGraph) -> Caption | str:
    """Return a caption with the positions of its atoms, or the first word that it omits: CREPE's coverage check.

    An attribute is searched directly before its object, then after it. A relation is searched between its ends,
    then anywhere. No two atoms have the same position. Each of several objects of one name has one occurrence of
    it, the one after its attribute if there is one.
    """
    namesakes = graph.list_namesakes()
    spans: dict[GraphPosition, tuple[Span, ...]] = {}
    for position, word in sorted(
        graph.list_positions().items(), key=lambda item: (item[0].atom_type != "obj", -len(item[1]))
    ):
        taken = [span for known in spans.values() for span in known]
        free = [
            s
            for s in find_word_spans(text, word)
            if not any(s[0] < end and start < s[1] for start, end in taken)
        ]
        if not free:
            return word
        if position.atom_type == "obj":
            occurrences = tuple(free)
            if position.owner in namesakes:
                attributes = graph.nodes[position.owner].attributes
                occurrences = (next((s for s in free if _has_ending(text[: s[0]], attributes)), free[0]),)
            spans[position] = occurrences
        elif position.atom_type == "att":
            noun = spans[GraphPosition("obj", position.owner)][0]
            before = [s for s in free if s[1] <= noun[0]]
            spans[position] = ((before or free[:1])[-1],)
        else:
            edge = graph.edges[position.owner]
            ends = sorted(spans[GraphPosition("obj", end)][0] for end in (edge.subject, edge.object))
            between = [s for s in free if ends[0][1] <= s[0] and s[1] <= ends[1][0]]
            spans[position] = ((between or free)[0],)
    return Caption(text, spans)


def _has_ending(text: str, words: Sequence[str]) -> bool:
    """Return whether the last words of a text are one of some words."""
    return any(re.search(rf"(?<!\w){re.escape(word)}\s+$", text, re.IGNORECASE) for word in words)


def find_word_spans(text: str, word: str) -> list[Span]:
    """Return the spans of a word in a text, in any case; parts of longer words do not match."""
    spans: list[Span] = []
    pattern, at = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE), 0
    while match := pattern.search(text, at):
        start, end = match.span()
        at = start + 1
        if not (is_word_character(text[max(start - 1, 0) : start]) or is_word_character(text[end : end + 1])):
            spans.append((start, end))
            at = max(end, at)
    return spans
