"""No picture of one split stands in another: not under another name, and no photograph encoded or scaled anew."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from stored_images import stored

from caramel.errors import GateError
from caramel.gates import near_duplicate_images as module
from caramel.gates.gates import add_image_checks
from caramel.gates.near_duplicate_images import (
    compute_perceptual_hash,
    find_near_duplicates,
    find_similar_hashes,
)
from caramel.gates.suites import validate_table

SUITE = Path(__file__).parents[2] / "expectations/equal_pictures.json"
Named = dict[str, tuple[str, bytes]]  # image_id -> its split, its encoded file


def photograph(number: int, side: int = 160) -> Image.Image:
    """Return noise with the spectrum of photographs."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None])
    frequency[0, 0] = 1.0
    white = np.fft.fft2(np.random.default_rng(number).standard_normal((3, side, side)))
    layers = np.fft.ifft2(white / frequency).real
    return Image.fromarray(
        np.clip(120 + 50 * layers / layers.std(), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    )


def file(picture: Image.Image, form: str = "PNG", **how: int) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **how)
    return stream.getvalue()


def looked_at(named: Named, folder: Path, source: str = "files") -> pd.DataFrame:
    """Return what is found of encoded files, as the gate on the benchmark does."""
    rows = []
    for name, (split, data) in named.items():
        width, height = Image.open(io.BytesIO(data)).size
        size = {"width": width, "height": height, "source": source, "split": split}
        rows.append({"image_id": name, "data": data, **size})
    pictures = stored(folder / "images.parquet", rows)
    images = pd.read_parquet(folder / "images.parquet")
    return find_near_duplicates(add_image_checks(images, pictures))


def refused(named: Named, folder: Path, source: str = "files") -> str:
    """Return what the suite says of files that it refuses."""
    with pytest.raises(GateError) as stopped:
        validate_table(looked_at(named, folder, source), SUITE, docs_folder=folder)
    return str(stopped.value)


def test_different_photographs_pass_and_what_stands_twice_in_one_split(tmp_path: Path) -> None:
    splits = ("train", "val", "test")
    named = {f"{n}.png": (splits[n % 3], file(photograph(n))) for n in range(30)}
    named["again.png"] = named["0.png"]
    named["small.jpg"] = ("train", file(photograph(0, 160).resize((90, 90)), "JPEG", quality=60))
    found = looked_at(named, tmp_path)
    assert found[["same_file_in", "same_picture_in"]].isna().all(axis=None)
    assert all(finding.success for finding in validate_table(found, SUITE, docs_folder=tmp_path).findings)


@pytest.mark.parametrize("source", ["files", "world"])
def test_a_photograph_in_train_and_test_under_two_names_is_found_by_its_bytes(
    source: str, tmp_path: Path
) -> None:
    named = {f"{n}.png": ("train", file(photograph(n))) for n in range(4)} | {
        "x.png": ("test", file(photograph(2)))
    }
    said = refused(named, tmp_path, source)
    assert "image_id='x.png', split='test', same_file_in='train: 2.png'" in said
    assert "image_id='2.png', split='train', same_file_in='test: x.png'" in said
    assert "expect_column_values_to_be_null on same_file_in: 2 of 5 rows fail" in said


def test_one_that_was_encoded_and_scaled_anew_is_found_by_what_it_shows(tmp_path: Path) -> None:
    anew = file(photograph(2).resize((100, 80), Image.Resampling.BICUBIC), "JPEG", quality=60)
    named = {f"{n}.png": ("train", file(photograph(n))) for n in range(4)} | {"x.jpg": ("test", anew)}
    said = refused(named, tmp_path)
    assert "image_id='x.jpg', split='test', same_picture_in='train: 2.png'" in said
    assert "image_id='2.png', split='train', same_picture_in='test: x.jpg'" in said
    assert "same_file_in" not in said
    assert looked_at(named, tmp_path, "world")["same_picture_in"].isna().all(), (
        "drawings are told by their bytes"
    )


def test_pictures_of_too_few_frequencies_are_no_equals_of_each_other(tmp_path: Path) -> None:
    """Even ones, almost even ones, gradients, and what is the same from all four sides."""
    slope = np.tile(np.arange(160, dtype=np.uint8), (160, 1))
    corner = np.asarray(photograph(1, 80).convert("L"))
    half = np.hstack([corner, corner[:, ::-1]])
    turned = np.vstack([half, half[::-1]])
    pictures = [Image.new("RGB", (40, 40), colour) for colour in ("white", "black", "white")]
    pictures[2].putpixel((3, 3), (250, 250, 250))
    pictures += [Image.fromarray(slope), Image.fromarray(slope[:, ::-1].copy()), Image.fromarray(turned)]
    assert list(map(compute_perceptual_hash, pictures)) == [None] * 6
    splits = ("train", "test", "val") * 2
    named = {f"{n}.png": (splits[n], file(picture)) for n, picture in enumerate(pictures)}
    assert looked_at(named, tmp_path)[["same_file_in", "same_picture_in"]].isna().all(axis=None)


def test_no_image_is_no_fault(tmp_path: Path) -> None:
    assert looked_at({}, tmp_path).empty
    assert validate_table(looked_at({}, tmp_path), SUITE, docs_folder=tmp_path).rows == 0


def test_the_hash_is_the_signs_of_the_lowest_cosines() -> None:
    """By the definition of DCT-II, one frequency at a time."""
    picture = photograph(5, 64)
    grey = np.asarray(picture.convert("L"), float).reshape(32, 2, 32, 2).mean((1, 3)).round()
    cosines = [[math.cos(math.pi * (2 * i + 1) * k / 64) for i in range(32)] for k in range(16)]
    signs = [
        sum(grey[y, x] * cosines[v][y] * cosines[u][x] for y in range(32) for x in range(32)) > 0
        for v in range(16)
        for u in range(16)
    ]
    hashed = compute_perceptual_hash(picture)
    assert hashed is not None
    known = np.unpackbits(np.frombuffer(hashed, np.uint8)).astype(bool)
    assert (known != signs).sum() <= 3  # halves are rounded either way


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_found_is_what_one_pair_at_a_time_finds(data: st.DataObject) -> None:
    """Hashes are few, and a few bits from each other; splits are any."""
    first = data.draw(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=3))
    flips = st.sets(st.integers(1, 255), max_size=2 * module.MAX_HAMMING_DISTANCE)
    hashes, splits = [], []
    for _ in range(data.draw(st.integers(0, 12))):
        value = int.from_bytes(data.draw(st.sampled_from(first)), "big") | 1 << 255
        for place in data.draw(flips):
            value ^= 1 << (255 - place)
        hashes.append(value)
        splits.append(data.draw(st.sampled_from(["train", "val", "test"])))
    array = np.frombuffer(b"".join(value.to_bytes(32, "big") for value in hashes), np.uint64).reshape(-1, 4)
    found = find_similar_hashes(array, np.array(splits, dtype=str))
    for mine, there in enumerate(found.tolist()):
        near = [
            other
            for other in range(len(hashes))
            if splits[other] != splits[mine]
            and (hashes[mine] ^ hashes[other]).bit_count() <= module.MAX_HAMMING_DISTANCE
        ]
        assert (there in near) if near else there == -1
