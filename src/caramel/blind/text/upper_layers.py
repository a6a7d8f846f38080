"""Run a transformer from a given layer on, with the output of the frozen layers below computed once per text.

If only the upper layers of a model are trained, the output of the lower ones is the same in every epoch and
for every fold. ``UpperLayers`` keeps it. A step then costs only the layers that are trained.

The model's own code builds masks and positions: a lower layer's ``forward`` is replaced, for the time of a
pass, by a function that returns the kept states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from caramel.models.devices import use_precision
from caramel.models.transformers.transformers_dual import pad_token_ids

if TYPE_CHECKING:
    import torch

MOST_TOKENS = 200_000  # tokens whose states are kept; 460 MB for 576 numbers each
BATCH = 64  # texts of one length per pass through the lower layers
Row = tuple[int, ...]


class UpperLayers:
    """A transformer without its head, of which the lower layers are frozen.

    Args:
        model: encoder or decoder of transformers on its device, in evaluation mode.
        count: number of layers that are trained. With as many as the model has, or in a model whose layers
            are not in one list (ALBERT), the whole model runs in each pass and no states are kept.
        pad: padding token.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16.
    """

    def __init__(self, model: Any, count: int, *, pad: int | None, device: str, precision: str) -> None:
        self.model, self._pad, self._device, self._precision = model, pad, device, precision
        self.name, layers = _find_layers(model)
        self._first = max(0, len(layers) - count)
        self._lower, self._upper = layers[: self._first], layers[self._first :]
        self._states: dict[Row, torch.Tensor] = {}
        self._further = self._count_further_outputs(layers[0]) if layers else None

    @property
    def trained(self) -> list[torch.nn.Module]:
        """The layers that are trained; the whole model, embeddings too, if no layers below them are frozen."""
        return self._upper if self._first else [self.model]

    def list_matrices(self) -> tuple[str, ...]:
        """Return the names of the weights of the trained layers that are matrices."""
        prefixes = tuple(f"{self.name}.{self._first + i}." for i in range(len(self._upper))) or ("",)
        named = self.model.named_parameters()
        return tuple(name for name, weight in named if weight.ndim == 2 and name.startswith(prefixes))

    def keep_states(self, rows: Sequence[Row]) -> None:
        """Compute and keep the output of the lower layers for texts; texts kept before are dropped if too many."""
        import torch

        if not self._first:
            return
        if sum(map(len, self._states)) > MOST_TOKENS:
            self._states.clear()
        of_length: dict[int, list[Row]] = {}
        for row in sorted({*rows} - self._states.keys()):
            of_length.setdefault(len(row), []).append(row)
        with torch.no_grad():
            for same in of_length.values():
                for start in range(0, len(same), BATCH):
                    part = same[start : start + BATCH]
                    self._states |= zip(part, self._run_lower(part), strict=True)

    def forward(self, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the last hidden states (n, longest, d), float32, and the attention mask (n, longest).

        Args:
            rows: tokens of n texts, at least one token each, whose states are kept (``keep_states``).
        """
        import torch

        inputs = self._pad_rows(rows)
        if not self._first:
            return self._run(inputs), inputs["attention_mask"]
        states = torch.nn.utils.rnn.pad_sequence([self._states[row] for row in rows], batch_first=True)
        with self._replace_forward(self._lower, lambda _: states):
            return self._run(inputs), inputs["attention_mask"]

    def _run_lower(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return the output of the lower layers for texts of one length, (n, length, d)."""
        outputs: list[torch.Tensor] = []

        def keep_input(states: torch.Tensor) -> torch.Tensor:
            outputs[:] = [states]
            return states

        self.model.eval()
        with self._replace_forward(self._upper, keep_input):
            self._run(self._pad_rows(rows))
        return outputs[0].float()

    @contextmanager
    def _replace_forward(
        self, layers: Sequence[Any], function: Callable[[torch.Tensor], torch.Tensor]
    ) -> Iterator[None]:
        """Let layers return a function of their input in place of their own output, inside the block."""

        def forward(hidden_states: torch.Tensor, *_: Any, **__: Any) -> Any:
            states = function(hidden_states)
            return states if self._further is None else (states, *[None] * self._further)

        for layer in layers:
            layer.forward = forward
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward

    def _count_further_outputs(self, layer: torch.nn.Module) -> int | None:
        """Return how many values a layer returns after its states; None if it returns the states alone."""
        import torch

        outputs: list[Any] = []
        hook = layer.register_forward_hook(lambda _, __, output: outputs.append(output))
        with torch.no_grad():
            self._run(self._pad_rows([(0,)]))
        hook.remove()
        return len(outputs[0]) - 1 if isinstance(outputs[0], tuple) else None

    def _run(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        further = {"use_cache": False} if getattr(self.model.config, "use_cache", False) else {}
        with use_precision(self._device, self._precision):
            states: torch.Tensor = self.model(**inputs, **further).last_hidden_state
        return states.float()

    def _pad_rows(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return {name: value.to(self._device) for name, value in pad_token_ids(rows, self._pad).items()}


def _find_layers(model: Any) -> tuple[str, list[Any]]:
    """Return the name and the layers of a model's list of layers; "" and no layers if it has no such list."""
    import torch

    number = getattr(model.config, "num_hidden_layers", None)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == number:
            return name, list(module)
    return "", []
