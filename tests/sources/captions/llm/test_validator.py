"""The validator judges texts with known answers before a run; a constant one is found before it costs anything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer, Request, Response
from llama_server import serve_gguf
from obliging_writer import MODEL, answer, asked, completion, obliging, pairs_of, write
from real_models import find_gguf

from caramel.errors import BackendError
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.llm import REPLIES
from caramel.sources.captions.cost_estimate import estimate_cost
from caramel.sources.captions.llm.gold_items import build_gold_items
from caramel.sources.captions.llm.writer import language_negatives

NOUNS = ("cat", "dog", "horse", "man", "woman", "bench", "kite", "boat", "couch", "lamp")
PAIRS = pairs_of([f"A red {noun} next to a large table." for noun in NOUNS])
GOLD = 20
KNOWN = {(item.caption.strip(), item.text.strip()): item.same for item in build_gold_items(PAIRS, GOLD, 2)}
VALIDATION = ("validate_negative", "validate_paraphrase")


def judge(decide: Callable[[bool | None], bool]) -> Callable[[Request, int], Response]:
    """Return a server's behaviour: ``decide`` gets whether a text says the same, None if unknown, and says it."""

    def behave(request: Request, number: int) -> Response:
        name, given = asked(request)
        if name not in VALIDATION:
            return completion(json.dumps(answer(name, given, request.body["seed"])))
        first, second = given.values()
        same = "yes" if decide(KNOWN.get((first.strip(), second.strip()))) else "no"
        said = {"follows": same} if name == "validate_negative" else {"same": same, "problem": "none"}
        return completion(json.dumps(said))

    return behave


def is_known(same: bool | None) -> bool:
    return bool(same)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(judge(is_known))
    yield server
    server.close()


def run(server: ChatServer, tmp_path: Path, **changes: object) -> Path:
    return write(server.url, tmp_path, PAIRS, **{"validator_gold_items": GOLD, "subtypes": 2, **changes})


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.mark.parametrize("constant", [True, False])
def test_a_constant_validator_ends_the_run_before_anything_else_is_requested(
    server: ChatServer, tmp_path: Path, constant: bool
) -> None:
    server.behave = judge(lambda same: constant)
    with pytest.raises(BackendError, match=r"no better than chance.*\n?.*take meaning out of .*required"):
        run(server, tmp_path)
    assert {asked(request)[0] for request in server.requests} == {"validate_negative"}
    assert len(server.requests) == GOLD


def test_the_validators_of_all_parts_are_measured_before_any_part_is_written(
    server: ChatServer, tmp_path: Path
) -> None:
    good = judge(is_known)

    def behave(request: Request, number: int) -> Response:
        if asked(request)[0] == "validate_paraphrase":
            return completion(json.dumps({"same": "yes", "problem": "none"}))
        return good(request, number)

    server.behave = behave
    with pytest.raises(BackendError, match=r"The validator of paraphrases .*Nothing else was requested"):
        run(server, tmp_path)
    assert Counter(asked(request)[0] for request in server.requests) == dict.fromkeys(VALIDATION, GOLD)


