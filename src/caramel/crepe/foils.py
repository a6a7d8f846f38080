"""Generate hard negatives of a caption with a known scene graph: HN-Swap and HN-Neg; ``atom_foils`` has HN-Atom.

The types are those of Ma et al. 2023, appendix A.4. Each negative is an edit of the text and the same change
of the graph, so ``matching.is_true_of_graph`` determines whether it is false of the image's whole graph.
Negatives that are true of it are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from caramel.crepe.caption_template import Caption, write_template_caption
from caramel.crepe.matching import is_true_of_graph
from caramel.interfaces.scene_graph import GraphPosition, Node, SceneGraph, Thesaurus
from caramel.sources.captions.tokenization import Edit, apply_edits

SIMPLE = 4  # captions of up to this many atoms may have all atoms of one type permuted
_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"(?:^|(?<=\s))(?:an?|the) $", re.IGNORECASE)


class CaptionedGraph(NamedTuple):
    """A caption, its graph, and the graph of the whole image that it describes."""

    caption: Caption
    graph: SceneGraph
    whole: SceneGraph


def generate_swap_foils(captioned: CaptionedGraph, words: Thesaurus) -> Iterator[str]:
    """Yield captions in which atoms of one type are exchanged, or an attribute is moved to another object.

    Two atoms are exchanged; in captions of at most four atoms, any number of them.
    """
    graph, caption = captioned.graph, captioned.caption
    positions = graph.list_positions()
    for changes in _iter_exchanges(graph):
        changed = replace_graph_words(graph, changes)
        once = all(len(set(node.attributes)) == len(node.attributes) for node in changed.nodes)
        if (
            once
            and changed.canonicalise() != graph.canonicalise()
            and not is_true_of_graph(changed, captioned.whole, words)
        ):
            yield replace_caption_words(caption, changes)
    for a in [position for position in positions if position.atom_type == "att"]:
        for other, node in enumerate(graph.nodes):
            if other != a.owner and positions[a] not in node.attributes:
                moved = _move_attribute(graph, a, other)
                if not is_true_of_graph(moved, captioned.whole, words):
                    yield apply_edits(
                        caption.text,
                        [
                            *_build_removal_edits(caption, graph, a),
                            *_build_insertion_edits(caption, graph, other, positions[a]),
                        ],
                    )


def generate_negation_foils(captioned: CaptionedGraph, words: Thesaurus) -> Iterator[str]:
    """Yield captions negated as a whole or in one atom, such that nothing else makes them true.

    A caption of the template is negated as a phrase, one of a language model as a sentence.
    """
    caption, graph = captioned.caption, captioned.graph
    if caption == write_template_caption(graph):
        yield f"there is no {re.sub(r'^(?:an? |the )', '', caption.text)}"
    else:
        yield f"It is not true that {caption.text[:1].lower()}{caption.text[1:]}"
    namesakes = graph.list_namesakes()
    for position, word in graph.list_positions().items():
        if position.atom_type == "obj" and position.owner in namesakes:
            continue  # "no window above another window" contradicts itself
        if is_true_of_graph(graph, captioned.whole, words, negated=position):
            continue
        start, end = caption.spans[position][0]
        if position.atom_type == "rel":
            edits = [Edit(start, start, "not ")]
        elif position.atom_type == "obj":
            start = _find_phrase_start(caption, graph, position.owner)
            article = _ARTICLE.search(caption.text[:start])
            edits = [Edit(article.start() if article else start, start, "no ")]
        else:
            noun = caption.spans[GraphPosition("obj", position.owner)][0]
            if start > noun[0]:
                edits = [Edit(start, end, f"not {word}")]
            else:
                edits = [
                    *_build_removal_edits(caption, graph, position),
                    Edit(noun[1], noun[1], f" that is not {word}"),
                ]
        yield apply_edits(caption.text, edits)


def replace_graph_words(graph: SceneGraph, changes: Mapping[GraphPosition, str]) -> SceneGraph:
    """Return the graph with the words at some positions replaced."""
    nodes = tuple(
        replace(
            node,
            name=changes.get(GraphPosition("obj", i), node.name),
            attributes=tuple(
                changes.get(GraphPosition("att", i, k), w) for k, w in enumerate(node.attributes)
            ),
        )
        for i, node in enumerate(graph.nodes)
    )
    edges = tuple(
        replace(e, name=changes.get(GraphPosition("rel", i), e.name)) for i, e in enumerate(graph.edges)
    )
    return SceneGraph(nodes, edges)


def replace_caption_words(caption: Caption, changes: Mapping[GraphPosition, str]) -> str:
    """Return the text with the words at some positions replaced at every occurrence; articles and capitals agree."""
    edits = [
        Edit(start, end, word) for position, word in changes.items() for start, end in caption.spans[position]
    ]
    return apply_edits(caption.text, edits)


def _iter_exchanges(graph: SceneGraph) -> Iterator[dict[GraphPosition, str]]:
    """Yield position -> new word, for exchanges of atoms of one type."""
    positions, namesakes = graph.list_positions(), graph.list_namesakes()
    few = len(positions) <= SIMPLE
    for atom_type in ("obj", "att", "rel") if few else ("obj", "att"):
        candidates = [
            position
            for position in positions
            if position.atom_type == atom_type and not (atom_type == "obj" and position.owner in namesakes)
        ]
        for chosen in [candidates] if few else itertools.combinations(candidates, 2):
            for order in itertools.islice(itertools.permutations(chosen), 1, None):
                pairs = zip(chosen, order, strict=True)
                yield {
                    position: positions[other]
                    for position, other in pairs
                    if positions[position] != positions[other]
                }


def _move_attribute(graph: SceneGraph, position: GraphPosition, to: int) -> SceneGraph:
    """Return the graph with an attribute moved to another object."""

    def list_attributes(i: int, node: Node) -> tuple[str, ...]:
        if i == to:
            return (*node.attributes, graph.nodes[position.owner].attributes[position.rank])
        return tuple(w for k, w in enumerate(node.attributes) if GraphPosition("att", i, k) != position)

    return replace(
        graph, nodes=tuple(replace(n, attributes=list_attributes(i, n)) for i, n in enumerate(graph.nodes))
    )


def _list_phrase_spans(caption: Caption, graph: SceneGraph, node: int) -> Sequence[tuple[int, int]]:
    """Return the spans of the attributes that precede an object, and the object's own span, in order."""
    noun = caption.spans[GraphPosition("obj", node)][0]
    spans = [
        caption.spans[GraphPosition("att", node, k)][0] for k in range(len(graph.nodes[node].attributes))
    ]
    return [*sorted(span for span in spans if span[1] <= noun[0]), noun]


