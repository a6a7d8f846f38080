from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_server import ChatServer, always, refuses, says
from chat_server import Request as Received
from chat_server import Response as Sent
from llama_server import serve_gguf
from real_models import find_gguf
from test_chat import ASKED, answers

from caramel.errors import BackendError
from caramel.interfaces.language_model import Request as Asked
from caramel.models.llm.chat import ChatLanguageModel, load_chat_model
from caramel.models.llm.server_checks import PROBES
from caramel.sources.captions.prompts.prompt_files import load_prompt

TRUNCATED = ASKED._replace(top_p=0.9, min_p=0.1, schema=None)


def load(server: ChatServer) -> ChatLanguageModel:
    return load_chat_model(f"m@{server.url}", max_connections=2, workers=0)


def test_truncation_is_sent_with_sampled_requests_and_min_p_is_tried_once_before(server: ChatServer) -> None:
    server.behave = always("B")
    outputs = answers(load(server), [TRUNCATED] * 3 + [TRUNCATED._replace(temperature=0.0)])
    assert {output.text for output in outputs.values()} == {"B"}
    bodies = [request.body for request in server.requests]
    probes = [body for body in bodies if body.get("min_p") == 1.0]
    assert len(probes) == PROBES
    assert len({body["seed"] for body in probes}) == PROBES
    assert [(b["top_p"], b["min_p"]) for b in bodies if b.get("top_p")] == [(0.9, 0.1)] * 3
    (greedy,) = (body for body in bodies if body["temperature"] == 0)
    assert not {"top_p", "min_p"} & {*greedy}


def test_a_server_that_ignores_min_p_is_an_error_that_names_the_param(server: ChatServer) -> None:
    def draw(request: Received, number: int) -> Sent:
        return says(f"text {request.body['seed']}")

    server.behave = draw
    with pytest.raises(BackendError, match=r"ignores min_p.*negatives\.language_model\.min_p=0\.0"):
        answers(load(server), [TRUNCATED])


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("Unrecognized request argument supplied: min_p", "min_p=0.0"),
        ("top_p is not supported by this model", "top_p=1.0"),
        ("response_format: extra fields not permitted", "response_schema=false"),
    ],
)
def test_a_server_that_refuses_a_parameter_is_an_error_that_names_the_param(
    server: ChatServer, message: str, cure: str
) -> None:
    server.behave = lambda *_: refuses(400, message)
    with pytest.raises(BackendError, match=cure):
        answers(load(server), [ASKED])


def test_a_server_that_ignores_the_schema_is_said_once_and_its_answers_are_kept(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave = always("new: gold")
    assert {output.text for output in answers(load(server), [ASKED] * 3).values()} == {"new: gold"}
    assert capsys.readouterr().err.count("does not enforce response_format") == 1


def test_a_real_server_applies_truncation_and_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    path = find_gguf()
    if path is None:
        pytest.skip("SmolLM2 is not there: make dev")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    prompt = load_prompt("replace_obj_propose")
    messages = prompt.build_messages({"sentence": "A dog runs on the beach.", "object": "dog"}, 1)
    requests = [
        Asked(messages, 1.5, seed, 32, prompt.format_schema_text(), top_p=0.95, min_p=0.1)
        for seed in range(2)
    ]
    with serve_gguf(path, tmp_path / "log", slots=2) as url:
        outputs = answers(load_chat_model(f"m@{url}", max_connections=2, workers=0), requests)
    assert all([*json.loads(output.text or "")] == ["new"] for output in outputs.values())
    assert "response_format" not in capsys.readouterr().err


def test_an_answer_of_the_asked_form_is_not_complained_of(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behave = lambda *_: says(json.dumps({"new": "gold"}))
    answers(load(server), [ASKED] * 2)
    assert "response_format" not in capsys.readouterr().err
