import sys
from collections.abc import Iterator
from pathlib import Path

import encoders
import pytest

from caramel import registry
from caramel.models.specs import open_model

sys.path.append(str(Path(__file__).parents[1] / "models"))  # chat_server.py serves both folders


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The families ``counting`` and ``matching`` of encoders.py, as if they were registered."""
    for name in ("counting", "matching"):
        monkeypatch.setitem(registry.BACKENDS["model"], name, f"encoders:{name}")
        monkeypatch.setitem(registry.BACKENDS["model_check"], name, "encoders:nothing_missing")
    open_model.cache_clear()
    encoders.opened.clear()
    yield
    open_model.cache_clear()
