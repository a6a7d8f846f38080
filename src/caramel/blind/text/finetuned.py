"""Blind scorers ``finetuned`` and ``finetuned_causal_lm``: transformers trained to tell which caption is true.

    finetuned            an encoder; the weights of its upper layers are trained
    finetuned_causal_lm  a causal language model; low-rank updates (LoRA) of its upper layers are trained, as
                         in the test-set stress test (Brown et al. 2025, arXiv 2511.04655): a language model
                         is fine-tuned on the texts of the other folds and answers for the held-out fold,
                         without the images

Both read one caption at a time. A new linear layer on the mean of a text's last hidden states gives its value
f, and P(the first text is true) = σ(f(t₁) − f(t₂)). The order of the two texts therefore does not matter.
The paper's model reads a question with its options and writes the answer.

The cost is bounded: ``PAIRS`` pairs per fold, ``Recipe.epochs`` epochs, ``LENGTH`` tokens per text, and only
the upper layers in each step (``upper_layers``). ``caramel audit`` trains on folds within folds: 25 trainings
per type with five folds. Finished folds are saved, so that an interrupted run resumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from caramel.blind.cross_validation import Learn, LearnedScorer
from caramel.blind.text.pair_ranker import PairRanker, train_ranker
from caramel.blind.text.upper_layers import UpperLayers
from caramel.errors import BackendError
from caramel.interfaces.model import Identity
from caramel.interfaces.scorer import ScorerSpec
from caramel.interfaces.training_settings import LoraConfig
from caramel.io.keys import compute_text_key
from caramel.models.devices import resolve_compute
from caramel.models.embedding_cache import build_vector_table
from caramel.models.loading.files import TEXT, translate_load_errors
from caramel.models.lora import add_lora
from caramel.models.transformers.transformers_files import (
    build_identity,
    list_checkpoint_problems,
    load_pretrained,
    load_tokenizer,
    read_config,
)
from caramel.runtime.last_result import keep_last, stamp_files
from caramel.runtime.paths import SCORED
from caramel.runtime.ray.sharded_map import compute_fingerprint, map_shards
from caramel.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

PAIRS = 2000  # maximum number of training pairs per fold
CAUSAL = ("ForCausalLM", "LMHeadModel")  # endings of the names of classes that predict the next token
LENGTH = 64  # maximum number of tokens of a text


@dataclass(frozen=True)
class Recipe:
    """How a type of model is fine-tuned.

    The rates of ``finetuned`` were chosen on 700 rows of SugarCrepe (`bench/learned_scorers.py --part
    tune`); docs/audit.md has figures of other rows.

    Attributes:
        layers: number of upper layers that are trained.
        rate: peak learning rate of the layers.
        head_rate: peak learning rate of the linear layer.
        epochs: passes over the training pairs.
        rank: rank of the low-rank updates; 0: the weights themselves are trained.
        alpha: factor of the low-rank updates.
    """

    layers: int
    rate: float
    head_rate: float
    epochs: int
    rank: int = 0
    alpha: float = 0.0


RECIPES = {
    "finetuned": Recipe(layers=2, rate=2e-4, head_rate=2e-3, epochs=2),
    "finetuned_causal_lm": Recipe(layers=6, rate=5e-4, head_rate=1e-3, epochs=2, rank=16, alpha=32.0),
}


def build_learner(texts: Sequence[str], seed: int, *, name: str, target: str) -> Learn:
    """Return a ``Learn`` function that fine-tunes a model; its f orders the texts of a fold.

    Args:
        texts: the distinct texts.
        seed: random seed of the training.
        name: name of the scorer, a key of ``RECIPES``.
        target: folder or OWNER/REPO of a transformers checkpoint.

    Raises:
        BackendError: the checkpoint is broken.
        ResourceError: it does not fit into memory.
    """
    identity = OPEN[name](target).identity

    def fit_predict(learned: Ints, scored: Ints) -> Floats:
        true, false, scored_texts = ([texts[i] for i in part] for part in (*learned, scored))
        (path,) = map_shards(
            tuned_table,
            [{"true": true, "false": false, "asked": scored_texts, "seed": seed}],
            settings={"name": name, "target": target},
            folder=SCORED / compute_fingerprint(__name__, identity),
            executor="inline",
            title=name,
        )
        values = pq.read_table(path)["vector"].combine_chunks().flatten()
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)

    return fit_predict


def load_finetuned_scorer(name: str, target: str) -> LearnedScorer:
    """Return the scorer that fine-tunes a model."""
    return LearnedScorer(partial(build_learner, name=name, target=target), PAIRS, title=name)


def tuned_table(shard: Mapping[str, Any], *, name: str, target: str) -> pa.Table:
    """Return the values of the texts ``asked`` under a model that is fine-tuned on ``true`` and ``false``.

    Args:
        shard: ``true`` and ``false``, n texts each; ``asked``, the texts to score; ``seed``.
        name: name of the scorer.
        target: folder or OWNER/REPO of the checkpoint.
    """
    ranker, recipe = OPEN[name](target).ranker, RECIPES[name]
    ranker.reset_weights()
    train_ranker(
        ranker,
        shard["true"],
        shard["false"],
        rates=(recipe.rate, recipe.head_rate),
        epochs=recipe.epochs,
        seed=shard["seed"],
        title=name,
    )
    values = ranker.compute_values(shard["asked"])
    return build_vector_table([compute_text_key(text) for text in shard["asked"]], values[:, None])


@dataclass(frozen=True)
class LoadedRanker:
    """A model that can be fine-tuned, and everything but the code that determines its values."""

    ranker: PairRanker
    identity: Identity


def load_ranker(target: str, *, name: str) -> LoadedRanker:
    """Return the model with a new linear layer, on the GPU if there is one, else on the CPU.

    It computes in bf16 where that is faster.

    Raises:
        BackendError: the checkpoint is broken, is not of this type, or gives NaN.
        ResourceError: it does not fit into memory.
    """
    import torch

    recipe, compute = RECIPES[name], resolve_compute("auto", "auto")
    with torch.random.fork_rng(), translate_load_errors(target):  # new layers start at random weights
        model, tokenizer = _load_body(target, name, compute["device"]), load_tokenizer(target)
        start = None
        if name == "finetuned_causal_lm":
            start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        identity = build_identity(name, model, [tokenizer], **compute)
        layers = UpperLayers(model, recipe.layers, pad=tokenizer.pad_token_id, **compute)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        if recipe.rank:
            add_lora(model, LoraConfig(recipe.rank, recipe.alpha, layers.list_matrices()), seed=0)
        else:
            for layer in layers.trained:
                layer.requires_grad_(True)
        ranker = PairRanker(layers, tokenizer, length=min(LENGTH, tokenizer.model_max_length), start=start)
        if np.isnan(ranker.compute_values([TEXT])).any():
            raise BackendError(
                f"{name}:{target} gives NaN for a text: its weights are broken. Give another checkpoint."
            )
    return LoadedRanker(ranker, identity)


def _load_body(target: str, name: str, device: str) -> Any:
    """Return the checkpoint's transformer without its head. A causal model must have one."""
    from transformers import AutoModel, AutoModelForCausalLM

    if name == "finetuned":
        return load_pretrained(AutoModel, target, device=device, unneeded=("pooler.",))
    return load_pretrained(AutoModelForCausalLM, target, device=device).base_model


