from __future__ import annotations

import pytest
import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError, RaySystemError

from caramel.errors import ResourceError
from caramel.running.on_ray import workers


@pytest.mark.parametrize("kind", [ObjectStoreFullError, OutOfDiskError])
def test_no_room_for_what_is_sent_is_no_death_of_a_worker_but_a_message(
    monkeypatch, kind: type[Exception]
) -> None:
    def full(reference: object) -> None:
        raise kind("The object cannot be created.")

    monkeypatch.setattr(ray, "get", full)
    with pytest.raises(ResourceError, match=r"no room .* --object-store-memory"):
        workers._result(None)


def test_an_error_that_cannot_be_sent_is_no_death_of_a_worker(monkeypatch) -> None:
    def unreadable(reference: object) -> None:
        raise RaySystemError("the exception has two arguments")

    monkeypatch.setattr(ray, "get", unreadable)
    with pytest.raises(ResourceError, match=r"RaySystemError.*two arguments"):
        workers._result(None)


class Sick(workers.ShardWorker):
    """A worker that does not start."""

    def __init__(self, home: str, disk: object) -> None:
        raise RuntimeError(f"no home at {disk}")


@pytest.mark.slow
def test_workers_that_do_not_start_are_given_up_with_what_ray_says(ray_cluster, monkeypatch) -> None:
    monkeypatch.setattr(workers, "ShardWorker", Sick)
    pool = workers.Pool(0.0)
    with pytest.raises(ResourceError, match=r"No worker starts .* no home at None"):
        list(pool.run(len, [("a", lambda: ([1],))], {}, lambda: None))
    pool.release()
