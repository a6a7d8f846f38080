"""Whether a caption's scene graph, or the same with one atom negated, is true of a picture's scene graph."""

from __future__ import annotations

from caramel.kinds.scene_graph import Place, SceneGraph, Thesaurus


def holds(said: SceneGraph, shown: SceneGraph, words: Thesaurus, negated: Place | None = None) -> bool:
    """Return whether the objects that are said can be found among those shown, each another one, as they are said to be.

    A word is true of whatever it covers: "animal" of a dog. What is not annotated counts as false.

    Args:
        said: of a caption.
        shown: of the whole picture.
        words: what covers what.
        negated: an atom that is said *not* to hold: an object of another name, one without the attribute, or a pair
            without the relation.
    """
    related: dict[tuple[int, int], list[str]] = {}
    for edge in shown.edges:
        related.setdefault((edge.subject, edge.object), []).append(edge.name)

    def fits(i: int, j: int) -> bool:
        node, other = said.nodes[i], shown.nodes[j]
        if words.covers("obj", node.name, other.name) == (negated == Place("obj", i)):
            return False
        return all(
            any(words.covers("att", word, has) for has in other.attributes) != (negated == Place("att", i, k))
            for k, word in enumerate(node.attributes)
        )

    def joined(chosen: list[int]) -> bool:
        """Return whether the relations that end at the last chosen object are as they are said to be."""
        last = len(chosen) - 1
        return all(
            any(
                words.covers("rel", edge.name, name)
                for name in related.get((chosen[edge.subject], chosen[edge.object]), ())
            )
            != (negated == Place("rel", k))
            for k, edge in enumerate(said.edges)
            if max(edge.subject, edge.object) == last
        )

    def search(chosen: list[int]) -> bool:
        if len(chosen) == len(said.nodes):
            return True
        return any(
            fits(len(chosen), j) and joined([*chosen, j]) and search([*chosen, j])
            for j in range(len(shown.nodes))
            if j not in chosen
        )

    return search([])
