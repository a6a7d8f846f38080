"""Scene graphs, and interfaces of their parsers and of thesauri.

A thesaurus knows which words exclude each other.

The compositional language is that of CREPE (Ma et al. 2023, 3.1). An atom is one object, attribute or
relation. A compound is an attribute with its object, or two objects with the relation between them.
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
    """Position of an atom in a graph: a node, an edge, or an attribute of a node."""

    atom_type: AtomType
    owner: int  # index in ``nodes``; for a relation, in ``edges``
    rank: int = 0  # index of the attribute within its node


@dataclass(frozen=True)
class Node:
    """An object: its name, its attributes, and its position in the image."""

    name: str
    attributes: tuple[str, ...] = ()
    box: Box | None = None


@dataclass(frozen=True)
class Edge:
    """The relation ``name`` from ``nodes[subject]`` to ``nodes[object]``."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True)
class SceneGraph:
    """Objects with attributes, and relations between them, in an image or a caption."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

    def list_positions(self) -> dict[GraphPosition, str]:
        """Return the word of each atom by position. Their number is the complexity of the graph."""
        words = {GraphPosition("obj", i): node.name for i, node in enumerate(self.nodes)}
        words |= {
            GraphPosition("att", i, k): word
            for i, node in enumerate(self.nodes)
            for k, word in enumerate(node.attributes)
        }
        return words | {GraphPosition("rel", i): edge.name for i, edge in enumerate(self.edges)}

    def list_atoms(self) -> frozenset[Atom]:
        """Return the distinct atoms."""
        return frozenset((position.atom_type, word) for position, word in self.list_positions().items())

    def list_compounds(self) -> frozenset[Compound]:
        """Return the distinct compounds."""
        compounds: set[Compound] = {(word, node.name) for node in self.nodes for word in node.attributes}
        compounds |= {(self.nodes[e.subject].name, e.name, self.nodes[e.object].name) for e in self.edges}
        return frozenset(compounds)

    def list_namesakes(self) -> dict[int, int]:
        """Return node -> its rank among the objects of its name, from 0; objects of a name of their own are left out."""
        names = [node.name for node in self.nodes]
        return {i: names[:i].count(name) for i, name in enumerate(names) if names.count(name) > 1}

    def canonicalise(self) -> tuple[object, ...]:
        """Return a canonical form, which does not depend on the numbering of the objects."""
        nodes = sorted((node.name, tuple(sorted(node.attributes))) for node in self.nodes)
        return tuple(nodes), tuple(sorted(c for c in self.list_compounds() if len(c) == 3))


class GraphParser(Protocol):
    """Parses scene graphs from captions."""

    def __call__(self, texts: Sequence[str]) -> list[SceneGraph]:
        """Return the graph of each text; an empty graph if nothing in the text is understood."""
        ...


class GraphParserFactory(Protocol):
    """Builds a parser."""

    def __call__(self, target: str, atoms: frozenset[Atom]) -> GraphParser:
        """Return the parser.

        Args:
            target: target of a spec, NAME:TARGET.
            atoms: words to look for.

        Raises:
            BackendError: the parser's model is missing or broken.
        """
        ...


@dataclass(frozen=True)
class GraphParserSpec:
    """A type of parsers that share one factory.

    Attributes:
        name: name in its table.
        load: factory.
        versions: target -> package -> version: besides this project's code and the target's files, these
            determine the graphs.
        gpu: whether it computes on a GPU, if one exists.
    """

    name: str
    load: GraphParserFactory
    versions: Callable[[str], Mapping[str, str]]
    gpu: bool = False


class Thesaurus(Protocol):
    """Knows which words exclude each other, and which have the same or a more general meaning."""

    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        """Return the words that can replace a word and are false where it is true, in a fixed order.

        ``owners`` names the object that has the attribute, or the two ends of the relation, if they are known:
        the contrary of short hair is long hair, and that of a short man a tall man. ``relations`` are those of an
        object: subject, predicate and object, with the empty word for itself, and "is" before an attribute. The
        caller must not change the list.
        """
        ...

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether what ``special`` names is also called ``general``: a dog is a hound and an animal."""
        ...


class ThesaurusFactory(Protocol):
    """Builds a thesaurus."""

    def __call__(self, target: str, read_atoms: Callable[[], frozenset[Atom]] | None = None) -> Thesaurus:
        """Return the thesaurus.

        Args:
            target: target of a spec, NAME:TARGET.
            read_atoms: returns the words of a corpus, which may take minutes; a thesaurus of many words takes its
                nouns from these alone. None: any word.

        Raises:
            ConfigError: the target is invalid.
            DataError: its files are missing or broken.
        """
        ...
