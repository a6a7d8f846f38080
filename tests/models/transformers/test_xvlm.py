"""X-VLM's checkpoints, under the names of its authors, are scored as transformers' Swin and plain text layers do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_albef import (
    FILES,
    IMAGE_OF,
    TEXT_OF,
    WIDTH,
    State,
    build_text_shapes,
    draw_weights,
    name_layers,
    normalise,
    open_fresh,
    prepare_pixels,
    project,
    read,
    write_vocabulary,
)
from small_transformers import CAPTIONS, bert_tokenizer
from transformers import SwinConfig, SwinModel

from caramel.errors import BackendError
from caramel.models.transformers.text_normalization import clean_xvlm_caption

SIDE, VISION = 64, 64  # pixels; width of the image's tokens
PARTS = {  # transformers' name of a part of a block -> the authors'
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "attention.o_proj": "attn.proj",
    "attention.relative_position_bias.relative_position_bias_table": "attn.relative_position_bias_table",
}


@pytest.fixture(scope="module")
def swin() -> SwinModel:
    """A Swin of two stages with windows of 8 × 8 tokens, of which one is shifted, and weights that matter."""
    torch.manual_seed(0)
    config = SwinConfig(
        image_size=SIDE, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[1, 2], window_size=8,
        mlp_ratio=2.0, layer_norm_eps=1e-5,
    )  # fmt: skip
    model = SwinModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


def name_as_authors(swin: SwinModel) -> State:
    """Return a Swin's weights as models/swin_transformer.py of X-VLM names them, with its buffers."""
    state = dict(swin.state_dict())
    named: State = {}
    for name, value in state.items():
        new = name.replace("encoder.layers.", "vision_encoder.layers.")
        new = new.replace("embeddings.patch_embeddings.projection", "vision_encoder.patch_embed.proj")
        new = new.replace("embeddings.norm", "vision_encoder.patch_embed.norm")
        new = new.replace("layernorm.", "vision_encoder.norm.") if new.startswith("layernorm.") else new
        for theirs, authors in PARTS.items():
            new = new.replace(f".{theirs}", f".{authors}") if ".blocks." in new else new
        if ".attention.q_proj." in name:
            parts = [state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            named[new.replace("attention.q_proj", "attn.qkv")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            named[new] = value
    named["vision_encoder.layers.0.blocks.1.attn_mask"] = torch.zeros(4, 64, 64)
    return named


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, swin: SwinModel) -> Path:
    """Write a state dict as X-VLM's pre-training does, and the vocabulary as bert-base-uncased has it."""
    folder = tmp_path_factory.mktemp("xvlm")
    words = write_vocabulary(folder)
    head = {"itm_head.0": (2 * WIDTH, WIDTH), "itm_head.3": (2, 2 * WIDTH), "bbox_head.0": (8, WIDTH)}
    shapes = build_text_shapes(words, VISION) | name_layers(head, [])
    shapes |= {"itm_head.1.weight": (2 * WIDTH,), "itm_head.1.bias": (2 * WIDTH,)}
    torch.save({"model": draw_weights(shapes) | name_as_authors(swin)}, folder / "4m_base.pth")
    return folder


def compute_plainly(folder: Path, swin: SwinModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of a match and the cosines of all images and captions, a pair at a time."""
    state, tokenizer = torch.load(folder / "4m_base.pth", weights_only=True)["model"], bert_tokenizer()
    logits, cosines = [], []
    for i, t in zip(IMAGE_OF, TEXT_OF, strict=True):
        with torch.no_grad():
            places = swin(prepare_pixels(FILES[i], SIDE)).last_hidden_state[0]
        places = torch.cat([places.mean(0, keepdim=True), places])
        tokens = tokenizer(clean_xvlm_caption(CAPTIONS[t]))["input_ids"]
        hidden = F.gelu(normalise(state, project(state, read(state, tokens, places)[0], "itm_head.0"), "itm_head.1", 1e-5))  # fmt: skip
        match = project(state, hidden, "itm_head.3")
        logits.append(float(match[1] - match[0]))
        text = project(state, read(state, tokens, None)[0], "text_proj")
        cosines.append(float(F.cosine_similarity(project(state, places[0], "vision_proj"), text, dim=0)))
    return np.array(logits), np.array(cosines)


def test_scores_are_those_of_another_swin_and_plain_text_layers(folder: Path, swin: SwinModel) -> None:
    logits, cosines = compute_plainly(folder, swin)
    matched = open_fresh(f"itm:{folder}").match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, 4)
    np.testing.assert_allclose(matched, logits, atol=2e-4)
    encoder = open_fresh(f"itc:{folder}")
    images, texts = encoder.encode_images(FILES, None), encoder.encode_texts(CAPTIONS, None)
    np.testing.assert_allclose((images @ texts.T).reshape(-1), cosines, atol=2e-5)
    assert logits.std() > 0.02
    assert cosines.std() > 0.02


def test_another_size_of_images_and_missing_weights_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"fit images of 64 pixels\. Leave"):
        open_fresh(f"itc:{folder}?image_size=128")
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    state = torch.load(folder / "4m_base.pth", weights_only=True)["model"]
    for removed in ("itm_head.3.bias", "vision_encoder.layers.0.downsample.reduction.weight"):
        torch.save({name: value for name, value in state.items() if name != removed}, tmp_path / "x.pth")
        with pytest.raises(BackendError, match="Weights 1 missing"):
            open_fresh(f"itm:{tmp_path}")


def test_a_caption_is_prepared_as_in_its_training() -> None:
    assert (
        clean_xvlm_caption("A dog's red-and-white  ball, (on) <person>/cat?")
        == "a dogs red and white ball on person cat"
    )
