"""Interface of a constituency parser, and the trees that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Tree:
    """A node of a constituency tree: a phrase with its children, or a tag with its word."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str = ""

    def list_words(self) -> list[str]:
        """Return the words below the node, from left to right."""
        return (
            [self.word] if not self.children else [w for child in self.children for w in child.list_words()]
        )


Parse = tuple[Tree, ...]  # one text: a tree for each sentence, at least one


class Parser(Protocol):
    """Constituency parser."""

    def __call__(self, texts: Sequence[str]) -> list[Parse]:
        """Return the parse of each text in order. Equal texts have equal parses.

        Raises:
            DataError: a text cannot be parsed.
        """
        ...
