"""A locked image tower encodes each picture once, which changes nothing in what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_rows import training_rows
from training_settings import train

from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.examples import load_examples
from caramel.training.data.loader import ImageFeatures
from caramel.training.loop import contrastive

HOW = {
    "seed": 1,
    "steps": 3,
    "batch_size": 8,
    "lr": 1e-3,
    "warmup_steps": 1,
    "weight_decay": 0.1,
    "checkpoint_every": 3,
}


@pytest.fixture
def rows(world, files):
    return training_rows(world, list(files), 12)


def learnt(clip_folder, rows, files, scratch, name: str):
    """Return the weights and the curve after a few steps of the text tower alone."""
    clip = load_checkpoint(clip_folder)
    examples = load_examples(clip, rows, files, method=METHODS[name])
    curve = train(clip, examples, [examples], trainable="text", scratch=scratch, **HOW)
    return clip.model.state_dict(), curve


@pytest.mark.parametrize("name", ["infonce", "trohn_img", "negative_images", "degla"])
def test_what_is_learnt_is_that_of_a_tower_that_is_asked_in_each_step(
    name, rows, files, clip_folder, tmp_path, monkeypatch
) -> None:
    before = load_checkpoint(clip_folder).model.state_dict()
    once, curve = learnt(clip_folder, rows, files, tmp_path / "once", name)
    monkeypatch.setattr(contrastive, "encode_locked", lambda clip, sets, *how: sets)
    each, expected = learnt(clip_folder, rows, files, tmp_path / "each", name)
    for weight, value in once.items():
        assert torch.allclose(value, each[weight], atol=1e-4), weight
    assert [point[:2] for point in curve] == [point[:2] for point in expected]
    assert not torch.equal(once["text.text_projection"], before["text.text_projection"])
    assert torch.equal(once["visual.proj"], before["visual.proj"])


def test_pictures_are_encoded_where_the_tower_is_locked_and_nothing_else_is_asked_of_it(
    rows, files, clip_folder
) -> None:
    clip = load_checkpoint(clip_folder)
    for locked, name, wanted in (
        (True, "trohn_img", True),
        (False, "trohn_img", False),
        (True, "fsc_clip", False),
        (True, "clic_joined", False),
        (True, "c2lip", False),
        (True, "cs_clip", True),
    ):
        clip.model.visual.requires_grad_(not locked)
        examples = load_examples(clip, rows, files, method=METHODS[name])
        (found,) = contrastive.encode_locked(clip, [examples], "cpu", "fp32")
        assert isinstance(found.images, ImageFeatures) == wanted
    examples = load_examples(clip, rows, files, method=METHODS["trohn_img"])
    clip.model.visual.requires_grad_(False)
    (found,) = contrastive.encode_locked(clip, [examples], "cpu", "fp32")
    twice = replace(found, images=found.images)
    assert contrastive.encode_locked(clip, [twice], "cpu", "fp32")[0].images is found.images
    vectors = found.negatives.images[np.array([3, 3, 0])]
    assert vectors.shape == (3, clip.config["model_cfg"]["embed_dim"])
    assert np.array_equal(vectors[0], vectors[1])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
