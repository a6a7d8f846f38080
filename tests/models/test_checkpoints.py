import json
import shutil

import numpy as np
import pytest

from caramel.errors import BackendError
from caramel.models.checkpoints import CONFIG, WEIGHTS, adopt_pretrained, load_checkpoint, load_encoder

TEXTS = ["A red car.", "There is a small blue house to the left of a green tree.", "A cup."]


@pytest.fixture
def copy(clip_folder, tmp_path):
    return shutil.copytree(clip_folder, tmp_path / "copy")


def encoder(folder):
    return load_encoder(folder, device="cpu", precision="fp32", name="tiny")


def test_a_saved_checkpoint_reloads_to_bit_identical_embeddings(clip_folder, copy, files) -> None:
    one, two = encoder(clip_folder), encoder(copy)
    images = files.tolist()[:5]
    assert np.array_equal(one.encode_images(images, 2), two.encode_images(images, 2))
    assert np.array_equal(one.encode_texts(TEXTS, 2), two.encode_texts(TEXTS, 2))


def test_open_clip_itself_reads_the_folder_and_agrees(clip_folder, files) -> None:
    import io

    import open_clip
    import torch
    from PIL import Image

    name = f"local-dir:{clip_folder}"
    model, _, preprocess = open_clip.create_model_and_transforms(name)
    pictures = [Image.open(io.BytesIO(data)) for data in files.tolist()[:4]]
    with torch.inference_mode():
        theirs = model.eval().encode_image(torch.stack([preprocess(p) for p in pictures]), normalize=True)
    ours = encoder(clip_folder).encode_images(files.tolist()[:4], 4)
    assert np.allclose(theirs.numpy(), ours, atol=1e-6)


def test_vectors_are_unit_vectors_in_the_order_asked_for(clip_folder) -> None:
    model = encoder(clip_folder)
    together, alone = model.encode_texts(TEXTS, 8), [model.encode_texts([t], 1)[0] for t in TEXTS]
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert np.allclose(together, np.stack(alone), atol=1e-6)


def test_cutting_shared_padding_is_exact_in_the_causal_text_tower(clip_folder) -> None:
    import torch

    from caramel.models.clip import encode_text

    clip = load_checkpoint(clip_folder)
    tokens = clip.tokenize(TEXTS)
    with torch.inference_mode():
        whole = clip.model.encode_text(tokens, normalize=True)
        cut = encode_text(clip, tokens)
    assert torch.allclose(whole, cut, atol=1e-6)
    assert clip.model.text.attn_mask.shape == (40, 40)  # put back as it was


def test_a_config_that_does_not_state_its_activation_is_refused(copy) -> None:
    config = json.loads((copy / CONFIG).read_text())
    del config["model_cfg"]["quick_gelu"]
    (copy / CONFIG).write_text(json.dumps(config))
    with pytest.raises(BackendError, match="quick_gelu"):
        load_checkpoint(copy)


def test_a_missing_folder_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(BackendError, match="is missing"):
        load_checkpoint(tmp_path)


def test_truncated_weights_are_a_clear_error(copy) -> None:
    (copy / WEIGHTS).write_bytes((copy / WEIGHTS).read_bytes()[:1000])
    with pytest.raises(BackendError, match="broken"):
        load_checkpoint(copy)


def test_a_broken_config_is_a_clear_error(copy) -> None:
    (copy / CONFIG).write_text("{")
    with pytest.raises(BackendError, match="broken"):
        load_checkpoint(copy)


def test_weights_that_do_not_fit_the_config_are_a_clear_error(copy) -> None:
    config = json.loads((copy / CONFIG).read_text())
    config["model_cfg"]["vision_cfg"]["layers"] = 2
    (copy / CONFIG).write_text(json.dumps(config))
    with pytest.raises(BackendError, match="disagree"):
        load_checkpoint(copy)


def test_an_adopted_folder_gives_the_same_embeddings(clip_folder, tmp_path) -> None:
    adopt_pretrained(pretrained=str(clip_folder), out=tmp_path / "adopted")
    ours, theirs = encoder(clip_folder), encoder(tmp_path / "adopted")
    assert np.array_equal(ours.encode_texts(TEXTS, 2), theirs.encode_texts(TEXTS, 2))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "needs pretrain.pretrained"),
        ("ViT-B-32:no-such-tag", "Tags of 'ViT-B-32'"),
        ("no-such-model:openai", "Unknown open_clip model"),
        ("ViT-B-32:openai", "ViT-B-32-quickgelu:openai"),
    ],
)
def test_a_wrong_name_tag_or_activation_is_a_clear_error(name, message, tmp_path) -> None:
    with pytest.raises(BackendError, match=message):
        adopt_pretrained(pretrained=name, out=tmp_path)
