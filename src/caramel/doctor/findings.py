"""A finding of ``caramel doctor``: one line with a suggested action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "FAIL"]
OK: State = "ok"
WARN: State = "warn"
FAIL: State = "FAIL"
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One finding."""

    state: State
    name: str
    text: str
    cure: str = ""

    def __str__(self) -> str:
        """Return the line as printed."""
        cure = f"  -> {self.cure}" if self.cure else ""
        return f"{self.state:4}  {self.name:10} {self.text}{cure}"
