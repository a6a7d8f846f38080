"""caramel: dataset-versioned experiments on vision-language compositionality.

What a notebook or a training loop needs is handed on from ``caramel.api`` at its first use, so that the import itself
costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caramel.api import audit_captions as audit_captions
    from caramel.api import compare as compare
    from caramel.api import get as get
    from caramel.api import load_benchmark as load_benchmark
    from caramel.api import metrics as metrics
    from caramel.api import read_pinned as read_pinned
    from caramel.api import refine_captions as refine_captions
    from caramel.api import score as score
else:

    def __getattr__(name: str) -> object:
        if name in __all__:
            return getattr(import_module("caramel.api"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__version__ = "0.2.0"
__all__ = [
    "audit_captions",
    "compare",
    "get",
    "load_benchmark",
    "metrics",
    "read_pinned",
    "refine_captions",
    "score",
]
