"""Requests and responses as files: a model that answers files writes the tables that a server's answers give."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chat_server import ChatServer, Request
from obliging_writer import BOTH, CAPTIONS, MODEL, asked, completion, obliging, pairs_of, write
from real_models import SMOLLM2

from caramel.errors import BackendError, ConfigError, DataError, ResourceError
from caramel.interfaces.language_model import Request as ModelRequest
from caramel.models.llm.causal import load_causal_model
from caramel.sources.captions.llm.batch_files import read_batch_file, read_outputs, write_batch_file

PAIRS = pairs_of(CAPTIONS[:2])
NOWHERE = "http://127.0.0.1:9/v1"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def arguments(folder: Path, pairs: pd.DataFrame = PAIRS, parts: Any = BOTH, **model: Any) -> dict[str, Any]:
    settings = {**MODEL, "target": f"chat:m@{NOWHERE}", "name": "m", **model}
    return {
        "pairs": pairs,
        "seed": 2,
        "max_attempts": 3,
        "parts": parts,
        "model": settings,
        "store": folder / "r.sqlite",
    }


def answer_obligingly(body: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(obliging(Request("", {}, body), 0).body)
    return reply


def succeed(body: dict[str, Any]) -> dict[str, Any]:
    return {"status_code": 200, "request_id": "1", "body": body}


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answer_file(requests: Path, answer: Answer = answer_obligingly) -> Path:
    """Write the answers beside the requests, as `vllm run-batch` does, in another order."""
    rows = [
        {
            "id": f"vllm-{i}",
            "custom_id": row["custom_id"],
            "response": succeed(answer(row["body"])),
            "error": None,
        }
        for i, row in enumerate(read_rows(requests))
    ]
    return write_rows(requests.with_name("answers.jsonl"), rows[::-1])


def answer_all(
    folder: Path, settings: dict[str, Any], answer: Answer = answer_obligingly, limit: int = 10**6
) -> int:
    """Write, answer and read until no request waits; return the number of files."""
    path, number = folder / "requests.jsonl", 0
    while write_batch_file(path, limit=limit, **settings):
        counts = read_batch_file(answer_file(path, answer), **settings)
        assert counts.stored == len(read_rows(path)) <= limit
        number += 1
        assert number < 100
    return number


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    yield server
    server.close()


@pytest.mark.parametrize("limit", [10**6, 7])
def test_files_give_the_tables_that_a_server_gives(live: ChatServer, tmp_path: Path, limit: int) -> None:
    served = write(live.url, tmp_path / "served", PAIRS)
    settings = arguments(tmp_path)
    answer_all(tmp_path, settings, limit=limit)
    filed = write(NOWHERE, tmp_path, PAIRS)  # from the store alone
    tables = [
        {path.name: path.read_bytes() for path in folder.iterdir() if path.stem != "replies"}
        for folder in (served, filed)
    ]
    assert tables[0] == tables[1]
    columns = ["reply_id", "text", "input_tokens", "output_tokens", "finish_reason"]
    replies = [pd.read_parquet(folder / "replies.parquet", columns=columns) for folder in (served, filed)]
    pd.testing.assert_frame_equal(*replies)


def test_a_row_holds_what_the_server_would_have_been_sent_and_each_request_once(
    live: ChatServer, tmp_path: Path
) -> None:
    write(live.url, tmp_path / "served", PAIRS, response_schema=True)
    twice = pd.concat([PAIRS, PAIRS.assign(pair_id=["q0", "q1"])], ignore_index=True)
    path = tmp_path / "requests.jsonl"
    number = write_batch_file(path, limit=1000, **arguments(tmp_path, twice, response_schema=True))
    rows = read_rows(path)
    assert len({row["custom_id"] for row in rows}) == len(rows) == number
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    sent = [request.body for request in live.requests]
    assert all(row["body"] in sent for row in rows)
    assert not list(tmp_path.glob(".*"))


def name_prompts(path: Path) -> set[str]:
    return {asked(Request("", {}, row["body"]))[0] for row in read_rows(path)}


@pytest.mark.parametrize("limit", [10**6, 5])
def test_texts_with_known_answers_are_alone_until_they_are_answered(tmp_path: Path, limit: int) -> None:
    gold = arguments(tmp_path, pairs_of(CAPTIONS), validator_gold_items=8, required=("not_copy",))
    path, waiting = tmp_path / "requests.jsonl", 16
    while waiting:
        number = write_batch_file(path, limit=limit, **gold)
        assert name_prompts(path) <= {"validate_negative", "validate_paraphrase"}
        assert number == min(limit, waiting)
        waiting -= read_batch_file(answer_file(path), **gold).stored
    write_batch_file(path, limit=10**6, **gold)
    assert not name_prompts(path) & {"validate_negative", "validate_paraphrase"}


def test_a_required_validator_no_better_than_chance_ends_the_batches_and_another_is_not_used(
    tmp_path: Path,
) -> None:
    nouns = ("cat", "dog", "horse", "man", "woman", "bench", "kite", "boat", "couch", "lamp")
    pairs = pairs_of([f"A red {noun} next to a large table." for noun in nouns])
    gold = {"validator_gold_items": 20, "subtypes": 1}
    required = arguments(tmp_path, pairs, **gold)
    path = tmp_path / "requests.jsonl"

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        name = asked(Request("", {}, body))[0]
        verdicts = {
            "validate_negative": {"follows": "no"},
            "validate_paraphrase": {"same": "no", "problem": "none"},
        }
        if name not in verdicts:
            return answer_obligingly(body)
        reply: dict[str, Any] = json.loads(completion(json.dumps(verdicts[name])).body)
        return reply

    write_batch_file(path, limit=10**6, **required)
    read_batch_file(answer_file(path, answer), **required)
    path.unlink()
    with pytest.raises(BackendError, match="no better than chance"):
        write_batch_file(path, limit=10**6, **required)
    assert not path.exists()
    optional = {**required, "model": {**required["model"], "required": ("not_copy",)}}
    while write_batch_file(path, limit=10**6, **optional):
        assert not name_prompts(path) & {"validate_negative", "validate_paraphrase"}
        read_batch_file(answer_file(path, answer), **optional)
    write(NOWHERE, tmp_path, pairs, required=("not_copy",), **gold)  # from the store alone


def test_where_no_request_waits_no_file_is_written(tmp_path: Path) -> None:
    settings = arguments(tmp_path, parts=["paraphrases"])
    answer_all(tmp_path, settings)
    assert write_batch_file(tmp_path / "more.jsonl", limit=9, **settings) == 0
    assert not (tmp_path / "more.jsonl").exists()


def test_failed_rows_are_an_error_after_the_others_are_stored_and_are_written_again(tmp_path: Path) -> None:
    settings = arguments(tmp_path)
    path = tmp_path / "requests.jsonl"
    number = write_batch_file(path, limit=1000, **settings)
    rows = read_rows(answer_file(path))
    rows[0]["response"] = {"status_code": 500, "body": {"error": {"message": "out of memory"}}}
    rows[1] |= {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    rows[2]["response"] = succeed({"choices": []})
    failed = {row["custom_id"] for row in rows[:3]}
    with pytest.raises(
        DataError, match=rf"3 of {number} rows have no response(.|\n)*out of memory(.|\n)*too late"
    ):
        read_batch_file(write_rows(tmp_path / "a.jsonl", rows), **settings)
    write_batch_file(path, limit=1000, **settings)
    waiting = {row["custom_id"] for row in read_rows(path)}
    assert failed <= waiting
    assert not {row["custom_id"] for row in rows[3:]} & waiting


def test_missing_rows_are_counted_and_rows_that_were_read_before_are_known(tmp_path: Path) -> None:
    settings = arguments(tmp_path)
    path = tmp_path / "requests.jsonl"
    number = write_batch_file(path, limit=1000, **settings)
    rows = read_rows(answer_file(path))
    answers = write_rows(tmp_path / "a.jsonl", rows[2:])
    assert read_batch_file(answers, **settings) == (number - 2, 0, 2)
    again = read_batch_file(answers, **settings)
    assert (again.stored, again.known) == (0, number - 2)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda rows: [*rows, rows[0]], "has two rows"),
        (lambda rows: [{**rows[0], "custom_id": "request-1"}], "custom_id 'request-1', answer no request"),
        (lambda rows: [{"id": "1"}], "is no row of a batch's output"),
        (lambda rows: [[]], "is no row of a batch's output"),
        (lambda rows: [], "has no rows"),
    ],
)
def test_a_foreign_file_and_an_id_twice_are_errors_and_nothing_is_stored(
    tmp_path: Path, spoil: Callable[[list[Any]], list[Any]], problem: str
) -> None:
    settings = arguments(tmp_path)
    path = tmp_path / "requests.jsonl"
    write_batch_file(path, limit=1000, **settings)
    requests = path.read_text()
    answers = write_rows(tmp_path / "a.jsonl", spoil(read_rows(answer_file(path))))
    with pytest.raises(DataError, match=problem):
        read_batch_file(answers, **settings)
    write_batch_file(path, limit=1000, **settings)
    assert path.read_text() == requests


def test_the_file_of_requests_and_one_that_is_not_json_are_told(tmp_path: Path) -> None:
    settings = arguments(tmp_path)
    path = tmp_path / "requests.jsonl"
    write_batch_file(path, limit=1000, **settings)
    with pytest.raises(DataError, match="is a request, not an answer"):
        read_batch_file(path, **settings)
    path.write_text("{\n")
    with pytest.raises(DataError, match="line 1 is not valid JSON"):
        read_outputs(path)


def test_answers_to_other_params_are_foreign(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write_batch_file(path, limit=1000, **arguments(tmp_path))
    answers = answer_file(path)
    with pytest.raises(DataError, match="answer no request"):
        read_batch_file(answers, **arguments(tmp_path, max_tokens=99))


def test_a_file_is_for_one_model_behind_a_server(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    two = arguments(tmp_path, name=None, paraphraser=f"chat:n@{NOWHERE}")
    with pytest.raises(ConfigError, match="--part negatives or --part paraphrases"):
        write_batch_file(path, limit=9, **two)
    assert write_batch_file(path, limit=9, **{**two, "parts": ["paraphrases"]}) == 2
    assert {row["body"]["model"] for row in read_rows(path)} == {"n"}
    with pytest.raises(ConfigError, match="chat:MODEL@URL, and not for local:folder"):
        write_batch_file(path, limit=9, **arguments(tmp_path, target="local:folder"))


def test_a_cap_of_the_budget_ends_the_writing_before_there_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with pytest.raises(ResourceError, match="max_requests = 3 is reached"):
        write_batch_file(path, limit=1000, **arguments(tmp_path, max_requests=3))
    assert not path.exists()
    assert write_batch_file(path, limit=3, **arguments(tmp_path, max_requests=3)) == 3


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="SmolLM2 is not there: make dev")
def test_a_real_model_that_answers_files_gives_captions(tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    model = load_causal_model(str(SMOLLM2), max_connections=4)

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        schema = json.dumps(body["response_format"]["json_schema"]["schema"])
        request = ModelRequest(messages, body["temperature"], body["seed"], body["max_tokens"], schema)
        (output,) = model.generate_outputs([request])
        return {
            "choices": [{"message": {"content": output.text}, "finish_reason": output.finish_reason}],
            "usage": {"prompt_tokens": output.input_tokens, "completion_tokens": output.output_tokens},
        }

    form = {"response_schema": True, "examples": 1, "max_tokens": 48}
    settings = arguments(tmp_path, PAIRS[:1], ["paraphrases"], **form) | {"max_attempts": 1}
    assert 1 <= answer_all(tmp_path, settings, answer) <= 4
    out = write(NOWHERE, tmp_path, PAIRS[:1], ["paraphrases"], max_attempts=1, **form)
    replies = pd.read_parquet(out / "replies.parquet")
    assert replies["text"].notna().all()
    assert sum(len(pd.read_parquet(out / f"{name}.parquet")) for name in ("paraphrases", "rejects")) == 1
