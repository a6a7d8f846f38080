"""A method's loss for a model that is trained, with what it carries from step to step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.models.devices import autocast
from caramel.schemas.columns import SUBTYPES
from caramel.training.data.batch import Batch
from caramel.training.distributed import ALONE, Group
from caramel.training.loop.forward import encode, temperature
from caramel.training.loop.grad_cache import cached_loss, joined
from caramel.training.trainable import plain_state
from caramel.training.weight_averaging import follow, frozen_copy

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.checkpoints import Clip

LOGIT_SCALE_MAX = 4.6052  # ln 100, as in CLIP
FIRST_SCALE, FIRST_BIAS = 10.0, -10.0  # of a sigmoid loss (Zhai et al., ICCV 2023)


def with_bias(clip: Clip) -> Clip:
    """Return the model with a bias of its logits; one that had none starts with the scale and bias of SigLIP."""
    import torch

    if clip.model.logit_bias is not None:
        return clip
    with torch.no_grad():
        clip.model.logit_scale.fill_(FIRST_SCALE).log_()
    clip.model.logit_bias = torch.nn.Parameter(torch.full_like(clip.model.logit_scale, FIRST_BIAS))
    model_cfg = {**clip.config["model_cfg"], "init_logit_bias": FIRST_BIAS}
    return replace(clip, config={**clip.config, "model_cfg": model_cfg})


class Objective:
    """The loss of a batch by a method.

    Attributes:
        modules: what is carried from step to step, by name: a teacher, and the method's state.
    """

    def __init__(
        self,
        clip: Clip,
        method: Method,
        *,
        device: str = "cpu",
        precision: str = "fp32",
        rows: int | None = None,
        group: Group = ALONE,
    ) -> None:
        """Start what the method carries.

        Args:
            clip: the model on its device, as it is before its training.
            method: whose loss it is.
            device, precision: of the model; losses are in fp32.
            rows: of a batch that are encoded at a time; None: all. The loss and its gradient are the same.
            group: the processes that share each batch; the loss and its gradient are those of all of it.
        """
        import torch

        self._clip, self._method, self._rows, self._group = clip, method, rows, group
        self._device, self._precision = device, precision
        self._after: torch.Tensor | None = None
        self.modules: dict[str, torch.nn.Module] = {}
        if method.teacher is not None:
            self.modules["teacher"] = frozen_copy(clip.model)
        if method.state is not None:
            self._state = method.state.start(len(SUBTYPES)).to(clip.model.logit_scale.device)
            self.modules["state"] = torch.nn.Module()
            self.modules["state"].register_buffer("value", self._state)

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch, a scalar: with its graph, or, of a batch in parts, with its gradient in the weights.

        Of a group, ``batch`` has the rows of this process, and the loss is that of all.
        """
        parts = self._parts(batch)
        if len(parts) == 1 and self._group.size == 1:
            return self._of(batch, self._encode(self._clip, batch))
        encoders = [partial(self._encode, self._clip, part) for part in parts]
        learnt = partial(temperature, self._clip, self._method)
        found = cached_loss(encoders, learnt, partial(self._of, batch), self._device, self._group)
        weights = self._clip.model.parameters()
        self._group.add_up([weight.grad for weight in weights if weight.grad is not None])
        return found

    def _parts(self, batch: Batch) -> list[Batch]:
        rows = self._rows or len(batch.texts)
        return [batch.part(slice(start, start + rows)) for start in range(0, len(batch.texts), rows)]

    def _encode(self, clip: Clip, part: Batch) -> Encoded:
        # Each in a context of its own: one keeps the weights that it has cast, with their gradient or without.
        with autocast(self._device, self._precision):
            return encode(clip, self._method, part)

    def _of(self, batch: Batch, encoded: Encoded) -> torch.Tensor:
        """Return the loss of what was encoded, and note the state after it."""
        import torch

        if "teacher" in self.modules:
            taught = replace(self._clip, model=self.modules["teacher"])
            with torch.no_grad():
                own = joined([self._encode(taught, part) for part in self._parts(batch)])
                teacher = self._group.gathered(own)
            encoded = replace(encoded, teacher=teacher)
        if self._method.state is not None:
            encoded = replace(encoded, state=self._state)
            with torch.no_grad():
                self._after = self._method.state.after(encoded, self._method.weights)
        return self._method.loss(encoded, batch.step, **self._method.weights)

    def after_step(self) -> None:
        """Bring what is carried to the next step, and keep the temperature within its bounds."""
        import torch

        with torch.no_grad():
            self._clip.model.logit_scale.clamp_(0, LOGIT_SCALE_MAX)
            if self._after is not None:
                self._state.copy_(self._after)
        if self._method.teacher is not None:
            follow(self.modules["teacher"], plain_state(self._clip.model), self._method.teacher)
