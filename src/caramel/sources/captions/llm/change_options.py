"""List the changes of a caption from which a model chooses, in place of proposing one.

The places are those of the caption's scene graph. New words come from a thesaurus (WordNet's cousins of a noun,
attributes of the same kind, relations that exclude each other) or, where something is added, from the word lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from caramel.interfaces.scene_graph import Atom, Node, SceneGraph, Thesaurus
from caramel.registry import GRAPH_PARSERS, THESAURI
from caramel.sources.captions import words
from caramel.sources.captions.llm.changes import Change
from caramel.sources.captions.noun_phrases import find_noun_phrases
from caramel.sources.captions.phrases import find_head, get_singular, is_plural, iter_spans
from caramel.sources.captions.word_lists.attributes import EXCHANGED
from caramel.sources.captions.word_lists.objects import GAZE, HORIZONTAL
from caramel.sources.captions.word_lists.replacements import load_word_lists
from caramel.utils.text import extract_words

CACHED = 4096  # captions whose graphs stay in memory; the scripts of one caption run together
LONGEST = 4  # words of an object's name
LIVING, OBJECT = "living thing", "artifact"  # hypernyms of WordNet


@dataclass(frozen=True)
class ChangeOptions:
    """Lists changes by a spaCy model's parse and a thesaurus.

    ``spacy_model`` is the name or folder of the model; ``wordnet`` the folder of WordNet's files, None for the word
    lists as thesaurus.
    """

    spacy_model: str
    wordnet: str | None

    def list_changes(self, caption: str, subtype: str) -> list[list[Change]]:
        """Return the changes of a subtype, one list for each place in the caption.

        Raises:
            BackendError: the spaCy model cannot be loaded.
            DataError: WordNet's folder lacks a file.
        """
        graph, thesaurus = _parse_caption(caption, self.spacy_model), _load_thesaurus(self.wordnet)
        if subtype == "swap_obj":
            by_place = _swap_objects(graph, caption, thesaurus, self.spacy_model)
        else:
            by_place = _LISTERS[subtype](graph, caption, thesaurus)
        return [changes for changes in by_place if changes]


@functools.lru_cache(CACHED)
def _parse_caption(caption: str, spacy_model: str) -> SceneGraph:
    """Return the scene graph of a caption, with nouns as they are written."""
    tokens = extract_words(caption)
    spans = combinations(range(len(tokens) + 1), 2)
    written: frozenset[Atom] = frozenset(
        ("obj", " ".join(tokens[start:end])) for start, end in spans if end - start <= LONGEST
    )
    (graph,) = GRAPH_PARSERS["spacy"].load(spacy_model, written)([caption])
    return graph


@functools.cache
def _load_thesaurus(wordnet: str | None) -> Thesaurus:
    return THESAURI["lists"]("") if wordnet is None else THESAURI["wordnet"](wordnet)


def _iter_nodes(graph: SceneGraph, caption: str) -> Iterator[Node]:
    """Yield the objects that the caption names once."""
    for node in graph.nodes:
        if _is_named_once(caption, node.name):
            yield node


def _is_named_once(caption: str, phrase: str) -> bool:
    return len([*iter_spans(caption, phrase)]) == 1


def _replace_objects(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    for node in _iter_nodes(graph, caption):
        yield [Change("replace_obj", node.name, foil) for foil in thesaurus.list_foils("obj", node.name)]


def _replace_attributes(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    for node in graph.nodes:
        for word in filter(functools.partial(_is_named_once, caption), node.attributes):
            foils = thesaurus.list_foils("att", word, (node.name,))
            yield [Change("replace_att", word, foil) for foil in foils if foil not in node.attributes]


def _replace_relations(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    for edge in graph.edges:
        ends = (graph.nodes[edge.subject].name, graph.nodes[edge.object].name)
        if _is_named_once(caption, edge.name):
            yield [
                Change("replace_rel", edge.name, foil)
                for foil in thesaurus.list_foils("rel", edge.name, ends)
            ]


def _add_objects(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    for node in _iter_nodes(graph, caption):
        yield [
            Change("add_obj", node.name, word) for word in _look_up(load_word_lists().companions, node.name)
        ]


def _add_attributes(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    for node in _iter_nodes(graph, caption):
        if not node.attributes:
            yield [
                Change("add_att", node.name, word) for word in _look_up(load_word_lists().added, node.name)
            ]


def _look_up(lists: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """Return the words of a noun, or else of its group."""
    noun, group = _find_noun(name)
    return lists.get(noun) or lists.get(f"*{group}", ())


def _find_noun(name: str) -> tuple[str, str]:
    """Return the noun of the word lists that an object's name ends with, and its group; "" if they have none."""
    head = find_head(name)
    if head is not None and head.word_type == "noun":
        return head.word, head.group
    last = get_singular(name.split()[-1])
    return last, load_word_lists().further_nouns.get(last, "")


