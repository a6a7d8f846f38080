"""Compute a method's loss for the trained model, and update the method's teacher and state."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.models.devices import use_precision
from caramel.models.lora import get_merged_state
from caramel.schemas.columns import SUBTYPES
from caramel.training.data.batch import Batch
from caramel.training.distributed import ALONE, DistContext
from caramel.training.loop.forward import compute_logit_params, encode_batch
from caramel.training.loop.grad_cache import compute_cached_loss, join_features
from caramel.training.weight_averaging import copy_frozen_model, update_ema_

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip

LOGIT_SCALE_MAX = 4.6052  # ln 100, as in CLIP
FIRST_SCALE, FIRST_BIAS = 10.0, -10.0  # initial values of a sigmoid loss (Zhai et al., ICCV 2023)


def add_logit_bias(clip: Clip) -> Clip:
    """Return the model with a bias of its logits; a new bias starts with the scale and bias of SigLIP."""
    import torch

    if clip.model.logit_bias is not None:
        return clip
    with torch.no_grad():
        clip.model.logit_scale.fill_(FIRST_SCALE).log_()
    clip.model.logit_bias = torch.nn.Parameter(torch.full_like(clip.model.logit_scale, FIRST_BIAS))
    model_cfg = {**clip.config["model_cfg"], "init_logit_bias": FIRST_BIAS}
    return replace(clip, config={**clip.config, "model_cfg": model_cfg})


class Objective:
    """The loss of a method for batches.

    Attributes:
        modules: modules that persist between steps, by name: the teacher and the method's state, if there are
            any.
    """

    def __init__(
        self,
        clip: Clip,
        method: Method,
        *,
        device: str = "cpu",
        precision: str = "fp32",
        rows: int | None = None,
        group: DistContext = ALONE,
    ) -> None:
        """Create the method's teacher and state.

        Args:
            clip: the model on its device, before its training.
            method: the method.
            device, precision: device and precision of the model; losses are in fp32.
            rows: number of rows that are encoded at a time; None: all. It does not change the loss or its
                gradient.
            group: the processes that share each batch; loss and gradient are those of the whole batch.
        """
        import torch

        self._clip, self._method, self._rows, self._group = clip, method, rows, group
        self._device, self._precision = device, precision
        self._after: torch.Tensor | None = None
        self.modules: dict[str, torch.nn.Module] = {}
        if method.teacher is not None:
            self.modules["teacher"] = copy_frozen_model(clip.model)
        if method.state is not None:
            self._state = method.state.start(len(SUBTYPES)).to(clip.model.logit_scale.device)
            self.modules["state"] = torch.nn.Module()
            self.modules["state"].register_buffer("value", self._state)

    def compute_loss(self, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch, a scalar.

        It has a graph if the batch is encoded whole in one process. Otherwise its gradient is already in the
        weights. In a group, ``batch`` has the rows of this process, and the loss is that of all rows.
        """
        parts = batch.split_rows(self._rows)
        if len(parts) == 1 and self._group.size == 1:
            return self._compute_method_loss(batch, self._encode_part(self._clip, batch))
        encoders = [partial(self._encode_part, self._clip, part) for part in parts]
        learnt = partial(compute_logit_params, self._clip, self._method)
        batch_loss = compute_cached_loss(
            encoders, learnt, partial(self._compute_method_loss, batch), self._device, self._group
        )
        weights = self._clip.model.parameters()
        self._group.all_reduce_gradients([weight.grad for weight in weights if weight.grad is not None])
        return batch_loss

    def _encode_part(self, clip: Clip, part: Batch) -> Features:
        # Each part has its own context: a context caches cast weights, with or without their gradient.
        with use_precision(self._device, self._precision):
            return encode_batch(clip, self._method, part)

    def _compute_method_loss(self, batch: Batch, encoded: Features) -> torch.Tensor:
        """Return the loss of the features, and remember the method's next state."""
        import torch

        if "teacher" in self.modules:
            teacher_clip = replace(self._clip, model=self.modules["teacher"])
            with torch.no_grad():
                local_features = join_features(
                    [self._encode_part(teacher_clip, part) for part in batch.split_rows(self._rows)]
                )
                teacher = self._group.gather_features(local_features)
            encoded = replace(encoded, teacher=teacher)
        if self._method.state is not None:
            encoded = replace(encoded, state=self._state)
            with torch.no_grad():
                self._after = self._method.state.after(encoded, self._method.weights)
        return self._method.loss(encoded, batch.step, **self._method.weights)

    def update_after_step(self) -> None:
        """Update the state and the teacher, and clamp the temperature to its bounds."""
        import torch

        with torch.no_grad():
            self._clip.model.logit_scale.clamp_(0, LOGIT_SCALE_MAX)
            if self._after is not None:
                self._state.copy_(self._after)
        if self._method.teacher is not None:
            update_ema_(self.modules["teacher"], get_merged_state(self._clip.model), self._method.teacher)
