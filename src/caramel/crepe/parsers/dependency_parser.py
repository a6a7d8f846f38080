"""Parse captions into scene graphs by rules over a spaCy model's dependencies (after Schuster et al. 2015).

Objects are nouns with their compounds. Attributes stand before them or after "is". Relations are prepositions
between two nouns, and verbs with their objects, or with a preposition and its noun. Labels are those of
ClearNLP, which spaCy's English models have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from caramel.crepe.parsers.caption_phrases import NOT_ATTRIBUTES, PLURAL_ONLY, find_fixed_phrases
from caramel.interfaces.scene_graph import (
    Atom,
    AtomType,
    Edge,
    GraphParser,
    GraphParserSpec,
    Node,
    SceneGraph,
)
from caramel.sources.captions.spacy_models import load_spacy_model

# Nouns that form a preposition before "of": "in front of", "to the left of".
PARTS = frozenset(
    ("front", "left", "right", "top", "side", "back", "middle", "bottom", "inside", "outside", "edge")
)
# A noun within a name, or within an adjective such as "snow-covered".
INNER = frozenset(("compound", "npadvmod", "amod", "nmod"))
OBJECTS = frozenset(("dobj", "obj", "attr"))
SUBJECTS = frozenset(("nsubj", "nsubjpass", "nsubj:pass"))
CLAUSES = frozenset(("acl", "relcl", "acl:relcl"))
# After a verb with an object, these are of the subject: "a boy flying a kite with a friend".
WITH_SUBJECT = frozenset(("with", "near", "by", "next to"))
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
        return [build_graph(doc, atoms) for doc in model.pipe(_join_phrases(model.make_doc, texts))]

    return parse_texts


def _join_phrases(tokenize: Callable[[str], Any], texts: Iterable[str]) -> Iterator[Any]:
    """Yield the tokens of each text, with one token for each fixed phrase. Texts in capitals are lowered."""
    for text in texts:
        doc = tokenize(text.lower() if text.isupper() else text)
        spans = [doc.char_span(start, end) for start, end in find_fixed_phrases(doc.text)]
        with doc.retokenize() as retokenizer:
            for span in filter(None, spans):
                retokenizer.merge(span)
        yield doc


def build_graph(doc: Any, atoms: frozenset[Atom]) -> SceneGraph:
    """Return the scene graph of a parsed text; ``doc`` is spaCy's ``Doc``."""
    heads = [t for t in doc if t.pos_ in ("NOUN", "PROPN") and t.dep_ not in INNER and not _is_part(t)]
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
    if token.lower_ in PLURAL_ONLY or ("obj", written) in atoms:
        return written
    return lemma


def _is_part(token: Any) -> bool:
    """Return whether a noun is part of a preposition, such as "front" in "in front of"."""
    return token.lower_ in PARTS and token.dep_ == "pobj" and any(t.lower_ == "of" for t in token.children)


def _iter_adjectives(noun: Any) -> Iterator[Any]:
    """Yield the adjectives of a noun: "black, wet dog", "dog that is black".

    That of a compound's first noun is the compound's: "red fire hydrant".
    """
    parts = [child for child in noun.children if child.dep_ == "compound"]
    for child in (child for token in (*parts, noun) for child in token.children):
        if child.dep_ == "amod":
            yield from (word for word in _list_conjuncts(child) if _is_attribute(word))
    for verb in _list_verbs(noun):
        yield from (
            look
            for t in verb.children
            if t.dep_ == "acomp" and t.pos_ == "ADJ"
            for look in _list_conjuncts(t)
            if _is_attribute(look)
        )


def _is_attribute(token: Any) -> bool:
    """Return whether a modifier is more than a quantifier, such as "several" or "different colored"."""
    return token.lower_.split()[0] not in NOT_ATTRIBUTES and any(map(str.isalpha, token.lower_))


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
    verbs = [verb for first in heads for verb in _list_conjuncts(first)]
    # "holds a kite while standing on grass"
    aside = (t for verb in verbs for t in verb.children if t.dep_ == "advcl" and t.tag_ == "VBG")
    return [*verbs, *(t for t in aside if not _list_subjects(t))]


def _iter_relations(doc: Any) -> Iterator[tuple[Any, list[str], Any]]:
    """Yield (noun, forms of the relation, noun)."""
    for noun in (t for t in doc if t.pos_ in ("NOUN", "PROPN")):
        for words, other in _iter_prepositions(noun):
            yield noun, words, other
        for verb in _list_verbs(noun):
            idle = verb.lemma_ == "be"
            ends = [] if idle else [child for child in verb.children if child.dep_ in OBJECTS]
            forms = [] if idle else _list_verb_forms(verb)
            for child in ends:
                yield from ((noun, forms, other) for other in _list_conjuncts(child))
            for words, other in _iter_prepositions(verb):
                if not ends:
                    yield noun, [*(f"{form} {words[0]}" for form in forms), *words], other
                elif words[0] in WITH_SUBJECT:
                    yield noun, words, other
                else:  # "holding a phone in his hand": the phone is there
                    yield ends[0], words, other


def _list_verb_forms(verb: Any) -> list[str]:
    """Return a verb as it is written and its base form, with its particle: "standing up"."""
    particle = "".join(f" {t.lower_}" for t in verb.children if t.dep_ == "prt")
    return [f"{form}{particle}" for form in (verb.lower_, verb.lemma_.lower())]


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
