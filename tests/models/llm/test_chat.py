from __future__ import annotations

import json

import pytest
from chat_server import ChatServer, Response, always, refuses, says

from caramel.errors import BackendError
from caramel.interfaces.language_model import ModelOutput, Request
from caramel.models.chat.concurrency import ConnectionSlots
from caramel.models.chat.endpoint import Endpoint
from caramel.models.llm.chat import ChatLanguageModel, load_chat_model, parse_completion
from caramel.models.llm.specs import missing_language_model

ASKED = Request((("system", "Be brief."), ("user", "A?")), 1.5, 7, 64, '{"type": "object"}')


def answers(model: ChatLanguageModel, requests: list[Request]) -> dict[str, ModelOutput]:
    open_, found = [(str(i), request) for i, request in enumerate(requests)], dict[str, ModelOutput]()

    def waiting(number: int) -> list[tuple[str, Request]]:
        taken = open_[:number]
        del open_[:number]
        return taken

    model.answer_requests(waiting, found.__setitem__)
    return found


def test_a_request_holds_messages_parameters_and_the_schema_where_one_is_asked_for(
    server: ChatServer,
) -> None:
    server.behave = always("B")
    model = load_chat_model(f"org/m@{server.url}/", max_connections=2, workers=0)
    found = answers(model, [ASKED, ASKED._replace(schema=None)])
    assert [found[n]._replace(seconds=0) for n in ("0", "1")] == [ModelOutput("B", "stop")] * 2
    bodies = sorted((request.body for request in server.requests), key=len)
    assert bodies[0] == {
        "model": "org/m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A?"}],
        "temperature": 1.5,
        "max_tokens": 64,
        "seed": 7,
    }
    assert bodies[1]["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert model.identity == {"family": "chat", "url": server.url, "model": "org/m"}


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (says("A"), ModelOutput("A", "stop")),
        (says(None, refusal="No."), ModelOutput("No.", "stop")),
        (refuses(400, "filtered", "content_filter"), ModelOutput("", "content_filter")),
        (refuses(500, "oh"), None),
        (Response(200, b"<html>"), None),
        (
            Response(
                200,
                json.dumps(
                    {
                        "choices": [{"message": {"content": "A"}, "finish_reason": "length"}],
                        "usage": {"prompt_tokens": 5, "completion_tokens": -1},
                    }
                ).encode(),
            ),
            ModelOutput("A", "length", 5, None),
        ),
        (
            Response(200, b'{"choices": [{"message": {"content": "A"}}], "usage": [1]}'),
            ModelOutput("A", "stop"),
        ),
    ],
)
def test_a_response_is_read_with_its_finish_and_its_counts(
    response: Response, said: ModelOutput | None
) -> None:
    from caramel.models.chat.responses import Response as Heard

    assert parse_completion(Heard(response.status, {}, response.body)) == said


def test_all_requests_wait_when_one_is_told_that_the_server_is_busy(server: ChatServer) -> None:
    server.behave = lambda request, number: refuses(429, "slow", Retry_After="30")
    endpoint = Endpoint("m", server.url, max_attempts=1, slots=ConnectionSlots(1))
    answers(ChatLanguageModel(endpoint), [ASKED])
    assert 25 < endpoint.pace.get_remaining_seconds() <= 30


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_refused_alone_has_no_reply_and_the_others_are_answered(
    server: ChatServer, status: int
) -> None:
    server.behave = lambda request, number: always("B")(request, 0) if number else refuses(status, "too long")
    found = answers(load_chat_model(f"m@{server.url}", max_connections=1, workers=0), [ASKED, ASKED])
    assert (found["0"].text, found["1"].text) == (None, "B")
    assert "too long" in found["0"].problem
    assert len(server.requests) == 2


def test_an_answer_may_be_as_long_as_its_tokens(server: ChatServer) -> None:
    server.behave = always("word " * 80_000)
    model = ChatLanguageModel(Endpoint("m", server.url, pause=0.001, max_attempts=1))
    found = answers(model, [ASKED, ASKED._replace(max_tokens=80_000)])
    assert "more than" in found["0"].problem
    assert len(found["1"].text or "") == 400_000


def test_a_limit_holds_no_longer_than_the_endpoint_waits_at_most(server: ChatServer) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "inf"}
    server.behave = lambda request, number: refuses(500, "oh", **headers)
    endpoint = Endpoint("m", server.url, max_attempts=1, longest=7.0)
    answers(ChatLanguageModel(endpoint), [ASKED])
    assert 0 < endpoint.pace.get_remaining_seconds() <= 7


def test_no_connection_is_a_request_without_a_reply() -> None:
    found = answers(
        ChatLanguageModel(Endpoint("m", "http://127.0.0.1:9/v1", pause=0.001, max_attempts=2)), [ASKED]
    )
    assert found["0"].text is None
    assert found["0"].finish_reason == "failed"
    assert found["0"].problem


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("chat:gpt", "must be MODEL@URL"),
        ("chat:m@http://u:p@h/v1", "neither user nor password"),
        ("local:nowhere/at/all", "nowhere"),
    ],
)
def test_a_spec_that_cannot_be_used_is_told_without_asking(spec: str, said: str) -> None:
    assert said in " ".join(missing_language_model(spec))


@pytest.mark.parametrize("spec", ["", "chat", "gpt:m@http://h/v1", "local:"])
def test_what_is_no_spec_is_an_error(spec: str) -> None:
    with pytest.raises(BackendError, match="language model"):
        missing_language_model(spec)


def test_a_writer_sends_what_its_settings_say_and_is_another_model(server: ChatServer) -> None:
    server.behave = always("B")
    target = f"m@{server.url}#content_parts,max_completion_tokens,no_temperature,no_seed"
    model = load_chat_model(target, max_connections=1, workers=0)
    answers(model, [ASKED._replace(schema=None)])
    assert server.requests[0].body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": "A?"}]},
        ],
        "max_completion_tokens": 64,
    }
    assert model.identity == {
        "family": "chat",
        "url": server.url,
        "model": "m",
        "settings": "max_completion_tokens,no_temperature,no_seed,content_parts",
    }


@pytest.mark.parametrize(
    ("message", "setting"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", "max_completion_tokens"),
        ("Extra inputs are not permitted: seed", "no_seed"),
        ("body.messages.0.content: Input should be a valid list", "content_parts"),
    ],
)
def test_a_parameter_that_every_request_has_is_refused_for_all(
    server: ChatServer, message: str, setting: str
) -> None:
    server.behave = lambda request, number: refuses(422, message)
    with pytest.raises(BackendError, match=f"Give the model as 'm@.*#{setting}'"):
        answers(load_chat_model(f"m@{server.url}", max_connections=1, workers=0), [ASKED, ASKED])
    assert len(server.requests) == 1
