"""What is asked of a data set's texts, and what attackers learn from.

A task asks which text of a row is the negative, without the image: of caption and negative (P1-N), of paraphrase and
negative (P2-N), of all three where each is scored by itself and both true ones must be above the negative (ITT of
SugarCrepe++, Dumpala et al. 2024), or of all three for one who sees them together (P1-P2-N).
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Task:
    """What is asked of a row.

    Attributes:
        name: of the texts that stand against each other.
        asks: it in words.
        columns: of the true captions, all of which must be above the negative.
        sees_all: whether the attacker sees all texts together, and not one or two at a time.
    """

    name: str
    asks: str
    columns: tuple[str, ...]
    sees_all: bool = False

    @property
    def chance(self) -> float:
        """How often who cannot tell is right: one of so many texts is the negative."""
        return 1 / (1 + len(self.columns))


P1_N = Task("P1-N", "is the caption above the negative?", ("caption",))
P2_N = Task("P2-N", "is the paraphrase above the negative?", ("caption2",))
ITT = Task("ITT", "are both, each scored by itself, above the negative?", ("caption", "caption2"))
TRIPLES = Task(
    "P1-P2-N", "which of the three, seen together, is the negative?", ("caption", "caption2"), True
)
TASKS = (P1_N, P2_N, ITT, TRIPLES)
PARAPHRASED = TASKS[1:]  # those of rows with a paraphrase; they share what is learned


@dataclass(frozen=True)
class Source:
    """A data set to learn from.

    Attributes:
        name: of it.
        rows: audit rows.
    """

    name: str
    rows: pd.DataFrame
