"""Hard negatives of a caption whose scene graph is known: HN-Atom, HN-Swap and HN-Neg (Ma et al. 2023, appendix A.4).

Each is an edit of the text and the same change of the graph, so that ``matching.holds`` says whether it is false of the
picture's whole graph. Those that are not are left out here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from caramel.crepe.caption_template import Caption, by_template
from caramel.crepe.matching import holds
from caramel.interfaces.scene_graph import Node, Place, SceneGraph, Thesaurus
from caramel.sources.captions.tokenization import Edit, apply

SIMPLE = 4  # atoms of a caption in which all atoms of one kind may be permuted
_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"(?:^|(?<=\s))(?:an?|the) $", re.IGNORECASE)


class Told(NamedTuple):
    """A caption, its graph, and the graph of the whole picture that it is said of."""

    caption: Caption
    graph: SceneGraph
    whole: SceneGraph


def atom_foils(told: Told, words: Thesaurus) -> Iterator[str]:
    """Yield captions with one atom replaced by one that excludes it, and is false in its place."""
    said = told.graph.places()
    for place, word in said.items():
        known = {
            w
            for p, w in said.items()
            if p.kind == place.kind and (place.kind == "obj" or p.owner == place.owner)
        }
        for foil in words.foils(place.kind, word):
            if foil not in known and not holds(with_words(told.graph, {place: foil}), told.whole, words):
                yield edited(told.caption, {place: foil})


def swap_foils(told: Told, words: Thesaurus) -> Iterator[str]:
    """Yield captions in which atoms of one kind have changed places, or an attribute has gone to another object.

    Two atoms, or, where the caption is of four at the most, any number of them.
    """
    graph, caption = told.graph, told.caption
    places = graph.places()
    for changes in _exchanges(graph):
        changed = with_words(graph, changes)
        once = all(len(set(node.attributes)) == len(node.attributes) for node in changed.nodes)
        if once and changed.canonical() != graph.canonical() and not holds(changed, told.whole, words):
            yield edited(caption, changes)
    for a in [place for place in places if place.kind == "att"]:
        for other, node in enumerate(graph.nodes):
            if other != a.owner and places[a] not in node.attributes:
                moved = _moved(graph, a, other)
                if not holds(moved, told.whole, words):
                    yield apply(
                        caption.text,
                        [*_without(caption, graph, a), *_before(caption, graph, other, places[a])],
                    )


def negation_foils(told: Told, words: Thesaurus) -> Iterator[str]:
    """Yield captions that are negated as a whole, or in one atom, such that nothing else keeps them true.

    A caption of the template is a phrase, one of a language model a sentence.
    """
    caption, graph = told.caption, told.graph
    if caption == by_template(graph):
        yield f"there is no {re.sub(r'^(?:an? |the )', '', caption.text)}"
    else:
        yield f"It is not true that {caption.text[:1].lower()}{caption.text[1:]}"
    for place, word in graph.places().items():
        if holds(graph, told.whole, words, negated=place):
            continue
        start, end = caption.spans[place][0]
        if place.kind == "rel":
            edits = [Edit(start, start, "not ")]
        elif place.kind == "obj":
            start = _phrase_start(caption, graph, place.owner)
            article = _ARTICLE.search(caption.text[:start])
            edits = [Edit(article.start() if article else start, start, "no ")]
        else:
            noun = caption.spans[Place("obj", place.owner)][0]
            if start > noun[0]:
                edits = [Edit(start, end, f"not {word}")]
            else:
                edits = [*_without(caption, graph, place), Edit(noun[1], noun[1], f" that is not {word}")]
        yield apply(caption.text, edits)


def with_words(graph: SceneGraph, changes: Mapping[Place, str]) -> SceneGraph:
    """Return the graph with other words at some places."""
    nodes = tuple(
        replace(
            node,
            name=changes.get(Place("obj", i), node.name),
            attributes=tuple(changes.get(Place("att", i, k), w) for k, w in enumerate(node.attributes)),
        )
        for i, node in enumerate(graph.nodes)
    )
    edges = tuple(replace(e, name=changes.get(Place("rel", i), e.name)) for i, e in enumerate(graph.edges))
    return SceneGraph(nodes, edges)


def edited(caption: Caption, changes: Mapping[Place, str]) -> str:
    """Return the text with other words at some places, wherever they are named; articles agree."""
    edits = [Edit(start, end, word) for place, word in changes.items() for start, end in caption.spans[place]]
    return apply(caption.text, edits)


def _exchanges(graph: SceneGraph) -> Iterator[dict[Place, str]]:
    """Yield place -> its new word, of atoms of one kind that change places."""
    places = graph.places()
    few = len(places) <= SIMPLE
    for kind in ("obj", "att", "rel") if few else ("obj", "att"):
        own = [place for place in places if place.kind == kind]
        for chosen in [own] if few else itertools.combinations(own, 2):
            for order in itertools.islice(itertools.permutations(chosen), 1, None):
                pairs = zip(chosen, order, strict=True)
                yield {place: places[other] for place, other in pairs if places[place] != places[other]}


def _moved(graph: SceneGraph, place: Place, to: int) -> SceneGraph:
    """Return the graph with an attribute at another object."""

    def attributes(i: int, node: Node) -> tuple[str, ...]:
        if i == to:
            return (*node.attributes, graph.nodes[place.owner].attributes[place.rank])
        return tuple(w for k, w in enumerate(node.attributes) if Place("att", i, k) != place)

    return replace(
        graph, nodes=tuple(replace(n, attributes=attributes(i, n)) for i, n in enumerate(graph.nodes))
    )


def _own(caption: Caption, graph: SceneGraph, node: int) -> Sequence[tuple[int, int]]:
    """Return where the attributes of an object stand that stand before it, and where it stands itself, in order."""
    noun = caption.spans[Place("obj", node)][0]
    spans = [caption.spans[Place("att", node, k)][0] for k in range(len(graph.nodes[node].attributes))]
    return [*sorted(span for span in spans if span[1] <= noun[0]), noun]


def _phrase_start(caption: Caption, graph: SceneGraph, node: int) -> int:
    return _own(caption, graph, node)[0][0]


def _without(caption: Caption, graph: SceneGraph, place: Place) -> list[Edit]:
    """Return the edit that takes an attribute away, with the "and" or the space that binds it.

    It ends behind the next word, so that an article before agrees with that.
    """
    start, end = caption.spans[place][0]
    before = [span for span in _own(caption, graph, place.owner) if span[1] <= start]
    behind = [span for span in _own(caption, graph, place.owner) if span[0] >= end]
    if behind and (before == [] or len(behind) > 1):  # another attribute, or its object, follows
        end = behind[0][0]
    elif before:
        start, end = before[-1][1], end
        return [Edit(start, end, "")]
    following = _WORD.match(caption.text, end)
    return [Edit(start, following.end(), following.group()) if following else Edit(start, end, "")]


def _before(caption: Caption, graph: SceneGraph, node: int, word: str) -> list[Edit]:
    """Return the edit that puts an attribute before an object's phrase."""
    own = _own(caption, graph, node)
    start = own[0][0]
    # An article before agrees with what is edited; a name such as "?" has no word.
    first = _WORD.match(caption.text, start)
    end, rest = (first.end(), first.group()) if first else (start, "")
    return [Edit(start, end, f"{word} {'and ' if len(own) > 1 else ''}{rest}")]
