"""Generate HN-Atom of a caption with a known scene graph: one atom is replaced (Ma et al. 2023, appendix A.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from caramel.crepe.foils import CaptionedGraph, replace_caption_words, replace_graph_words
from caramel.crepe.matching import is_true_of_graph
from caramel.crepe.noun_lists import GENDERED
from caramel.crepe.predicate_contraries import HAVING
from caramel.interfaces.scene_graph import GraphPosition, SceneGraph, Thesaurus

_PRONOUN = re.compile(r"\b(?:he|him|his|himself|she|her|hers|herself)\b", re.IGNORECASE)

# Words around a relation's object that hold only for the relation, and before a noun that a verb binds
_POSSESSIVE = re.compile(r"\b(?:his|her|its|their)(?: [\w-]+)? $", re.IGNORECASE)
_PLACE = (
    r"(?:in|on|at|of|around|behind|near|by|under|over|beside|inside|with|between|for|next to|in front of)"
)
_WHOSE = r"(?:it|him|her|them|his|its|their|each|both|one|top|hand|hands)"
_BOUND_AFTER = re.compile(
    rf"(?:\s+of\s+\w+)?\s+(?:{_PLACE}\s+{_WHOSE}|down|up|through|across|along|into|off|onto|past|out|open)\b",
    re.IGNORECASE,
)
_FEW = re.compile(
    r"\b(?:no|few|some|several|different|many|multiple|various|lots of|two|three|four)(?: \w+)? $",
    re.IGNORECASE,
)
_INFINITIVE = re.compile(r"\bto \w+ (?:(?:an?|the|his|her|their|its) )?$", re.IGNORECASE)


def generate_atom_foils(captioned: CaptionedGraph, words: Thesaurus) -> Iterator[str]:
    """Yield captions with one atom replaced by one that excludes it and is false in its place."""
    for position in captioned.graph.list_positions():
        for foil in list_position_foils(captioned, words, position):
            if is_false_change(captioned, words, position, foil):
                yield replace_caption_words(captioned.caption, {position: foil})


def draw_atom_foils(captioned: CaptionedGraph, words: Thesaurus, rng: np.random.Generator) -> Iterator[str]:
    """Yield the same captions in random order, each atom with the same chance of being the next that is replaced.

    Otherwise the noun with most cousins would win. Only what is drawn is checked against the graph.
    """
    left = {
        position: foils
        for position in captioned.graph.list_positions()
        if (foils := list_position_foils(captioned, words, position))
    }
    while left:
        position = list(left)[int(rng.integers(len(left)))]
        foil = left[position].pop(int(rng.integers(len(left[position]))))
        if not left[position]:
            del left[position]
        if is_false_change(captioned, words, position, foil):
            yield replace_caption_words(captioned.caption, {position: foil})


def list_position_foils(captioned: CaptionedGraph, words: Thesaurus, position: GraphPosition) -> list[str]:
    """Return the words that exclude the atom at a position and do not stand in the caption in the same role."""
    graph = captioned.graph
    atoms = graph.list_positions()
    if position.atom_type == "obj" and _is_bound(captioned, position.owner):
        return []
    known = {
        word
        for other, word in atoms.items()
        if other.atom_type == position.atom_type
        and (position.atom_type == "obj" or other.owner == position.owner)
    }
    if position.atom_type == "rel" and _is_bound_relation(captioned, position.owner):
        return []
    foils = words.list_foils(
        position.atom_type,
        atoms[position],
        _list_owners(graph, position),
        _list_relations(graph, position.owner) if position.atom_type == "obj" else (),
    )
    return [word for word in foils if word not in known]


def is_false_change(captioned: CaptionedGraph, words: Thesaurus, position: GraphPosition, foil: str) -> bool:
    """Return whether the caption is false of the whole image when a word at a position is replaced.

    A noun that the caption has, in its singular or plural, is no such word: "two men and a man".
    """
    graph = captioned.graph
    others = {node.name for i, node in enumerate(graph.nodes) if i != position.owner}
    if position.atom_type == "obj" and any(words.is_more_general("obj", foil, name) for name in others):
        return False
    changed = replace_graph_words(captioned.graph, {position: foil})
    return not is_true_of_graph(changed, captioned.whole, words)


def _is_bound(captioned: CaptionedGraph, node: int) -> bool:
    """Return whether a noun is bound to other words: "a statue of a horse", "a truck next to other trucks".

    A pronoun binds, too: "a man brushing his teeth", and a second object of the same name: "another truck".
    """
    graph = captioned.graph
    start = captioned.caption.spans[GraphPosition("obj", node)][0][0]
    if node in graph.list_namesakes() or _INFINITIVE.search(captioned.caption.text[:start]):
        return True
    has_complement = any(edge.subject == node and edge.name == "of" for edge in graph.edges)
    name = graph.nodes[node].name
    has_other = any(
        {f"{name}s", name} & {other.name, f"{other.name}s"} for other in graph.nodes if other.name != name
    )
    names = set(name.split(" "))
    return has_complement or has_other or bool(names & GENDERED and _PRONOUN.search(captioned.caption.text))


def _is_bound_relation(captioned: CaptionedGraph, edge: int) -> bool:
    """Return whether words around a relation's object hold only for it: "a sign with a bear on it", "with its mouth"."""
    text, spans = captioned.caption.text, captioned.caption.spans
    node = captioned.graph.edges[edge].object
    start, end = spans[GraphPosition("obj", node)][0]
    if captioned.graph.edges[edge].name in HAVING and _FEW.search(text[:start]):
        return True  # "without two slices"
    return bool(_POSSESSIVE.search(text[:start]) or _BOUND_AFTER.match(text[end:]))


def _list_relations(graph: SceneGraph, node: int) -> tuple[tuple[str, str, str], ...]:
    """Return the relations and attributes of an object as a thesaurus takes them; it is the empty word itself."""
    related = [
        (
            *tuple("" if end == node else graph.nodes[end].name for end in (edge.subject, edge.object)),
            edge.name,
        )
        for edge in graph.edges
        if node in (edge.subject, edge.object)
    ]
    attributes = [("", "is", word) for word in graph.nodes[node].attributes]
    return (*((subject, name, other) for subject, other, name in related), *attributes)


def _list_owners(graph: SceneGraph, position: GraphPosition) -> tuple[str, ...]:
    """Return the name of the object with an attribute, those of the ends of a relation, and none for an object."""
    if position.atom_type == "obj":
        return ()
    if position.atom_type == "att":
        return (graph.nodes[position.owner].name,)
    edge = graph.edges[position.owner]
    return graph.nodes[edge.subject].name, graph.nodes[edge.object].name
