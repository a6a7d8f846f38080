"""Check whether a caption's scene graph, also with one atom negated, is true of an image's scene graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from caramel.interfaces.scene_graph import Edge, GraphPosition, Node, SceneGraph, Thesaurus
from caramel.sources.captions.relation_synonyms import get_inverse_relation, is_weaker_relation

Choices = Mapping[int, frozenset[int]]  # node of the caption -> nodes of the image that it may be


def is_true_of_graph(
    caption_graph: SceneGraph, image_graph: SceneGraph, words: Thesaurus, negated: GraphPosition | None = None
) -> bool:
    """Return whether the caption's objects match different objects of the image such that all atoms hold.

    A word is true of whatever it covers: "animal" is true of a dog. What is not annotated counts as false, but for
    relations that follow by exchanging the two objects: of "cup next to plate" and "book below shelf", "plate next to
    cup" and "shelf above book" are true.
    Nodes that are connected neither by a relation nor by a common choice are matched separately.

    Args:
        caption_graph: the caption's graph.
        image_graph: the whole image's graph.
        words: thesaurus that determines which word covers which.
        negated: an atom that must *not* hold: an object of another name, one without the attribute, or a pair
            without the relation.
    """
    choices = {
        i: _select_matches(i, node, image_graph, words, negated) for i, node in enumerate(caption_graph.nodes)
    }
    inverse_edges = [
        Edge(e.object, name, e.subject)
        for e in (image_graph.edges if caption_graph.edges else ())
        if (name := get_inverse_relation(e.name))
    ]
    related = [
        {(e.subject, e.object) for e in image_graph.edges if words.is_more_general("rel", edge.name, e.name)}
        | {
            (e.subject, e.object)
            for e in inverse_edges
            if is_weaker_relation(e.name, edge.name) or words.is_more_general("rel", edge.name, e.name)
        }
        for edge in caption_graph.edges
    ]

    def is_related(number: int, a: int, b: int) -> bool:
        """Return whether two objects of the image have a relation of the caption."""
        return a != b and ((a, b) in related[number]) != (negated == GraphPosition("rel", number))

    def prune_choices(choices: Choices) -> Choices | None:
        """Return the choices without those that leave a partner or another node none; None if a node has none."""
        while True:
            left = dict(choices)
            for number, edge in enumerate(caption_graph.edges):
                a, b = edge.subject, edge.object
                if a in left:
                    left[a] = frozenset(i for i in left[a] if any(is_related(number, i, j) for j in left[b]))
                    left[b] = frozenset(j for j in left[b] if any(is_related(number, i, j) for i in left[a]))
            for node, candidates in left.items():
                if len(candidates) == 1:
                    left = {n: c if n == node else c - candidates for n, c in left.items()}
            if not all(left.values()) or len(frozenset[int]().union(*left.values())) < len(left):
                return None
            if left == choices:
                return left
            choices = left

    def has_solution(choices: Choices) -> bool:
        left = prune_choices(choices)
        if left is None:
            return False
        undecided = [node for node, candidates in left.items() if len(candidates) > 1]
        if not undecided:
            return True
        node = min(undecided, key=lambda n: len(left[n]))  # the most constrained first
        return any(has_solution({**left, node: frozenset((choice,))}) for choice in sorted(left[node]))

    pairs = [(edge.subject, edge.object) for edge in caption_graph.edges]
    shared = [(a, b) for a in choices for b in choices if a < b and choices[a] & choices[b]]
    return all(  # a solution for all nodes needs one for each component
        has_solution({node: choices[node] for node in part})
        for joins in (pairs, [*pairs, *shared])
        for part in _iter_components(choices, joins)
    )


def _select_matches(
    i: int, node: Node, image_graph: SceneGraph, words: Thesaurus, negated: GraphPosition | None
) -> frozenset[int]:
    """Return the objects of the image with the name and the attributes of node i of the caption."""
    has_name = negated != GraphPosition("obj", i)
    negated_rank = negated.rank if negated is not None and negated[:2] == ("att", i) else None
    return frozenset(
        j
        for j, other in enumerate(image_graph.nodes)
        if words.is_more_general("obj", node.name, other.name) == has_name
        and all(
            any(words.is_more_general("att", word, has) for has in other.attributes) != (k == negated_rank)
            for k, word in enumerate(node.attributes)
        )
    )


def _iter_components(nodes: Iterable[int], joins: Iterable[tuple[int, int]]) -> Iterator[frozenset[int]]:
    """Yield the connected components of some nodes."""
    part = {node: frozenset((node,)) for node in nodes}
    for a, b in joins:
        both = part[a] | part[b]
        part |= dict.fromkeys(both, both)
    yield from dict.fromkeys(part.values())
