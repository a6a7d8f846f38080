"""Low-rank updates of weights (LoRA): add them to a model, and merge them into its weights."""

from __future__ import annotations

import zlib
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from caramel.errors import ConfigError, format_items
from caramel.interfaces.training_settings import LoraConfig

if TYPE_CHECKING:
    import torch


def add_lora(model: Any, config: LoraConfig, *, seed: int) -> None:
    """Replace each weight W that a target matches by W + (alpha / rank) B A, and train only A and B.

    This is LoRA (Hu et al., ICLR 2022). A is Kaiming-uniform and B is zero, so at first the model is
    unchanged, bit for bit. The update is a parametrisation of the weight itself. So it works in
    ``MultiheadAttention``, which never calls its projections, and ``merge_lora`` leaves a plain model. A
    convolution's kernel is treated as a matrix (out, all other dimensions).

    Args:
        model: changed in place.
        config: rank, alpha and targets.
        seed: seed of A, combined with the weight's name.

    Raises:
        ConfigError: a target matches no matrix of the model.
    """
    import torch
    from torch.nn.utils import parametrize

    matrices = [name for name, value in model.named_parameters() if value.ndim >= 2 and "." in name]
    rank, targets = config.rank, config.targets
    idle = [target for target in targets if not any(fnmatch(name, target) for name in matrices)]
    if idle:
        raise ConfigError(
            f"finetune.lora.targets: {len(idle)} of {len(targets)} match no weight of this model:\n"
            f"{format_items([repr(target) for target in idle])}\n"
            f"Weights of the model, for example:\n{format_items(matrices[:: max(1, len(matrices) // 5)])}"
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
    """Return a parametrisation that adds scale · B A to the weight."""
    import torch

    class LoRAWeight(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            rows, columns = weight.flatten(1).shape
            bound = columns**-0.5  # Kaiming-uniform with a = √5, as torch initialises matrices
            first = (2 * torch.rand(rank, columns, generator=generator) - 1) * bound
            self.a = torch.nn.Parameter(first.to(weight))
            self.b = torch.nn.Parameter(weight.new_zeros(rows, rank))

        def forward(self, original: torch.Tensor) -> torch.Tensor:
            return original + scale * (self.b @ self.a).view_as(original)

    return LoRAWeight()


def merge_lora(model: torch.nn.Module) -> None:
    """Merge the low-rank updates into their weights."""
    from torch.nn.utils import parametrize

    for module in [m for m in model.modules() if parametrize.is_parametrized(m)]:
        for name in list(module.parametrizations):  # type: ignore[arg-type]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def get_merged_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the merged and detached weights, by their names in the model without low-rank updates."""
    state = {}
    for name, value in model.state_dict().items():
        path, corrected, rest = name.partition("parametrizations.")
        weight, _, part = rest.rpartition(".")
        if not corrected:
            state[name] = value.detach()
        elif part == "original":
            state[path + weight] = getattr(model.get_submodule(path.rstrip(".")), weight).detach()
    return state
