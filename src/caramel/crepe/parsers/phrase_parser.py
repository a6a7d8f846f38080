"""Parse captions into scene graphs by known phrases: adjectives before nouns, and relations between two nouns.

This is a simple substitute for the rule-based Stanford parser of Ma et al. (2023, appendix A.2), fast enough
for a training corpus. The graphs of the test set define which words are objects, attributes and relations.
Words that no test caption contains need not be found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from caramel.errors import ConfigError
from caramel.interfaces.scene_graph import Atom, AtomType, Edge, GraphParserSpec, Node, SceneGraph
from caramel.sources.captions.words import DETERMINERS, get_plural
from caramel.utils.text import build_character_class

_IDLE = DETERMINERS | {"very", "and", ","}  # allowed between attributes of one object
_VERBS = frozenset(("is", "are", "was", "were", "that", "which", "there", "being"))
_INNER = DETERMINERS | _VERBS  # ignored between an object and a relation


class PhraseParser:
    """Parses captions by the entries of a vocabulary, the longest first; plurals of objects are recognised."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        self._entries: dict[tuple[str, ...], dict[AtomType, str]] = {}
        known = sorted(atoms)
        plurals = [
            (atom_type, get_plural(word), word)
            for atom_type, word in known
            if atom_type == "obj" and len(word) > 1
        ]
        for atom_type, form, word in [
            *((atom_type, word, word) for atom_type, word in known),
            *plurals,
        ]:  # the form itself before derived forms
            self._entries.setdefault(tuple(_tokenize_text(form)), {}).setdefault(atom_type, word)
        # first word -> lengths of the entries that begin with it, the longest first
        lengths: dict[str, set[int]] = {}
        for entry in self._entries:
            if entry:
                lengths.setdefault(entry[0], set()).add(len(entry))
        self._lengths = {
            first: sorted(entry_lengths, reverse=True) for first, entry_lengths in lengths.items()
        }

    def __call__(self, texts: Sequence[str]) -> list[SceneGraph]:
        """Return the scene graph of each text."""
        return [self._parse_tokens(_tokenize_text(text)) for text in texts]

    def _parse_tokens(self, tokens: list[str]) -> SceneGraph:
        nodes: list[Node] = []
        edges: list[Edge] = []
        waiting: list[str] = []  # attributes whose object has not come yet
        relation: str | None = None
        broken = True  # nothing connects the next object to the last one
        at = 0
        while at < len(tokens):
            entry, length = self._find_longest_entry(tokens, at)
            behind = at + length
            if entry and "att" in entry and ("obj" not in entry or self._is_object_next(tokens, behind)):
                waiting.append(entry["att"])
            elif entry and "obj" in entry and not (len(entry) == 1 and self._is_object_next(tokens, behind)):
                nodes.append(Node(entry["obj"], tuple(dict.fromkeys(waiting))))
                if relation is not None and not broken and len(nodes) > 1:
                    edges.append(Edge(len(nodes) - 2, relation, len(nodes) - 1))
                waiting, relation, broken = [], None, False
            elif entry and "rel" in entry and relation is None:
                relation, waiting = entry["rel"], []
            elif tokens[at] not in (_IDLE if waiting else _INNER):
                waiting, broken = [], True
            at = behind
        return SceneGraph(tuple(nodes), tuple(edges))

    def _find_longest_entry(self, tokens: list[str], at: int) -> tuple[dict[AtomType, str] | None, int]:
        """Return the types of the longest entry at an index, and its length; (None, 1) if there is none."""
        for length in self._lengths.get(tokens[at], ()):
            if entry := self._entries.get(tuple(tokens[at : at + length])):
                return entry, length
        return None, 1

    def _is_object_next(self, tokens: list[str], at: int) -> bool:
        """Return whether an object or an attribute follows directly.

        A noun before another noun is not an object of the image.
        """
        if at >= len(tokens):
            return False
        entry, _ = self._find_longest_entry(tokens, at)
        return entry is not None and ("obj" in entry or "att" in entry)


def build_phrase_parser(target: str, atoms: frozenset[Atom]) -> PhraseParser:
    """Return a parser of the phrases made of these words.

    Raises:
        ConfigError: a target is given, which the parser does not take.
    """
    if target:
        raise ConfigError(f"The parser 'phrases' takes no target, but {target!r} is given: write phrases.")
    return PhraseParser(atoms)


def _tokenize_text(text: str) -> list[str]:
    text = unicodedata.normalize("NFC", text.lower())
    return re.findall(f"[{build_character_class(text)}]+|[,.;:!?()]", text)


PHRASES = GraphParserSpec("phrases", build_phrase_parser, lambda target: {})
