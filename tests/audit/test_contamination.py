import gc
import itertools
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.audit import contamination as module
from caramel.audit.contamination import COLUMNS, find_contamination
from caramel.errors import DataError

VOCABULARY = [f"{a}{b}" for a in "bcdfghklm" for b in ("at", "og", "un", "ire", "elk", "oast")]
TEN = "a man in red rides a wave on his board"


def sentence(draw: random.Random) -> list[str]:
    return draw.choices(VOCABULARY, k=draw.randint(4, 14))


def mixed(count: int, seed: int, parents: list[str]) -> list[str]:
    """Return sentences, most of them made from one of the parents by changing, adding or leaving out words."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        words = draw.choice(parents).split() if draw.random() < 0.7 else sentence(draw)
        for _ in range(draw.randint(0, 3)):
            place = draw.randrange(len(words))
            words[place : place + draw.randint(0, 1)] = draw.choices(VOCABULARY, k=draw.randint(0, 1))
            words = words or ["cat"]
        found.append(" ".join(words))
    return found


def brute(one: str, other: str) -> float:
    a, b = (set(itertools.pairwise(t.split())) or {(t,)} for t in (one, other))
    return len(a & b) / len(a | b)


def test_planted_duplicates_are_found_and_nothing_else():
    draw = random.Random(1)
    corpus = [" ".join(sentence(draw)) for _ in range(3000)]
    corpus[1234], corpus[77] = TEN.upper() + "!", "two dogs run over green grass near some trees today"
    corpus[2500] = corpus[77]
    texts = ["A cat.", TEN, "", "two dogs run over green grass near some trees", "a man in red rides a wave"]
    found = find_contamination(texts, corpus, seed=3)
    assert found.columns.tolist() == list(COLUMNS)
    assert found.to_dict("records") == [
        dict(zip(COLUMNS, (1, "exact", 1.0, 1234, TEN.upper() + "!", 1), strict=True)),
        dict(zip(COLUMNS, (3, "near", 8 / 9, 77, corpus[77], 2), strict=True)),
    ]


def test_recall_is_high_and_what_is_found_is_true_by_brute_force():
    draw = random.Random(2)
    parents = [" ".join(sentence(draw)) for _ in range(300)]
    corpus = mixed(1500, 3, parents)
    best: dict[int, float] = {}
    counts: dict[int, int] = {}
    for place, text in enumerate(parents):
        similar = [similarity for other in corpus if (similarity := brute(text, other)) >= 0.8]
        if similar:
            best[place], counts[place] = max(similar), len(similar)
    hits = total = 0
    for seed in range(5):
        found = find_contamination(parents, corpus, seed=seed).set_index("text")
        assert set(found.index) <= set(best)  # no false positive: similarities are exact
        for row in found.itertuples():
            assert row.similarity == pytest.approx(brute(parents[row.Index], corpus[row.row]))
            assert (row.kind == "exact") == (parents[row.Index] == corpus[row.row])
            assert row.matches <= counts[row.Index]
        exact = {place for place, text in enumerate(parents) if text in set(corpus)}
        assert exact == set(found.index[found["kind"] == "exact"])
        hits, total = hits + found["matches"].sum(), total + sum(counts.values())
    assert total > 1000
    assert hits / total >= 0.99


def test_texts_are_near_duplicates_from_the_threshold_on(monkeypatch):
    changed = "a man in red rides a wave on his bike"
    (row,) = find_contamination([TEN], [changed], seed=1).itertuples()
    assert row.similarity == brute(TEN, changed) == module.THRESHOLD
    monkeypatch.setattr(module, "THRESHOLD", 0.81)
    assert find_contamination([TEN], [changed], seed=1).empty


def test_an_exact_duplicate_counts_before_one_of_the_same_word_pairs():
    found = find_contamination(["a b a b"], ["a b a", "b a b a", "a b a b"], seed=1)
    assert found[["kind", "row", "similarity", "matches"]].to_numpy().tolist() == [["exact", 2, 1.0, 3]]


def test_equal_texts_are_each_found():
    found = find_contamination(["A cat.", "a cat", "dog"], ["a CAT"], seed=1)
    assert found[["text", "kind", "row"]].to_numpy().tolist() == [[0, "exact", 0], [1, "exact", 0]]


def test_blocks_change_nothing(monkeypatch):
    draw = random.Random(4)
    parents = [" ".join(sentence(draw)) for _ in range(100)]
    corpus = mixed(500, 5, parents)
    whole = find_contamination(parents, corpus, seed=1)
    monkeypatch.setattr(module, "BLOCK", 7)
    pd.testing.assert_frame_equal(find_contamination(parents, iter(corpus), seed=1), whole)
    assert len(whole) > 20


@pytest.mark.parametrize("suffix", ["txt", "csv", "jsonl", "parquet"])
def test_a_corpus_is_read_from_a_file(tmp_path: Path, suffix: str):
    texts = ["a dog, big", "", "two cats sit", "a dog, big"]
    path = tmp_path / f"corpus.{suffix}"
    rows = [{"id": n, "caption": text or None} for n, text in enumerate(texts)]
    if suffix == "txt":
        path.write_text("\n".join(texts), encoding="utf-8-sig")
    elif suffix == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    elif suffix == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    found = find_contamination(["Two cats sit.", "A dog, big!"], path, seed=1)
    assert found[["row", "corpus_text", "matches"]].to_numpy().tolist() == [
        [2, "two cats sit", 1],
        [0, "a dog, big", 2],
    ]


def test_the_column_of_a_corpus_can_be_named(tmp_path: Path):
    path = tmp_path / "corpus.csv"
    path.write_text("TEXT,caption\na cat sits,x\n")
    assert find_contamination(["A cat sits."], path, column="TEXT", seed=1)["row"].tolist() == [0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("corpus.csv", b"text\na cat\n", "lacks the columns ['caption']"),
        ("corpus.csv", b"caption\na cat, big\n", "row 1 (line 2) has 2 fields"),
        ("corpus.csv", b"caption,id\na cat\n", "row 1 (line 2) has 1 fields"),
        ("corpus.csv", b"caption,caption\na,b\n", "has duplicate columns ['caption']"),
        ("corpus.csv", b"", "empty"),
        ("corpus.txt", b"a\0cat\n", "NUL"),
        ("corpus.jsonl", b'{"caption": "\\ud800"}\n', "surrogate"),
        ("corpus.csv", b'caption\n"a cat\n', "not valid CSV"),
        ("corpus.txt", b"", "holds no text. Give a file with one text per line."),
        ("corpus.txt", b" \n\n", "holds no text. Give a file with one text per line."),
        ("corpus.txt", b"a \xff cat\n", "cannot be read"),
        ("corpus.jsonl", b'{"caption": "a"}\n{"text": "b"}\n', "line 2 has no field 'caption'"),
        ("corpus.jsonl", b'{"caption": 4}\n', "line 1: field 'caption' must be text, not 4"),
        ("corpus.jsonl", b"[1]\n", "must be an object"),
        ("corpus.jsonl", b'{"caption": null}\n{"caption": " "}\n', "holds no text in column 'caption'"),
        ("corpus.csv", b"caption,text\n,a cat\n", "holds no text in column 'caption'"),
        ("corpus.jsonl", b"{nothing\n", "not valid JSON"),
        ("corpus.parquet", b"nothing", "not a Parquet file"),
        ("corpus.doc", b"", "an unknown format"),
        ("corpus.txt", None, "does not exist"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_an_error(
    tmp_path: Path, name: str, data: bytes | None, message: str
):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError) as error:
        find_contamination(["a cat"], tmp_path / name, seed=1)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_memory_does_not_grow_with_the_corpus(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 500)

    def corpus(count: int) -> Iterator[str]:
        draw = random.Random(6)
        return (" ".join(sentence(draw)) for _ in range(count))

    def peak(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        find_contamination([TEN], corpus(count), seed=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(500)  # imports and caches
    assert peak(32000) < 1.5 * peak(16000)  # what is learned of the vocabulary levels off
