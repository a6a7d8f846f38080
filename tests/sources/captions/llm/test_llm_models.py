"""A model that several parts need is loaded once, and two models are never in memory at a time."""

from __future__ import annotations

import gc
import weakref
from typing import ClassVar

from caramel.interfaces.model import Identity
from caramel.sources.captions.llm.models import OneModel


class FakeModel:
    identity: ClassVar[Identity] = {"name": "fake"}


def test_a_model_is_loaded_once_for_all_parts() -> None:
    open_once = OneModel[FakeModel]()
    assert open_once("local:a", FakeModel) is open_once("local:a", FakeModel)


def test_a_model_is_released_before_another_is_loaded() -> None:
    open_once = OneModel[FakeModel]()
    first = weakref.ref(open_once("local:a", FakeModel))

    def load() -> FakeModel:
        gc.collect()
        assert first() is None
        return FakeModel()

    open_once("local:b", load)
