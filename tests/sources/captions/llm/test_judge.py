"""Models that judge texts, within the whole chain: verdicts, thresholds, replies, and a rebuild without any model."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chat_server import ChatServer
from obliging_writer import CAPTIONS, obliging, pairs_of, write
from small_language_models import cola_folder

from caramel.errors import BackendError, DataError
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.llm import REPLIES

NLI = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judges")
    cola_folder(folder / "nli", **NLI)
    cola_folder(folder / "cola")
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    yield server
    server.close()


def read(out: Path, name: str) -> pd.DataFrame:
    return read_table(TABLES[name], out / f"{name}.parquet")


def judged(url: str, out: Path, folder: Path, **model: Any) -> Path:
    judges = {"entailment": str(folder / "nli"), "grammar": str(folder / "cola")}
    return write(url, out, pairs_of(CAPTIONS[:2]), **{**judges, **model})


def test_each_draft_is_shown_to_both_judges_and_thresholds_ask_nothing_again(
    server: ChatServer, tmp_path: Path, folder: Path
) -> None:
    # Any probability passes: nothing follows from anything, or both from each other.
    lenient = {"grammar_threshold": 0.0, "required": ("grammar", "meaning")}
    out = judged(server.url, tmp_path, folder, **lenient)
    verdicts, replies = read(out, "verdicts"), read(out, "replies")
    assert verdicts["grammar"].all()
    assert verdicts["entailment"].notna().all()
    asked = Counter(replies["prompt"].str.partition("@")[0])
    assert asked["grammar"] == verdicts["text"].nunique()
    said = replies.loc[replies["prompt"] == "entailment@1", "text"].astype(float)
    assert said.between(0, 1).all()
    assert said.nunique() > 1
    number = len(server.requests)
    for entailed in (0.0, 1.0):
        settings = {
            **lenient,
            "required": ("grammar", "entailment", "meaning"),
            "entailment_threshold": entailed,
        }
        out = write_once(server.url, tmp_path, folder, settings)
        follows = entailed == 0.0
        negatives, paraphrases, rejects = (
            read(out, name) for name in ("negatives", "paraphrases", "rejects")
        )
        assert (len(negatives) == 0) == follows
        assert (len(paraphrases) == 0) != follows
        wanted = "the entailment model does not agree" if follows else "altered meaning"
        assert wanted in set(rejects["reason"])
    assert len(server.requests) == number, "the first attempts are known, and there is one"


def write_once(url: str, out: Path, folder: Path, settings: dict[str, Any]) -> Path:
    judges = {"entailment": str(folder / "nli"), "grammar": str(folder / "cola")}
    return write(url, out, pairs_of(CAPTIONS[:2]), max_attempts=1, **judges, **settings)


def test_what_is_no_sentence_is_a_reject_with_its_reason(
    server: ChatServer, tmp_path: Path, folder: Path
) -> None:
    out = judged(
        server.url, tmp_path, folder, grammar_threshold=1.0, required=("grammar",), parts=["paraphrases"]
    )
    assert set(read(out, "rejects")["reason"]) == {"no sound sentence"}
    drafts = read(out, "verdicts")
    assert drafts["reason"].eq("no sound sentence").all()
    assert drafts["entailment"].isna().all(), "what has failed is not judged any more"


def test_all_is_rebuilt_from_replies_where_neither_writer_nor_judges_are_at_hand(
    server: ChatServer, tmp_path: Path, folder: Path
) -> None:
    first = judged(server.url, tmp_path / "first", folder, grammar_threshold=0.0)
    server.close()
    known = tmp_path / "known"
    known.mkdir()
    shutil.copy(first / "replies.parquet", known)
    gone = {
        "entailment": "gone",
        "grammar": "gone",
        "target": "local:gone",
        "name": None,
        "max_connections": 4,
    }
    again = judged(server.url, tmp_path / "second", folder, grammar_threshold=0.0, replies=str(known), **gone)
    for path in first.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name
    with pytest.raises(BackendError, match="'gone'"):
        judged(
            server.url,
            tmp_path / "third",
            folder,
            max_attempts=2,
            max_similarity=0.1,
            replies=str(known),
            **gone,
        )
    other = {**gone, "target": "chat:other@http://127.0.0.1:9/v1"}
    with pytest.raises(BackendError, match="do not cover all requests to the writer of negatives"):
        judged(
            server.url,
            tmp_path / "third",
            folder,
            max_attempts=2,
            max_similarity=0.1,
            replies=str(known),
            **other,
        )


def test_a_judge_that_gives_no_probability_is_told_and_nothing_that_it_said_is_kept(
    server: ChatServer, tmp_path: Path, folder: Path
) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    broken = shutil.copytree(folder / "cola", tmp_path / "cola") / "model.safetensors"
    tokenizer = AutoTokenizer.from_pretrained(broken.parent)
    sound = {*tokenizer("A dog runs.").input_ids, *tokenizer.all_special_ids}  # what a judge is tried on
    weights = load_file(broken)
    rows = weights["distilbert.embeddings.word_embeddings.weight"]
    rows[[row for row in range(len(rows)) if row not in sound]] = float("nan")
    save_file(weights, broken, {"format": "pt"})
    only = {"parts": ["paraphrases"], "entailment": None}
    for _ in range(2):
        with pytest.raises(BackendError, match="grammar returns nan for"):
            judged(server.url, tmp_path, folder, grammar=str(broken.parent), **only)


def test_a_reply_that_is_no_probability_is_told(server: ChatServer, tmp_path: Path, folder: Path) -> None:
    out = judged(server.url, tmp_path / "first", folder, grammar_threshold=0.0)
    replies = read(out, "replies")
    replies.loc[replies["prompt"] == "grammar@1", "text"] = "yes"
    write_table(REPLIES, replies, tmp_path / "replies.parquet")
    with pytest.raises(DataError, match="'yes' of the judge 'grammar' is not a probability"):
        judged(server.url, tmp_path / "second", folder, replies=str(tmp_path / "replies.parquet"))
