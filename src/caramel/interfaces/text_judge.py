"""What a model that judges texts is: it reads one text, or two, and says how sure it is that something holds of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from caramel.interfaces.model import Identity


class TextJudge(Protocol):
    """A model that judges texts."""

    @property
    def identity(self) -> Identity:
        """All that determines its probabilities, JSON-like."""
        ...

    def predict_probabilities(self, rows: Sequence[tuple[str, ...]]) -> list[float]:
        """Return the probability in [0, 1] of each row, which has as many texts as this judge reads."""
        ...


@dataclass(frozen=True)
class TextJudgeSpec:
    """Judges of texts that are loaded alike.

    Attributes:
        name: of what they judge.
        load: folder -> judge; raises BackendError where it is broken or of another kind.
        missing: folder -> what keeps the judge from being loaded, without loading it; nothing if it is there.
    """

    name: str
    load: Callable[[str], TextJudge]
    missing: Callable[[str], list[str]]
