"""Detectors of what is synthetic, one query at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from training_rows import training_rows

from caramel.evaluation.external.detector_files import IMAGE, TEXT
from caramel.evaluation.synthetic_probe import _compute_outcomes, evaluate_form, fit_head
from caramel.evaluation.synthetic_probe_data import (
    MARKED,
    MOST,
    PLANTED,
    ProbeData,
    plant_artifacts,
    select_learning_rows,
)
from caramel.models.open_clip import encoder
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS
from caramel.utils.resampling import Bootstrap


def test_a_head_tells_what_can_be_told_and_is_kept_by_val() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = 3 * torch.randn(400, 8, generator=generator)
    natural = np.flatnonzero((vectors[:, 0] < 0).numpy())[:150]
    synthetic = np.flatnonzero((vectors[:, 0] > 0).numpy())[:150]
    train, val = [natural[:100], synthetic[:100]], [natural[100:], synthetic[100:]]
    head = fit_head(vectors, train, val, steps=1000, seed=1)
    assert (head(vectors[val[0]]) < 0.5).mean() + (head(vectors[val[1]]) > 0.5).mean() > 1.7
    again = fit_head(vectors, train, val, steps=1000, seed=1)
    assert np.array_equal(head(vectors), again(vectors))
    # What says the opposite on val is best when it has learnt little.
    wrong = fit_head(vectors, train, val[::-1], steps=1000, seed=1)(vectors)
    assert np.abs(wrong - 0.5).max() < np.abs(head(vectors) - 0.5).max()


def test_a_query_is_answered_where_its_own_class_is_known() -> None:
    rng = np.random.default_rng(3)
    q = {name: tuple(rng.random((2, 40))) for name in (IMAGE, TEXT)}
    found = _compute_outcomes(q).hits
    for k in range(40):
        (i0, i1), (c0, c1) = ((q[name][0][k], q[name][1][k]) for name in (IMAGE, TEXT))
        i2t = i0 < 0.5 and c0 < c1 and i1 > 0.5
        t2i = c0 < 0.5 and i0 < i1 and c1 > 0.5
        row = found.loc[k]
        assert (row["accuracy"], row["i2t"], row["t2i"], row["group"]) == (c0 < c1, i2t, t2i, i2t and t2i)
        assert (row["image_natural"], row["text_synthetic"]) == (i0 < 0.5, c1 > 0.5)


def test_rows_are_learnt_that_have_the_image_of_their_negative() -> None:
    rows = {
        "pair_id": ["a", "b", "c"],
        "image_id": ["i", "j", "k"],
        "negative_captions": [["n", "m"], ["o"], []],
        "negative_image_ids": [["x", None], [None], []],
    }
    found = select_learning_rows(pd.DataFrame(rows), {"a": "other"})
    assert found[["image_id", "negative_caption", "negative_image_id"]].to_numpy().tolist() == [
        ["other", "n", "x"]
    ]


@pytest.mark.parametrize("told", [True, False])
def test_pictures_that_differ_by_what_they_are_are_told_by_a_frozen_encoder(
    told: bool,
    drawn_world: Any,
    world: Any,
    clip_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = drawn_world[1].files
    rows = select_learning_rows(training_rows(world, list(files), 40), None)
    rows = rows.assign(split=["train"] * 24 + ["val"] * 8 + ["test"] * 8)
    if told:  # one picture of all negatives, and one of all positives
        first, second = list(files)[:2]
        rows = rows.assign(image_id=first, negative_image_id=second)
    asked = rows[rows["split"] == "test"].assign(type="swap", subtype="swap_obj", compounds=None)
    form = ProbeData("instances", rows[rows["split"] != "test"], asked, files.__getitem__)
    how: dict[str, Any] = {
        "device": "cpu",
        "batch_size": 16,
        "bootstrap": Bootstrap(100, 0),
        "store": str(tmp_path),
    }
    found = evaluate_form(str(clip_folder), form, **how)
    check_table(METRICS, found, "test")
    value = found.set_index(["subset", "metric"])["value"]["all"]
    assert (value["image_detected"] == 1) == told
    assert (found["n"] <= 8).all()
    empty = ProbeData("instances", form.learning_rows.iloc[:0], asked, files.__getitem__)
    assert evaluate_form(str(clip_folder), empty, **how).empty
    monkeypatch.setattr(encoder, "decode_images", None)
    monkeypatch.setattr(encoder, "tokenize_texts", None)
    assert evaluate_form(str(clip_folder), form, **how).equals(found), "all vectors are in the store"


def test_a_shortcut_that_was_planted_is_found(
    drawn_world: Any, world: Any, clip_folder: Path, tmp_path: Path
) -> None:
    files = dict(drawn_world[1].files)
    rows = select_learning_rows(training_rows(world, list(files), 40), None)
    rows = rows.assign(split=["train"] * 24 + ["val"] * 8 + ["test"] * 8)
    asked = rows[rows["split"] == "test"].assign(type="swap", subtype="swap_obj", compounds=None)
    form = ProbeData("instances", rows[rows["split"] != "test"], asked, files.__getitem__)
    control = plant_artifacts(form, 0)
    assert control.load_image(asked["image_id"].iloc[0]) == files[asked["image_id"].iloc[0]]
    assert control.load_image(MARKED + asked["negative_image_id"].iloc[0]) not in files.values()
    odd = asked.assign(image_id=MARKED + asked["negative_image_id"])
    files |= {f"{MARKED}{name}": b"plain" for name in asked["negative_image_id"]}
    of_odd = plant_artifacts(ProbeData("instances", form.learning_rows, odd, files.__getitem__), 0)
    assert of_odd.load_image(odd["image_id"].iloc[0]) == b"plain", "not taken for a planted one by its name"
    twice = ProbeData("instances", pd.concat([form.learning_rows] * 2 * MOST), asked, form.load_image)
    assert plant_artifacts(twice, 0).learning_rows["split"].value_counts().to_dict() == {
        "train": MOST,
        "val": MOST,
    }
    how: dict[str, Any] = {
        "device": "cpu",
        "batch_size": 16,
        "bootstrap": Bootstrap(100, 0),
        "store": str(tmp_path),
    }
    found, plain = (evaluate_form(str(clip_folder), each, **how) for each in (control, form))
    assert set(found["benchmark"]) == {PLANTED}
    measured = ["accuracy", "group", "image_detected", "text_detected"]
    value, without = (of.set_index(["subset", "metric"])["value"]["all"][measured] for of in (found, plain))
    assert (value > without).all(), "of a small untrained encoder, by two dozen rows"
    assert value["image_detected"] >= without["image_detected"] + 0.25