def test_a_constant_validator_that_is_not_required_is_not_used_and_its_verdict_null(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave = judge(lambda same: False)
    out = run(server, tmp_path, required=("not_copy",))
    assert "The validator of negatives is no better than chance" in capsys.readouterr().err
    assert read_table(TABLES["verdicts"], out / "verdicts.parquet")["meaning"].isna().all()
    asked_of = Counter(asked(request)[0] for request in server.requests)
    assert [asked_of[name] for name in VALIDATION] == [GOLD, GOLD]


def test_a_good_validator_is_used_and_the_items_are_in_no_table_but_the_responses(
    server: ChatServer, tmp_path: Path
) -> None:
    out = run(server, tmp_path, parts=["negatives"])
    without = run(server, tmp_path / "without", parts=["negatives"], validator_gold_items=0)
    for name in ("negatives", "paraphrases", "rejects", "verdicts"):
        assert (out / f"{name}.parquet").read_bytes() == (without / f"{name}.parquet").read_bytes()
    replies, fewer = (read_table(REPLIES, one / "replies.parquet") for one in (out, without))
    assert len(replies) == len(fewer) + GOLD


def test_the_answers_to_the_items_are_part_of_the_result(server: ChatServer, tmp_path: Path) -> None:
    written = language_negatives(
        PAIRS,
        seed=2,
        max_attempts=1,
        parts=("negatives", "paraphrases"),
        model={**MODEL, "target": f"chat:m@{server.url}", "name": "m", "validator_gold_items": GOLD},
        store=tmp_path / "r.sqlite",
    )
    assert written.replies is not None
    list(written.replies)
    rows = written.gold_items
    assert rows is not None
    assert rows["part"].value_counts().to_dict() == {"negatives": GOLD, "paraphrases": GOLD}
    assert (rows["accepted"] == rows["sound"]).all()


def test_a_rebuild_from_the_table_gives_the_same_bytes_without_a_model(
    server: ChatServer, tmp_path: Path
) -> None:
    first = run(server, tmp_path / "first")
    server.close()
    nowhere = {"validator_gold_items": GOLD, "subtypes": 2, "replies": str(first / "replies.parquet")}
    second = write("http://127.0.0.1:9/v1", tmp_path / "second", PAIRS, **nowhere)
    assert contents(second) == contents(first)


def test_a_table_of_before_such_items_is_rebuilt_without_them(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(server, tmp_path / "first", validator_gold_items=0)
    server.close()
    nowhere = {"validator_gold_items": GOLD, "subtypes": 2, "replies": str(first / "replies.parquet")}
    second = write("http://127.0.0.1:9/v1", tmp_path / "second", PAIRS, **nowhere)
    assert contents(second) == contents(first)
    assert "The validator of negatives is not measured" in capsys.readouterr().err


def test_malformed_answers_to_the_items_are_no_verdicts_and_judge_nobody(
    server: ChatServer, tmp_path: Path
) -> None:
    def behave(request: Request, number: int) -> Response:
        return completion("Hm.") if asked(request)[0] in VALIDATION else obliging(request, number)

    server.behave = behave
    out = run(server, tmp_path, parts=["negatives"], required=("not_copy",))
    assert len(read_table(TABLES["negatives"], out / "negatives.parquet"))


def test_the_items_are_in_the_estimate_of_the_cost_once(server: ChatServer, tmp_path: Path) -> None:
    settings = {**MODEL, "target": f"chat:m@{server.url}", "name": "m", "validator_gold_items": GOLD}
    many = pd.concat([PAIRS, pairs_of([f"A {i} of wood." for i in range(30)])], ignore_index=True)

    def estimate(items: int) -> int:
        return estimate_cost(
            many,
            seed=2,
            max_attempts=1,
            parts=["paraphrases"],
            model={**settings, "validator_gold_items": items},
            sample=10,
            store=tmp_path / "r.sqlite",
        ).requests

    assert estimate(GOLD) == estimate(0) + GOLD
    assert not server.requests


def test_a_table_written_with_items_and_read_without_them_leaves_their_responses_out(
    server: ChatServer, tmp_path: Path
) -> None:
    first = run(server, tmp_path / "first")
    rows = read_table(REPLIES, first / "replies.parquet")
    write_table(REPLIES, rows, tmp_path / "known.parquet")
    server.close()
    second = write(
        "http://127.0.0.1:9/v1",
        tmp_path / "second",
        PAIRS,
        subtypes=2,
        validator_gold_items=0,
        replies=str(tmp_path / "known.parquet"),
    )
    assert len(read_table(REPLIES, second / "replies.parquet")) < len(rows)


@pytest.mark.skipif(find_gguf() is None, reason="SmolLM2's GGUF file is not installed: make dev")
def test_a_real_small_model_answers_all_items_alike_and_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    path = find_gguf()
    assert path is not None
    with (
        serve_gguf(path, tmp_path / "log", slots=2) as url,
        pytest.raises(BackendError, match="8 of 8 that are"),
    ):
        write(url, tmp_path, PAIRS, validator_gold_items=16, max_connections=2)
