"""Blind scorer ``finetuned``: a transformer that is fine-tuned to tell which of two captions is true.

It is by far the slowest scorer. On one CPU core, an encoder of the size of MiniLM (22 million parameters)
takes a minute or more per fold, and several minutes with ``PAIRS`` pairs. ``caramel audit`` trains it on
folds within folds: 25 trainings with five folds. Its cost is bounded: ``PAIRS`` pairs per fold, ``EPOCHS``
epochs, ``LENGTH`` tokens per text. Finished folds are saved, so that an interrupted run resumes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from caramel.blind.cross_validation import Learn, LearnedScorer
from caramel.interfaces.model import Identity
from caramel.interfaces.scorer import ScorerSpec
from caramel.io.keys import compute_text_key
from caramel.models.devices import resolve_device
from caramel.models.embedding_cache import build_vector_table
from caramel.models.loading.files import TEXT, translate_load_errors
from caramel.models.transformers.transformers_dual import compute_distinct_rows, get_token_ids, pad_token_ids
from caramel.models.transformers.transformers_files import (
    build_identity,
    list_checkpoint_problems,
    load_pretrained,
    load_tokenizer,
)
from caramel.runtime.paths import SCORED
from caramel.runtime.ray.sharded_map import compute_fingerprint, map_shards
from caramel.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

PAIRS = 2000  # maximum number of training pairs per fold
EPOCHS = 2
BATCH = 16  # pairs per step
RATE = 5e-5  # learning rate of the encoder; decays linearly to 0 after a warmup of a tenth of the steps
HEAD_RATE = 1e-3  # learning rate of the new linear layer
DECAY = 0.01
LENGTH = 64  # maximum number of tokens of a text
Row = tuple[int, ...]


def build_learner(texts: Sequence[str], seed: int, *, target: str) -> Learn:
    """Return a ``Learn`` function that trains an encoder and a linear layer on the mean of its last hidden states.

    The model is P(the first text is true) = σ(f(t₁) − f(t₂)), trained on the pairs of the other folds. The
    order of the two texts does not matter. f orders the texts of a fold.

    Args:
        texts: the distinct texts.
        seed: random seed of the training.
        target: folder or OWNER/REPO of a transformers encoder.

    Raises:
        BackendError: the encoder is broken.
        ResourceError: it does not fit into memory.
    """
    identity = _compute_identity(target)

    def fit_predict(learned: Ints, scored: Ints) -> Floats:
        true, false, scored_texts = ([texts[i] for i in part] for part in (*learned, scored))
        (path,) = map_shards(
            tuned_table,
            [{"true": true, "false": false, "asked": scored_texts, "seed": seed}],
            settings={"target": target},
            folder=SCORED / compute_fingerprint(__name__, identity),
            executor="inline",
            title="finetuned",
        )
        values = pq.read_table(path)["vector"].combine_chunks().flatten()
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)

    return fit_predict


def load_finetuned_scorer(target: str) -> LearnedScorer:
    """Return the scorer that fine-tunes an encoder."""
    return LearnedScorer(partial(build_learner, target=target), PAIRS)


def _compute_identity(target: str) -> Identity:
    """Return the identity of the encoder that is fine-tuned."""
    device = resolve_device("auto")
    parts = [load_tokenizer(target)]
    return build_identity("finetuned", _load_encoder(target, "cpu"), parts, precision="fp32", device=device)


def tuned_table(shard: Mapping[str, Any], *, target: str) -> pa.Table:
    """Return the values of the texts ``asked`` under an encoder that is fine-tuned on ``true`` and ``false``.

    Args:
        shard: ``true`` and ``false``, n texts each; ``asked``, the texts to score; ``seed``.
        target: folder or OWNER/REPO of the encoder.
    """
    import torch

    device = resolve_device("auto")
    with torch.random.fork_rng():
        torch.manual_seed(shard["seed"])
        with translate_load_errors(target):
            model, tokenizer = _load_encoder(target, device), load_tokenizer(target)
            head = torch.nn.Linear(model.config.hidden_size, 1, bias=False).to(device)
            torch.nn.init.zeros_(head.weight)  # an untrained scorer is at chance
            judge = _TextScorer(model, head, tokenizer, device)
            judge.compute_values([TEXT])  # raises for files that load but do not fit together
        _train_scorer(judge, shard["true"], shard["false"])
    return build_vector_table(
        [compute_text_key(text) for text in shard["asked"]], judge.compute_values(shard["asked"])[:, None]
    )


@dataclass(frozen=True)
class _TextScorer:
    """The model that is fine-tuned."""

    model: Any
    head: torch.nn.Linear
    tokenizer: Any
    device: str

    def tokenize_texts(self, texts: Sequence[str]) -> list[Row]:
        return get_token_ids(self.tokenizer, texts, min(LENGTH, self.tokenizer.model_max_length))

    def pad_rows(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return pad_token_ids(rows, self.tokenizer.pad_token_id)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return f of each text, (n,)."""
        inputs = {k: v.to(self.device) for k, v in inputs.items()}
        mask = inputs["attention_mask"][:, :, None]
        hidden = self.model(**inputs).last_hidden_state * mask
        values: torch.Tensor = self.head(hidden.sum(1) / mask.sum(1).clamp(min=1))[:, 0]
        return values

    def compute_values(self, texts: Sequence[str]) -> Any:
        """Return f of each text, (n,), in evaluation mode."""
        import torch

        self.model.eval()
        with torch.inference_mode():
            return compute_distinct_rows(
                self.tokenize_texts(texts),
                self.pad_rows,
                self.forward,
                batch_size=None,
                device=self.device,
                name=str(self.tokenizer.name_or_path),
            )


def _train_scorer(judge: _TextScorer, true: Sequence[str], false: Sequence[str]) -> None:
    """Fine-tune the encoder and the layer on pairs, in an order drawn from torch's generator."""
    import torch

    pairs = list(zip(judge.tokenize_texts(true), judge.tokenize_texts(false), strict=True)) if true else []
    steps = math.ceil(len(pairs) / BATCH) * EPOCHS
    rates = zip((judge.model, judge.head), (RATE, HEAD_RATE), strict=True)
    optimizer = torch.optim.AdamW(
        [{"params": list(part.parameters()), "lr": rate} for part, rate in rates], weight_decay=DECAY
    )
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    judge.model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(pairs)).tolist()
        for start in range(0, len(order), BATCH):
            part = [pairs[i] for i in order[start : start + BATCH]]
            values = judge.forward(judge.pad_rows([*(t for t, _ in part), *(f for _, f in part)]))
            gap = values[: len(part)] - values[len(part) :]
            loss = torch.nn.functional.softplus(-gap).mean()  # of −log σ(gap)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(judge.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def _load_encoder(target: str, device: str) -> Any:
    """Return the encoder without a head."""
    from transformers import AutoModel

    return load_pretrained(AutoModel, target, device=device, unneeded=("pooler.",))


FINETUNED = ScorerSpec(
    "finetuned",
    "an encoder, fine-tuned on the pairs; slow",
    load=load_finetuned_scorer,
    missing=partial(list_checkpoint_problems, images=False),
    cure="Give the folder of a small transformers encoder, or OWNER/REPO on the hub.",
)
