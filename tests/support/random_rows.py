"""Pairs and negatives of words at random, for scorers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.schemas.columns import SUBTYPES

NOUNS, VERBS = ["cat", "dog", "car", "bus", "cup", "hat"], ["sees", "likes", "has", "finds"]


def make_random_rows(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return pairs (two per image) and one negative each, of three types, at random."""
    rng = np.random.default_rng(seed)

    def text() -> str:
        return f"A {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)} {rng.integers(99)}."

    names = [f"p{i}" for i in range(rows)]
    pairs = pd.DataFrame(
        {
            "pair_id": names,
            "image_id": [f"i{i // 2}" for i in range(rows)],
            "caption": [text() for _ in names],
        }
    )
    subtypes = [SUBTYPES[i % 7] for i in range(rows)]
    negatives = pd.DataFrame(
        {
            "negative_id": [f"{n}:{s}" for n, s in zip(names, subtypes, strict=True)],
            "pair_id": names,
            "type": [s.split("_")[0] for s in subtypes],
            "subtype": subtypes,
            "negative_caption": [text() for _ in names],
        }
    )
    return pairs, negatives
