"""Blind scorers that are language models: plausibility, grammar, likelihood.

They do not train on the data set, so folds, groups and seed have no effect. Every distinct text is scored
once, in batches of one length, in single precision. Texts with the same tokens get bit-identical scores, so
that they tie. Scores are cached (``text_embedding_cache``).

    vera       plausibility by Vera (Liu et al. 2023): the calibrated sigmoid of a layer on T5's encoder. As its
               authors compute it: hidden state of the last token, linear layer, logit divided by the
               temperature, sigmoid.
    cola       P(acceptable) by a classifier trained on CoLA, such as textattack/distilbert-base-uncased-CoLA, as
               SugarCrepe (Hsieh et al. 2023) uses it.
    causal_lm  mean log-likelihood per token by a causal language model. The beginning-of-text token precedes
    the
               text (the end-of-text token if the model has none), so that the first token of the text counts.
               The end of the text does not count.
    masked_lm  mean pseudo-log-likelihood per token by a masked language model (Salazar et al. 2020): each
    token
               in turn is masked, alone, and predicted from all others.

``vera`` and ``cola`` give probabilities, and these are the scores. A log-likelihood has no natural range.
There the score is the share of the distinct texts of the call that are less likely; equally likely texts
count half (``scorers.compute_percentile_ranks``). This keeps the order. A text without tokens is the least
likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from caramel.blind.scorers import DECIMALS, compute_percentile_ranks, deduplicate_texts
from caramel.blind.text.text_embedding_cache import compute_text_vectors
from caramel.blind.text.text_models import open_model
from caramel.interfaces.scorer import ScorerSpec
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import build_vector_table
from caramel.models.transformers.transformers_files import list_checkpoint_problems
from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ModelScorer:
    """A ``Scorer`` that runs a model of a type in ``text_models.OPEN``. The model is loaded on first use.

    Attributes:
        model_type: vera, cola, causal_lm or masked_lm.
        target: folder or OWNER/REPO.
    """

    model_type: str
    target: str

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of both sides; see ``Scorer``.

        Raises:
            BackendError: the checkpoint is broken, or not of this type.
            ResourceError: the model does not fit into memory.
        """
        texts, sides = deduplicate_texts(positives, negatives)
        if not texts:
            return np.zeros(0), np.zeros(0)
        settings = {"model_type": self.model_type, "target": self.target}
        identity = open_model(**settings).identity
        vectors = compute_text_vectors(
            texts, scored_table, settings=settings, identity=identity, title=self.model_type
        )
        values = vectors[:, 0].astype(np.float64)
        scores = (
            compute_percentile_ranks(values) if self.model_type.endswith("_lm") else values.round(DECIMALS)
        )
        return scores[sides[0]], scores[sides[1]]


def scored_table(texts: Sequence[str], *, model_type: str, target: str) -> pa.Table:
    """Return the texts' values as ``build_vector_table`` does."""
    values = open_model(model_type=model_type, target=target).values(texts)
    return build_vector_table([compute_text_key(text) for text in texts], values[:, None])


def _build_spec(name: str, help: str) -> ScorerSpec:
    """Return the spec of a scorer that runs a model of a type in ``text_models.OPEN``."""
    return ScorerSpec(
        name,
        help,
        load=partial(ModelScorer, name),
        missing=partial(list_checkpoint_problems, images=False),
        cure="Give a checkpoint's folder with its tokenizer, as save_pretrained() writes it, or OWNER/REPO on the hub.",
    )


VERA = _build_spec("vera", "plausibility by Vera (liujch1998/vera)")
COLA = _build_spec("cola", "grammar: P(acceptable) of a CoLA classifier")
CAUSAL_LM = _build_spec("causal_lm", "mean log-likelihood per token")
MASKED_LM = _build_spec("masked_lm", "mean pseudo-log-likelihood per token")
