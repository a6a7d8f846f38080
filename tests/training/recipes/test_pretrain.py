"""A base in two steps: the image tower on scenes, then texts on its features, which stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from caramel.errors import ConfigError, DataError
from caramel.interfaces.training_settings import BaseConfig
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.examples import load_examples
from caramel.training.loop.contrastive import compute_validation_metrics
from caramel.training.recipes.pretrain import FIXED, join_negatives, pretrain_base, resolve_steps
from caramel.utils.typed_settings import build_settings

VISION = {"image_size": 48, "layers": 1, "width": 32, "head_width": 16, "patch_size": 12}
TEXT = {"context_length": 40, "width": 32, "heads": 2, "layers": 1}
SETTINGS: dict[str, Any] = {
    "seed": 6,
    "image_steps": 4,
    "steps": 6,
    "batch_size": 16,
    "block_size": 4,
    "lr": 1e-3,
    "warmup_steps": 2,
    "weight_decay": 0.1,
    "betas": (0.9, 0.98),
    "eps": 1e-6,
    "grad_clip_norm": 1.0,
    "checkpoint_every": 2,
    "device": "cpu",
    "precision": "fp32",
    "num_workers": 0,
    **FIXED,
}


def write_model(folder: Path, vision: dict[str, Any], text: dict[str, Any]) -> str:
    path = folder / "model.json"
    config = {
        "embed_dim": 16,
        "quick_gelu": False,
        "custom_text": True,
        "vision_cfg": vision,
        "text_cfg": text,
    }
    path.write_text(json.dumps(config))
    return str(path)


def pretrain(
    pairs: pd.DataFrame,
    files: dict[str, bytes],
    folder: Path,
    vision: dict[str, Any] = VISION,
    text: dict[str, Any] = TEXT,
    on_points: Any = None,
    **changed: Any,
) -> Any:
    model = write_model(folder, vision, text)
    settings = build_settings(BaseConfig, {**SETTINGS, "model": model, **changed})
    return pretrain_base(
        pairs,
        files,
        pairs["caption"],
        pretrained=None,
        settings=settings,
        scratch=folder / "scratch",
        out=folder / "base",
        on_points=on_points,
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(folder / "base").model.state_dict()


def test_texts_learn_from_an_image_tower_that_stays_as_scenes_made_it(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    pairs, found = drawn_world[0].pairs, {}
    for steps in (2, 6):
        folder = tmp_path / str(steps)
        folder.mkdir()
        curve = pretrain(pairs, files, folder, steps=steps)
        found[steps] = weights(folder)
    assert max(step for step, *_ in curve) == 10
    assert {name for step, name, _ in curve if step <= 4} == {"loss", "cells_right"}
    assert {name for step, name, _ in curve if step > 4} == {"loss", "retrieval"}
    changed = {name for name, value in found[2].items() if not torch.equal(value, found[6][name])}
    assert {name for name in changed if name.startswith("visual.")} == {"visual.proj"}
    assert "text.token_embedding.weight" in changed


def test_an_image_tower_learns_where_objects_are(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    changed = {
        "image_steps": 300,
        "steps": 1,
        "batch_size": 60,
        "checkpoint_every": 100,
        "lr": 3e-3,
        "warmup_steps": 50,
    }
    wide = {**VISION, "width": 64, "layers": 2}
    curve = pretrain(drawn_world[0].pairs, files, tmp_path, vision=wide, **changed)
    right = [value for _, name, value in curve if name == "cells_right"]
    assert right[-1] > 0.9


@pytest.mark.parametrize("stop", [2, 6])
def test_what_was_cut_off_in_either_step_goes_on_to_the_same_weights(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path, stop: int
) -> None:
    def cut_off(points: Any) -> None:
        if points[0][0] >= stop + 2:
            raise KeyboardInterrupt

    pairs = drawn_world[0].pairs
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    whole.mkdir()
    parted.mkdir()
    expected = pretrain(pairs, files, whole)
    with pytest.raises(KeyboardInterrupt):
        pretrain(pairs, files, parted, on_points=cut_off)
    assert pretrain(pairs, files, parted) == expected
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(parted)[name]), name


def test_without_steps_of_images_both_towers_learn_together(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    pairs = drawn_world[0].pairs.assign(scene=None)
    curve = pretrain(pairs, files, tmp_path, image_steps=0)
    assert {name for _, name, _ in curve} == {"loss", "retrieval"}


def test_a_base_learns_from_negative_captions_for_whole_epochs_with_open_clips_own_tokenizer(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    pairs = drawn_world[0].pairs
    first = pairs["pair_id"].iloc[0]  # without a negative: left out
    rows = [
        {"pair_id": name, "subtype": subtype, "negative_caption": f"{caption[:-1]} {word}."}
        for name, caption in zip(pairs["pair_id"], pairs["caption"], strict=True)
        for subtype, word in (("swap_obj", "left"), ("swap_att", "right"))
        if name != first
    ]
    joined = join_negatives(pairs, pd.DataFrame(rows))
    assert joined["negative_captions"].map(len).tolist() == [0] + [2] * (len(pairs) - 1)
    counted = {"steps": 1, "batch_size": 20, "warmup_steps": 2}
    steps = resolve_steps(joined, epochs=3, **counted)
    assert steps == 3 * (59 // 10), "a batch has 10 captions and their negatives"
    assert resolve_steps(pairs, epochs=3, **counted) == 3 * (60 // 20)
    assert resolve_steps(pairs, epochs=None, **counted) == 1
    text = {**TEXT, "vocab_size": 49408}
    changed = {"image_steps": 0, "batch_size": 20, "block_size": 1}
    curve = pretrain(joined, files, tmp_path, text=text, steps=steps, **changed)
    assert max(step for step, *_ in curve) == steps
    assert {name for _, name, _ in curve} == {"loss", "retrieval", "accuracy"}
    clip = load_checkpoint(tmp_path / "base")
    measured = joined[(joined["split"] == "val") & (joined["negative_captions"].map(len) > 0)]
    own = load_examples(clip, measured, files, method=METHODS["trohn_text"])  # each row's first negative
    found = compute_validation_metrics(clip, own, "cpu", "fp32")["accuracy"]
    assert found == pytest.approx(next(value for _, name, value in reversed(curve) if name == "accuracy"))
    assert clip.vocabulary is None
    assert clip.model.state_dict()["text.token_embedding.weight"].shape[0] == 49408


def test_a_warm_up_that_outlasts_the_epochs_is_refused(drawn_world: Any) -> None:
    with pytest.raises(ConfigError, match=r"pretrain.warmup_steps = 20: 1 epochs of 60 rows are 3 steps"):
        resolve_steps(drawn_world[0].pairs, steps=1, epochs=1, batch_size=20, warmup_steps=20)


def test_pairs_whose_scenes_are_not_known_are_named_with_the_cure(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    pairs = drawn_world[0].pairs.copy()
    pairs.loc[pairs.index[3], "scene"] = None
    with pytest.raises(
        DataError, match=r"1 of 60 training pairs have no scene(?s:.*)'train-000003'(?s:.*)image_steps: 0"
    ):
        pretrain(pairs, files, tmp_path)


def test_an_image_tower_of_another_make_is_refused_with_the_cure(
    drawn_world: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    resnet = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16}
    with pytest.raises(ConfigError, match=r"vision transformer of open_clip's own(?s:.*)image_steps: 0"):
        pretrain(drawn_world[0].pairs, files, tmp_path, vision=resnet)
