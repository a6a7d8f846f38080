"""Patches and words beside a model's vectors, which stay those of open_clip."""

import pytest
import tiny_clips
import torch
from torch.nn.functional import normalize

from caramel.models.open_clip.patch_tokens import encode_image_patches, explain_missing_tokens
from caramel.models.open_clip.text_padding import compute_text_vectors, encode_text_words


@pytest.mark.parametrize("kind", ["clip", "custom", "custom blocks", "eos"])
def test_the_vectors_are_those_of_the_model_and_the_parts_lie_beside_them(kind: str) -> None:
    model = tiny_clips.build(kind).eval()
    assert explain_missing_tokens(model) == ""
    pixels = torch.rand(3, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    tokens = torch.zeros(3, 40, dtype=torch.long)
    for row, length in enumerate((4, 9, 6)):
        tokens[row, 0], tokens[row, 1:length] = 49406, torch.arange(5, 4 + length)
        tokens[row, length] = 3 if kind == "eos" else 49407
    with torch.no_grad():
        images, patches = encode_image_patches(model, pixels)
        texts, words, is_word = encode_text_words(model, tokens)
        assert torch.allclose(images, model.encode_image(pixels, normalize=True), atol=1e-6)
        assert torch.allclose(texts, compute_text_vectors(model, tokens), atol=1e-6)
        assert torch.equal(encode_text_words(model, tokens, 10)[1], words)
        x = model.visual.ln_post(model.visual.transformer(model.visual._embeds(pixels)))
        assert torch.allclose(patches, x[:, 1:] @ model.visual.proj)
    assert patches.shape == (3, 4, 32)
    assert words.shape == (3, 10, 32)
    assert is_word.sum(1).tolist() == [4, 9, 6]
    assert not is_word[:, 0].any()
    ends = normalize(words[torch.arange(3), torch.tensor([4, 9, 6])], dim=1)
    assert torch.allclose(ends, texts, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("resnet", "image tower (ModifiedResNet)"),
        ("siglip", "image tower (TimmModel)"),
        ("coca", "image tower (VisionTransformer)"),
        ("both ways", "text tower does not pool"),
    ],
)
def test_of_other_towers_it_is_said_why_there_are_none(kind: str, why: str) -> None:
    assert why in explain_missing_tokens(tiny_clips.build(kind))