def _find_phrase_start(caption: Caption, graph: SceneGraph, node: int) -> int:
    return _list_phrase_spans(caption, graph, node)[0][0]


def _build_removal_edits(caption: Caption, graph: SceneGraph, position: GraphPosition) -> list[Edit]:
    """Return the edit that removes an attribute together with its "and" or space.

    The edit ends after the next word, so that an article before it agrees with that word.
    """
    start, end = caption.spans[position][0]
    before = [span for span in _list_phrase_spans(caption, graph, position.owner) if span[1] <= start]
    behind = [span for span in _list_phrase_spans(caption, graph, position.owner) if span[0] >= end]
    if behind and (before == [] or len(behind) > 1):  # another attribute, or its object, follows
        end = behind[0][0]
    elif before:
        start = before[-1][1]
        return [Edit(start, end, "")]
    following = _WORD.match(caption.text, end)
    return [Edit(start, following.end(), following.group()) if following else Edit(start, end, "")]


def _build_insertion_edits(caption: Caption, graph: SceneGraph, node: int, word: str) -> list[Edit]:
    """Return the edit that inserts an attribute before an object's phrase."""
    spans = _list_phrase_spans(caption, graph, node)
    start = spans[0][0]
    # The article before the edit must agree with it; a name such as "?" contains no word.
    first = _WORD.match(caption.text, start)
    end, rest = (first.end(), first.group()) if first else (start, "")
    return [Edit(start, end, f"{word} {'and ' if len(spans) > 1 else ''}{rest}")]
