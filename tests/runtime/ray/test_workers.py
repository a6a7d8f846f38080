from __future__ import annotations

import time
from pathlib import Path

import pytest
import ray

from caramel.errors import ResourceError
from caramel.runtime.ray import workers


class Sick(workers.ShardWorker):
    """A worker that does not start."""

    def __init__(self, home: str, disk: object) -> None:
        raise RuntimeError(f"no home at {disk}")


@pytest.mark.slow
def test_workers_that_do_not_start_are_given_up_with_what_ray_says(ray_cluster, monkeypatch) -> None:
    monkeypatch.setattr(workers, "ShardWorker", Sick)
    pool = workers.WorkerPool(0.0)
    with pytest.raises(ResourceError, match=r"No worker starts .* no home at None"):
        list(pool.run_jobs(len, [("a", lambda: ([1],))], {}, lambda: None))
    pool.release_workers()


class Late(workers.ShardWorker):
    """A worker of which one, the first that starts, is on a node that joined late and has other versions."""

    def ready(self) -> tuple[str, str, dict[str, str]]:
        node, name, installed = super().ready()
        try:
            Path(self._disk).mkdir()
        except FileExistsError:
            return node, name, installed
        return "another", "host9", {**installed, "torch": "0.1"}


def count_slowly(items: range) -> int:
    """Return how many there are, when the other worker has long said which node it is on."""
    time.sleep(0.5)
    return len(items)


@pytest.mark.slow
def test_a_late_node_with_other_versions_gets_no_work_and_the_others_go_on(
    ray_cluster, monkeypatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "ShardWorker", Late)
    pool = workers.WorkerPool(0.0)
    pool._disk = str(tmp_path / "taken")
    jobs = [(str(n), lambda n=n: (range(n),)) for n in range(6)]
    assert sorted(pool.run_jobs(count_slowly, jobs, {}, lambda: None)) == [(str(n), n) for n in range(6)]
    assert len(pool._aside) == 1
    pool.release_workers()
    assert "Node host9 of Ray's cluster has other versions" in capsys.readouterr().err


def fail_slowly(items: range) -> int:
    """Fail at once for the second shard alone, so that the other worker still works."""
    if 1 in items:
        raise ValueError("a bad shard")
    time.sleep(30)
    return len(items)


@pytest.mark.slow
def test_an_error_of_a_shard_frees_the_processors_also_where_somebody_keeps_the_error(ray_cluster) -> None:
    """An error that is kept holds the frames of the map, and with them the references to its workers."""
    jobs = [(str(n), lambda n=n: (range(n, n + 1),)) for n in range(2)]
    with (
        pytest.raises(ValueError, match="a bad shard") as kept,
        workers.open_worker_pool(0.0) as (pool, check),
    ):
        list(pool.run_jobs(fail_slowly, jobs, {}, check))
    assert kept.value.__traceback__ is not None
    until = time.monotonic() + 10
    while (free := ray.available_resources().get("CPU", 0)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert free == 2
