"""Vectors are made once, shared between tasks, and an interrupted run goes on with what is missing."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.errors import DataError
from caramel.io.files import save_hashed
from caramel.io.keys import compute_pair_key, compute_text_key
from caramel.models.embedding_cache import EmbeddingCache, Vectors, _create_scratch_map, build_vector_table

MADE: list[str] = []
WIDTH = 5


def vector(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def make(shard: list[str], *, stop_at: str = "") -> pa.Table:
    """The work of one shard; stops where it is told."""
    if stop_at in shard:
        raise KeyboardInterrupt
    MADE.extend(shard)
    return build_vector_table(
        [compute_text_key(text) for text in shard], np.stack([vector(text) for text in shard])
    )


def ask(store: EmbeddingCache, texts: list[str], size: int = 3, work: Any = make, **settings: Any) -> Any:
    def shards(todo: list[int]) -> list[list[str]]:
        names = [texts[i] for i in todo]
        return [names[start : start + size] for start in range(0, len(names), size)]

    return store.compute_vectors(
        "texts",
        [compute_text_key(text) for text in texts],
        work,
        shards,
        settings=settings,
        executor="inline",
        title="test",
    )


def right(vectors: Vectors, texts: list[str]) -> bool:
    return bool(np.array_equal(vectors, np.stack([vector(text) for text in texts])))


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    MADE.clear()


def texts(start: int, stop: int) -> list[str]:
    return [f"text {n}" for n in range(start, stop)]


def test_each_item_is_made_once_and_comes_in_the_order_asked_for(tmp_path: Path) -> None:
    names = texts(0, 20)[::-1]
    found = ask(EmbeddingCache(tmp_path, {"model": 1}, "c"), names)
    assert sorted(MADE) == sorted(names)
    assert right(found.vectors, names)
    assert found.new == 20
    assert found.vectors.dtype == np.float32


def test_a_second_call_makes_nothing(tmp_path: Path) -> None:
    ask(EmbeddingCache(tmp_path, {"model": 1}, "c"), texts(0, 10))
    MADE.clear()
    found = ask(EmbeddingCache(tmp_path, {"model": 1}, "c"), texts(0, 10)[::-1], size=4)
    assert MADE == []
    assert found.new == 0
    assert right(found.vectors, texts(0, 10)[::-1])


def test_tasks_share_what_they_have_in_common(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 10))
    MADE.clear()
    mixed = [*texts(5, 15), "another"]
    found = ask(store, mixed)
    assert sorted(MADE) == sorted([*texts(10, 15), "another"])
    assert found.new == 6
    assert right(found.vectors, mixed)


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    with pytest.raises(KeyboardInterrupt):
        ask(store, texts(0, 9), stop_at="text 4")
    assert texts(0, 3) == MADE
    assert not list(store.folder.rglob(".*")), "a file that is not whole was left"
    found = ask(EmbeddingCache(tmp_path, {"model": 1}, "c"), texts(0, 9))
    assert texts(0, 9) == MADE
    assert found.new == 6
    assert right(found.vectors, texts(0, 9))


def test_another_identity_is_another_folder_and_says_what_it_is(tmp_path: Path) -> None:
    one, two = (
        EmbeddingCache(tmp_path, {"weights": "a", "n": 1}, "c"),
        EmbeddingCache(tmp_path, {"weights": "b", "n": 1}, "c"),
    )
    same = EmbeddingCache(tmp_path, {"n": 1, "weights": "a"}, "c")
    assert one.folder == same.folder != two.folder
    assert json.loads((one.folder / "identity.json").read_text()) == {
        "weights": "a",
        "n": 1,
        "code": "c",
    }
    ask(one, texts(0, 3))
    MADE.clear()
    ask(two, texts(0, 3))
    assert texts(0, 3) == MADE


def test_kinds_of_items_are_kept_apart(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 3))
    MADE.clear()
    keys = [compute_text_key(text) for text in texts(0, 3)]
    store.compute_vectors(
        "images",
        keys,
        make,
        lambda todo: [[f"text {i}" for i in todo]],
        settings={},
        executor="inline",
        title="test",
    )
    assert texts(0, 3) == MADE


def test_vectors_are_a_memory_map_that_leaves_no_file_and_cannot_be_written(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    found = ask(store, texts(0, 6)).vectors
    assert isinstance(found, np.memmap)
    assert [path.suffix for path in (store.folder / "texts").iterdir()] == [".parquet"] * 2
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0
    assert right(ask(store, texts(0, 6)).vectors, texts(0, 6))


def test_a_volume_without_room_for_the_memory_map_is_an_error_and_ends_no_process(
    tmp_path: Path, mount: Callable[..., Path]
) -> None:
    place = mount(tmp_path / "store", 4)
    with pytest.raises(OSError, match="No space left"):
        _create_scratch_map((2**20, 2), np.dtype(np.float32), place)
    assert _create_scratch_map((2**10, 2), np.dtype(np.float32), place).shape == (1024, 2)
    assert list(place.iterdir()) == []


def test_scores_of_pairs_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    scores = np.array([[1 / 3], [np.nextafter(1 / 3, 1)], [np.nan]])
    keys = [compute_pair_key(b"i" * 16, text) for text in texts(0, 3)]
    found = EmbeddingCache(tmp_path, {}, "c").compute_vectors(
        "pairs",
        keys,
        lambda shard: build_vector_table(keys, scores),
        lambda todo: [todo],
        settings={},
        executor="inline",
        title="test",
    )
    assert found.vectors.dtype == np.float64
    assert np.array_equal(found.vectors, scores, equal_nan=True)


def test_keys_name_texts_and_pairs() -> None:
    assert compute_text_key("a") != compute_text_key("b")
    keys = {compute_pair_key(image, text) for image in (b"a" * 16, b"b" * 16) for text in ("c", "d")}
    assert len(keys) == 4
    assert {len(key) for key in [*keys, compute_text_key("e")]} == {16}


def test_edited_code_never_takes_what_other_code_made(tmp_path: Path) -> None:
    ask(EmbeddingCache(tmp_path, {"model": 1}, "c"), texts(0, 3))
    MADE.clear()
    assert ask(EmbeddingCache(tmp_path, {"model": 1}, "d"), texts(0, 3)).new == 3
    assert texts(0, 3) == MADE


def flipped(content: bytes) -> bytes:
    """Change one bit of the vectors, which no reader would notice."""
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [flipped, lambda content: content[:-30], lambda content: b"", lambda content: b"not a table"],
)
def test_a_broken_file_is_said_and_what_it_held_is_made_again(damage: Any, tmp_path: Path, capsys) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 6))
    path = sorted((store.folder / "texts").glob("*.parquet"))[0]
    path.write_bytes(damage(path.read_bytes()))
    MADE.clear()
    capsys.readouterr()
    assert right(ask(store, texts(0, 6)).vectors, texts(0, 6))
    assert len(MADE) == 3
    said = capsys.readouterr().err
    assert said.count("computed again") == 1
    assert str(path) in said


def test_a_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 6))
    next((store.folder / "texts").glob("*.parquet")).unlink()
    MADE.clear()
    assert right(ask(store, texts(0, 6)).vectors, texts(0, 6))
    assert len(MADE) == 3


def test_vectors_of_different_sizes_are_an_error(tmp_path: Path) -> None:
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 3))
    table = build_vector_table([compute_text_key("x")], np.zeros((1, WIDTH + 1), np.float32))
    save_hashed(store.folder / "texts" / "other.parquet", lambda path: pq.write_table(table, path))
    with pytest.raises(DataError, match=r"dimensions, other files of .*Remove the folder"):
        ask(store, [*texts(0, 3), "x"])


def test_items_that_stand_in_two_files_are_taken_once(tmp_path: Path) -> None:
    """Two runs at a time may each make the same item."""
    store = EmbeddingCache(tmp_path, {"model": 1}, "c")
    ask(store, texts(0, 3))
    other = store.folder / "texts" / "by_another_run.parquet"
    save_hashed(other, lambda path: pq.write_table(make(texts(2, 5)), path))
    found = ask(store, texts(0, 5))
    assert found.new == 0
    assert right(found.vectors, texts(0, 5))
