"""Compute the gradient of a loss over a whole batch with the memory of a part of the batch.

This is GradCache (Gao et al., RepL4NLP 2021). A contrastive loss is not the mean of the losses of the batch's
parts, but it depends on the batch only through its vectors:

1. Encode all parts without gradient.
2. Compute the loss of all vectors, its gradient for the vectors, and once its gradient for the temperature.
3. Encode each part again, and propagate its vectors' gradient into the weights.

The gradient is exact if no layer mixes rows, and if a part is encoded the same way both times. Batch norm
mixes rows, so ``train_clip`` rejects it. Random states are restored for the second pass. The cost is one more
forward pass.
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
    """Return the detached loss of a batch that is encoded in parts; add its gradient to the weights.

    Args:
        parts: functions that each encode some rows, with gradient.
        temperature: returns ``logit_scale``, and ``logit_bias`` if the method has one, with gradient.
        loss: loss of all rows, in their order.
        device: device on which the rows are encoded.
        group: the processes that encode the rows, each its own share. A process with a single part does not
            encode it again.
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
    """Return the rows of all parts; fields in ``OF_ALL`` are those of the first part."""
    import torch

    names = [field.name for field in fields(Features) if field.name not in OF_ALL]
    values: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **values)


def _select_vectors(encoded: Features) -> dict[str, torch.Tensor]:
    """Return the features that have a row dimension and floating-point values."""
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
    """Use a random state inside the block; afterwards the state is the one from before the block."""
    import torch

    with torch.random.fork_rng([device] if device.startswith("cuda") else []):
        torch.set_rng_state(state[0])
        for of_device in state[1:]:
            torch.cuda.set_rng_state(of_device, device)
        yield
