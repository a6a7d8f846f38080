"""What a scene graph is, what reads it out of a caption, and what knows which words exclude each other.

The compositional language of CREPE (Ma et al. 2023, 3.1): an atom is one object, attribute or relation; a compound is an
attribute with its object, or two objects with the relation between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

AtomType = Literal["obj", "att", "rel"]
Atom = tuple[AtomType, str]
Compound = tuple[str, ...]  # (attribute, object) or (subject, relation, object)
Box = tuple[float, float, float, float]  # left, top, width and height, in pixels


class GraphPosition(NamedTuple):
    """Where an atom stands in a graph: a node, an edge, or one of a node's attributes."""

    atom_type: AtomType
    owner: int  # of ``nodes``; of a relation, of ``edges``
    rank: int = 0  # of the attribute within its node


@dataclass(frozen=True)
class Node:
    """An object: its name, its attributes, and where in the picture it is."""

    name: str
    attributes: tuple[str, ...] = ()
    box: Box | None = None


@dataclass(frozen=True)
class Edge:
    """``nodes[subject]`` stands in the relation ``name`` to ``nodes[object]``."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True)
class SceneGraph:
    """Objects with attributes, and relations between them: of a picture, or of what a caption says."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

    def list_positions(self) -> dict[GraphPosition, str]:
        """Return where each atom stands -> its word; there are as many as the graph is complex."""
        words = {GraphPosition("obj", i): node.name for i, node in enumerate(self.nodes)}
        words |= {
            GraphPosition("att", i, k): word
            for i, node in enumerate(self.nodes)
            for k, word in enumerate(node.attributes)
        }
        return words | {GraphPosition("rel", i): edge.name for i, edge in enumerate(self.edges)}

    def list_atoms(self) -> frozenset[Atom]:
        """Return the different atoms."""
        return frozenset((position.atom_type, word) for position, word in self.list_positions().items())

    def list_compounds(self) -> frozenset[Compound]:
        """Return the different compounds."""
        compounds: set[Compound] = {(word, node.name) for node in self.nodes for word in node.attributes}
        compounds |= {(self.nodes[e.subject].name, e.name, self.nodes[e.object].name) for e in self.edges}
        return frozenset(compounds)

    def canonicalise(self) -> tuple[object, ...]:
        """Return a form that is equal for graphs that say the same of objects of different names."""
        nodes = sorted((node.name, tuple(sorted(node.attributes))) for node in self.nodes)
        return tuple(nodes), tuple(sorted(c for c in self.list_compounds() if len(c) == 3))


class GraphParser(Protocol):
    """Reads scene graphs out of captions."""

    def __call__(self, texts: Sequence[str]) -> list[SceneGraph]:
        """Return what each text says; a text of which nothing is understood has an empty graph."""
        ...


class GraphParserFactory(Protocol):
    """Makes a parser."""

    def __call__(self, target: str, atoms: frozenset[Atom]) -> GraphParser:
        """Return the parser.

        Args:
            target: of a spec, NAME:TARGET.
            atoms: words that are looked for.

        Raises:
            BackendError: its model is missing or broken.
        """
        ...


@dataclass(frozen=True)
class GraphParserSpec:
    """Parsers that are made alike.

    Attributes:
        name: of its table.
        load: makes one.
        versions: target -> package -> its version: what decides the graphs beside this project's code and a target's files.
        gpu: whether it computes on a GPU, where there is one.
    """

    name: str
    load: GraphParserFactory
    versions: Callable[[str], Mapping[str, str]]
    gpu: bool = False


class Thesaurus(Protocol):
    """Knows which words exclude each other, and which mean the same or more."""

    def list_foils(self, atom_type: AtomType, word: str) -> list[str]:
        """Return words that can stand for a word and are false where it is true, in a fixed order; there may be none."""
        ...

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether what ``special`` names is also called ``general``: a dog is a hound and an animal."""
        ...


ThesaurusFactory = Callable[[str], Thesaurus]  # of the target of a spec, NAME:TARGET