def _swap_objects(
    graph: SceneGraph, caption: str, thesaurus: Thesaurus, model: str
) -> Iterator[list[Change]]:
    """Yield the exchanges of two objects of one kind, living or not, that may take each other's place.

    They do if one is before, behind or looking at the other, or if they are in one group of the word lists.
    """
    whole = {caption[p.start : p.end].lower() for p in find_noun_phrases(caption, model)}
    once = {node.name for node in _iter_nodes(graph, caption)} & whole
    for edge in graph.edges:
        names = first, second = graph.nodes[edge.subject].name, graph.nodes[edge.object].name
        categories = {_get_category(name, thesaurus) for name in names}
        groups = {_find_noun(name)[1] for name in names}
        alike = len(groups) == 1 and edge.name not in ("with", "of")
        directed = edge.name.endswith((*HORIZONTAL, *GAZE))
        fits = len(categories) == 1 and "" not in categories and is_plural(first) == is_plural(second)
        if fits and (alike or directed) and {*names} <= once:
            yield [Change("swap_obj", first, second)]


def _get_category(name: str, thesaurus: Thesaurus) -> str:
    """Return whether a noun names something living or an object; "" if it is neither, or unknown."""
    group = _find_noun(name)[1]
    if group in words.LIVING or thesaurus.is_more_general("obj", LIVING, name):
        return LIVING
    is_object = thesaurus.is_more_general("obj", OBJECT, name)
    return OBJECT if is_object or group not in ("", "room", "building", "outdoors") else ""


def _swap_attributes(graph: SceneGraph, caption: str, thesaurus: Thesaurus) -> Iterator[list[Change]]:
    """Yield the exchanges of attributes of one kind, or of a colour, a material and a pattern, between two objects."""
    for first, second in combinations(graph.nodes, 2):
        if first.name == second.name:
            continue
        for one in first.attributes:
            for other in second.attributes:
                crossed = one in second.attributes or other in first.attributes
                once = _is_named_once(caption, one) and _is_named_once(caption, other)
                if not crossed and once and _is_same_kind(one, other, first.name, thesaurus):
                    yield [Change("swap_att", one, other)]


def _is_same_kind(one: str, other: str, owner: str, thesaurus: Thesaurus) -> bool:
    groups = {match.group for match in map(find_head, (one, other)) if match is not None}
    listed = len(groups) == 1 or groups <= EXCHANGED
    known = all(find_head(word) is not None for word in (one, other))
    return (known and listed) or other in thesaurus.list_foils("att", one, (owner,))


_Lister = Callable[[SceneGraph, str, Thesaurus], Iterator[list[Change]]]
_LISTERS: dict[str, _Lister] = {
    "replace_obj": _replace_objects,
    "replace_att": _replace_attributes,
    "replace_rel": _replace_relations,
    "swap_att": _swap_attributes,
    "add_obj": _add_objects,
    "add_att": _add_attributes,
}
