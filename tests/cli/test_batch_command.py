from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_server import Request
from obliging_writer import CAPTIONS, obliging

from caramel.schemas.io import build_frame, write_table
from caramel.schemas.pairs import PAIRS

Call = Callable[..., tuple[int, str, str]]
TARGET = "negatives.language_model.target=chat:m@http://127.0.0.1:9/v1"


@pytest.fixture
def project(call: Call) -> Call:
    """Return the function that runs a command in a project whose captions a language model writes."""
    rows = [
        {
            "pair_id": f"p{n}",
            "image_id": f"i{n}",
            "caption": text,
            "scene": None,
            "split": "test",
            "source": "files",
        }
        for n, text in enumerate(CAPTIONS[:2])
    ]
    write_table(PAIRS, build_frame(PAIRS, rows), "data/scenes/pairs.parquet")
    for name in ("replies", "prompts"):
        Path("inputs", name).mkdir(parents=True)
    sets = ("--set", "negatives.backend=language_model", "--set", TARGET)
    assert call("config", "use", "default", *sets)[0] == 0
    return call


def answer(requests: str, answers: str) -> int:
    rows = [json.loads(line) for line in Path(requests).read_text().splitlines()]
    with Path(answers).open("w") as file:
        for row in rows:
            body = json.loads(obliging(Request("", {}, row["body"]), 0).body)
            reply = {
                "custom_id": row["custom_id"],
                "response": {"status_code": 200, "body": body},
                "error": None,
            }
            file.write(json.dumps(reply) + "\n")
    return len(rows)


def test_writing_and_reading_in_turn_answers_every_request(project: Call) -> None:
    for _ in range(20):
        code, out, err = project("batch", "write", "--out", "requests.jsonl")
        assert (code, err) == (0, "")
        if "No request waits" in out:
            break
        number = answer("requests.jsonl", "answers.jsonl")
        assert out.startswith(f"Wrote {number:,} requests to requests.jsonl")
        code, out, err = project("batch", "read", "answers.jsonl")
        assert (code, err) == (0, "")
        assert out.startswith(f"Stored {number:,} responses; 0 were stored before.")
    else:
        raise AssertionError("requests without end")
    code, out, _ = project("estimate-cost")
    assert code == 0
    assert "\nrequests                  0" in out


def test_a_part_and_a_limit_are_respected_and_what_is_left_is_said(project: Call) -> None:
    code, out, _ = project("batch", "write", "--out", "r.jsonl", "--part", "paraphrases", "--limit", "1")
    assert code == 0
    assert "Wrote 1 request to r.jsonl (the limit" in out
    answer("r.jsonl", "a.jsonl")
    code, out, _ = project("batch", "read", "a.jsonl")
    assert code == 0
    assert "requests that waited have no row in a.jsonl" in out


def test_a_part_that_no_language_model_writes_and_a_local_model_are_refused(project: Call) -> None:
    sets = (
        "--set",
        "negatives.backend=language_model",
        "--set",
        "negatives.paraphrases=lexicon",
        "--set",
        TARGET,
    )
    assert project("config", "use", "default", *sets)[0] == 0
    code, _, err = project("batch", "write", "--out", "r.jsonl", "--part", "paraphrases")
    assert code == 1
    assert "no language model writes the paraphrases" in err
    assert project("config", "use", "default")[0] == 0
    code, _, err = project("batch", "write", "--out", "r.jsonl")
    assert code == 1
    assert "uses no language model" in err


def test_nothing_is_written_over_the_params(project: Call) -> None:
    code, _, err = project("batch", "write", "--out", "params.yaml")
    assert code == 1
    assert "inputs are never overwritten" in err
