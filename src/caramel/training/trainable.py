"""What of a model is trained: all of it, a tower, the last layers, or corrections of low rank; the rest is frozen."""

from __future__ import annotations

import zlib
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from caramel.errors import ConfigError, format_items
from caramel.interfaces.training_settings import LoraConfig, TrainableConfig

if TYPE_CHECKING:
    import torch

TEMPERATURE = ("logit_scale", "logit_bias")
BEHIND = ("ln_post.", "ln_final.", "proj", "text_projection")  # the layers, in a tower of open_clip's


def set_trainable_params(model: Any, config: TrainableConfig, *, seed: int) -> None:
    """Leave what is to be trained with a gradient, and nothing else.

    Args:
        model: of open_clip; changed in place.
        config: what is to be trained.
        seed: of the first values of low-rank updates.

    Raises:
        ConfigError: there is nothing of that sort in the model.
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
    """Set the model to training, and parts of it that learn nothing to evaluation: their statistics stay as they are."""
    model.train()
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            module.eval()


def _parse_tower(name: str) -> tuple[str, str]:
    """Return the tower of a weight, visual or text, and its name there."""
    if name.startswith("visual."):
        return "visual", name.removeprefix("visual.")
    return "text", name.removeprefix("text.")


def _parse_layer(name: str) -> int | None:
    """Return the number of the layer that a tower's weight belongs to; None of what stands before or behind them."""
    parts = name.split(".")
    return int(parts[2]) if parts[:2] == ["transformer", "resblocks"] else None


def _count_layers(model: Any, tower: str) -> int:
    """Return how many layers a tower has."""
    numbers = [
        _parse_layer(rest)
        for which, rest in map(_parse_tower, _list_parameter_names(model))
        if which == tower
    ]
    layer_numbers = [number for number in numbers if number is not None]
    if not layer_numbers:
        raise ConfigError(
            f"finetune.trainable = 'last' needs towers that are transformers of open_clip's own, and the {tower} tower of this model "
            f"is none. Take 'all', 'image', 'text' or 'lora'."
        )
    return max(layer_numbers) + 1


def _list_parameter_names(model: Any) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def add_lora(model: Any, config: LoraConfig, *, seed: int) -> None:
    """Give each weight W that a target names a correction: W + (alpha / rank) B A, of which A and B alone are trained.

    LoRA (Hu et al., ICLR 2022): A is Kaiming-uniform and B zero, so that the model is at first what it was, bit for
    bit. The correction is a parametrisation of the weight itself: it reaches ``MultiheadAttention``, which never calls
    its projections, and ``merge`` leaves a plain model. Kernels of convolutions are taken as matrices (out, the rest).

    Args:
        model: changed in place.
        config: rank, alpha and targets.
        seed: of A, and of the weight's name.

    Raises:
        ConfigError: a target names no matrix of the model.
    """
    import torch
    from torch.nn.utils import parametrize

    matrices = [name for name, value in model.named_parameters() if value.ndim >= 2 and "." in name]
    rank, targets = config.rank, config.targets
    idle = [target for target in targets if not any(fnmatch(name, target) for name in matrices)]
    if idle:
        raise ConfigError(
            f"finetune.lora.targets: {len(idle)} of {len(targets)} name no weight of this model:\n"
            f"{format_items([repr(target) for target in idle])}\nIt has, among others:\n{format_items(matrices[:: max(1, len(matrices) // 5)])}"
        )
    for name in matrices:
        if any(fnmatch(name, target) for target in targets):
            path, _, last = name.rpartition(".")
            module = model.get_submodule(path)
            weight = getattr(module, last)
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
            correction = _build_lora_weight(weight, rank, config.alpha / rank, generator)
            parametrize.register_parametrization(module, last, correction)


def _build_lora_weight(
    weight: torch.Tensor, rank: int, scale: float, generator: torch.Generator
) -> torch.nn.Module:
    """Return the module that adds scale · B A to the weight."""
    import torch

    class LoRAWeight(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            rows, columns = weight.flatten(1).shape
            bound = columns**-0.5  # Kaiming-uniform with a = √5, as torch starts its own matrices
            first = (2 * torch.rand(rank, columns, generator=generator) - 1) * bound
            self.a = torch.nn.Parameter(first.to(weight))
            self.b = torch.nn.Parameter(weight.new_zeros(rows, rank))

        def forward(self, original: torch.Tensor) -> torch.Tensor:
            return original + scale * (self.b @ self.a).view_as(original)

    return LoRAWeight()


def merge_lora(model: torch.nn.Module) -> None:
    """Make the corrections part of the weights that they correct."""
    from torch.nn.utils import parametrize

    for module in [m for m in model.modules() if parametrize.is_parametrized(m)]:
        for name in list(module.parametrizations):  # type: ignore[arg-type]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def get_merged_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights by the names that they have without corrections, merged, and detached."""
    state = {}
    for name, value in model.state_dict().items():
        path, corrected, rest = name.partition("parametrizations.")
        weight, _, part = rest.rpartition(".")
        if not corrected:
            state[name] = value.detach()
        elif part == "original":
            state[path + weight] = getattr(model.get_submodule(path.rstrip(".")), weight).detach()
    return state
