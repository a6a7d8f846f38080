"""Blind scorer ``embedding_probe``: a logistic regression on sentence embeddings of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from caramel.blind.cross_validation import Learn, LearnedScorer, fit_pair_weights
from caramel.blind.text.text_embedding_cache import compute_text_vectors
from caramel.interfaces.scorer import ScorerSpec
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import build_vector_table
from caramel.models.transformers.text_encoders import SentenceEncoder, list_text_encoder_problems, load_text
from caramel.runtime.last_result import keep_last, stamp_files
from caramel.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

CAP = 20_000  # maximum number of training pairs per fold
COST = 0.01  # inverse strength of the L2 penalty
# For an encoder that states no pooling. An attacker is compared with no published figure, so any pooling will do.
DEFAULT_POOLING = ("mean",)


def build_learner(texts: Sequence[str], seed: int, *, target: str) -> Learn:
    """Return a logistic regression on the difference of two texts' embeddings.

    P(the first text is true) = σ(w·e₁ − w·e₂), trained on the pairs of the other folds. w·e orders the texts
    of a fold. The seed is not used.

    Args:
        texts: the distinct texts.
        seed: see ``LearnedScorer``.
        target: target of a text encoder, as after ``text:`` in a model's spec.

    Raises:
        BackendError: the encoder is broken.
    """
    identity = open_encoder(target).identity
    vectors = compute_text_vectors(
        texts,
        embedded_table,
        settings={"target": target},
        identity=identity,
        title="embedding_probe",
    ).astype(np.float64)

    def fit_predict(learned: Ints, scored: Ints) -> Floats:
        weights = fit_pair_weights(vectors[learned[0]] - vectors[learned[1]], cost=COST)
        return np.asarray(vectors[scored] @ weights)

    return fit_predict


def load_embedding_probe(target: str) -> LearnedScorer:
    """Return the scorer of a text encoder."""
    return LearnedScorer(partial(build_learner, target=target), CAP)


def embedded_table(texts: Sequence[str], *, target: str) -> pa.Table:
    """Return the texts' embeddings as ``build_vector_table`` does."""
    vectors = open_encoder(target).encode_texts(texts, None)
    return build_vector_table([compute_text_key(text) for text in texts], vectors)


@keep_last(lambda target: stamp_files(target) + stamp_files(target.partition("?")[0]))
def open_encoder(target: str) -> SentenceEncoder:
    """Return the encoder, on the GPU if there is one, else on the CPU.

    The last encoder stays loaded until its files change.
    """
    return load_text(
        target, device="auto", precision="fp32", name="embedding_probe", default_pooling=DEFAULT_POOLING
    )


EMBEDDING_PROBE = ScorerSpec(
    "embedding_probe",
    "learned on embeddings; targets as of text:",
    load=load_embedding_probe,
    missing=partial(list_text_encoder_problems, default_pooling=DEFAULT_POOLING),
    cure="Give the folder of a sentence encoder, such as all-MiniLM-L6-v2, or OWNER/REPO on the hub.",
)
