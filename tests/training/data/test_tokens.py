"""Tokens are those of the tokenizer, however they are held."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from caramel.training.data import tokens
from caramel.training.data.tokens import TokenTable, tokenize_texts


def test_texts_are_tokenized_some_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(tokens, "TEXTS", 3)
    asked: list[int] = []

    def tokenize(texts: list[str]) -> torch.Tensor:
        asked.append(len(texts))
        return torch.tensor([[len(text), 49407] for text in texts])

    found = tokenize_texts(tokenize, ["", "a", "bb", "ccc", "dddd", "eeeee", "ffffff"])
    assert found.tolist() == [[n, 49407] for n in range(7)]
    assert (found.dtype, asked) == (np.int32, [3, 3, 1])


def test_a_text_of_several_rows_is_tokenized_once_and_each_row_has_its_tokens():
    asked: list[str] = []

    def tokenize(texts: list[str]) -> list[list[int]]:
        asked.extend(texts)
        return [[len(text), ord(text[0])] for text in texts]

    texts, text_of = pd.Series(["b", "ab", "c"]), np.array([0, 1, 0, 2, 1])
    table = TokenTable(tokenize, texts, text_of)
    assert asked == ["b", "ab", "c"]
    assert len(table) == 5
    assert table[np.arange(5)].tolist() == tokenize(texts[text_of].tolist())
    assert table[np.array([[4, 0], [1, 3]])].shape == (2, 2, 2)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_tokens_are_those_of_the_tokenizer_whatever_the_padding_and_the_last_token_is_held_once(
    length, monkeypatch
):
    monkeypatch.setattr(tokens, "TEXTS", 3)
    rows = np.random.default_rng(1).integers(0, 2, (60, length))
    rows[::4, 2:] = 7
    texts = pa.chunked_array([list(map(str, range(40))), list(map(str, range(40, 60)))])
    table = TokenTable(lambda part: rows[list(map(int, part))], texts)
    assert table[np.arange(60)].tolist() == rows.tolist()
    used = [len("".join(map(str, row)).rstrip(str(row[-1]))) + 1 for row in rows if len({*row}) > 1]
    assert len(table._tokens) == sum(used) + length * (60 - len(used))


def test_tokens_take_half_the_memory_where_the_vocabulary_allows_it(monkeypatch):
    monkeypatch.setattr(tokens, "TEXTS", 2)
    for largest, size in ((65_535, 2), (65_536, 4), (256_000, 4)):
        numbers = [0, 65_535, 1, largest, 7]
        table = TokenTable(lambda texts: [[int(text), 3] for text in texts], pd.Series(map(str, numbers)))
        assert table._tokens.itemsize == size
        found = table[np.arange(5)]
        assert (found.dtype, found.tolist()) == (np.int32, [[number, 3] for number in numbers])
