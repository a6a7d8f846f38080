"""Images are found by their names from anywhere; a shard that is damaged, or lies elsewhere, is named with its cure."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stored_images import noise, sharded

from caramel.errors import DataError
from caramel.io import image_shards, image_store
from caramel.io.image_store import ImageStore, LazySequence, is_shard, rewrite_shard_paths


def opened(folder: Path, values: Sequence[bytes]) -> ImageStore:
    return ImageStore(*sharded(folder, values))


def files_open() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of some hundred bytes, in groups of three."""
    monkeypatch.setattr(image_shards, "GROUP", 3)
    monkeypatch.setattr(image_shards, "SHARD_BYTES", 400)


def test_an_index_elsewhere_points_to_the_same_shards(tmp_path: Path, small: None) -> None:
    values = noise(20)
    path, rows = sharded(tmp_path / "data" / "scenes", values)
    by = tmp_path / "data" / "assemble"  # which need not be there
    some = rewrite_shard_paths(rows.iloc[[12, 3]], path.parent, by)
    assert some["shard"].str.startswith("../scenes/images/").all()
    pictures = ImageStore(by / "images.parquet", some)
    assert [pictures["i12"], pictures["i3"], len(pictures)] == [values[12], values[3], 2]
    further = ImageStore(
        by.parent / "other" / "images.parquet", rewrite_shard_paths(some, by, by.parent / "other")
    )
    assert further["i12"] == values[12]
    assert "i0" not in further
    assert rewrite_shard_paths(rows.iloc[:0], path.parent, by).empty


@pytest.mark.parametrize(
    "shard",
    ["/etc/x.parquet", "../../x.parquet", "../a/../../x.parquet", "images/../../../x.parquet", "..", "images/x",
     "C:\\x.parquet", "..\\x.parquet", "a\0.parquet", "", "../", "../../data/scenes/x.parquet", "x" * 300 + ".parquet"],
)  # fmt: skip
def test_a_shard_that_would_lie_elsewhere_is_refused(shard: str, tmp_path: Path) -> None:
    path, rows = sharded(tmp_path, noise(2))
    with pytest.raises(DataError, match=r"images.parquet' names 1 shards .*\n.*\nRun `dvc repro`"):
        ImageStore(path, rows.assign(shard=[rows["shard"][0], shard]))


def test_threads_read_what_one_reads_with_few_shards_open(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "MOST_OPEN", 3)
    values = noise(300)
    pictures = opened(tmp_path, values)
    gc.collect()  # or it closes files of earlier tests meanwhile
    before = files_open()
    order = [f"i{n * 7 % 300}" for n in range(3000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(pictures.__getitem__, order))
    assert found == [values[int(name[1:])] for name in order]
    assert len(pictures._open) <= 3 + 8
    assert files_open() - before <= 3 + 8
    del pictures
    assert files_open() == before


def test_a_pickled_store_and_a_forked_one_read_on(tmp_path: Path, small: None) -> None:
    values = noise(30)
    pictures = opened(tmp_path, values)
    assert pictures["i3"] == values[3]
    again = pickle.loads(pickle.dumps(pictures))  # noqa: S301 its own
    assert not again._open
    assert [again[name] for name in again] == values
    read, write = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=lambda: write.send([pictures[name] for name in pictures])
    )
    child.start()
    assert read.recv() == values
    child.join()


def test_a_relative_index_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures = opened(Path("data/a:b"), noise(2))
    monkeypatch.chdir("/")
    assert pictures["i1"] == noise(2)[1]


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def shift(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes())


def close(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "said"),
    [(lose, "is missing"), (cut, "has 300 bytes, too few"), (shift, "does not hold it at byte"), (close, "cannot|few")],
)  # fmt: skip
def test_a_damaged_shard_is_named_with_index_image_and_cure(damage, said, tmp_path: Path) -> None:
    path, rows = sharded(tmp_path, noise(40))
    damage(tmp_path / "images" / "00000.parquet")
    with pytest.raises(DataError) as stopped:
        ImageStore(path, rows)["i39"]
    for part in ("Image 'i39'", f"{path}", f"{tmp_path}/images/00000.parquet", "dvc checkout", "dvc repro"):
        assert part in str(stopped.value)
    assert any(word in str(stopped.value) for word in said.split("|"))


@pytest.mark.parametrize(
    ("column", "value"),
    [("offset", -9), ("offset", 0), ("offset", 2**62), ("length", -1), ("length", 2**62), ("length", 7), ("offset", 9)],
)  # fmt: skip
def test_an_index_that_lies_is_an_error_and_takes_no_memory(column: str, value: int, tmp_path: Path) -> None:
    path, rows = sharded(tmp_path, noise(3))
    rows.loc[1, column] = value
    pictures = ImageStore(path, rows)
    assert pictures["i0"] == noise(1)[0]
    with pytest.raises(DataError, match=r"Image 'i1' of .* shard "):
        pictures["i1"]


def test_another_file_of_the_same_length_is_seen_where_a_claim_rests_on_it(tmp_path: Path) -> None:
    values = noise(3)
    path, rows = sharded(tmp_path, values)
    shard = tmp_path / "images" / "00000.parquet"
    shard.write_bytes(shard.read_bytes().replace(values[1], values[1][::-1]))
    pictures = ImageStore(path, rows)
    assert pictures["i1"] == values[1][::-1]
    assert pictures.read_verified("i0") == values[0]
    with pytest.raises(DataError, match=r"Image 'i1' .* SHA-256 differs from the index\. Run `dvc checkout`"):
        pictures.read_verified("i1")


def test_a_name_that_the_index_lacks_is_a_key_error(tmp_path: Path) -> None:
    pictures = opened(tmp_path, noise(2))
    with pytest.raises(KeyError):
        pictures["elsewhere"]
    assert pictures.get("elsewhere") is None
    assert "elsewhere" not in pictures


def test_a_shard_is_told_from_a_table_by_the_index_beside_its_folder(tmp_path: Path) -> None:
    path, _ = sharded(tmp_path, noise(2))
    shard = tmp_path / "images" / "00000.parquet"
    assert not is_shard(shard)
    shutil.copy(shard, path)
    assert is_shard(shard)
    assert not is_shard(path)


def test_on_demand_reads_what_is_asked_for_and_no_more() -> None:
    read: list[str] = []

    def take(name: str) -> bytes:
        read.append(name)
        return name.encode()

    files = LazySequence(take, ["a", "b", "c", "a"])
    part = files[1:3]
    assert (len(files), len(part), read) == (4, 2, [])
    assert part[1] == b"c"
    assert read == ["c"]
    assert list(files) == [b"a", b"b", b"c", b"a"]
