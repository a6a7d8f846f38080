"""Bad replies, budgets and patience, against a real server on the loopback interface."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chat_server import (
    CLOSE,
    DRIP,
    HANG,
    Behaviour,
    ChatServer,
    Request,
    Response,
    always,
    in_turn,
    refuses,
    says,
)
from obliging_writer import asked, completion

from caramel.errors import BackendError, ResourceError
from caramel.models.chat.concurrency import ConnectionSlots
from caramel.models.chat.endpoint import Endpoint
from caramel.models.llm.chat import ChatLanguageModel
from caramel.sources.captions.llm.budget import Budget, Usage, estimate_request_tokens
from caramel.sources.captions.llm.conversation import (
    CUT,
    EMPTY,
    MALFORMED,
    NO_REPLY,
    RETRY,
    Outcome,
    PromptInput,
    Script,
    ask_until_valid,
)
from caramel.sources.captions.llm.models import NamedModel
from caramel.sources.captions.llm.response_cache import open_replies
from caramel.sources.captions.llm.scheduler import (
    PAPERS,
    PATIENCE,
    RequestSettings,
    Sampling,
    Scheduler,
    build_request,
)

GOOD = completion(json.dumps({"follows": "no"}))
FREE = Budget(0.0, 0.0, None, None, None)
MANNER = RequestSettings("m", 1, 7, 64, False, 4)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "r.sqlite"


def script(text: str, tries: int = 1) -> Script:
    """Ask one question; its answer is the outcome."""
    answer = yield from ask_until_valid(
        PromptInput("validate_negative", {"caption": text, "changed": "B."}, 1, 0.0), tries
    )
    return (
        Outcome(None, 1, answer, ())
        if isinstance(answer, str)
        else Outcome(str(answer["follows"]), 1, "", ())
    )


def run(
    server: ChatServer,
    behave: Behaviour,
    store: Path,
    texts: list[str],
    *,
    tries: int = 1,
    spent: Usage | None = None,
    workers: int = 4,
    max_attempts: int = 2,
    timeout: float = 5,
    max_tokens: int = MANNER.max_tokens,
) -> list[Outcome]:
    server.behave = behave
    endpoint = Endpoint(
        "m",
        server.url,
        pause=0.001,
        max_attempts=max_attempts,
        timeout=timeout,
        slots=ConnectionSlots(workers),
    )
    manner = replace(MANNER, max_connections=workers, max_tokens=max_tokens)
    scripts = (script(text, tries) for text in texts)
    with open_replies(store) as replies:
        asking = Scheduler(
            scripts,
            len(texts),
            request_settings=manner,
            judges={},
            store=replies,
            spent=spent or Usage(FREE),
            title="texts",
        )
        found = asking.run(NamedModel("m", lambda: ChatLanguageModel(endpoint)))
    return [found[place] for place in range(len(texts))]


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (refuses(429, "slow down", Retry_After="0"), NO_REPLY),
        (refuses(500, "oh"), NO_REPLY),
        (Response(200, b"<html>502 Bad Gateway</html>"), NO_REPLY),
        (Response(200, b'{"choices": [{"message": {"con', {"Content-Length": "9999"}), NO_REPLY),
        (CLOSE, NO_REPLY),
        (says(""), EMPTY),
        (says(None), EMPTY),
        (says("I'm sorry, but I can't help with that."), MALFORMED),
        (says("Lo siento, no puedo."), MALFORMED),
        (says("word " * 20_000), MALFORMED),
        (completion('{"foll', "length"), CUT),
    ],
)
def test_bad_replies_are_asked_again_and_then_a_reject_with_its_reason(
    server: ChatServer, store: Path, trouble: Response | str, reason: str
) -> None:
    tries = 1 if reason == NO_REPLY else 2
    assert run(server, in_turn(trouble, GOOD), store, ["A."], tries=tries)[0].text == "no"
    assert len(server.requests) == 2
    assert run(server, lambda *_: trouble, store, ["A.", "C."], tries=2)[1] == Outcome(None, 1, reason, ())
    assert len(server.requests) == 4


@pytest.mark.parametrize("slow", [HANG, DRIP])
def test_a_server_that_does_not_end_is_left_and_what_others_said_is_kept(
    server: ChatServer, store: Path, slow: str
) -> None:
    def behave(request: Request, number: int) -> Response | str:
        return slow if "A." in request.body["messages"][-1]["content"] else GOOD

    quick = {"timeout": 0.2, "max_tokens": 1}
    found = run(server, behave, store, ["A.", "C."], max_attempts=1, **quick)  # type: ignore[arg-type]
    assert [outcome.reason for outcome in found] == [NO_REPLY, ""]
    assert run(server, lambda *_: GOOD, store, ["A.", "C."], max_tokens=1)[0].text == "no"
    assert len(server.requests) == 3


def test_a_malformed_answer_is_not_shown_to_the_model_but_asked_afresh_with_another_draw(
    server: ChatServer, store: Path
) -> None:
    run(server, in_turn(says("Hm."), says("Hm."), GOOD), store, ["A."], tries=3)
    first, second, third = (request.body for request in server.requests)
    assert first["messages"] == second["messages"] == third["messages"]
    assert [body["temperature"] for body in (first, second, third)] == [0.0, RETRY, RETRY]
    assert len({body["seed"] for body in (first, second, third)}) == 3
    assert run(server, refuses(500, "oh"), store, ["A."], tries=3)[0].text == "no"  # each has its own key
    assert len(server.requests) == 3


def test_equal_questions_are_asked_once_even_when_the_first_is_under_way(
    server: ChatServer, store: Path
) -> None:
    found = run(server, always('{"follows": "yes"}'), store, ["A.", "B.", "A.", "B."] * 5)
    assert [outcome.text for outcome in found] == ["yes"] * 20
    assert len(server.requests) == 2


def test_each_script_gets_the_reply_to_its_own_question(server: ChatServer, store: Path) -> None:
    def behave(request: Request, number: int) -> Response:
        return completion(json.dumps({"follows": "yes" if int(asked(request)[1]["caption"]) % 3 else "no"}))

    found = run(server, behave, store, [str(i) for i in range(60)])
    assert [outcome.text for outcome in found] == ["yes" if i % 3 else "no" for i in range(60)]


def test_as_many_requests_as_allowed_are_under_way_and_no_more(server: ChatServer, store: Path) -> None:
    all_there, busy, most, lock = threading.Barrier(4, timeout=10), 0, 0, threading.Lock()

    def behave(request: Request, number: int) -> Response:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        all_there.wait()
        with lock:
            busy -= 1
        return GOOD

    run(server, behave, store, [str(i) for i in range(16)])
    assert most == 4


EACH = estimate_request_tokens(
    build_request(PromptInput("validate_negative", {"caption": "0.", "changed": "B."}, 1, 0.0), MANNER)[1]
)  # tokens, about


@pytest.mark.parametrize(
    ("caps", "named"),
    [
        ((5, None, None), "max_requests = 5"),
        ((None, 5 * (EACH + 64), None), f"max_total_tokens = {5 * (EACH + 64):,}"),
        ((None, None, EACH * 5.5), f"max_cost = {EACH * 5.5:g}"),
    ],
)
def test_a_cap_ends_the_run_what_came_is_kept_and_a_higher_one_goes_on(
    server: ChatServer, store: Path, caps: tuple[int | None, int | None, float | None], named: str
) -> None:
    texts, answer = [f"{i}." for i in range(10)], always('{"follows": "no"}')
    spent = Usage(Budget(1e6, 0.0, *caps))
    with pytest.raises(ResourceError, match=f"{named} is reached after . of 10 texts.*raise the cap"):
        run(server, answer, store, texts, spent=spent)
    first = len(server.requests)
    assert 5 <= first == spent.requests < 10
    assert spent.cost == EACH * first <= (caps[2] or 10**9)
    assert spent.input_tokens + spent.output_tokens <= (caps[1] or 10**9)
    with pytest.raises(ResourceError, match=named):  # the cap is on the data set, not on one run
        run(server, answer, store, texts, spent=Usage(Budget(1e6, 0.0, *caps)))
    assert len(server.requests) == first
    run(server, answer, store, texts)
    assert len(server.requests) == 10


def test_replies_that_are_known_count_for_caps_as_well_and_end_the_run_where_it_is_beyond_one(
    server: ChatServer, store: Path
) -> None:
    texts = [f"{i}." for i in range(40)]
    run(server, always('{"follows": "no"}'), store, texts)
    with pytest.raises(ResourceError, match=r"max_requests = 5 is reached after . of 40 texts \(. requests"):
        run(server, lambda *_: GOOD, store, texts, spent=Usage(Budget(0.0, 0.0, 5, None, None)))


@pytest.mark.parametrize(
    ("sampling", "temperature", "parameters"),
    [
        (PAPERS, 1.5, {"temperature": 1.5}),
        (PAPERS, 0.0, {"temperature": 0.0}),
        (Sampling(0.8, 1.0, 0.0), 1.5, {"temperature": 0.8}),
        (Sampling(1.5, 1.0, 0.1), 1.0, {"temperature": 1.0, "min_p": 0.1}),
        (Sampling(1.2, 0.9, 0.1), 1.5, {"temperature": 1.2, "top_p": 0.9, "min_p": 0.1}),
        (Sampling(1.2, 0.9, 0.1), 0.0, {"temperature": 0.0}),
    ],
)
def test_the_key_of_a_response_holds_the_sampling_where_it_has_an_effect(
    sampling: Sampling, temperature: float, parameters: dict[str, float]
) -> None:
    ask = PromptInput("replace_obj_propose", {"sentence": "A.", "object": "b"}, 1, temperature)
    key, request = build_request(ask, replace(MANNER, sampling=sampling))
    seed = 0 if temperature == 0 else build_request(ask, MANNER)[1].seed
    expected = {"max_tokens": 64, "seed": seed, "structured": False, **parameters}
    assert key.parameters == json.dumps(expected, sort_keys=True)
    assert (request.temperature, request.seed) == (parameters["temperature"], seed)
    assert (request.top_p, request.min_p) == (parameters.get("top_p", 1.0), parameters.get("min_p", 0.0))


def test_an_estimate_counts_bytes_and_the_schema() -> None:
    ask = PromptInput("validate_negative", {"caption": "犬" * 400, "changed": "B."}, 1, 0.0)
    plain, structured = (build_request(ask, replace(MANNER, response_schema=s))[1] for s in (False, True))
    assert estimate_request_tokens(plain) >= EACH + 295
    assert estimate_request_tokens(structured) > estimate_request_tokens(plain)


def test_a_server_that_is_down_ends_the_run_after_some_requests_and_what_came_is_kept(
    server: ChatServer, store: Path
) -> None:
    texts = [str(i) for i in range(60)]
    with pytest.raises(BackendError, match=f"gave no response to {PATIENCE}.*503: on fire"):
        run(
            server,
            lambda r, n: GOOD if n < 10 else refuses(503, "on fire"),
            store,
            texts,
            workers=1,
            max_attempts=1,
        )
    assert len(server.requests) == 10 + PATIENCE
    assert len(run(server, lambda *_: GOOD, store, texts)) == 60
    assert len(server.requests) == 60 + PATIENCE


def test_a_server_that_is_down_is_an_error_also_where_less_is_asked_than_patience_lasts(
    server: ChatServer, store: Path
) -> None:
    with pytest.raises(BackendError, match="gave no response to any request for 3 texts"):
        run(server, lambda *_: refuses(503, "on fire"), store, ["a", "b", "c"], max_attempts=1)
    assert (
        len(
            run(
                server, lambda r, n: refuses(503, "no") if n == 3 else GOOD, store, ["a", "b"], max_attempts=1
            )
        )
        == 2
    )


def test_silence_is_told_as_such_though_a_request_that_was_under_way_is_answered_at_last(
    server: ChatServer, store: Path
) -> None:
    def behave(request: Request, number: int) -> Response:
        if number:
            return refuses(500, "oops")
        time.sleep(1)
        return GOOD

    with pytest.raises(BackendError, match=f"gave no response to {PATIENCE} .*500: oops"):
        run(server, behave, store, [str(i) for i in range(60)], max_attempts=1)


def test_a_wrong_key_is_one_clear_error_without_the_key_and_what_was_under_way_is_kept(
    server: ChatServer, store: Path
) -> None:
    refused = threading.Event()

    def behave(request: Request, number: int) -> Response:
        if number == 0:
            refused.set()
            return refuses(401, "who are you?")
        refused.wait(5)
        return GOOD

    with pytest.raises(BackendError, match=r"status 401: who are you\?\n.*CARAMEL_CHAT_KEY"):
        run(server, behave, store, [str(i) for i in range(200)], workers=2)
    first = len(server.requests)
    assert first < 199
    assert len(run(server, lambda *_: GOOD, store, [str(i) for i in range(200)])) == 200
    assert len(server.requests) == 201


def test_what_is_counted_is_what_the_server_says_and_else_an_estimate(
    server: ChatServer, store: Path
) -> None:
    counted, guessed = Usage(Budget(2.0, 10.0, None, None, None)), Usage(FREE)
    run(
        server,
        lambda *_: completion('{"follows": "no"}', tokens=(1000, 500)),
        store,
        ["A.", "B."],
        spent=counted,
    )
    assert (counted.requests, counted.input_tokens, counted.output_tokens) == (2, 2000, 1000)
    assert counted.cost == pytest.approx(0.014)
    assert str(counted) == "2 requests, 3,000 tokens, cost 0.01"
    run(server, lambda *_: says('{"follows": "no"}'), store, ["C."], spent=guessed)
    assert 100 < guessed.input_tokens < 1000
    assert guessed.output_tokens == 5
