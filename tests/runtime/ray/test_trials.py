import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from caramel.errors import CaramelError, ConfigError, ResourceError
from caramel.io.files import compute_file_hash, save_hashed
from caramel.runtime.ray import session_health, trials
from caramel.runtime.ray.asha import Halving, report_checkpoint
from caramel.runtime.ray.trials import tune_grid


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


def calls(folder: Path) -> int:
    return len((folder / "log").read_text().splitlines())


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def grid(folder: Path, executor: str, again=lambda result: False, **settings) -> list[dict]:
    found = tune_grid(
        trial,
        [{"n": n} for n in range(3)],
        should_rerun=again,
        settings={"log": str(folder / "log"), **settings},
        folder=folder / "trials",
        executor=executor,
        title="test",
    )
    assert all((each.folder / "table").read_text() == str(each.result["n"]) for each in found)
    return [each.result for each in found]


EXPECTED = [{"n": n, "double": 2 * n} for n in range(3)]


def test_a_grid_gives_results_in_order_and_a_second_run_computes_nothing(tmp_path) -> None:
    assert grid(tmp_path, "inline") == EXPECTED
    assert grid(tmp_path, "inline") == EXPECTED
    assert calls(tmp_path) == 3


def test_progress_writes_nothing_into_a_log(tmp_path, capsys) -> None:
    grid(tmp_path, "inline")
    assert capsys.readouterr().err == ""


def of_trials(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in (folder / "trials").glob("*") if path.suffix == suffix)


def test_a_result_and_the_files_beside_it_are_one_whole(tmp_path, capsys) -> None:
    assert grid(tmp_path, "inline") == EXPECTED
    scratch = of_trials(tmp_path, "")[0]
    damages = [
        lambda: flip(of_trials(tmp_path, ".json")[0]),
        lambda: of_trials(tmp_path, ".json")[0].write_text("{}"),
        lambda: flip(scratch / "table"),
        lambda: (scratch / "table").unlink(),
        lambda: (shutil.rmtree(scratch), scratch.write_text("a file")),
    ]
    before = compute_file_hash(scratch)
    for number, damage in enumerate(damages, 4):
        damage()
        capsys.readouterr()
        assert grid(tmp_path, "inline") == EXPECTED
        assert "computed again" in capsys.readouterr().err
        assert calls(tmp_path) == number, "not that trial alone was run again"
        assert compute_file_hash(scratch) == before


def test_a_result_that_is_not_to_be_kept_is_given_and_made_again(tmp_path) -> None:
    found = [grid(tmp_path, "inline", again=lambda result: result["n"] == 1) for _ in range(2)]
    assert found == [EXPECTED, EXPECTED]
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "1"]


def test_results_that_vanish_while_a_grid_runs_are_a_clear_error(tmp_path, monkeypatch) -> None:
    keep = trials._save_result

    def removed(place: Path, content: dict) -> None:
        keep(place, content)
        if content["result"]["n"] == 1:
            (place / "table").unlink()  # as another process would that makes it again

    monkeypatch.setattr(trials, "_save_result", removed)
    with pytest.raises(ResourceError, match=r"1 of 3 trials of 'test' .* another process"):
        grid(tmp_path, "inline")


WORTH = {0: 0.0, 1: 0.1, 2: 1.0}  # in any order, the last alone is in the better half


def rising(point: dict, scratch: str, *, log: str) -> dict:
    """Say three times what the point is worth, and wait until the better one has said it."""
    better = Path(log)
    for checkpoint in (1, 2):
        while point["n"] < 2 and not better.exists():
            time.sleep(0.05)
        if log:
            report_checkpoint(checkpoint, "worth", WORTH[point["n"]])
        if point["n"] == 2:
            better.touch()
    Path(scratch, "table").write_text("whole")
    return {"worth": point["n"]}


def test_trials_that_do_worse_end_early_and_are_taken_up_again_where_they_are_wanted(
    ray_cluster, tmp_path
) -> None:
    def run(points: list[int], halving: Halving | None) -> list[dict]:
        return [
            each.result
            for each in tune_grid(
                rising,
                [{"n": n} for n in points],
                settings={"log": str(tmp_path / "log")},
                folder=tmp_path / "trials",
                executor="ray",
                title="halved",
                halving=halving,
            )
        ]

    halving = Halving("worth", 1, 2, 3)
    whole, *others = run([2, 1, 0], halving)
    assert whole == {"worth": 2}
    assert others == [{"stopped": {"checkpoint": 1, "worth": WORTH[n]}} for n in (1, 0)]
    before = compute_file_hash(tmp_path / "trials")
    assert run([2, 1, 0], halving) == [whole, *others]  # what was ended is not tried again
    assert compute_file_hash(tmp_path / "trials") == before
    with pytest.raises(ConfigError, match="inline runs one after the other"):
        tune_grid(rising, [], settings={}, folder=tmp_path, executor="inline", title="", halving=halving)
    assert run([0], None) == [{"worth": 0}]


