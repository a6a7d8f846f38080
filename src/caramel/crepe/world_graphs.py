"""Build scene graphs of the embedded world on a larger grid: exact graphs of twelve and more atoms.

Four images of the world are placed side by side: 4 × 4 cells, 96 × 96 pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from caramel.interfaces.scene_graph import AtomType, Compound, Edge, Node, SceneGraph
from caramel.sources.world.drawing import CELL, draw_scene
from caramel.sources.world.grammar import PREPOSITION
from caramel.sources.world.scenes import (
    BACKGROUNDS,
    COLOURS,
    GRID,
    NOUNS,
    RELATIONS,
    SIZES,
    Scene,
    SceneObject,
    has_relation,
)

SIDE = 2 * GRID  # cells
PIXELS = SIDE * CELL
TRIES = 100_000


def sample_grid_scene(
    rng: np.random.Generator,
    num_objects: int,
    *,
    words: Sequence[str] = (*NOUNS, *COLOURS),
    without: Container[Compound] = (),
) -> Scene:
    """Return a random scene of objects with different names.

    Args:
        rng: source of randomness.
        num_objects: number of objects.
        words: nouns and colours that may be shown.
        without: compounds that the scene must not show, as in ``build_graph``.
    """
    nouns, colours = ([w for w in known if w in words] for known in (NOUNS, COLOURS))
    for _ in range(TRIES):
        names = rng.choice(len(nouns), num_objects, replace=False).tolist()
        cells = rng.choice(SIDE * SIDE, num_objects, replace=False).tolist()
        scene_objects = tuple(
            SceneObject(
                nouns[name],
                colours[int(rng.integers(len(colours)))],
                SIZES[int(rng.integers(len(SIZES)))],
                *divmod(cell, SIDE),
            )
            for name, cell in zip(names, cells, strict=True)
        )
        scene = Scene(scene_objects, BACKGROUNDS[int(rng.integers(len(BACKGROUNDS)))])
        if not any(compound in without for compound in build_graph(scene).list_compounds()):
            return scene
    raise AssertionError(f"no scene of {num_objects} objects in {TRIES} draws")


def draw_tiled_image(scene: Scene, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return the image of a scene, (96, 96, 3)."""
    tiles = [
        [
            draw_scene(
                Scene(
                    tuple(
                        replace(t, row=t.row % GRID, column=t.column % GRID)
                        for t in scene.things
                        if (t.row // GRID, t.column // GRID) == (row, column)
                    ),
                    scene.background,
                ),
                rng,
            )
            for column in range(2)
        ]
        for row in range(2)
    ]
    return np.concatenate([np.concatenate(row, axis=1) for row in tiles], axis=0)


def build_graph(scene: Scene) -> SceneGraph:
    """Return the graph of all facts of a scene: each object's name, colour, size and cell, and all relations."""
    nodes = tuple(
        Node(t.noun, (t.size, t.colour), (t.column * CELL, t.row * CELL, CELL, CELL)) for t in scene.things
    )
    edges = tuple(
        Edge(i, PREPOSITION[relation], j)
        for i, j in itertools.permutations(range(len(nodes)), 2)
        for relation in RELATIONS
        if has_relation(scene.things[i], relation, scene.things[j])
    )
    return SceneGraph(nodes, edges)


def select_pair_relations(graph: SceneGraph, rng: np.random.Generator) -> SceneGraph:
    """Return the graph with one relation per pair, so that no relation is stated twice."""
    order = rng.permutation(len(graph.edges)).tolist()
    pairs: dict[frozenset[int], Edge] = {}
    for number in order:
        edge = graph.edges[number]
        pairs.setdefault(frozenset((edge.subject, edge.object)), edge)
    return replace(graph, edges=tuple(pairs.values()))


class WorldThesaurus:
    """The words of the world: words of one kind exclude each other, and there are no synonyms."""

    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        """Return the other words of the word's kind."""
        groups: dict[AtomType, list[Sequence[str]]] = {
            "obj": [NOUNS],
            "att": [COLOURS, SIZES],
            "rel": [tuple(PREPOSITION.values())],
        }
        return [other for group in groups[atom_type] if word in group for other in group if other != word]

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether both are the same word."""
        return general == special
