"""Batches are the same however many processes make them, and from which step on."""

from __future__ import annotations

import io
import os
import signal
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from caramel.errors import DataError, ResourceError
from caramel.training.data import loader
from caramel.training.data.loader import ImageDataset, Loader, draw_batch_rows

SIDE = 8


def jpeg(number: int) -> bytes:
    stream = io.BytesIO()
    colours = np.random.default_rng(number).integers(0, 256, (20, 16, 3), dtype=np.uint8)
    Image.fromarray(colours).save(stream, "JPEG", quality=90)
    return stream.getvalue()


IMAGES = {f"i{n}": jpeg(n) for n in range(12)}
NAMES = pd.Series([f"i{n % 12}" for n in range(30)])  # rows; some have one picture


def fitted(image: Image.Image) -> Image.Image:
    return image.resize((SIDE, SIDE))


def cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    left, top = rng.integers(0, 9, 2).tolist()
    return image.crop((left, top, left + SIDE, top + SIDE))


def pixels(monkeypatch: pytest.MonkeyPatch | None = None, **how: Any) -> ImageDataset:
    """Return the pictures of the rows; of a set that is too large to be held, where a patch can say so."""
    if monkeypatch:
        monkeypatch.setattr(loader, "HELD", 0)
    return ImageDataset(IMAGES, NAMES, fitted, (SIDE, SIDE), **how)


def test_an_epoch_takes_every_row_once_in_an_order_of_its_own() -> None:
    epochs = [np.concatenate([draw_batch_rows(1, 5 * e + s, 100, 20) for s in range(5)]) for e in range(3)]
    assert all(sorted(rows) == list(range(100)) for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 3
    assert tuple(draw_batch_rows(2, 0, 100, 20)) != tuple(epochs[0][:20])
    assert (epochs[1] == np.random.default_rng([1, 1]).permutation(100)).all()


def test_what_is_left_of_an_epoch_is_left_out_of_it_and_comes_in_others() -> None:
    counts: Counter[int] = Counter()
    for step in range(60):
        rows = draw_batch_rows(3, step, 7, 3)
        assert len(rows) == len({*rows.tolist()}) == 3
        counts.update(rows.tolist())
    assert counts.keys() == {*range(7)}
    assert max(counts.values()) <= 30  # as many as there are epochs


def test_where_there_are_fewer_rows_than_a_batch_it_has_all_of_them() -> None:
    assert {tuple(sorted(draw_batch_rows(1, step, 3, 50).tolist())) for step in range(4)} == {(0, 1, 2)}


def test_a_small_set_is_decoded_once_a_larger_one_when_it_is_asked_for(monkeypatch) -> None:
    opened: list[str] = []
    decode = loader.decode_training_image
    monkeypatch.setattr(
        loader, "decode_training_image", lambda data, name: opened.append(name) or decode(data, name)
    )
    rows = np.array([3, 15, 3, 29])
    held = pixels()
    assert (held.held, sorted(opened)) == (True, sorted(IMAGES))
    found = held[rows]
    opened.clear()
    read = pixels(monkeypatch)
    assert (read.held, opened) == (False, [])
    assert (read[rows] == found).all()
    assert sorted(opened) == ["i3", "i3", "i3", "i5"]
    expected = np.asarray(fitted(decode(IMAGES["i5"], "i5"))).transpose(2, 0, 1)
    assert (found[3] == expected).all()


def test_the_limit_is_that_of_all_different_pictures(monkeypatch) -> None:
    size = len(IMAGES) * 3 * SIDE * SIDE
    for limit, held in ((size, True), (size - 1, False)):
        monkeypatch.setattr(loader, "HELD", limit)
        assert pixels().held == held


def test_what_a_row_is_augmented_by_depends_on_seed_step_and_row_alone() -> None:
    augmented = pixels(augment=cropped)
    assert not augmented.held
    one = augmented.load_for_step(np.array([4, 9, 16]), 1, 5)
    assert (augmented.load_for_step(np.array([9, 16, 4]), 1, 5) == one[[1, 2, 0]]).all()
    for seed, step in ((1, 6), (2, 5)):
        assert (augmented.load_for_step(np.array([4, 9, 16]), seed, step) != one).any()
    rng = np.random.default_rng([1, 5, 9])
    expected = cropped(loader.decode_training_image(IMAGES["i9"], "i9"), rng)
    assert (one[1] == np.asarray(expected).transpose(2, 0, 1)).all()
    assert (augmented[np.array([9])][0] != one[1]).any()  # rows are measured as they are


@pytest.mark.parametrize("augment", [None, cropped])
def test_batches_are_equal_by_any_number_of_processes_and_from_any_step_on(augment, monkeypatch) -> None:
    pictures = pixels(monkeypatch, augment=augment)

    def make(step: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        rows = draw_batch_rows(7, step, len(pictures), 8)
        return os.getpid(), torch.from_numpy(rows), torch.from_numpy(pictures.load_for_step(rows, 7, step))

    def made(workers: int, start: int) -> list[Any]:
        with Loader(make, 10, workers) as load:
            return [load(step) for step in range(start, 10)]

    alone = made(0, 0)
    for workers, start in ((1, 0), (2, 0), (2, 4), (0, 4)):
        found = made(workers, start)
        processes = {process for process, *_ in found}
        assert (os.getpid() in processes) == (workers == 0)
        assert len(processes) == max(1, workers)
        for (_, *here), (_, *there) in zip(found, alone[start:], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_the_model_draws_is_not_touched(workers) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with Loader(lambda step: step, 4, workers) as load:
        assert [load(step) for step in range(4)] == [0, 1, 2, 3]
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_picture_that_does_not_decode_is_named_by_any_process(workers, monkeypatch) -> None:
    monkeypatch.setattr(loader, "HELD", 0)
    pictures = ImageDataset({**IMAGES, "i3": b"no picture"}, NAMES, fitted, (SIDE, SIDE))
    with Loader(lambda step: torch.from_numpy(pictures[np.array([step])]), 6, workers) as load:
        for step in range(3):
            load(step)
        with pytest.raises(DataError) as stopped:
            load(3)
    assert str(stopped.value).startswith("Image 'i3' does not decode (10 bytes)")


def test_a_process_that_dies_is_an_error_that_says_what_to_lower() -> None:
    def make(step: int) -> int:
        if step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return step

    with (
        Loader(make, 6, 1) as load,
        pytest.raises(ResourceError, match=r"died: .*Lower run.num_workers \(1\)"),
    ):
        [load(step) for step in range(6)]


def test_the_processes_end_with_the_block() -> None:
    with Loader(lambda step: os.getpid(), 100, 1) as load:
        process = load(0)
        os.kill(process, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
