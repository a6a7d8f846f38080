from __future__ import annotations

import pytest
import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError, RaySystemError

from caramel.errors import ResourceError
from caramel.runtime.ray import results


@pytest.mark.parametrize("kind", [ObjectStoreFullError, OutOfDiskError])
def test_no_room_for_what_is_sent_is_no_death_of_a_worker_but_a_message(
    monkeypatch, kind: type[Exception]
) -> None:
    def full(reference: object) -> None:
        raise kind("The object cannot be created.")

    monkeypatch.setattr(ray, "get", full)
    with pytest.raises(ResourceError, match=r"no room .* --object-store-memory"):
        results.get_result(None)


def test_an_error_that_cannot_be_sent_is_no_death_of_a_worker(monkeypatch) -> None:
    def unreadable(reference: object) -> None:
        raise RaySystemError("the exception has two arguments")

    monkeypatch.setattr(ray, "get", unreadable)
    with pytest.raises(ResourceError, match=r"RaySystemError.*two arguments"):
        results.get_result(None)
