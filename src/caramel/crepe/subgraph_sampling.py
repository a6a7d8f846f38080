"""Random walks through a scene graph: the subgraphs of n atoms that CREPE writes captions of (appendix A.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from caramel.interfaces.scene_graph import Box, Edge, Node, Place, SceneGraph


def walk(graph: SceneGraph, atoms: int, rng: np.random.Generator) -> SceneGraph | None:
    """Return a subgraph of so many atoms, or None where the walk ends before.

    From a random object a random compound that brings at least one new atom is added, again and again; a relation leads
    on to its new object. Where a component is exhausted, another object is drawn. No two objects have one name.
    """
    chosen: dict[Place, None] = {}
    names: set[str] = set()

    def enter(node: int) -> None:
        chosen[Place("obj", node)] = None
        names.add(graph.nodes[node].name)

    def options(node: int, room: int) -> Iterator[tuple[Place, int]]:
        for rank in range(len(graph.nodes[node].attributes)):
            if (place := Place("att", node, rank)) not in chosen:
                yield place, node
        for number, edge in enumerate(graph.edges):
            if node in (edge.subject, edge.object) and Place("rel", number) not in chosen:
                other = edge.object if edge.subject == node else edge.subject
                new = Place("obj", other) not in chosen
                if other != node and not (new and (room < 2 or graph.nodes[other].name in names)):
                    yield Place("rel", number), other if new else node

    def drawn(number: int) -> int:
        return int(rng.integers(number))

    at = drawn(len(graph.nodes)) if graph.nodes else -1
    if at >= 0 and atoms > 0:
        enter(at)
    while 0 < len(chosen) < atoms:
        here = [at, *(p.owner for p in chosen if p.kind == "obj" and p.owner != at)]
        found = next((f for node in here if (f := list(options(node, atoms - len(chosen))))), None)
        if found:
            place, at = found[drawn(len(found))]
            chosen[place] = None
            if Place("obj", at) not in chosen:
                enter(at)
            continue
        others = [i for i, n in enumerate(graph.nodes) if n.name not in names]
        if not others:
            return None
        at = others[drawn(len(others))]
        enter(at)
    return part_of(graph, frozenset(chosen)) if chosen else None


def part_of(graph: SceneGraph, chosen: frozenset[Place]) -> SceneGraph:
    """Return the subgraph of these atoms; the ends of its relations are among them."""
    kept = sorted(place.owner for place in chosen if place.kind == "obj")
    nodes = tuple(
        Node(
            graph.nodes[i].name,
            tuple(w for k, w in enumerate(graph.nodes[i].attributes) if Place("att", i, k) in chosen),
            graph.nodes[i].box,
        )
        for i in kept
    )
    edges = tuple(
        Edge(kept.index(e.subject), e.name, kept.index(e.object))
        for i, e in enumerate(graph.edges)
        if Place("rel", i) in chosen
    )
    return SceneGraph(nodes, edges)


def union(graph: SceneGraph) -> Box | None:
    """Return the box around all objects; None where none has a box."""
    boxes = [node.box for node in graph.nodes if node.box is not None]
    if not boxes:
        return None
    left, top = min(b[0] for b in boxes), min(b[1] for b in boxes)
    right, bottom = max(b[0] + b[2] for b in boxes), max(b[1] + b[3] for b in boxes)
    return left, top, right - left, bottom - top
