"""The gradient of a loss over a whole batch, with the memory of a part of it.

GradCache (Gao et al., RepL4NLP 2021). A contrastive loss is not the mean of those of the batch's parts, but it knows
the batch by its vectors alone:

1. all parts are encoded without gradient;
2. the loss of all vectors gives their gradient, and, once, that of the temperature;
3. each part is encoded again, and its vectors' gradient flows on into the weights.

It is exact where no layer mixes rows (batch norm does: ``train_clip`` refuses it) and a part is encoded the second
time as the first: what is random is replayed. The price is one more forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from caramel.interfaces.method import Features
from caramel.training.distributed import ALONE, OF_ALL, DistContext

if TYPE_CHECKING:
    import torch


def compute_cached_loss(
    parts: Sequence[Callable[[], Features]],
    temperature: Callable[[], Mapping[str, torch.Tensor]],
    loss: Callable[[Features], torch.Tensor],
    device: str,
    group: DistContext = ALONE,
) -> torch.Tensor:
    """Return the loss of a batch that is encoded in parts, without a graph: its gradient is added to the weights' already.

    Args:
        parts: each encodes some rows, with gradient.
        temperature: gives ``scale`` and ``bias``, where there is one, with gradient.
        loss: of all rows, in their order.
        device: on which they are encoded.
        group: the processes that encode the rows, each its own; a single part of one of them is not encoded again.
    """
    import torch

    states, encoded = [], []
    with torch.set_grad_enabled(len(parts) == 1):
        for part in parts:
            states.append(_get_random_state(device))
            encoded.append(part())
    whole = group.gather_features(join_features(encoded))
    leaves: dict[str, Any] = {
        name: value.detach().requires_grad_() for name, value in _select_vectors(whole).items()
    }
    learnt: dict[str, Any] = {name: group.divide_gradient(value) for name, value in temperature().items()}
    batch_loss = loss(replace(whole, **leaves, **learnt))
    batch_loss.backward()  # type: ignore[no-untyped-call]
    start = group.get_local_rows(len(whole.image_features)).start
    for part, state in zip(parts, states, strict=True):
        if len(parts) == 1:
            again = encoded[0]
        else:
            with _restore_random_state(state, device):
                again = part()
        end = start + len(again.image_features)
        value_gradients = [
            (value, gradient[start:end])
            for name, value in _select_vectors(again).items()
            if value.requires_grad and (gradient := leaves[name].grad) is not None
        ]
        if value_gradients:
            torch.autograd.backward(
                [value for value, _ in value_gradients], [gradient for _, gradient in value_gradients]
            )
        start = end
    return batch_loss.detach()


def join_features(parts: Sequence[Features]) -> Features:
    """Return the rows of all parts; what no row has of its own is that of the first."""
    import torch

    names = [field.name for field in fields(Features) if field.name not in OF_ALL]
    values: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **values)


def _select_vectors(encoded: Features) -> dict[str, torch.Tensor]:
    """Return what of an encoding has a gradient for each row."""
    tensors = {
        field.name: getattr(encoded, field.name) for field in fields(Features) if field.name not in OF_ALL
    }
    return {name: value for name, value in tensors.items() if value is not None and value.is_floating_point()}


def _get_random_state(device: str) -> list[torch.Tensor]:
    import torch

    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.startswith("cuda") else states


@contextmanager
def _restore_random_state(state: list[torch.Tensor], device: str) -> Iterator[None]:
    """Draw in the block as from a state on, and after it as if nothing had been drawn."""
    import torch

    with torch.random.fork_rng([device] if device.startswith("cuda") else []):
        torch.set_rng_state(state[0])
        for of_device in state[1:]:
            torch.cuda.set_rng_state(of_device, device)
        yield
