"""The phrases of a training set's captions, as tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from caramel.training.data.loader import RowIds
from caramel.training.data.tokens import tokenize_texts


@dataclass(frozen=True)
class PhraseTable:
    """Phrases of rows, each once, and the positions of each row's phrases.

    Attributes:
        texts: tokens (N, context); at least one.
        positions: (n, P) positions of each row's phrases in ``texts``; -1 where a row has fewer.
    """

    texts: npt.NDArray[np.int32]
    positions: RowIds

    @classmethod
    def from_phrases(
        cls, phrases: Sequence[Sequence[str]], most: int, tokenize: Callable[[list[str]], Any]
    ) -> Self:
        """Return the table of rows with at most ``most`` phrases each."""
        numbers = {
            phrase: number for number, phrase in enumerate(dict.fromkeys(p for row in phrases for p in row))
        }
        positions = np.full((len(phrases), most), -1, np.int64)
        for row, listed in enumerate(phrases):
            positions[row, : len(listed)] = [numbers[phrase] for phrase in listed]
        return cls(tokenize_texts(tokenize, list(numbers) or [""]), positions)

    def select_rows(self, rows: RowIds) -> dict[str, npt.NDArray[np.generic]]:
        """Return the tokens (n, P, context) of rows and which of them there are, by the names in ``Batch``."""
        positions = self.positions[rows]
        return {"phrases": self.texts[np.maximum(positions, 0)], "phrase_mask": positions >= 0}