# The last model of each scorer stays loaded, with its states of texts, until its files change.
OPEN = {name: keep_last(stamp_files)(partial(load_ranker, name=name)) for name in RECIPES}


def list_causal_problems(target: str) -> list[str]:
    """Return why a checkpoint cannot be loaded as a causal language model, without reading weights.

    A checkpoint that does not state its class is only found out when it is loaded.
    """
    problems = list_checkpoint_problems(target, images=False)
    if problems or not Path(target).is_dir():
        return problems
    try:
        classes = read_config(target).get("architectures") or []
    except BackendError as error:
        return [str(error)]
    if classes and not any(str(name).endswith(CAUSAL) for name in classes):
        return [
            f"{target!r} holds {' and '.join(map(str, classes))}, which has no head that predicts the next token"
        ]
    return []


FINETUNED = ScorerSpec(
    "finetuned",
    "an encoder, fine-tuned on the pairs; slow",
    load=partial(load_finetuned_scorer, "finetuned"),
    missing=partial(list_checkpoint_problems, images=False),
    cure="Give the folder of a small transformers encoder, or OWNER/REPO on the hub.",
)
FINETUNED_CAUSAL_LM = ScorerSpec(
    "finetuned_causal_lm",
    "a causal language model, fine-tuned by LoRA",
    load=partial(load_finetuned_scorer, "finetuned_causal_lm"),
    missing=list_causal_problems,
    cure="Give the folder of a small causal language model with its tokenizer, or OWNER/REPO on the hub.",
)
