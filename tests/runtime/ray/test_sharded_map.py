import errno
import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from caramel.errors import CaramelError, DataError, ResourceError
from caramel.runtime.ray import sharded_map as parallel
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import compute_fingerprint, map_in_threads, map_shards
from caramel.runtime.ray.workers import AHEAD


def square(shard: list[int], *, log: str, kill: str = "") -> pa.Table:
    """Square the numbers; note the call; die once where ``kill`` says so."""
    if kill and shard[0] == 4 and not Path(kill).exists():
        Path(kill).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(log).open("a") as stream:
        stream.write(f"{shard[0]}\n")
    return pa.table({"x": [n * n for n in shard]})


def refuse(shard: list[int], *, log: str) -> pa.Table:
    """Fail on one shard as a user's bad input would."""
    if shard[0] == 4:
        raise CaramelError(f"bad shard {shard}")
    return square(shard, log=log)


def full(shard: list[int], *, log: str) -> pa.Table:
    """Fail as on a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device", log)


SHARDS = [[n, n + 1] for n in range(0, 12, 2)]


def results(paths: list[Path]) -> list[int]:
    return [n for path in paths for n in pq.read_table(path)["x"].to_pylist()]


def run(folder: Path, executor: str = "inline", work=square, **settings) -> list[Path]:
    return map_shards(
        work,
        SHARDS,
        settings={"log": str(folder / "log"), **settings},
        folder=folder / "shards",
        executor=executor,
        title="test",
    )


def calls(folder: Path) -> int:
    return len((folder / "log").read_text().splitlines())


def test_results_come_in_the_order_of_the_shards(tmp_path) -> None:
    assert results(run(tmp_path)) == [n * n for n in range(12)]


def test_a_second_run_computes_nothing(tmp_path) -> None:
    first = run(tmp_path)
    assert run(tmp_path) == first
    assert calls(tmp_path) == len(SHARDS)


def test_only_lost_shards_are_computed_again_and_to_the_same_bytes(tmp_path) -> None:
    paths = run(tmp_path)
    before = [path.read_bytes() for path in paths]
    paths[2].unlink()
    run(tmp_path)
    assert calls(tmp_path) == len(SHARDS) + 1
    assert [path.read_bytes() for path in paths] == before


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_shard_in_which_a_bit_flipped_is_said_and_made_again(tmp_path, capsys) -> None:
    paths = run(tmp_path)
    before = [path.read_bytes() for path in paths]
    flip(paths[1])
    paths[4].write_bytes(before[4][:40])
    capsys.readouterr()
    assert [path.read_bytes() for path in run(tmp_path)] == before
    said = capsys.readouterr().err
    assert said.count("computed again") == 2
    assert str(paths[1]) in said
    assert calls(tmp_path) == len(SHARDS) + 2


def test_equal_shards_are_computed_once(tmp_path) -> None:
    paths = map_shards(
        square,
        [[1], [2], [1]],
        settings={"log": str(tmp_path / "log")},
        folder=tmp_path,
        executor="inline",
        title="t",
    )
    assert results(paths) == [1, 4, 1]
    assert calls(tmp_path) == 2


def test_a_file_where_the_folder_of_results_belongs_is_a_clear_error(tmp_path) -> None:
    (tmp_path / "shards").write_text("mine")
    with pytest.raises(ResourceError, match="a file is there"):
        run(tmp_path)
    assert (tmp_path / "shards").read_text() == "mine"


def test_progress_writes_nothing_into_a_log(tmp_path, capsys) -> None:
    run(tmp_path)
    assert capsys.readouterr().err == ""


def test_other_settings_inputs_or_code_do_not_reuse_shards(tmp_path, monkeypatch) -> None:
    first = run(tmp_path)
    other = map_shards(
        square,
        SHARDS,
        settings={"log": str(tmp_path / "log"), "kill": ""},
        folder=tmp_path / "shards",
        executor="inline",
        title="test",
    )
    assert not set(first) & set(other)
    monkeypatch.setattr(parallel, "compute_code_version", lambda module: "edited")
    assert not set(first) & set(run(tmp_path))


def test_a_failed_shard_leaves_the_finished_ones(tmp_path) -> None:
    with pytest.raises(CaramelError, match="bad shard"):
        run(tmp_path, work=refuse)
    assert len(list((tmp_path / "shards").glob("*"))) == 2  # those before it


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    one, same, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1})
    assert (
        compute_fingerprint(__name__, one)
        == compute_fingerprint(__name__, same)
        != compute_fingerprint(__name__, other)
    )


@pytest.mark.slow
def test_ray_gives_the_same_bytes_as_one_process(tmp_path, ray_cluster) -> None:
    inline = map_shards(
        square,
        SHARDS,
        settings={"log": str(tmp_path / "log")},
        folder=tmp_path / "inline",
        executor="inline",
        title="test",
    )
    distributed = run(tmp_path, "ray")
    assert [p.read_bytes() for p in inline] == [p.read_bytes() for p in distributed]


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path, ray_cluster) -> None:
    found = run(tmp_path, "ray", kill=str(tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert results(found) == [n * n for n in range(12)]


@pytest.mark.slow
def test_no_more_shards_are_brought_than_the_workers_can_have(tmp_path, ray_cluster, monkeypatch) -> None:
    brought: list[int] = []
    asked: list[int] = []
    resources = ray.cluster_resources
    monkeypatch.setattr(ray, "cluster_resources", lambda: asked.append(1) or resources())

    def bring(shard: list[int]) -> list[int]:
        brought.append(shard[0])
        return [10 * n for n in shard]

    how = {"settings": {"log": str(tmp_path / "log")}, "folder": tmp_path / "shards", "title": "test"}
    monkeypatch.setattr(
        parallel,
        "_save_table",
        lambda path, table, keep=parallel._save_table: ahead.append(len(brought)) or keep(path, table),
    )
    ahead: list[int] = []
    found = map_shards(square, SHARDS, executor="ray", bring=bring, **how)
    assert results(found) == [100 * n * n for n in range(12)]
    assert ahead[0] <= 2 * AHEAD + 1  # the cluster has two cores
    assert len(asked) == 1, "a call that may not return once Ray is gone"


def read(shard: int, *, path: str) -> pa.Table:
    """Return what a file holds."""
    return pa.table({"x": [f"{shard}{Path(path).read_text()}"]})


def test_a_file_counts_by_its_content_wherever_it_lies(tmp_path) -> None:
    def found(folder: str, text: str) -> list[Path]:
        place = tmp_path / folder / "file"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        settings = {"path": LocalFile(str(place))}
        return map_shards(
            read, [1], settings=settings, folder=tmp_path / "shards", executor="inline", title="test"
        )

    first = found("one", "a")
    assert results(first) == ["1a"]
    assert found("two", "a") == first
    assert results(found("one", "b")) == ["1b"]


@pytest.mark.slow
def test_an_error_of_the_system_in_a_worker_keeps_its_number_and_file(tmp_path, ray_cluster) -> None:
    with pytest.raises(OSError, match="No space left") as stopped:
        run(tmp_path, "ray", work=full)
    assert (stopped.value.errno, stopped.value.filename) == (errno.ENOSPC, str(tmp_path / "log"))


@pytest.mark.slow
def test_an_error_in_a_worker_reaches_the_user_as_itself(tmp_path, ray_cluster) -> None:
    with pytest.raises(CaramelError, match="bad shard"):
        run(tmp_path, "ray", work=refuse)


def test_threaded_keeps_the_order_and_raises_what_the_function_raises() -> None:
    assert map_in_threads(lambda n: n * n, list(range(50))) == [n * n for n in range(50)]
    assert map_in_threads(str, []) == []
    with pytest.raises(DataError, match="17"):
        map_in_threads(lambda n: (_ for _ in ()).throw(DataError("17")) if n == 17 else n, list(range(50)))
