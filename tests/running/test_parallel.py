import errno
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from caramel.errors import CaramelError, DataError, ResourceError
from caramel.running import parallel
from caramel.running.parallel import fingerprint, sharded_map, threaded, tune_grid
from caramel.storage.files import file_hash, keep


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


def trial(point: dict, scratch: str, *, log: str, kill: str = "", bad: int = -1) -> dict:
    """Return the point doubled, like ``square``."""
    if point["n"] == bad:
        raise CaramelError(f"bad point {point['n']}")
    if kill and point["n"] == 1 and not Path(kill).exists():
        Path(kill).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(log).open("a") as stream:
        stream.write(f"{point['n']}\n")
    Path(scratch, "table").write_text(str(point["n"]))
    return {"n": point["n"], "double": 2 * point["n"]}


SHARDS = [[n, n + 1] for n in range(0, 12, 2)]


def results(paths: list[Path]) -> list[int]:
    return [n for path in paths for n in pq.read_table(path)["x"].to_pylist()]


def run(folder: Path, executor: str = "inline", work=square, **settings) -> list[Path]:
    return sharded_map(
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
    assert said.count("made again") == 2
    assert str(paths[1]) in said
    assert calls(tmp_path) == len(SHARDS) + 2


def test_equal_shards_are_computed_once(tmp_path) -> None:
    paths = sharded_map(
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
    grid(tmp_path, "inline")
    assert capsys.readouterr().err == ""


def test_other_settings_inputs_or_code_do_not_reuse_shards(tmp_path, monkeypatch) -> None:
    first = run(tmp_path)
    other = sharded_map(
        square,
        SHARDS,
        settings={"log": str(tmp_path / "log")},
        inputs=["changed"],
        folder=tmp_path / "shards",
        executor="inline",
        title="test",
    )
    assert not set(first) & set(other)
    monkeypatch.setattr(parallel, "code_version", lambda module: "edited")
    assert not set(first) & set(run(tmp_path))


def test_a_failed_shard_leaves_the_finished_ones(tmp_path) -> None:
    with pytest.raises(CaramelError, match="bad shard"):
        run(tmp_path, work=refuse)
    assert len(list((tmp_path / "shards").glob("*"))) == 2  # those before it


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    one, same, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1})
    assert fingerprint(__name__, one) == fingerprint(__name__, same) != fingerprint(__name__, other)


@pytest.mark.slow
def test_ray_gives_the_same_bytes_as_one_process(tmp_path, ray_cluster) -> None:
    inline = sharded_map(
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
def test_more_shards_than_are_sent_at_a_time_all_come_in_order(tmp_path, ray_cluster, monkeypatch) -> None:
    monkeypatch.setattr(parallel, "PER_CORE", 1)
    sent: list[int] = []
    wait = ray.wait
    monkeypatch.setattr(ray, "wait", lambda refs, **how: sent.append(len(refs)) or wait(refs, **how))
    asked: list[int] = []
    resources = ray.cluster_resources
    monkeypatch.setattr(ray, "cluster_resources", lambda: asked.append(1) or resources())
    assert results(run(tmp_path, "ray")) == [n * n for n in range(12)]
    assert max(sent) == 2  # the cluster's cores
    assert len(asked) == 1, "a call that may not return once Ray is gone"


@pytest.mark.slow
def test_an_error_of_the_system_in_a_worker_keeps_its_number_and_file(tmp_path, ray_cluster) -> None:
    with pytest.raises(OSError, match="No space left") as stopped:
        run(tmp_path, "ray", work=full)
    assert (stopped.value.errno, stopped.value.filename) == (errno.ENOSPC, str(tmp_path / "log"))


@pytest.mark.slow
def test_an_error_in_a_worker_reaches_the_user_as_itself(tmp_path, ray_cluster) -> None:
    with pytest.raises(CaramelError, match="bad shard"):
        run(tmp_path, "ray", work=refuse)


def grid(folder: Path, executor: str, again=lambda result: False, **settings) -> list[dict]:
    return tune_grid(
        trial,
        [{"n": n} for n in range(3)],
        again=again,
        settings={"log": str(folder / "log"), **settings},
        folder=folder / "trials",
        executor=executor,
        title="test",
    )


EXPECTED = [{"n": n, "double": 2 * n} for n in range(3)]


def test_a_grid_gives_results_in_order_and_a_second_run_computes_nothing(tmp_path) -> None:
    assert grid(tmp_path, "inline") == EXPECTED
    assert grid(tmp_path, "inline") == EXPECTED
    assert calls(tmp_path) == 3


def trials(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in (folder / "trials").glob("*") if path.suffix == suffix)


def test_a_result_and_the_files_beside_it_are_one_whole(tmp_path, capsys) -> None:
    assert grid(tmp_path, "inline") == EXPECTED
    scratch = trials(tmp_path, "")[0]
    damages = [
        lambda: flip(trials(tmp_path, ".json")[0]),
        lambda: trials(tmp_path, ".json")[0].write_text("{}"),
        lambda: flip(scratch / "table"),
        lambda: (scratch / "table").unlink(),
        lambda: (shutil.rmtree(scratch), scratch.write_text("a file")),
    ]
    before = file_hash(scratch)
    for number, damage in enumerate(damages, 4):
        damage()
        capsys.readouterr()
        assert grid(tmp_path, "inline") == EXPECTED
        assert "made again" in capsys.readouterr().err
        assert calls(tmp_path) == number, "not that trial alone was run again"
        assert file_hash(scratch) == before


def test_a_result_that_is_not_to_be_kept_is_given_and_made_again(tmp_path) -> None:
    found = [grid(tmp_path, "inline", again=lambda result: result["n"] == 1) for _ in range(2)]
    assert found == [EXPECTED, EXPECTED]
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "1"]


