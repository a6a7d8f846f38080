"""Train a transformer's upper layers and a linear layer to give the true text of a pair the higher value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from caramel.blind.text.upper_layers import Row, UpperLayers
from caramel.models.batching import run_in_batches_by_length
from caramel.models.devices import translate_memory_errors
from caramel.models.transformers.transformers_dual import get_token_ids
from caramel.runtime.progress_log import iter_with_progress

if TYPE_CHECKING:
    import torch

    from caramel.interfaces.model import Embeddings

BATCH = 16  # pairs per step
DECAY = 0.01  # weight decay
WINDOW = 16  # batches among which pairs are sorted by length
CHUNK = 8192  # texts whose states are kept at a time when texts are scored


class PairRanker:
    """A model that gives each text a value f: a linear layer on the mean of the last hidden states.

    Args:
        layers: the transformer; its weights that require a gradient are trained.
        tokenizer: the checkpoint's tokenizer.
        length: maximum number of tokens of a text.
        start: token that begins every text, in place of the tokenizer's special tokens; None: those.
    """

    def __init__(self, layers: UpperLayers, tokenizer: Any, *, length: int, start: int | None) -> None:
        import torch

        self._layers, self._tokenizer, self._length, self._start = layers, tokenizer, length, start
        model = layers.model
        self.head = torch.nn.Linear(model.config.hidden_size, 1, bias=False).to(model.device)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._initial = [weight.detach().clone() for weight in self.weights]
        self.reset_weights()

    @property
    def model(self) -> Any:
        """The transformer."""
        return self._layers.model

    def reset_weights(self) -> None:
        """Set the weights back to those of the checkpoint, and the linear layer to zero, which is at chance."""
        import torch

        with torch.no_grad():
            self.head.weight.zero_()
            for weight, initial in zip(self.weights, self._initial, strict=True):
                weight.copy_(initial)

    def tokenize_texts(self, texts: Sequence[str]) -> list[Row]:
        """Return the tokens of each text."""
        if not texts:
            return []
        if self._start is None:
            return get_token_ids(self._tokenizer, texts, self._length)
        cut = {"truncation": True, "max_length": self._length - 1, "add_special_tokens": False}
        return [(self._start, *row) for row in self._tokenizer(list(texts), **cut)["input_ids"]]

    def forward(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return f of each text, (n,). The states of the rows must be kept (``UpperLayers.keep_states``)."""
        states, mask = self._layers.forward(rows)
        counted = mask[:, :, None].to(states.dtype)
        values: torch.Tensor = self.head((states * counted).sum(1) / counted.sum(1).clamp(min=1))[:, 0]
        return values

    def keep_states(self, rows: Sequence[Row]) -> None:
        """Prepare ``forward`` for these rows."""
        self._layers.keep_states(rows)

    def set_training_mode(self) -> None:
        """Switch dropout on in the layers that are trained, and nowhere else."""
        self.model.eval()
        for layer in self._layers.trained:
            layer.train()

    def compute_values(self, texts: Sequence[str]) -> Embeddings:
        """Return f of each text, (n,), in evaluation mode. Equal texts have equal values to the last bit."""
        import torch

        self.model.eval()
        rows = self.tokenize_texts(texts)
        distinct = sorted(set(rows), key=lambda row: (len(row), row))
        values: dict[Row, float] = {}
        with torch.inference_mode():
            for start in range(0, len(distinct), CHUNK):
                part = distinct[start : start + CHUNK]
                self.keep_states(part)
                scored = run_in_batches_by_length(
                    part,
                    [*map(len, part)],
                    lambda batch: batch,
                    self.forward,
                    batch_size=None,
                    device=str(self.model.device),
                    name=str(self._tokenizer.name_or_path),
                )
                values |= zip(part, scored.tolist(), strict=True)
        return np.array([values[row] for row in rows], np.float32)


def train_ranker(
    ranker: PairRanker,
    true: Sequence[str],
    false: Sequence[str],
    *,
    rates: tuple[float, float],
    epochs: int,
    seed: int,
    title: str,
) -> None:
    """Train on pairs: AdamW with warmup over a tenth of the steps and linear decay to 0, gradients clipped to 1.

    Args:
        ranker: its weights are changed.
        true, false: the texts of n pairs; with none, nothing is trained.
        rates: peak learning rates of the transformer and of the linear layer.
        epochs: passes over the pairs.
        seed: random seed of order and dropout; torch's own generator is left as it was.
        title: what is trained, in lines of progress.
    """
    import torch

    pairs = list(zip(ranker.tokenize_texts(true), ranker.tokenize_texts(false), strict=True))
    ranker.keep_states([row for pair in pairs for row in pair])
    parameters = [ranker.weights, [ranker.head.weight]]
    optimizer = torch.optim.AdamW(
        [{"params": part, "lr": rate} for part, rate in zip(parameters, rates, strict=True)],
        weight_decay=DECAY,
        fused=True,  # a quarter of the time of the plain one on a CPU
    )
    steps = math.ceil(len(pairs) / BATCH) * epochs
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    ranker.set_training_mode()
    with (
        torch.random.fork_rng(),
        translate_memory_errors("A training step", str(ranker.model.device), "Use a smaller model."),
    ):
        torch.manual_seed(seed)
        batches = [batch for _ in range(epochs) for batch in draw_batches([*map(measure_pair, pairs)])]
        for batch in iter_with_progress(batches, title=title, unit="step"):
            rows = [pairs[i] for i in batch]
            values = ranker.forward([*(t for t, _ in rows), *(f for _, f in rows)])
            gap = values[: len(rows)] - values[len(rows) :]
            loss = torch.nn.functional.softplus(-gap).mean()  # of −log σ(gap)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(ranker.weights, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def measure_pair(pair: tuple[Row, Row]) -> int:
    """Return the number of tokens of a pair's longer text."""
    return max(map(len, pair))


def draw_batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indices of n items in random batches of similar length, which hold little padding.

    Items are shuffled, sorted by length within ``WINDOW`` batches, and the batches are shuffled. The order is
    drawn from torch's generator.
    """
    import torch

    order = torch.randperm(len(lengths)).tolist()
    windows = [order[start : start + WINDOW * BATCH] for start in range(0, len(order), WINDOW * BATCH)]
    ordered = [sorted(window, key=lengths.__getitem__) for window in windows]
    batches = [part[start : start + BATCH] for part in ordered for start in range(0, len(part), BATCH)]
    return [batches[i] for i in torch.randperm(len(batches)).tolist()]
