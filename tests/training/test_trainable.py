"""What is trained changes, and nothing else does; corrections of low rank are at last part of a plain checkpoint."""

import copy
from dataclasses import replace

import pytest
import tiny_clips
import torch

from caramel.errors import ConfigError
from caramel.interfaces.training_settings import LoraConfig, TrainableConfig
from caramel.models.lora import add_lora, get_merged_state, merge_lora
from caramel.training.trainable import set_trainable_params, set_training_mode

LORA = LoraConfig(2, 4.0, ("*.attn.in_proj_weight", "*.attn.out_proj.weight", "*.mlp.*.weight"))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.zeros(3, 40, dtype=torch.long)
    tokens[:, :5] = torch.tensor([49406, 7, 8, 9, 49407])
    return torch.rand(3, 3, 48, 48, generator=generator), tokens


def vectors(model) -> torch.Tensor:
    pixels, tokens = inputs()
    return torch.cat([model.encode_image(pixels, normalize=True), model.encode_text(tokens, normalize=True)])


def stepped(model, rate: float = 0.1) -> None:
    """Learn one step of something, large enough to change every weight that may change."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate)
    found = vectors(model)
    (model.logit_scale.exp() * found[:3] @ found[3:].T).square().sum().backward()
    optimizer.step()


def learning(kind: str, trained: str, layers: int = 1) -> set[str]:
    model = tiny_clips.build(kind)
    set_trainable_params(model, TrainableConfig(trained, layers, LORA), seed=1)
    return {name for name, value in model.named_parameters() if value.requires_grad}


@pytest.mark.parametrize("kind", ["clip", "custom", "siglip"])
def test_a_tower_is_trained_with_the_temperature_alone(kind: str) -> None:
    everything = {name for name, _ in tiny_clips.build(kind).named_parameters()}
    temperature = everything & {"logit_scale", "logit_bias"}
    image, text = learning(kind, "image"), learning(kind, "text")
    assert learning(kind, "all") == everything == image | text
    assert image & text == temperature
    assert {name for name in everything if name.startswith("visual.")} == image - temperature


@pytest.mark.parametrize(("kind", "text"), [("clip", ""), ("custom", "text.")])
def test_the_last_layers_are_trained_with_what_stands_behind_them(kind: str, text: str) -> None:
    found = learning(kind, "last", 1)
    assert {f"{text}text_projection", f"{text}ln_final.weight", "visual.proj", "visual.ln_post.bias"} <= found
    blocks = {
        name.split("resblocks.")[0] + name.split("resblocks.")[1][0] for name in found if "resblocks" in name
    }
    assert blocks == {"visual.transformer.0", f"{text}transformer.1"}  # towers of one layer, and of two
    assert not {name for name in found if "embedding" in name or "conv1" in name or "ln_pre" in name}
    assert {n.split(".")[-4] for n in learning(kind, "last", 2) if n.endswith("c_fc.bias")} >= {"0", "1"}


@pytest.mark.parametrize("kind", ["resnet", "siglip"])
def test_towers_without_such_layers_have_no_last_ones(kind: str) -> None:
    with pytest.raises(
        ConfigError, match="'last' needs towers that are transformers of open_clip's own, and the visual"
    ):
        learning(kind, "last")


def test_what_is_frozen_keeps_its_statistics() -> None:
    model = tiny_clips.build("resnet")
    set_trainable_params(model, TrainableConfig("text", 1, LORA), seed=1)
    set_training_mode(model)
    assert not model.visual.training
    assert not any(module.training for module in model.visual.modules())
    assert model.transformer.training
    set_trainable_params(model, TrainableConfig("image", 1, LORA), seed=1)
    set_training_mode(model)
    assert model.visual.bn1.training


@pytest.mark.parametrize("kind", ["clip", "custom", "custom blocks", "siglip"])
def test_corrections_change_nothing_at_first_and_are_plain_weights_at_last(kind: str) -> None:
    model = tiny_clips.build(kind).eval()
    names = {name for name, _ in model.named_parameters()}
    before, weights = vectors(model), {name: value.clone() for name, value in model.state_dict().items()}
    lora = (
        replace(LORA, targets=("*.mlp.*.weight",))
        if kind == "siglip"
        else replace(LORA, targets=(*LORA.targets, "visual.conv1.weight"))
    )
    set_trainable_params(model, TrainableConfig("lora", 1, lora), seed=1)
    # The weights are the same bit for bit; sums over them may be taken in another order where a gradient flows elsewhere.
    assert torch.allclose(vectors(model), before, atol=1e-6)
    assert kind == "siglip" or torch.equal(vectors(model), before)
    plain = get_merged_state(model)
    assert all(torch.equal(plain[name], value) for name, value in weights.items())
    stepped(model)
    stepped(model)
    after = vectors(model).detach()
    assert not torch.allclose(after, before, atol=1e-4)
    plain = {name: value.clone() for name, value in get_merged_state(model).items()}
    merge_lora(model)
    assert {name for name, _ in model.named_parameters()} == names
    assert set(model.state_dict()) == set(weights) == set(plain)
    assert torch.allclose(vectors(model), after, atol=1e-6)
    fresh = tiny_clips.build(kind).eval()
    fresh.load_state_dict(model.state_dict())
    assert torch.allclose(vectors(fresh), after, atol=1e-6)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, weights[name])}
    assert changed
    assert all("mlp" in name or "attn" in name or "conv1" in name for name in changed)
    assert all(torch.equal(plain[name], value) for name, value in model.state_dict().items())


def test_a_correction_is_alpha_by_rank_times_a_matrix_of_that_rank() -> None:
    model = tiny_clips.build("clip")
    before = model.transformer.resblocks[0].mlp.c_fc.weight.detach().clone()
    add_lora(model, LoraConfig(2, 6.0, ("transformer.*.mlp.c_fc.weight",)), seed=1)
    correction = model.transformer.resblocks[0].mlp.c_fc.parametrizations.weight[0]
    assert correction.a.shape == (2, 32)
    assert correction.b.shape == (128, 2)
    assert float(correction.a.detach().abs().max()) <= 32**-0.5
    with torch.no_grad():
        correction.b.normal_()
        expected = before + 3 * correction.b @ correction.a
        assert torch.allclose(model.transformer.resblocks[0].mlp.c_fc.weight, expected, atol=1e-6)
    other = tiny_clips.build("clip")
    add_lora(other, LoraConfig(2, 6.0, ("transformer.*.mlp.c_fc.weight",)), seed=1)
    assert torch.equal(other.transformer.resblocks[0].mlp.c_fc.parametrizations.weight[0].a, correction.a)


def test_a_target_that_names_nothing_is_named_with_what_there_is() -> None:
    with pytest.raises(
        ConfigError,
        match=r"(?s)1 of 2 match no weight.*'\*.attention.\*'.*Weights of the model, for example:.*visual",
    ):
        add_lora(
            copy.deepcopy(tiny_clips.build("clip")),
            LoraConfig(2, 2.0, ("*.mlp.*", "*.attention.*")),
            seed=1,
        )
