import threading

import numpy as np
import pandas as pd
import pytest
import torch

from caramel.errors import BackendError, DataError
from caramel.models.clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.contrastive import ahead, batch_loss, draw_batch, fit, hits, load_examples, take


@pytest.fixture
def rows(world, files) -> pd.DataFrame:
    source, written = world
    negatives = written.negatives[written.negatives["subtype"] == "replace_obj"]
    joined = source.pairs.merge(negatives, on="pair_id").head(24)
    others = list(files)
    return joined.assign(negative_image_id=others[-24:])


def settings(tmp_path, **changes):
    return {
        "seed": 1,
        "steps": 12,
        "batch": 16,
        "lr": 0.003,
        "warmup": 2,
        "weight_decay": 0.1,
        "checkpoint_every": 6,
        "device": "cpu",
        "precision": "fp32",
        "scratch": tmp_path,
        "title": "test",
        **changes,
    }


@pytest.mark.parametrize("variant", METHODS)
def test_every_variant_learns_its_training_rows(variant, rows, files, clip_folder, tmp_path) -> None:
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS[variant])
    curve = fit(clip, examples, [examples], **settings(tmp_path, steps=40, checkpoint_every=20))
    losses = [value for _, name, value in curve if name == "loss"]
    assert losses[-1] < losses[0]
    measured = {name for _, name, _ in curve}
    assert ("accuracy" in measured) == (variant != "in_batch")
    assert ("group" in measured) == (variant == "negative_texts_images")


@pytest.mark.parametrize("column", METHODS["negative_texts_images"].negatives)
@pytest.mark.parametrize("lost", [1, 7, 24])
def test_a_row_without_its_negative_is_an_error_and_no_other_method(
    column, lost, rows, files, clip_folder
) -> None:
    clip = load_checkpoint(clip_folder)
    rows.loc[rows.index[-lost:], column] = None
    with pytest.raises(DataError, match=f"{lost} of 24 rows have no {column}") as stopped:
        load_examples(clip, rows, files, method=METHODS["negative_texts_images"])
    named = [line for line in str(stopped.value).splitlines() if line.startswith("  - '")]
    assert len(named) == min(lost, 5)
    assert repr(rows["caption"].iloc[-lost]) in named[0]
    assert len(load_examples(clip, rows, files, method=METHODS["in_batch"])) == 24


def test_an_image_that_is_not_there_is_named(rows, files, clip_folder) -> None:
    rows.loc[rows.index[3], "image_id"] = "elsewhere"
    with pytest.raises(DataError, match=r"(?s)1 of 24 rows name in image_id an image.*'elsewhere'"):
        load_examples(load_checkpoint(clip_folder), rows, files, method=METHODS["in_batch"])


def test_two_runs_of_one_seed_give_the_same_weights(rows, files, clip_folder, tmp_path) -> None:
    states = []
    for name in ("a", "b"):
        clip = load_checkpoint(clip_folder)
        examples = load_examples(clip, rows, files, method=METHODS["negative_texts"])
        fit(clip, examples, [], **settings(tmp_path / name))
        states.append(clip.model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_negative_images_make_a_batch_twice_as_wide(rows, files, clip_folder) -> None:
    clip = load_checkpoint(clip_folder)
    full = load_examples(clip, rows, files, method=METHODS["negative_texts_images"])
    chosen = np.arange(8)
    found = batch_loss(clip, full.method, take(clip, full, chosen, "cpu")).item()
    i0, i1 = (full.images[chosen], full.negative_images[chosen])
    doubled = type(full)(
        METHODS["in_batch"],
        np.concatenate([i0, i1]),
        torch.cat([full.texts[chosen], full.negative_texts[chosen]]),
    )
    again = batch_loss(clip, doubled.method, take(clip, doubled, np.arange(16), "cpu")).item()
    assert found == pytest.approx(again, abs=1e-5)


def test_validation_metrics_are_their_definitions(rows, files, clip_folder) -> None:
    from caramel.models.clip.encoder import ClipEncoder

    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["negative_texts_images"])
    found = hits(clip, examples, "cpu", "fp32")
    encoder = ClipEncoder(clip, "cpu", "fp32", "t")
    i0 = encoder.encode_images([files[name] for name in rows["image_id"]], 8)
    i1 = encoder.encode_images([files[name] for name in rows["negative_image_id"]], 8)
    c0, c1 = (encoder.encode_texts(rows[name].tolist(), 8) for name in ("caption", "negative_caption"))
    accuracy, group = [], []
    for a, b, c, d in zip(i0, i1, c0, c1, strict=True):
        accuracy.append(a @ c > a @ d)
        group.append(a @ c > a @ d and b @ d > b @ c and a @ c > b @ c and b @ d > a @ d)
    assert found["accuracy"] == pytest.approx(np.mean(accuracy))
    assert found["group"] == pytest.approx(np.mean(group))


def test_a_batch_is_drawn_from_seed_and_step_alone() -> None:
    assert draw_batch(1, 5, 100, 8).tolist() == draw_batch(1, 5, 100, 8).tolist()
    assert draw_batch(1, 5, 100, 8).tolist() != draw_batch(1, 6, 100, 8).tolist()
    assert len(set(draw_batch(1, 5, 100, 50).tolist())) == 50
    assert len(draw_batch(1, 5, 3, 50)) == 3


@pytest.mark.parametrize("asked", [range(6), [3, 4, 5], [2, 4, 2]])
def test_the_next_batch_is_made_in_a_thread_and_is_that_of_its_step(asked) -> None:
    threads, made = set(), []

    def make(step: int) -> int:
        threads.add(threading.current_thread())
        made.append(step)
        return 10 * step

    with ahead(make, 6) as batch_of:
        assert [batch_of(step) for step in asked] == [10 * step for step in asked]
    assert threading.current_thread() not in threads
    assert max(made) < 6
    assert len(made) == len({*made}) or asked == [2, 4, 2]


def test_an_error_of_a_batch_is_raised_where_it_is_asked_for() -> None:
    def make(step: int) -> int:
        if step == 1:
            raise DataError("no row")
        return step

    with ahead(make, 3) as batch_of:
        assert batch_of(0) == 0
        with pytest.raises(DataError, match="no row"):
            batch_of(1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error_that_names_the_devices(
    rows, files, clip_folder, tmp_path
) -> None:
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS["in_batch"])
    with pytest.raises(BackendError, match=r"'cuda' cannot be used: .*Say auto, cpu"):
        fit(clip, examples, [], **settings(tmp_path, device="cuda"))
