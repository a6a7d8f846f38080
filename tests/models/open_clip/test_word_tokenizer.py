from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_clip.tokenizer import SimpleTokenizer

from caramel.models.open_clip import word_tokenizer
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.models.open_clip.word_tokenizer import WordTokenizer

CAPTIONS = ["A red car is to the left of a blue house.", "There is a small green tree."]
TEXTS = [
    "",
    " ",
    "A  man's\thorse &amp; the DOG'LL run",
    "don't 12 345 !?... ;-)",
    "ﬁne “curly” naïve café Σίσυφος ΟΔΟΣ",
    "a\x1cb\u2003c\u200bd\x00e",
    "&amp;lt;b&amp;gt; &nbsp; &#x41;",
    "<start_of_text> in <END_OF_TEXT>",
    "你好 😀😀",
    "word " * 90,
]
# What a text may have that splitting, cleaning and patterns treat in different ways
PIECES = st.one_of(
    st.text(max_size=6), st.sampled_from([*"aZ7'& \t\n;_<>.,&", "'re", "&amp;", "&#65;", "\x85", "\u3000", "<end_of_text>"])
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[SimpleTokenizer, WordTokenizer]]:
    """Pairs of open_clip's tokenizer and ours with the same options."""
    own = str(learn_merges(CAPTIONS, tmp_path_factory.mktemp("merges") / "m.gz"))
    options: list[dict[str, Any]] = [
        {},
        {"clean": "canonicalize"},
        {"clean": "whitespace", "context_length": 9},
        {"additional_special_tokens": ["<mask>"]},
        {"additional_special_tokens": ["a horse", "<a.b>"]},
        {"bpe_path": own, "context_length": 12},
    ]
    return [(SimpleTokenizer(**given), WordTokenizer(**given)) for given in options]


def test_the_tokens_are_those_of_open_clip(tokenizers: list[tuple[SimpleTokenizer, WordTokenizer]]) -> None:
    texts = [*TEXTS, *CAPTIONS, "a horse <mask> and <a b> or <a.b>"]
    for theirs, ours in tokenizers:
        assert [ours.encode(text) for text in texts] == [theirs.encode(text) for text in texts]
        for length in (None, 5, 2, 1):
            assert ours(texts, length).equal(theirs(texts, length))
        assert ours(texts).dtype == theirs(texts).dtype
        assert ours("one text").equal(theirs("one text"))


@given(pieces=st.lists(PIECES, max_size=8))
def test_any_text_has_the_tokens_of_open_clip(
    tokenizers: list[tuple[SimpleTokenizer, WordTokenizer]], pieces: list[str]
) -> None:
    text = "".join(pieces)
    for theirs, ours in tokenizers:
        assert ours.encode(text) == theirs.encode(text)


def test_a_word_is_tokenized_once_and_the_number_of_kept_words_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(word_tokenizer, "CACHED_WORDS", 3)
    tokenizer: Any = WordTokenizer()
    tokenizer(["car car 1", "car"])
    kept = tokenizer._encode_word.cache_info()
    assert (kept.misses, kept.hits) == (2, 2)
    tokenizer([f"car {number}" for number in range(9)])
    assert tokenizer._encode_word.cache_info().currsize == 3
