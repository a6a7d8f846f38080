"""Vectors before they are normalised, one item at a time."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from caramel.evaluation.scores.features import encode_projected
from caramel.models.open_clip.checkpoints import CONFIG, VOCABULARY, load_checkpoint, save_checkpoint
from caramel.models.open_clip.encoder import decode_images, normalise_pixels, tokenize_texts


def test_each_item_has_the_vector_that_the_model_gives_it_alone(
    files: Any, clip_folder: Path, tmp_path: Path
) -> None:
    clip, names, texts = load_checkpoint(clip_folder), list(files)[:5], ["a tree", "a car", "a red tree"]
    files = {**files, "again": files[names[0]]}
    names.append("again")
    how: dict[str, Any] = {"device": "cpu", "batch_size": 2, "store": str(tmp_path)}
    images = encode_projected(str(clip_folder), names, files.__getitem__, **how)
    words = encode_projected(str(clip_folder), texts, None, **how)
    with torch.no_grad():
        for name, vector in zip(names, images, strict=True):
            pixels = normalise_pixels(clip, torch.from_numpy(decode_images(clip, [files[name]])))
            assert np.allclose(clip.model.encode_image(pixels)[0], vector, atol=1e-5)
        for text, vector in zip(texts, words, strict=True):
            assert np.allclose(
                clip.model.encode_text(torch.from_numpy(tokenize_texts(clip, [text])))[0], vector, atol=1e-5
            )
    assert not np.allclose(np.linalg.norm(images, axis=1), 1, atol=1e-3)
    assert np.array_equal(encode_projected(str(clip_folder), texts[::-1], None, **how), words[::-1])


def test_a_vector_does_not_depend_on_what_is_encoded_with_it(
    files: Any, clip_folder: Path, tmp_path: Path
) -> None:
    names, texts = list(files)[:9], [f"a {word} tree on a red car" for word in ["big", "small", "old", "new"]]
    for items, load in ((names, files.__getitem__), (texts, None)):
        whole, part = (
            encode_projected(
                str(clip_folder), some, load, device="cpu", batch_size=4, store=str(tmp_path / str(len(some)))
            )
            for some in (items, items[1:3])
        )
        assert np.array_equal(whole[1:3], part)


def test_a_base_that_is_trained_anew_in_its_folder_gives_its_own_vectors(
    clip_folder: Path, tmp_path: Path
) -> None:
    base, texts = tmp_path / "base", ["a tree"]
    shutil.copytree(clip_folder, base)
    how: dict[str, Any] = {"device": "cpu", "batch_size": 2, "store": str(tmp_path / "store")}
    before = np.array(encode_projected(str(base), texts, None, **how))
    clip = load_checkpoint(base)
    with torch.no_grad():
        clip.model.text.text_projection.mul_(2)
    config, vocabulary = json.loads((base / CONFIG).read_text()), (base / VOCABULARY).read_bytes()
    save_checkpoint(base, clip.model, config=config, vocabulary=vocabulary, card={})
    assert np.allclose(encode_projected(str(base), texts, None, **how), 2 * before, atol=1e-5)
