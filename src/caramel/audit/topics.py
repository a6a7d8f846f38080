"""Find topics of captions by non-negative matrix factorisation of their TF-IDF weights (Lee & Seung 1999).

SugarCrepe++ shows the four largest topics of each subset (Dumpala et al. 2024, figure 13), found by BERTopic, which needs
a sentence encoder. Here scikit-learn's NMF finds them from words alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.errors import DataError

COLUMNS = ["subtype", "topic", "share", "words"]
WORDS = 8  # words listed of a topic
LEAST_TEXTS = 2  # texts that must have a word


def find_topics(rows: pd.DataFrame, *, topics: int, seed: int) -> pd.DataFrame:
    """Return the topics of each subtype's captions, the largest first.

    Columns: ``subtype``, ``topic`` (rank from 1), ``share`` (of the captions, in [0, 1], whose largest weight is this
    topic) and ``words`` (its words, the heaviest first).

    Args:
        rows: columns subtype and caption.
        topics: number of topics of a subtype, at least 1.
        seed: random seed of the factorisation.

    Raises:
        DataError: a subtype has too few captions or words for that many topics.
    """
    parts = [
        (str(name), part["caption"].drop_duplicates().tolist())
        for name, part in rows.groupby("subtype", sort=False)
    ]
    records = [
        (name, rank, share, words)
        for name, texts in parts
        for rank, (share, words) in enumerate(_compute_topics(texts, topics, seed, name), 1)
    ]
    return pd.DataFrame(records, columns=COLUMNS)


def _compute_topics(texts: Sequence[str], topics: int, seed: int, name: str) -> list[tuple[float, str]]:
    """Return (share of texts, words) of each topic, the largest first."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", min_df=LEAST_TEXTS, token_pattern=r"[a-z]{2,}")
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError:  # no word is left
        weights = np.zeros((len(texts), 0))
    if min(weights.shape) < topics:
        raise DataError(
            f"Subtype {name!r} has {weights.shape[0]} captions with {weights.shape[1]} words that two of them share, too "
            f"few for {topics} topics. Ask for fewer topics."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the order of words is stable long before
        model = NMF(topics, init="nndsvda", random_state=seed, max_iter=200)
        of_texts = model.fit_transform(weights)
    words = vectorizer.get_feature_names_out()
    covered = of_texts.max(axis=1) > 0  # other captions have rare words alone
    largest = of_texts.argmax(axis=1)
    shares = [float((covered & (largest == topic)).mean()) for topic in range(topics)]
    listed = [
        " ".join(words[np.argsort(-component, kind="stable")[:WORDS]]) for component in model.components_
    ]
    order = sorted(range(topics), key=lambda topic: (-shares[topic], topic))
    return [(round(shares[topic], 6), listed[topic]) for topic in order]
