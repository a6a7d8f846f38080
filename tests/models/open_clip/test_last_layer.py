"""The last layer at one place gives what the whole layer gives there, and the same gradient."""

import pytest
import torch
from open_clip.model import CustomTextCLIP
from open_clip.transformer import Transformer, VisionTransformer

from caramel.models.open_clip.last_layer import (
    compute_image_vectors,
    compute_pooled_output,
    compute_tower_vectors,
)


def transformer(layers: int, **how) -> Transformer:
    torch.manual_seed(layers)
    return Transformer(16, layers, 4, **how).double()


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_one_place_of_each_row_is_that_of_the_whole_and_so_is_its_gradient(layers, causal) -> None:
    model = transformer(layers, ls_init_value=0.5)
    x = torch.randn(5, 7, 16, dtype=torch.double, requires_grad=True)
    place = torch.tensor([0, 6, 3, 3, 1])
    mask = torch.full((7, 7), -torch.inf, dtype=torch.double).triu(1) if causal else None
    learnt = [x, *model.parameters()]
    whole = model(x, attn_mask=mask)[torch.arange(5), place]
    found = compute_pooled_output(model, x, place, mask)
    assert torch.allclose(found, whole, rtol=1e-10, atol=1e-12)
    wanted = torch.autograd.grad(whole.square().sum(), learnt)
    for gradient, expected in zip(torch.autograd.grad(found.square().sum(), learnt), wanted, strict=True):
        assert torch.allclose(gradient, expected, rtol=1e-8, atol=1e-10)


def test_layers_that_are_computed_again_for_their_gradient_stay_whole() -> None:
    model = transformer(2)
    model.grad_checkpointing = True
    x, place = torch.randn(3, 4, 16, dtype=torch.double, requires_grad=True), torch.tensor([1, 0, 3])
    assert torch.equal(compute_pooled_output(model, x, place, None), model(x)[torch.arange(3), place])


def tower(**how) -> VisionTransformer:
    torch.manual_seed(1)
    sizes = {"image_size": 8, "patch_size": 4, "width": 16, "layers": 2, "heads": 2, "mlp_ratio": 2.0}
    return VisionTransformer(**sizes, output_dim=6, **how).double().eval()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"pool_type": "avg"},
        {"final_ln_after_pool": True},
        {"attentional_pool": True, "attn_pooler_queries": 3, "attn_pooler_heads": 2},
    ],
    ids=str,
)
def test_a_tower_of_any_make_gives_its_own_vectors(how) -> None:
    model, pixels = tower(**how), torch.randn(3, 3, 8, 8, dtype=torch.double)
    assert torch.allclose(compute_tower_vectors(model, pixels), model(pixels), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("projected", [True, False])
def test_a_tower_without_its_projection_gives_features(projected) -> None:
    model, pixels = tower(), torch.randn(3, 3, 8, 8, dtype=torch.double)
    if not projected:
        model.proj = None
    assert compute_tower_vectors(model, pixels).shape == (3, 6 if projected else 16)
    assert torch.allclose(compute_tower_vectors(model, pixels), model(pixels), rtol=1e-10, atol=1e-12)


def test_vectors_of_images_are_those_of_the_model() -> None:
    torch.manual_seed(2)
    vision = {"image_size": 8, "patch_size": 4, "width": 64, "layers": 2}
    text = {"context_length": 5, "vocab_size": 9, "width": 16, "heads": 2, "layers": 1}
    model = CustomTextCLIP(6, vision, text).double().eval()
    pixels = torch.randn(3, 3, 8, 8, dtype=torch.double)
    expected = model.encode_image(pixels, normalize=True)
    assert torch.allclose(compute_image_vectors(model, pixels), expected, rtol=1e-10, atol=1e-12)
    vectors = torch.linalg.vector_norm(compute_image_vectors(model, pixels), dim=-1)
    assert torch.allclose(vectors, torch.ones(3, dtype=torch.double))
