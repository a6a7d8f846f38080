"""Captions -> scene graphs by their phrases: known adjectives before known nouns, known relations between two nouns.

A plain stand-in for the rule-based Stanford parser of Ma et al. (2023, appendix A.2), fast enough for a training corpus.
Which words are objects, attributes and relations is said by the graphs of the test set: words that no test caption
holds need not be seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from caramel.errors import ConfigError
from caramel.interfaces.scene_graph import Atom, AtomKind, Edge, GraphParserKind, Node, SceneGraph
from caramel.sources.captions.words import DETERMINERS, plural
from caramel.utils.text import build_character_class

_IDLE = DETERMINERS | {"very", "and", ","}  # between attributes of one object
_VERBS = frozenset(("is", "are", "was", "were", "that", "which", "there", "being"))
_INNER = DETERMINERS | _VERBS  # say nothing between an object and a relation


class PhraseParser:
    """Reads captions by the words of a vocabulary, the longest first; plurals of objects are known."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        self._entries: dict[tuple[str, ...], dict[AtomKind, str]] = {}
        known = sorted(atoms)
        plurals = [(kind, plural(word), word) for kind, word in known if kind == "obj" and len(word) > 1]
        for kind, form, word in [
            *((kind, word, word) for kind, word in known),
            *plurals,
        ]:  # itself before derived
            self._entries.setdefault(tuple(_tokens(form)), {}).setdefault(kind, word)
        # first word -> lengths of the entries that begin with it, the longest first
        lengths: dict[str, set[int]] = {}
        for entry in self._entries:
            if entry:
                lengths.setdefault(entry[0], set()).add(len(entry))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def __call__(self, texts: Sequence[str]) -> list[SceneGraph]:
        """Return what each text says; errors of a caption are those of its phrases."""
        return [self._parsed(_tokens(text)) for text in texts]

    def _parsed(self, tokens: list[str]) -> SceneGraph:
        nodes: list[Node] = []
        edges: list[Edge] = []
        waiting: list[str] = []  # attributes whose object is to come
        relation: str | None = None
        broken = True  # nothing binds the next object to the last one
        at = 0
        while at < len(tokens):
            kinds, length = self._longest(tokens, at)
            behind = at + length
            if kinds and "att" in kinds and ("obj" not in kinds or self._object_follows(tokens, behind)):
                waiting.append(kinds["att"])
            elif kinds and "obj" in kinds and not (len(kinds) == 1 and self._object_follows(tokens, behind)):
                nodes.append(Node(kinds["obj"], tuple(dict.fromkeys(waiting))))
                if relation is not None and not broken and len(nodes) > 1:
                    edges.append(Edge(len(nodes) - 2, relation, len(nodes) - 1))
                waiting, relation, broken = [], None, False
            elif kinds and "rel" in kinds and relation is None:
                relation, waiting = kinds["rel"], []
            elif tokens[at] not in (_IDLE if waiting else _INNER):
                waiting, broken = [], True
            at = behind
        return SceneGraph(tuple(nodes), tuple(edges))

    def _longest(self, tokens: list[str], at: int) -> tuple[dict[AtomKind, str] | None, int]:
        """Return the kinds of the longest entry at a place, and its length; (None, 1) where there is none."""
        for length in self._lengths.get(tokens[at], ()):
            if kinds := self._entries.get(tuple(tokens[at : at + length])):
                return kinds, length
        return None, 1

    def _object_follows(self, tokens: list[str], at: int) -> bool:
        """Return whether an object or an attribute stands right behind: a noun before a noun is not what is shown."""
        if at >= len(tokens):
            return False
        kinds, _ = self._longest(tokens, at)
        return kinds is not None and ("obj" in kinds or "att" in kinds)


def phrase_parser(target: str, atoms: frozenset[Atom]) -> PhraseParser:
    """Return a parser of the phrases made of these words.

    Raises:
        ConfigError: there is a target, of which it has no use.
    """
    if target:
        raise ConfigError(f"A target {target!r} is given: write phrases.")
    return PhraseParser(atoms)


def _tokens(text: str) -> list[str]:
    text = unicodedata.normalize("NFC", text.lower())
    return re.findall(f"[{build_character_class(text)}]+|[,.;:!?()]", text)


PHRASES = GraphParserKind("phrases", phrase_parser, lambda target: {})