def test_results_that_vanish_while_a_grid_runs_are_a_clear_error(tmp_path, monkeypatch) -> None:
    run_trial = parallel._run_trial

    def removed(trial, point, scratch, settings):
        run_trial(trial, point, scratch, settings)
        if point["n"] == 1:
            Path(scratch, "table").unlink()  # as another process would that makes it again

    monkeypatch.setattr(parallel, "_run_trial", removed)
    with pytest.raises(ResourceError, match=r"1 of 3 trials of 'test' .* another process"):
        grid(tmp_path, "inline")


def overflow(point: dict, scratch: str) -> dict:
    """Write more than the volume holds, as a library that has its own words for it."""

    def write(path: Path) -> None:
        try:
            path.write_bytes(bytes(point["mebibytes"] * 2**20))
        except OSError:
            raise RuntimeError("PytorchStreamWriter failed writing file") from None

    keep(Path(scratch, "step.pt"), write)
    return {"n": 0}


def fill_up(point: dict, scratch: str) -> dict:
    """Leave the volume full, as others may."""
    with suppress(OSError):
        Path(scratch).with_name("others").write_bytes(bytes(point["mebibytes"] * 2**20))
    raise RuntimeError("disk I/O error")


@pytest.mark.slow
@pytest.mark.parametrize("trial", [overflow, fill_up])
def test_a_volume_that_fills_in_a_tune_trial_is_named(tmp_path, mount, ray_cluster, trial) -> None:
    place = mount(tmp_path / "work", 40)
    points, how = [{"mebibytes": 60}], {"executor": "ray", "title": "test", "settings": {}}
    with pytest.raises(ResourceError, match=f"its volume {place} has 0 MiB free"):
        tune_grid(trial, points, folder=place, **how)


@pytest.mark.slow
def test_a_tune_trial_whose_worker_is_killed_starts_again_and_says_so_in_a_line(
    tmp_path, ray_cluster, capfd
) -> None:
    assert grid(tmp_path, "ray", kill=str(tmp_path / "killed")) == EXPECTED
    assert (tmp_path / "killed").exists()
    said = capfd.readouterr().err
    assert "The worker of trial {'n': 1} died; the trial goes on from what it left." in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_failed_tune_trial_is_not_retried_and_the_others_are_kept(tmp_path, ray_cluster) -> None:
    with pytest.raises(ResourceError, match=r"1 of 3 trials.*bad point 2"):
        grid(tmp_path, "ray", bad=2)
    assert sorted((tmp_path / "log").read_text().split()) == ["0", "1"]


def test_threaded_keeps_the_order_and_raises_what_the_function_raises() -> None:
    assert threaded(lambda n: n * n, list(range(50))) == [n * n for n in range(50)]
    assert threaded(str, []) == []
    with pytest.raises(DataError, match="17"):
        threaded(lambda n: (_ for _ in ()).throw(DataError("17")) if n == 17 else n, list(range(50)))