def test_what_cannot_be_kept_of_a_trial_is_said_in_its_own_words_also_where_it_ended_early(
    tmp_path, monkeypatch
) -> None:
    def full(place: Path, content: dict, suffix: str = ".json") -> None:
        raise ResourceError(f"no space for {place.name}{suffix}")

    monkeypatch.setattr(trials, "_save_result", full)
    watch, unkept = trials._build_callback(tmp_path, lambda: None, Halving("worth", 1, 2, 3), "others")
    ended = SimpleNamespace(config={"name": "a"}, last_result={"checkpoint": 1, "worth": 0.5})
    with pytest.raises(ResourceError):
        watch.on_trial_complete(trial=ended)
    with pytest.raises(ResourceError):
        watch.on_trial_result(trial=ended, result={"found": "{}"})
    assert [str(error) for error in unkept] == ["no space for a-others.stopped", "no space for a.json"]


def overflow(point: dict, scratch: str) -> dict:
    """Write more than the volume holds, as a library that has its own words for it."""

    def write(path: Path) -> None:
        try:
            path.write_bytes(bytes(point["mebibytes"] * 2**20))
        except OSError:
            raise RuntimeError("PytorchStreamWriter failed writing file") from None

    save_hashed(Path(scratch, "step.pt"), write)
    return {"n": 0}


def fill_up(point: dict, scratch: str) -> dict:
    """Leave the volume full, as others may.

    Each process writes a file of its own: a second one that opened the first one's file would
    empty it, and the volume would have space again for a moment.
    """
    with suppress(OSError):
        Path(scratch).with_name(f"others-{os.getpid()}").write_bytes(bytes(point["mebibytes"] * 2**20))
    raise RuntimeError("disk I/O error")


@pytest.mark.slow
@pytest.mark.parametrize("trial", [overflow, fill_up])
def test_a_volume_that_fills_in_a_tune_trial_is_named(tmp_path, mount, ray_cluster, trial) -> None:
    place = mount(tmp_path / "work", 40)
    points, how = [{"mebibytes": 60}], {"executor": "ray", "title": "test", "settings": {}}
    with pytest.raises(ResourceError, match=f"its volume {place} has 0 MiB free"):
        tune_grid(trial, points, folder=place, **how)


def invert(point: dict, scratch: str) -> dict:
    return {"inverse": 1 / point["n"]}


def note_and_fill_up(point: dict, scratch: str, *, log: str) -> dict:
    """Leave the volume full; beside it is noted which trials began."""
    Path(log, str(point["n"])).touch()
    return fill_up({"mebibytes": 60}, scratch)


@pytest.mark.slow
def test_a_full_volume_ends_a_grid_at_the_first_error(tmp_path, mount, ray_cluster) -> None:
    place, log = mount(tmp_path / "work", 40), tmp_path / "log"
    log.mkdir()
    with pytest.raises(ResourceError, match=rf"^no space left .*its volume {place} has 0 MiB free") as raised:
        tune_grid(
            note_and_fill_up,
            [{"n": n} for n in range(12)],
            settings={"log": str(log)},
            folder=place,
            executor="ray",
            title="test",
        )
    assert str(raised.value).endswith(f"kept in {place}; run `dvc repro` to go on.")
    assert 1 <= len([*log.iterdir()]) < 12


def test_an_error_of_tune_itself_in_a_broken_session_says_that_it_is_broken(
    tmp_path, ray_cluster, monkeypatch
) -> None:
    """Tune writes files of a trial into the session's folder, and may notice first that it is gone."""

    def fit_in_a_removed_folder(self: object) -> None:
        monkeypatch.setattr(session_health, "_list_session_paths", lambda node: [str(tmp_path / "gone")])
        raise FileNotFoundError("params.pkl")

    monkeypatch.setattr("ray.tune.Tuner.fit", fit_in_a_removed_folder)
    with pytest.raises(ResourceError, match=r"Ray's '.*gone' on this machine was removed"):
        tune_grid(invert, [{"n": 1}], settings={}, folder=tmp_path, executor="ray", title="test")


@pytest.mark.slow
def test_an_error_of_one_trial_ends_no_other_where_there_is_room(tmp_path, ray_cluster) -> None:
    with pytest.raises(
        ResourceError, match=r"1 of 4 trials of 'test' failed; the first said: ZeroDivisionError"
    ):
        tune_grid(
            invert,
            [{"n": n} for n in range(4)],
            settings={},
            folder=tmp_path,
            executor="ray",
            title="test",
        )
    assert len([*tmp_path.glob("*.json")]) == 3


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


def test_a_trial_of_more_processes_than_a_machine_has_is_refused_and_not_waited_for(
    ray_cluster, tmp_path
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"needs 64 processors of one machine, and the largest one here has 2. Take fewer finetune.nproc",
    ):
        tune_grid(
            trial, [{"n": 1}], settings={"log": ""}, folder=tmp_path, executor="ray", title="t", cpus=64
        )
    with pytest.raises(ConfigError, match=r"needs 1.5 GPUs of one machine, and the largest one here has 0"):
        tune_grid(
            trial, [{"n": 1}], settings={"log": ""}, folder=tmp_path, executor="ray", title="t", gpus=1.5
        )


@pytest.mark.parametrize(
    ("executor", "count", "cluster", "expected"),
    [
        ("ray", 2, "", ("ray", "inline")),
        ("ray", 1, "", ("inline", "ray")),
        ("ray", 2, "head:6379", ("inline", "ray")),
        ("inline", 2, "", ("inline", "inline")),
    ],
)
def test_trials_or_their_shards_are_on_ray_but_never_both(
    executor, count, cluster, expected, monkeypatch
) -> None:
    monkeypatch.setattr(trials, "get_cluster_address", lambda: cluster)
    assert trials.select_executors(executor, count) == expected
