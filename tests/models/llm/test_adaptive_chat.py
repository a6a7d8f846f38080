"""The number of connections that a language model finds at a real server on the loopback interface."""

from __future__ import annotations

import time

from chat_server import ChatServer, Response, always, in_turn, refuses, says
from limited_server import Limit

from caramel.interfaces.connections import HasConnections
from caramel.interfaces.language_model import ModelOutput, Request
from caramel.models.chat.concurrency import START
from caramel.models.chat.endpoint import Endpoint
from caramel.models.llm.chat import ChatLanguageModel

SLOTS = 4
ASKED = Request((("user", "A?"),), 0.0, 0, 64, None)


def ask(model: ChatLanguageModel, number: int) -> list[ModelOutput]:
    waiting, outputs = [(str(i), ASKED) for i in range(number)], dict[str, ModelOutput]()

    def take(most: int) -> list[tuple[str, Request]]:
        taken = waiting[:most]
        del waiting[:most]
        return taken

    model.answer_requests(take, outputs.__setitem__)
    return [outputs[str(i)] for i in range(number)]


def test_a_server_that_queues_always_has_work(server: ChatServer) -> None:
    server.behave = limit = Limit(always("B"), SLOTS, 0.15, queues=True)
    model = ChatLanguageModel(Endpoint("m", server.url))
    assert {output.text for output in ask(model, 100)} == {"B"}
    assert len(server.requests) == 100
    assert limit.worked / SLOTS / (limit.ended - limit.begun) > 0.75
    assert isinstance(model, HasConnections)
    assert model.connections >= SLOTS


def test_a_server_that_refuses_gets_what_it_takes_and_no_more_for_long(server: ChatServer) -> None:
    server.behave = limit = Limit(always("B"), SLOTS, 0.15, queues=False)
    model = ChatLanguageModel(Endpoint("m", server.url, pause=0.1))
    assert {output.text for output in ask(model, 100)} == {"B"}
    assert SLOTS <= model.connections < START
    assert 1 <= len(limit.refused) <= 3 * START
    assert len([number for number in limit.refused if number > 50]) <= 2


def test_a_refusal_with_a_time_to_wait_also_holds_what_waits_for_a_slot(server: ChatServer) -> None:
    times: list[float] = []

    def behave(request: object, number: int) -> Response:
        times.append(time.monotonic())
        if number == 0:
            return refuses(429, "slow", Retry_After="1.5")
        time.sleep(0.5)
        return says("B")

    server.behave = behave
    model = ChatLanguageModel(Endpoint("m", server.url))
    assert {output.text for output in ask(model, 2 * START)} == {"B"}
    assert times[START] - times[0] > 1.2


def test_the_seconds_of_a_response_are_those_of_the_last_attempt(server: ChatServer) -> None:
    server.behave = in_turn(refuses(500, "oh"), says("B"))
    (output,) = ask(ChatLanguageModel(Endpoint("m", server.url, pause=1.0)), 1)
    assert 0 < output.seconds < 1
