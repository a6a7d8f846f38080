"""Sample subgraphs of n atoms by random walks through a scene graph, as CREPE does (appendix A.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from caramel.interfaces.scene_graph import Box, Edge, GraphPosition, Node, SceneGraph


def sample_subgraph(
    graph: SceneGraph, atoms: int, rng: np.random.Generator, *, repeat_names: bool = False
) -> SceneGraph | None:
    """Return a subgraph of this many atoms, or None if the walk ends early.

    The walk begins at a random object. It repeatedly adds a random compound with at least one new atom, and a
    relation leads on to its new object. When a component is exhausted, another object is drawn.

    Args:
        graph: the whole graph.
        atoms: number of atoms.
        rng: random generator.
        repeat_names: whether two objects may have the same name, as published.
    """
    chosen: dict[GraphPosition, None] = {}
    names: set[str] = set()

    def add_node(node: int) -> None:
        chosen[GraphPosition("obj", node)] = None
        names.add(graph.nodes[node].name)

    def is_taken(node: int) -> bool:
        """Return whether a new object would repeat a name and must not."""
        return not repeat_names and graph.nodes[node].name in names

    def iter_next_atoms(node: int, room: int) -> Iterator[tuple[GraphPosition, int]]:
        for rank in range(len(graph.nodes[node].attributes)):
            if (position := GraphPosition("att", node, rank)) not in chosen:
                yield position, node
        for number, edge in enumerate(graph.edges):
            if node in (edge.subject, edge.object) and GraphPosition("rel", number) not in chosen:
                other = edge.object if edge.subject == node else edge.subject
                new = GraphPosition("obj", other) not in chosen
                if other != node and not (new and (room < 2 or is_taken(other))):
                    yield GraphPosition("rel", number), other if new else node

    def draw_index(number: int) -> int:
        return int(rng.integers(number))

    at = draw_index(len(graph.nodes)) if graph.nodes else -1
    if at >= 0 and atoms > 0:
        add_node(at)
    while 0 < len(chosen) < atoms:
        here = [at, *(p.owner for p in chosen if p.atom_type == "obj" and p.owner != at)]
        candidates = next(
            (f for node in here if (f := list(iter_next_atoms(node, atoms - len(chosen))))), None
        )
        if candidates:
            position, at = candidates[draw_index(len(candidates))]
            chosen[position] = None
            if GraphPosition("obj", at) not in chosen:
                add_node(at)
            continue
        others = [
            i for i in range(len(graph.nodes)) if GraphPosition("obj", i) not in chosen and not is_taken(i)
        ]
        if not others:
            return None
        at = others[draw_index(len(others))]
        add_node(at)
    return extract_subgraph(graph, frozenset(chosen)) if chosen else None


def extract_subgraph(graph: SceneGraph, chosen: frozenset[GraphPosition]) -> SceneGraph:
    """Return the subgraph of these atoms; they include the ends of its relations."""
    node_indices = sorted(position.owner for position in chosen if position.atom_type == "obj")
    nodes = tuple(
        Node(
            graph.nodes[i].name,
            tuple(w for k, w in enumerate(graph.nodes[i].attributes) if GraphPosition("att", i, k) in chosen),
            graph.nodes[i].box,
        )
        for i in node_indices
    )
    edges = tuple(
        Edge(node_indices.index(e.subject), e.name, node_indices.index(e.object))
        for i, e in enumerate(graph.edges)
        if GraphPosition("rel", i) in chosen
    )
    return SceneGraph(nodes, edges)


def compute_bounding_box(graph: SceneGraph) -> Box | None:
    """Return the box around all objects; None if none has a box."""
    boxes = [node.box for node in graph.nodes if node.box is not None]
    if not boxes:
        return None
    left, top = min(b[0] for b in boxes), min(b[1] for b in boxes)
    right, bottom = max(b[0] + b[2] for b in boxes), max(b[1] + b[3] for b in boxes)
    return left, top, right - left, bottom - top
