"""Compute SLS, the syntactic and lexical similarity of caption, paraphrase and negative (Dumpala et al. 2024, D.1).

SLS(U, V) = lexical(U, V) · syntactic(U, V), each in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from caramel.audit.similarity.tree_kernel import compute_tree_similarities
from caramel.blind.scorers import DECIMALS
from caramel.interfaces.parser import Parser
from caramel.utils.arrays import Floats
from caramel.utils.text import extract_words

Unit = Literal["words", "characters"]
TEXT_PAIRS = {  # name of a pair of texts -> its columns
    "P1-P2": ("caption", "caption2"),
    "P1-N": ("caption", "negative_caption"),
    "P2-N": ("caption2", "negative_caption"),
}
_SEQUENCES: Mapping[Unit, Callable[[str], Sequence[Hashable]]] = {"words": extract_words, "characters": str}


def compute_sls(rows: pd.DataFrame, *, parser: Parser | None = None, unit: Unit = "words") -> pd.DataFrame:
    """Return the similarities of each pair of texts.

    The columns are pair_id, subtype, pair (``P1-P2``, ``P1-N`` or ``P2-N``), lexical, syntactic and sls.
    There is one row per instance and pair of texts; instances without a paraphrase have only ``P1-N``.
    Without a parser, ``syntactic`` and ``sls`` are NaN.

    Args:
        rows: columns pair_id, subtype, caption, caption2 (or None) and negative_caption.
        parser: parser that is called once, with every distinct text.
        unit: unit of the lexical similarity; see ``compute_lexical_similarities``.

    Raises:
        DataError: the parser has no parse for a text.
    """
    parts = []
    for name, columns in TEXT_PAIRS.items():
        rows_with_texts = rows[rows["caption2"].notna()] if "caption2" in columns else rows
        texts = rows_with_texts[list(columns)].set_axis(["first", "second"], axis=1)
        parts.append(rows_with_texts[["pair_id", "subtype"]].assign(pair=name).join(texts))
    pairs = pd.concat(parts, ignore_index=True)
    first, second = pairs.pop("first").tolist(), pairs.pop("second").tolist()
    lexical = compute_lexical_similarities(first, second, unit=unit)
    syntactic = (
        np.full(len(pairs), np.nan)
        if parser is None
        else _compute_syntactic_similarities(parser, first, second)
    )
    scores = {"lexical": lexical, "syntactic": syntactic, "sls": lexical * syntactic}
    return pairs.assign(**{name: values.round(DECIMALS) for name, values in scores.items()})


def compute_lexical_similarities(first: Sequence[str], second: Sequence[str], *, unit: Unit) -> Floats:
    """Return the lexical similarities in [0, 1] of n texts with n others. (n,).

    A similarity is 1 − d / l: d is the Levenshtein distance, l the length of the longer text.

    Args:
        first: n texts.
        second: n texts.
        unit: ``words``: lower-case words without punctuation, as the paper defines it. ``characters``: the
            texts as written, which gives the values in the paper's Table 9.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    sequence = _SEQUENCES[unit]
    left, right = ([sequence(text) for text in texts] for texts in (first, second))
    similarities: Floats = cpdist(left, right, scorer=Levenshtein.normalized_similarity, dtype=np.float64)
    return similarities


def _compute_syntactic_similarities(parser: Parser, first: Sequence[str], second: Sequence[str]) -> Floats:
    texts = sorted({*first, *second})
    parses = dict(zip(texts, parser(texts), strict=True))
    return compute_tree_similarities([parses[text] for text in first], [parses[text] for text in second])


def compute_quartiles(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return n and the quartiles ``low``, ``median`` and ``high`` of a column of SLS scores, by pair of texts."""
    groups = scores.groupby("pair", sort=False)[column]
    shares = {"low": 0.25, "median": 0.5, "high": 0.75}
    return pd.DataFrame({"n": groups.count(), **{name: groups.quantile(q) for name, q in shares.items()}})
