"""A folder of open_clip is loaded where its config says at which of its tokens a text is pooled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_clips import CONFIGS, build_config

from caramel.errors import BackendError
from caramel.models.open_clip.checkpoints import save_checkpoint
from caramel.models.open_clip.loader import list_open_clip_problems, load_open_clip

NEW = {"additional_special_tokens": ["<new>"]}  # number 49408, above the end token 49407
CAPTIONS = ["a <new> on a red table", "a <new> under a blue chair", "a <new>", "a dog"]


def folder_of(folder: Path, **text: Any) -> Path:
    """Write a small CLIP whose config of texts has these settings."""
    whole = {**CONFIGS["clip"], "text_cfg": {**CONFIGS["clip"]["text_cfg"], "vocab_size": 49409, **text}}
    model = build_config(whole)
    return save_checkpoint(folder, model, config={"model_cfg": whole}, vocabulary=None, card={})


def load(folder: Path) -> Any:
    return load_open_clip(str(folder), device="cpu", precision="fp32", name="it")


def test_added_tokens_above_the_end_token_are_refused_with_what_to_state(tmp_path: Path) -> None:
    with pytest.raises(
        BackendError, match=r'no \'pool_type\'.*up to 49408.*"pool_type": "eos".*"pool_type": "argmax"'
    ):
        load(folder_of(tmp_path / "clip", tokenizer_kwargs=NEW))
    (said,) = list_open_clip_problems(str(tmp_path / "clip"))
    assert "has no 'pool_type'" in said


def test_texts_with_added_tokens_are_pooled_at_the_end_token_that_is_stated(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "clip", tokenizer_kwargs=NEW, pool_type="eos", eos_id=49407)
    assert list_open_clip_problems(str(folder)) == []
    vectors = load(folder).encode_texts(CAPTIONS, None)
    assert len(np.unique(vectors.round(3), axis=0)) == len(CAPTIONS)


def test_pooling_at_the_highest_token_is_open_clips_own_where_it_is_stated(tmp_path: Path) -> None:
    encoder = load(folder_of(tmp_path / "clip", tokenizer_kwargs=NEW, pool_type="argmax"))
    clip = encoder._clip
    with torch.inference_mode():
        expected = clip.model.encode_text(clip.tokenize(CAPTIONS), normalize=True).numpy()
    np.testing.assert_allclose(encoder.encode_texts(CAPTIONS, None), expected, atol=1e-6)


def test_an_end_token_that_no_text_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BackendError, match=r"pools a text at the token 2, but the tokenizer ends no text with it.*'eos_id'"
    ):
        load(folder_of(tmp_path / "clip", pool_type="eos"))
    assert "pools a text at the token 2" in list_open_clip_problems(str(tmp_path / "clip"))[0]


@pytest.mark.parametrize("mask", ["simple", "random", "shuffle"])
def test_a_tokenizer_that_draws_by_lot_is_refused(mask: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=rf"reduction_mask '{mask}'.*random sample .*\. Remove it"):
        load(folder_of(tmp_path / "clip", tokenizer_kwargs={"reduction_mask": mask}))


@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_texts_are_cleaned_as_the_config_says(clean: str, tmp_path: Path) -> None:
    from open_clip.tokenizer import SimpleTokenizer

    folder = folder_of(tmp_path / "clip", tokenizer_kwargs={"clean": clean}, vocab_size=49408)
    texts = ["A “RED” cup_of tea!", "a  dog’s bowl"]
    expected = SimpleTokenizer(context_length=40, clean=clean)(texts)
    assert load(folder)._clip.tokenize(texts).tolist() == expected.tolist()
