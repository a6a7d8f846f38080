"""Interface of a text judge, which reads one or two texts and returns the probability of a property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from caramel.interfaces.model import Identity


class TextJudge(Protocol):
    """A model that judges texts."""

    @property
    def identity(self) -> Identity:
        """Everything that determines its probabilities, JSON-like."""
        ...

    def predict_probabilities(self, rows: Sequence[tuple[str, ...]]) -> list[float]:
        """Return the probability in [0, 1] of each row. A row has as many texts as this judge reads."""
        ...


@dataclass(frozen=True)
class TextJudgeSpec:
    """A type of text judges that share one loader.

    Attributes:
        name: name of the property that they judge.
        load: folder -> judge; raises BackendError if the judge is broken or of another type.
        missing: folder -> reasons why the judge cannot be loaded, without loading it; empty if it is
            available.
    """

    name: str
    load: Callable[[str], TextJudge]
    missing: Callable[[str], list[str]]
