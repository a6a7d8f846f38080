"""Paraphrases that fail are sent back to a scripted server, bounded, counted, and never requested twice."""

from __future__ import annotations

import copy
import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer, Request, Response
from obliging_writer import CAPTIONS, answer, asked, completion, pairs_of, write

from caramel.config.schema import parse_config
from caramel.errors import ResourceError
from caramel.io.safe_yaml import read_yaml
from caramel.report.blocks import TableBlock
from caramel.report.sections.noise_section import build_failure_section
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.llm import VERDICTS
from caramel.schemas.negatives import PARAPHRASES
from caramel.schemas.pairs import PAIRS

ROOT = Path(__file__).parents[4]
ONLY = ("paraphrases",)


def list_complaints(request: Request) -> list[str]:
    """Return what the request says of earlier drafts."""
    users = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return [text for text in users if text.startswith("That does not do: ")]


def hallucinate(request: Request, number: int) -> Response:
    """Say too much unless two drafts were refused, which the validator notices."""
    name, given = asked(request)
    if name == "validate_paraphrase":
        wrong = "a kite" in given["second"]
        return completion(
            json.dumps({"same": "no" if wrong else "yes", "problem": "hallucination" if wrong else "none"})
        )
    good = answer(name, given, 0)
    if len(list_complaints(request)) < 2:
        turn = request.body["seed"] % 7
        good["sentence"] = good["sentence"].removesuffix(".") + f" and {'very ' * turn}a kite."
    return completion(json.dumps(good))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(hallucinate)
    yield server
    server.close()


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_drafts_that_say_too_much_are_corrected_in_the_second_round(
    server: ChatServer, tmp_path: Path
) -> None:
    out = write(server.url, tmp_path, parts=ONLY, max_attempts=4, correct_paraphrases=2)
    paraphrases = read_table(PARAPHRASES, out / "paraphrases.parquet")
    assert paraphrases["attempts"].tolist() == [3] * len(CAPTIONS)
    assert not paraphrases["caption2"].str.contains("kite").any()
    complaints = {text for request in server.requests for text in list_complaints(request)}
    assert complaints == {
        "That does not do: hallucination: say nothing that the caption does not say. Answer again."
    }
    assert len(server.requests) == 2 * 3 * len(CAPTIONS)  # each draft and each verdict once


def test_without_the_setting_nothing_is_sent_back_and_all_attempts_are_fresh(
    server: ChatServer, tmp_path: Path
) -> None:
    out = write(server.url, tmp_path, parts=ONLY, max_attempts=4)
    assert not any(list_complaints(request) for request in server.requests)
    verdicts = read_table(VERDICTS, out / "verdicts.parquet")
    assert set(verdicts["reason"]) == {"hallucination"}
    assert len(verdicts) == 4 * len(CAPTIONS)
    assert not len(read_table(PARAPHRASES, out / "paraphrases.parquet"))


def test_attempts_bound_the_requests_however_many_corrections_are_allowed(
    server: ChatServer, tmp_path: Path
) -> None:
    write(server.url, tmp_path, parts=ONLY, max_attempts=2, correct_paraphrases=50)
    assert len(server.requests) == 2 * 2 * len(CAPTIONS)


def test_a_run_that_a_cap_ended_goes_on_from_its_responses_to_the_same_tables(
    server: ChatServer, tmp_path: Path
) -> None:
    whole = write(server.url, tmp_path / "whole", parts=ONLY, max_attempts=4, correct_paraphrases=2)
    number = len(server.requests)
    settings = {"parts": ONLY, "max_attempts": 4, "correct_paraphrases": 2, "max_connections": 1}
    with pytest.raises(ResourceError, match="max_requests = 10 is reached"):
        write(server.url, tmp_path / "parts", max_requests=10, **settings)
    assert 0 < len(server.requests) - number <= 10
    resumed = write(server.url, tmp_path / "parts", **settings)
    assert len(server.requests) == 2 * number  # none was sent twice
    assert {name: contents(resumed)[name] for name in ("paraphrases.parquet", "verdicts.parquet")} == {
        name: contents(whole)[name] for name in ("paraphrases.parquet", "verdicts.parquet")
    }
    write(server.url, tmp_path / "parts", **settings)
    assert len(server.requests) == 2 * number


def test_the_stage_counts_corrections_and_the_report_shows_them(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("inputs/prompts").mkdir(parents=True)
    pairs = pairs_of(CAPTIONS).assign(scene=None, split="train", source="test")
    write_table(PAIRS, build_frame(PAIRS, pairs), "data/scenes/pairs.parquet")
    values = copy.deepcopy(read_yaml(ROOT / "params" / "default.yaml", ""))
    values["negatives"] |= {"backend": "lexicon", "paraphrases": "language_model", "max_attempts": 4}
    values["negatives"]["language_model"] |= {
        "target": f"chat:m@{server.url}",
        "validator_gold_items": 0,
        "correct_paraphrases": 2,
    }
    stage = runpy.run_path(str(ROOT / "pipelines" / "negatives.py"))["negatives"]
    stage(parse_config(values, "params.yaml"))
    number = len(CAPTIONS)
    counts = pd.read_csv("data/negatives/corrections.csv")
    assert counts.values.tolist() == [["hallucination", 2 * number, number]]
    table = build_failure_section(Path("data"))[-1]
    assert isinstance(table, TableBlock)
    assert table.caption == "Corrections of paraphrases"
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["hallucination", str(2 * number), str(number)]
    ]
