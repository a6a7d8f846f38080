from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from caramel.errors import ResourceError
from caramel.io.files import hash_files, load_hashed, save_hashed
from caramel.runtime.ray import driver_files
from caramel.runtime.ray.driver_files import Disk, Mirror, open_mirror


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a trial's folder of the driver's; its disk is asked without Ray."""
    monkeypatch.setattr(driver_files, "CACHE", tmp_path / "node")
    monkeypatch.setattr(driver_files, "CHUNK", 100)
    monkeypatch.setattr(
        driver_files, "call_disk", lambda disk, what, *arguments: getattr(disk, what)(*arguments)
    )
    return tmp_path / "driver" / "trial"


def state(folder: Path, step: int) -> Path:
    return save_hashed(folder / f"{step}.pt", lambda temporary: temporary.write_bytes(bytes(250 + step)))


def test_what_a_trial_leaves_on_a_node_is_on_the_drivers_disk(there: Path) -> None:
    with open_mirror(str(there), Disk()) as here:
        (here / "model").mkdir()
        (here / "model" / "weights").write_bytes(bytes(range(250)))
        (here / "empty").touch()
        state(here, 1)
        expected = hash_files(here)
    assert hash_files(there) == expected
    assert [*load_hashed(there, ".pt")] == ["1"]
    assert not here.exists(), "a node keeps nothing of a trial"


def test_a_trial_goes_on_from_what_was_kept_although_it_failed(there: Path) -> None:
    def fail(here: Path) -> None:
        (here / "half").write_text("half")
        raise RuntimeError(state(here, 1).name)

    with pytest.raises(RuntimeError) as failed, open_mirror(str(there), Disk()) as here:
        fail(here)
    assert [*load_hashed(there, ".pt")] == ["1"]
    assert not (there / "half").exists(), "of a trial that failed only what is whole"
    with open_mirror(str(there), Disk()) as here:
        assert [*load_hashed(here, ".pt")] == ["1"]
        (here / str(failed.value)).unlink()
        state(here, 2)
    assert [*load_hashed(there, ".pt")] == ["2"]


def test_a_node_that_dies_leaves_what_it_kept_while_it_worked(there: Path, monkeypatch) -> None:
    monkeypatch.setattr(driver_files, "EVERY", 0.01)
    mirror = open_mirror(str(there), Disk())
    with mirror as here:
        state(here, 1)
        while not load_hashed(there, ".pt"):
            pass
        assert not [path for path in there.parent.rglob(".*") if path.suffix == driver_files.PART]


def test_an_attempt_that_was_given_up_changes_nothing_when_it_comes_back(there: Path) -> None:
    drive = Disk()
    first, second = Mirror(str(there), drive), Mirror(str(there), drive)
    state(second.here, 2)
    second.push_files(whole=False)
    state(first.here, 1)
    with pytest.raises(ResourceError, match="goes on elsewhere"):
        first.push_files(whole=True)
    assert [*load_hashed(there, ".pt")] == ["2"]


def test_what_a_node_left_half_sent_is_no_part_of_the_trial(there: Path) -> None:
    drive = Disk()
    drive.write(str(there.with_name(".half.part")), 0, b"half")
    with open_mirror(str(there), drive) as here:
        (here / "model").write_bytes(b"whole")
    assert hash_files(there).keys() == {"model"}


def test_sending_that_fails_for_a_while_is_tried_again(there: Path, monkeypatch) -> None:
    monkeypatch.setattr(driver_files, "EVERY", 0.01)
    drive, refused = Disk(), []
    write = drive.write

    def full(*arguments: object) -> None:
        if len(refused) < 3:
            refused.append(arguments)
            raise OSError(28, "No space left on device")
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(drive, "write", full)
    with open_mirror(str(there), drive) as here:
        state(here, 1)
        while not load_hashed(there, ".pt"):
            pass
    assert len(refused) == 3


def test_a_file_is_seen_when_it_is_whole(tmp_path: Path) -> None:
    drive, part, folder = Disk(), str(tmp_path / ".x.part"), str(tmp_path / "x")
    attempt = drive.begin(folder)
    drive.write(part, 0, b"some")
    assert drive.names(folder) == {}
    drive.write(part, 0, b"other")
    drive.write(part, 5, b"s")
    with pytest.raises(ResourceError, match="not written as it was sent"):
        drive.finish(part, folder, attempt, "file", "0" * 64)
    drive.finish(part, folder, attempt, "file", hashlib.sha256(b"others").hexdigest())
    assert drive.names(folder) == {"file": 6}
    assert drive.read(str(tmp_path / "x" / "file"), 4) == b"rs"
    drive.remove(folder, attempt, "file")
    assert drive.names(folder) == {}
