"""Define the text tasks of a data set, and the data sets that attackers train on.

A task asks which text of a row is the negative, without the image:

- P1-N: caption or negative.
- P2-N: paraphrase or negative.
- ITT (SugarCrepe++, Dumpala et al. 2024): all three texts, each scored by itself. Both true captions must
  score above the negative.
- P1-P2-N: all three texts, seen together.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Task:
    """A question about the texts of a row.

    Attributes:
        name: short name of the task, from the texts that it compares.
        asks: the question in words.
        columns: columns of the true captions. All must score above the negative.
        sees_all: whether the attacker sees all texts together, and not one or two at a time.
    """

    name: str
    asks: str
    columns: tuple[str, ...]
    sees_all: bool = False

    @property
    def chance(self) -> float:
        """The accuracy of guessing: one divided by the number of texts."""
        return 1 / (1 + len(self.columns))


P1_N = Task("P1-N", "is the caption above the negative?", ("caption",))
P2_N = Task("P2-N", "is the paraphrase above the negative?", ("caption2",))
ITT = Task("ITT", "are both, each scored by itself, above the negative?", ("caption", "caption2"))
TRIPLES = Task(
    "P1-P2-N", "which of the three, seen together, is the negative?", ("caption", "caption2"), True
)
TASKS = (P1_N, P2_N, ITT, TRIPLES)
PARAPHRASED = TASKS[1:]  # tasks of rows with a paraphrase; they share training


@dataclass(frozen=True)
class Source:
    """A data set that attackers train on.

    Attributes:
        name: name of the data set.
        rows: its audit rows.
    """

    name: str
    rows: pd.DataFrame
