"""Select a model's trainable weights (all, a tower, the last layers or low-rank updates), freeze the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caramel.errors import ConfigError
from caramel.interfaces.training_settings import TrainableConfig
from caramel.models.lora import add_lora

if TYPE_CHECKING:
    import torch

TEMPERATURE = ("logit_scale", "logit_bias")
BEHIND = ("ln_post.", "ln_final.", "proj", "text_projection")  # weights after the layers of a tower


def set_trainable_params(model: Any, config: TrainableConfig, *, seed: int) -> None:
    """Set ``requires_grad`` of the selected weights to true and of all others to false.

    The temperature is always trained, except with low-rank updates.

    Args:
        model: model of open_clip; changed in place.
        config: which weights are trained.
        seed: seed of the initial values of low-rank updates.

    Raises:
        ConfigError: the model has no weights of the selected sort.
    """
    trainable = config.trainable
    if trainable == "lora":
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        assert config.lora is not None
        add_lora(model, config.lora, seed=seed)
        return
    first = {
        tower: _count_layers(model, tower) - config.unlocked_layers
        for tower in ("visual", "text")
        if trainable == "last"
    }
    for name, parameter in model.named_parameters():
        tower, rest = _parse_tower(name)
        learns = trainable in ("all", "image" if tower == "visual" else "text")
        if trainable == "last":
            number = _parse_layer(rest)
            learns = rest.startswith(BEHIND) if number is None else number >= first[tower]
        parameter.requires_grad_(learns or name in TEMPERATURE)


def set_training_mode(model: torch.nn.Module) -> None:
    """Set the model to training mode, and modules whose weights are all frozen to evaluation mode.

    So the statistics of frozen modules do not change.
    """
    model.train()
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            module.eval()


def _parse_tower(name: str) -> tuple[str, str]:
    """Return the tower of a weight, visual or text, and the weight's name in it."""
    if name.startswith("visual."):
        return "visual", name.removeprefix("visual.")
    return "text", name.removeprefix("text.")


def _parse_layer(name: str) -> int | None:
    """Return the number of the layer of a tower's weight; None for weights before or after the layers."""
    parts = name.split(".")
    return int(parts[2]) if parts[:2] == ["transformer", "resblocks"] else None


def _count_layers(model: Any, tower: str) -> int:
    """Return the number of layers of a tower."""
    numbers = [
        _parse_layer(rest)
        for which, rest in map(_parse_tower, _list_parameter_names(model))
        if which == tower
    ]
    layer_numbers = [number for number in numbers if number is not None]
    if not layer_numbers:
        raise ConfigError(
            f"finetune.trainable = 'last' needs towers that are transformers of open_clip's own, and the "
            f"{tower} tower of this model is not. Set 'all', 'image', 'text' or 'lora'."
        )
    return max(layer_numbers) + 1


def _list_parameter_names(model: Any) -> list[str]:
    return [name for name, _ in model.named_parameters()]
