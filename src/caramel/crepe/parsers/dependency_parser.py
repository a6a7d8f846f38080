"""Parse captions into scene graphs by rules over a spaCy model's dependencies (after Schuster et al. 2015).

Objects are nouns with their compounds. Attributes stand before them or after "is". Relations are prepositions
between two nouns, and verbs with their objects, or with a preposition and its noun. Labels are those of
ClearNLP, which spaCy's English models have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from caramel.interfaces.scene_graph import (
    Atom,
    AtomType,
    Edge,
    GraphParser,
    GraphParserSpec,
    Node,
    SceneGraph,
)
from caramel.sources.captions.noun_phrases import load_spacy_model

# Nouns that form a preposition before "of": "in front of", "to the left of".
PARTS = frozenset(
    ("front", "left", "right", "top", "side", "back", "middle", "bottom", "inside", "outside", "edge")
)
OBJECTS = frozenset(("dobj", "obj", "attr"))
SUBJECTS = frozenset(("nsubj", "nsubjpass", "nsubj:pass"))
CLAUSES = frozenset(("acl", "relcl", "acl:relcl"))
RELATIVE = frozenset(("that", "which", "who"))  # subjects that refer to the noun before their clause


def load_spacy_parser(target: str, atoms: frozenset[Atom]) -> GraphParser:
    """Return a parser that uses the spaCy model of a package or a folder.

    Args:
        target: name of the package, or the folder.
        atoms: known words; the first form of a word that is among them is used, such as "dog" for "dogs".

    Raises:
        BackendError: spaCy or the model is missing or invalid, or the model finds no dependencies.
    """
    model = load_spacy_model(target)

    def parse_texts(texts: Sequence[str]) -> list[SceneGraph]:
        return [build_graph(doc, atoms) for doc in model.pipe(texts)]

    return parse_texts


def build_graph(doc: Any, atoms: frozenset[Atom]) -> SceneGraph:
    """Return the scene graph of a parsed text; ``doc`` is spaCy's ``Doc``."""
    heads = [t for t in doc if t.pos_ in ("NOUN", "PROPN") and t.dep_ != "compound" and not _is_part(t)]
    node_index = {token.i: number for number, token in enumerate(heads)}
    looks: list[dict[str, None]] = [{} for _ in heads]
    edges: dict[Edge, None] = {}
    for token in heads:
        for look in _iter_adjectives(token):
            looks[node_index[token.i]][
                _select_known_form("att", [look.lower_, look.lemma_.lower()], atoms)
            ] = None
    for subject, words, other in _iter_relations(doc):
        if subject.i in node_index and other.i in node_index and subject.i != other.i:
            edges[
                Edge(node_index[subject.i], _select_known_form("rel", words, atoms), node_index[other.i])
            ] = None
    nodes = (Node(_get_name(t, atoms), tuple(looks[n])) for n, t in enumerate(heads))
    return SceneGraph(tuple(nodes), tuple(edges))


def _select_known_form(atom_type: AtomType, forms: Sequence[str], atoms: frozenset[Atom]) -> str:
    """Return the first form that is a known word; if none is, the first form."""
    return next((form for form in forms if (atom_type, form) in atoms), forms[0])


def _get_name(token: Any, atoms: frozenset[Atom]) -> str:
    parts = [t.lower_ for t in token.lefts if t.dep_ == "compound"]
    lemma, written = (" ".join([*parts, last]) for last in (token.lemma_.lower(), token.lower_))
    return _select_known_form("obj", [lemma, written], atoms)


def _is_part(token: Any) -> bool:
    """Return whether a noun is part of a preposition, such as "front" in "in front of"."""
    return token.lower_ in PARTS and token.dep_ == "pobj" and any(t.lower_ == "of" for t in token.children)


def _iter_adjectives(noun: Any) -> Iterator[Any]:
    """Yield the adjectives of a noun: "black, wet dog", "dog that is black"."""
    for child in noun.children:
        if child.dep_ == "amod":
            yield from _list_conjuncts(child)
    for verb in _list_verbs(noun):
        yield from (
            look
            for t in verb.children
            if t.dep_ == "acomp" and t.pos_ == "ADJ"
            for look in _list_conjuncts(t)
        )


def _list_conjuncts(token: Any) -> list[Any]:
    """Return a word and those joined to it by "and"; a verb with its own subject begins a new clause."""
    with_it = (child for child in token.children if child.dep_ == "conj" and not _list_subjects(child))
    return [token, *(t for child in with_it for t in _list_conjuncts(child))]


def _list_subjects(verb: Any) -> list[str]:
    return [t.lower_ for t in verb.children if t.dep_ in SUBJECTS]


def _list_verbs(noun: Any) -> list[Any]:
    """Return the verbs whose subject is the noun.

    These are in its sentence, and in clauses after it without another subject.
    """
    nouns = [noun]  # the nouns that "and" joins to it
    while nouns[-1].dep_ == "conj":
        nouns.append(nouns[-1].head)
    heads = [nouns[-1].head] if nouns[-1].dep_ in SUBJECTS else []
    clauses = (t for n in nouns for t in n.children if t.dep_ in CLAUSES and t.i > noun.i)
    heads += [t for t in clauses if RELATIVE.issuperset(_list_subjects(t))]
    return [verb for first in heads for verb in _list_conjuncts(first)]


def _iter_relations(doc: Any) -> Iterator[tuple[Any, list[str], Any]]:
    """Yield (noun, forms of the relation, noun)."""
    for noun in (t for t in doc if t.pos_ in ("NOUN", "PROPN")):
        for words, other in _iter_prepositions(noun):
            yield noun, words, other
        for verb in _list_verbs(noun):
            idle = verb.lemma_ == "be"
            for child in verb.children:
                if child.dep_ in OBJECTS and not idle:
                    yield from (
                        (noun, [verb.lower_, verb.lemma_.lower()], other) for other in _list_conjuncts(child)
                    )
            for words, other in _iter_prepositions(verb):
                forms = [] if idle else [f"{form} {words[0]}" for form in (verb.lower_, verb.lemma_.lower())]
                yield noun, [*forms, *words], other


def _iter_prepositions(token: Any) -> Iterator[tuple[list[str], Any]]:
    """Yield the prepositions of a word, each with its object."""
    for first in (t for t in token.children if t.dep_ == "prep"):
        for noun in (t for t in first.children if t.dep_ == "pobj"):
            if _is_part(noun):
                of = next(t for t in noun.children if t.lower_ == "of")
                words = " ".join(t.lower_ for t in token.doc[first.i : of.i + 1])
                ends = [t for t in of.children if t.dep_ == "pobj"]
            else:
                words, ends = first.lower_, [noun]
            yield from (([words], other) for end in ends for other in _list_conjuncts(end))
        for later, other in _iter_prepositions(
            first
        ):  # "next to", "on top of" if it is parsed as two prepositions
            yield [f"{first.lower_} {later[0]}"], other
    for first in (t for t in token.children if t.dep_ == "advmod"):
        for later, other in _iter_prepositions(first):
            yield [f"{first.lower_} {later[0]}"], other


def _list_versions(target: str) -> Mapping[str, str]:
    """Return the versions of spaCy and of the model's package, if they are installed."""
    versions: dict[str, str] = {}
    for package in filter(None, ("spacy", target)):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # the model is a folder, or is missing, which the loader reports
            continue
    return versions


SPACY = GraphParserSpec("spacy", load_spacy_parser, _list_versions)
