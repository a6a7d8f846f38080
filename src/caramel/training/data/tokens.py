"""Tokenize texts in parts, and hold the tokens of millions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from caramel.utils.arrays import Ints

TEXTS = 4096  # texts that are tokenized at a time: a tokenizer needs kilobytes for each
LARGEST_SMALL = int(np.iinfo(np.uint16).max)


def tokenize_texts(tokenize: Callable[[list[str]], Any], texts: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the tokens of all texts, (n, …), tokenized in parts."""
    out = np.empty(0, np.int32)
    for start in range(0, max(1, len(texts)), TEXTS):
        part = np.asarray(tokenize(list(texts[start : start + TEXTS])))
        if start == 0:
            out = np.empty((len(texts), *part.shape[1:]), np.int32)
        out[start : start + len(part)] = part
    return out


class TokenTable:
    """Tokens of n rows: ``tokens[rows]`` is int32 (…, context) for an array of row numbers.

    The last token of a text is held once: it is the padding, most of the context of a caption. Tokens take 16 bits each if
    all fit, as those of CLIP's vocabulary do.
    """

    def __init__(
        self,
        tokenize: Callable[[list[str]], Any],
        texts: pd.Series[str] | pa.ChunkedArray,
        text_of: Ints | None = None,
    ) -> None:
        """Tokenize the texts by ``tokenize``, which returns (m, context) for m texts.

        Args:
            text_of: (n,) number of each row's text, where rows share texts, as negatives share the caption of their
                pair; None: row i has text i.
        """
        column = pa.table({"text": texts}).column("text")
        self._text_of = (
            np.arange(len(column), dtype=np.int32) if text_of is None else text_of.astype(np.int32)
        )
        self._starts = np.zeros(len(column) + 1, np.int64)
        self._tokens: npt.NDArray[np.uint16 | np.int32] = np.empty(0, np.uint16)
        self._context = end = 0
        for start in range(0, max(1, len(column)), TEXTS):
            part = np.asarray(tokenize(column.slice(start, TEXTS).to_pylist()))
            sizes = _count_tokens(part)
            if start == 0:
                self._context = part.shape[1]
                # For all texts without padding; a part of the array takes memory when it is filled.
                self._tokens = np.empty(len(column) * self._context, np.uint16)
            if self._tokens.dtype == np.uint16 and part.max(initial=0) > LARGEST_SMALL:
                small, self._tokens = self._tokens, np.empty(len(self._tokens), np.int32)
                self._tokens[:end] = small[:end]
            self._starts[start + 1 : start + 1 + len(part)] = end + np.cumsum(sizes)
            tokens = part[np.arange(self._context) < sizes[:, None]]
            self._tokens[end : end + len(tokens)] = tokens
            end += len(tokens)
        self._tokens.resize(end, refcheck=False)

    def __len__(self) -> int:
        return len(self._text_of)

    def __getitem__(self, rows: Ints) -> npt.NDArray[np.int32]:
        texts = self._text_of[rows][..., None]
        index = np.minimum(self._starts[texts] + np.arange(self._context), self._starts[texts + 1] - 1)
        tokens: npt.NDArray[np.int32] = self._tokens[index].astype(np.int32)
        return tokens


def _count_tokens(tokens: Ints) -> Ints:
    """Return how many tokens (n, context) of each text precede the repetitions of its last one, which counts once. (n,)."""
    repeated = (tokens != tokens[:, -1:])[:, ::-1].argmax(axis=1)
    counts: Ints = tokens.shape[1] + 1 - np.maximum(repeated, 1)
    return counts


Tokens = TokenTable | npt.NDArray[np.int32]  # both give tokens by an array of row numbers
