import base64
import gzip
import io
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from chat_server import (
    CLOSE,
    DRIP,
    FLOOD,
    HANG,
    Behaviour,
    ChatServer,
    Response,
    always,
    colour_of,
    in_turn,
    picture,
    refuses,
    says,
)
from limited_server import Limit
from PIL import Image

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import Chooser, Question, Reply
from caramel.models.chat import endpoint
from caramel.models.chat.concurrency import ConnectionSlots
from caramel.models.chat.endpoint import KEY, Endpoint
from caramel.models.chat.model import ChatModel, encode_data_url, list_chat_problems, load_chat
from caramel.models.chat.responses import LARGEST
from caramel.models.specs import missing_of, open_model

KEY_VALUE = "sk-a-secret/of+the-test"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.close()


def chat(server: ChatServer, **settings: Any) -> ChatModel:
    quick = {"pause": 0.001, "max_attempts": 3, "timeout": 5, **settings}
    return ChatModel("m", Endpoint("test-model", server.url, **quick))


def question(colour: str = "red") -> Question:
    return Question(f"What is it?\nA. {colour}\nB. other", lambda: picture(colour))


def asked(model: ChatModel, questions: list[Question]) -> dict[int, Reply]:
    replies: dict[int, Reply] = {}
    model.answer_questions(questions, replies.__setitem__)
    return replies


def one(server: ChatServer, behave: Behaviour, **settings: Any) -> Reply:
    server.behave = behave
    return asked(chat(server, **settings), [question()])[0]


def test_a_request_holds_model_image_prompt_and_fixed_parameters(server: ChatServer) -> None:
    assert one(server, always("B")) == Reply("B")
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert {k: v for k, v in request.body.items() if k != "messages"} == {
        "model": "test-model",
        "temperature": 0,
        "seed": 0,
        "max_tokens": 64,
    }
    assert request.prompt == "What is it?\nA. red\nB. other"
    assert request.url.startswith("data:image/png;base64,")
    assert request.image == picture("red")
    assert "Authorization" not in request.headers


def test_every_question_gets_the_reply_to_its_own_image(server: ChatServer) -> None:
    server.behave = lambda request, number: says(f"{colour_of(request.image)} {request.options['A']}")
    colours = ["red", "blue", "green", "blue"] * 10
    replies = asked(chat(server), [question(colour) for colour in colours])
    assert [replies[i].text for i in range(40)] == [f"{colour} {colour}" for colour in colours]


def test_as_many_requests_as_slots_are_under_way_at_once(server: ChatServer) -> None:
    all_there = threading.Barrier(4, timeout=10)

    def behave(request: Any, number: int) -> Response:
        all_there.wait()
        return says("A")

    server.behave = behave
    assert len(asked(chat(server, slots=ConnectionSlots(4)), [question()] * 8)) == 8


def test_replies_do_not_depend_on_the_number_of_connections(server: ChatServer) -> None:
    def see(request: Any, number: int) -> Response:
        return says(f"{colour_of(request.image)} {request.prompt[-9:]}")

    questions = [question(["red", "blue", "green"][i % 3])._replace(prompt=f"A. {i:6}") for i in range(60)]
    server.behave = limit = Limit(see, 3, 0.005, queues=False)
    found = asked(chat(server, max_attempts=9, pause=0.02), questions)
    assert limit.refused
    server.behave = see
    assert found == asked(chat(server, slots=ConnectionSlots(1)), questions)


def test_heard_is_called_one_at_a_time(server: ChatServer) -> None:
    server.behave = always("A")
    inside: list[int] = []

    def heard(place: int, reply: Reply) -> None:
        inside.append(place)
        time.sleep(0.002)
        assert inside.pop() == place
        assert not inside

    chat(server).answer_questions([question()] * 20, heard)


@pytest.mark.parametrize(
    "trouble",
    [
        refuses(429, "slow down", Retry_After="0"),
        refuses(500, "oh"),
        refuses(503, "busy"),
        Response(200, b"<html>not JSON</html>"),
        Response(200, b'{"object": "list"}'),
        Response(200, b'{"choices": []}'),
        Response(200, b'{"choices": [{"message": {"content": 7}}]}'),
        Response(200, b'{"choices": [{"message": {"con', {"Content-Length": "9999"}),
        CLOSE,
    ],
)
def test_passing_trouble_is_tried_again_and_lasting_trouble_is_a_failure(
    server: ChatServer, trouble: Response | str
) -> None:
    assert one(server, in_turn(trouble, says("B"))) == Reply("B")
    assert len(server.requests) == 2
    reply = one(server, lambda request, number: trouble, max_attempts=4)
    assert reply.text is None
    assert reply.problem
    assert len(server.requests) == 2 + 4


def test_a_server_that_hangs_is_given_up(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "SLOWEST", 10_000)  # tokens per second, else the text has 16 s, twice
    reply = one(server, lambda request, number: HANG, timeout=0.1, max_attempts=2)
    assert reply.text is None
    assert "timed out" in reply.problem


@pytest.mark.parametrize(
    ("trouble", "problem"),
    [
        (DRIP, "timed out"),  # as a whole, or between two parts where this process was kept waiting
        (FLOOD, "more than 262,144 bytes"),
        (Response(200, b" " * (LARGEST + 1)), "more than 262,144 bytes"),
        (Response(200, gzip.compress(bytes(10**7)), {"Content-Encoding": "gzip"}), r"compressed \(gzip\)"),
        (Response(200, b"[" * 100_000), r"status 200: \[\["),
        (Response(200, b'{"choices": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"), "status 200"),
        (Response(200, b'{"created": ' + b"9" * 5_000 + b"}"), "status 200"),
        (Response(200, b'{"choices": [{"message": {"content": "\xff"}}]}'), "status 200: .*\ufffd"),
        (Response(200, b'{"choices": {"0": {"message": {"content": "A"}}}}'), "status 200"),
        (Response(200, b'{"choices": [{"message": ["content", "A"]}]}'), "status 200"),
        (Response(200, b'{"choices": [{"message": {"content": NaN}}]}'), "status 200"),
        (Response(200, b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}'), "status 200"),
        (Response(200, b""), "status 200: no message"),
    ],
)
def test_what_is_no_reply_of_the_form_is_a_failure_with_its_cause(
    server: ChatServer, trouble: Response | str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        endpoint, "SLOWEST", 1000
    )  # or a dripping reply is waited for 16 s, the time of 64 tokens
    reply = one(
        server, lambda request, number: trouble, max_attempts=1, timeout=0.2 if trouble == DRIP else 60
    )
    assert reply.text is None
    assert re.search(problem, reply.problem)
    assert len(reply.problem) <= 500


def test_no_compression_is_asked_for(server: ChatServer) -> None:
    one(server, always("B"))
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


def test_a_servers_message_is_one_line_that_cannot_steer_a_terminal(server: ChatServer) -> None:
    reply = one(server, lambda request, number: refuses(500, "a\x1b[2K\n\rb\x07\u202e"), max_attempts=1)
    assert reply.problem == "status 500: a\\x1b[2K b\\x07\\u202e"


@pytest.mark.parametrize("length", range(470, 500, 7))
def test_a_key_that_stands_where_a_message_is_cut_stays_hidden(server: ChatServer, length: int) -> None:
    refusal = refuses(500, "x" * length + KEY_VALUE)
    assert "sk-" not in one(server, lambda request, number: refusal, max_attempts=1, key=KEY_VALUE).problem


class Waits(threading.Event):
    """What pauses wait on: it notes the seconds, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set()


def pauses(server: ChatServer, behave: Behaviour, **settings: Any) -> list[float]:
    """Return the seconds that are waited before each attempt at one question."""
    server.behave = behave
    server.requests.clear()
    waits = Waits()
    with requests.Session() as session:
        chat(server, **settings)._fetch_reply(session, question(), waits)
    return waits.seconds


@pytest.mark.parametrize(
    ("asked_for", "seconds"),
    [
        ("7.5", 7.5),
        ("3600", 60),
        ("-5", 1),
        ("nan", 1),
        ("inf", 60),
        ("-inf", 1),
        ("9" * 400, 60),
        ("soon", 1),
        ("", 1),
    ],
)
def test_retry_after_is_honoured_up_to_a_bound(server: ChatServer, asked_for: str, seconds: float) -> None:
    again = in_turn(refuses(429, "slow down", Retry_After=asked_for), says("B"))
    assert pauses(server, again, pause=1) == [0, seconds]


def test_retry_after_may_be_a_date(server: ChatServer) -> None:
    for hours, seconds in ((1, 60.0), (-1, 1.0)):
        date = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
        again = in_turn(refuses(503, "slow down", Retry_After=date), says("B"))
        assert pauses(server, again, pause=1) == [0, seconds]


def test_pauses_double(server: ChatServer) -> None:
    found = pauses(server, lambda request, number: refuses(500, "oh"), pause=0.5, max_attempts=9)
    assert found == [0, 0.5, 1, 2, 4, 8, 16, 32, 60]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_ends_it_at_once_with_the_servers_message(server: ChatServer, status: int) -> None:
    with pytest.raises(BackendError, match=f"test-model.*status {status}: no such model here"):
        one(server, lambda request, number: refuses(status, "no such model here"))
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(server: ChatServer) -> None:
    with pytest.raises(BackendError, match="status 301: https://elsewhere"):
        one(server, lambda request, number: Response(301, b"", {"Location": "https://elsewhere/"}))
    assert len(server.requests) == 1


def test_after_a_refusal_nothing_more_is_asked_but_what_was_under_way_is_heard(server: ChatServer) -> None:
    first_is_refused = threading.Event()

    def behave(request: Any, number: int) -> Response:
        if number == 0:
            first_is_refused.set()
            return refuses(401, "who are you")
        first_is_refused.wait(5)
        return says("B")

    server.behave = behave
    replies: dict[int, Reply] = {}
    with pytest.raises(BackendError, match="who are you"):
        chat(server, slots=ConnectionSlots(2)).answer_questions([question()] * 200, replies.__setitem__)
    assert len(server.requests) < 200
    assert len(replies) == len(server.requests) - 1


def test_after_a_refusal_pauses_are_cut_short(server: ChatServer) -> None:
    second_waits = threading.Event()

    def behave(request: Any, number: int) -> Response:
        if "red" in request.prompt:
            second_waits.wait(30)
            return refuses(401, "who are you")
        second_waits.set()
        return refuses(500, "oh", Retry_After="100000")

    server.behave = behave
    with pytest.raises(BackendError, match="who are you"):  # else it would take more than a day
        asked(chat(server, slots=ConnectionSlots(2), longest=1e5), [question("red"), question("blue")])


def test_what_heard_raises_ends_it(server: ChatServer) -> None:
    server.behave = always("B")

    def heard(place: int, reply: Reply) -> None:
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        chat(server).answer_questions([question()] * 200, heard)
    assert len(server.requests) < 200


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (says(None), ""),
        (says(None, refusal="I will not look at this."), "I will not look at this."),
        (refuses(400, "The response was filtered", "content_filter"), ""),
        (Response(200, b'{"choices": [{"finish_reason": "content_filter", "message": {}}]}'), ""),
    ],
)
def test_what_a_content_filter_holds_back_is_a_reply_that_names_nothing(
    server: ChatServer, answer: Response, text: str
) -> None:
    assert one(server, lambda request, number: answer).text == text
    assert len(server.requests) == 1


def test_the_key_goes_into_the_header_and_nowhere_else(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, f" {KEY_VALUE}\n")
    model = load_chat(f"test-model@{server.url}", device="cpu", precision="fp32", name="m")
    server.behave = always("B")
    assert asked(model, [question()])[0].text == "B"
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY_VALUE}"
    assert KEY_VALUE not in repr(model)
    assert KEY_VALUE not in str(model.identity)
    assert KEY_VALUE not in str(server.requests[0].body)
    server.behave = lambda request, number: refuses(401, f"Wrong: {request.headers['Authorization']}")
    with pytest.raises(BackendError, match=rf"Wrong: Bearer \${KEY}") as caught:
        asked(model, [question()])
    assert KEY_VALUE not in str(caught.value)
    server.behave = lambda request, number: refuses(500, f"Wrong: {request.headers['Authorization']}")
    assert (
        KEY_VALUE
        not in asked(replace(model, endpoint=replace(model.endpoint, pause=0)), [question()])[0].problem
    )


def test_a_key_that_no_header_can_hold_is_an_error_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-a\nsecret")
    with pytest.raises(BackendError, match=KEY) as caught:
        load_chat("m@http://127.0.0.1:1/v1", device="cpu", precision="fp32", name="m")
    assert "secret" not in str(caught.value)


def test_entries_of_netrc_are_not_sent(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password something\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    one(server, always("B"))
    one(server, always("B"), key=KEY_VALUE)
    assert [r.headers.get("Authorization") for r in server.requests] == [None, f"Bearer {KEY_VALUE}"]


def test_nothing_of_the_environment_or_of_the_machine_is_sent(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", KEY_VALUE)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Own: {KEY_VALUE}\nAuthorization: Bearer {KEY_VALUE}")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert one(server, always("B")) == Reply("B")
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    content = {"content-length", "content-type", "accept", "accept-encoding"}
    assert headers.keys() <= content | {"host", "connection", "user-agent"}
    assert KEY_VALUE not in str(headers)


def test_headers_that_would_make_a_client_decode_the_body_are_not_looked_at(server: ChatServer) -> None:
    answer = refuses(500, "oh", Content_Type="application/json; charset=zlib", X_Should_Retry="true")
    assert one(server, lambda request, number: answer, max_attempts=1).problem == "status 500: oh"
    assert len(server.requests) == 1


@pytest.mark.parametrize("url", ["http://xn--a/v1", "http://a\x00b/v1", "http://[v1.a]/v1"])
def test_a_url_that_names_no_host_is_a_failure(url: str) -> None:
    reply = asked(ChatModel("m", Endpoint("m", url, max_attempts=1)), [question()])[0]
    assert reply.text is None
    assert reply.problem


def test_endpoint_and_model_belong_to_the_identity_and_the_rest_does_not() -> None:
    first = ChatModel("m", Endpoint("a", "http://127.0.0.1:1/v1"))
    assert (
        first.identity
        == ChatModel("n", Endpoint("a", "http://127.0.0.1:1/v1", "key", 1, 1, 1, 1, 1)).identity
    )
    assert first.identity != ChatModel("m", Endpoint("b", "http://127.0.0.1:1/v1")).identity
    assert first.identity != ChatModel("m", Endpoint("a", "http://127.0.0.1:2/v1")).identity


def decoded(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_images_that_servers_read_are_sent_as_they_are(kind: str) -> None:
    image = picture("red", kind=kind)
    assert encode_data_url(image) == f"data:image/{kind.lower()};base64,{base64.b64encode(image).decode()}"


@pytest.mark.parametrize("kind", ["PPM", "BMP", "TIFF"])
def test_images_that_servers_do_not_read_are_sent_as_png(kind: str) -> None:
    url = encode_data_url(picture("blue", kind=kind))
    assert url.startswith("data:image/png;base64,")
    assert decoded(url).getpixel((0, 0)) == (0, 0, 255)


def test_an_image_that_does_not_decode_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match="does not decode"):
        encode_data_url(b"no image")


def test_images_that_a_camera_marked_as_turned_are_sent_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.new("RGB", (8, 4)).save(buffer, "JPEG", exif=exif)
    assert decoded(encode_data_url(buffer.getvalue())).size == (4, 8)


@pytest.mark.parametrize(
    "target",
    [
        "gpt-4o",
        "gpt-4o@",
        "@http://127.0.0.1:8000/v1",
        "gpt-4o@127.0.0.1:8000/v1",
        "gpt-4o@ftp://127.0.0.1/v1",
        "gpt-4o@http://",
        "gpt-4o@http://127.0.0.1:eighty/v1",
        "gpt-4o@http://127.0.0.1:99999/v1",
        "gpt-4o@http://[::1/v1",
        "gpt-4o@http://127.0.0.1/v1 and more",
    ],
)
def test_a_malformed_target_is_an_error_and_missing(target: str) -> None:
    with pytest.raises(BackendError, match="must be MODEL@URL"):
        load_chat(target, device="cpu", precision="fp32", name="m")
    assert len(list_chat_problems(target)) == 1


@pytest.mark.parametrize("url", ["http://me:pass@h/v1", "http://h/v1?key=pass", "http://h/v1#pass"])
def test_a_url_with_secrets_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BackendError, match=KEY) as caught:
        load_chat(f"gpt-4o@{url}", device="cpu", precision="fp32", name="m")
    assert "pass@" not in str(caught.value)
    assert "=pass" not in str(caught.value)


def test_missing_says_whether_anything_listens(server: ChatServer) -> None:
    assert missing_of(f"chat:m@{server.url}") == []
    assert server.requests == []
    with socket.socket() as free:  # bound, but not listening
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        (line,) = missing_of(f"chat:m@http://127.0.0.1:{port}/v1")
    assert f"no server listens at 127.0.0.1:{port}" in line


def test_missing_does_not_look_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    assert list_chat_problems("m@http://model.invalid/v1") == []
    monkeypatch.setenv("NO_PROXY", "model.invalid")
    assert len(list_chat_problems("m@http://model.invalid/v1")) == 1


def test_the_family_chat_opens_by_spec(server: ChatServer) -> None:
    open_model.cache_clear()
    model = open_model(f"tester=chat:org/some-model:free@{server.url}/", "cpu", "fp32")
    assert isinstance(model, Chooser)
    assert (model.name, model.endpoint.model, model.endpoint.url) == (
        "tester",
        "org/some-model:free",
        server.url,
    )
    open_model.cache_clear()


SIGNS = "".join(f"\\u{ord(sign):04X}" for sign in KEY_VALUE)


@pytest.mark.parametrize(
    "said", [SIGNS, SIGNS.lower(), SIGNS.replace("\\", "\\\\"), KEY_VALUE.replace("/", "\\/")]
)
@pytest.mark.parametrize("form", ['{"error": {"message": "\\ud800 %s"}}', '{"detail": "%s"}', "wrong key %s"])
def test_a_key_that_is_escaped_stays_hidden_in_refusals(server: ChatServer, said: str, form: str) -> None:
    refusal = Response(500, (form % said).encode())
    problem = one(server, lambda request, number: refusal, max_attempts=1, key=KEY_VALUE).problem
    assert f"${KEY}" in problem
    assert said not in problem


def test_a_key_that_is_escaped_is_not_kept_in_replies(server: ChatServer) -> None:
    body = b'{"choices": [{"message": {"content": "Your key is %s."}}]}' % SIGNS.encode()
    reply = one(server, lambda request, number: Response(body=body), key=KEY_VALUE)
    assert reply.text == f"Your key is ${KEY}."


def test_a_reply_that_repeats_the_key_is_kept_without_it(server: ChatServer) -> None:
    repeated = always(f"Your key is {KEY_VALUE}.")
    assert one(server, repeated, key=KEY_VALUE).text == f"Your key is ${KEY}."
    assert one(server, always("EMPTY"), key="EMPTY").text == "EMPTY"  # what servers without keys are given


STRICT = "max_completion_tokens,no_temperature,no_seed"


def refuses_classic_parameters(request: Any, number: int) -> Response:
    """Refuse what newer models refuse, one parameter at a time, in the words of their servers."""
    for name, message in (
        ("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model."),
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model."),
        ("seed", "[{'type': 'extra_forbidden', 'loc': ['body', 'seed']}]"),
    ):
        if name in request.body:
            return refuses(400, message)
    return says("B")


def test_a_refused_parameter_names_the_target_that_the_server_takes(server: ChatServer) -> None:
    server.behave = refuses_classic_parameters
    target, targets = f"m@{server.url}", []
    for _ in range(3):
        model = load_chat(target, device="cpu", precision="fp32", name="m")
        with pytest.raises(BackendError, match="refused a request") as caught:
            asked(model, [question()])
        target = re.findall(r"Give the model as '(.+?)'", str(caught.value))[0]
        targets.append(target.partition("#")[2])
    assert targets == ["max_completion_tokens", "max_completion_tokens,no_temperature", STRICT]
    model = load_chat(target, device="cpu", precision="fp32", name="m")
    assert asked(model, [question()]) == {0: Reply("B")}
    assert {k: v for k, v in server.requests[-1].body.items() if k != "messages"} == {
        "model": "m",
        "max_completion_tokens": 4096,
    }


def test_the_identity_says_what_is_sent(server: ChatServer) -> None:
    plain = load_chat(f"m@{server.url}", device="cpu", precision="fp32", name="m")
    strict = load_chat(f"m@{server.url}/#{STRICT}", device="cpu", precision="fp32", name="m")
    common = {"family": "chat", "url": server.url, "model": "m"}
    assert plain.identity == {**common, "temperature": 0, "seed": 0, "max_tokens": 64}
    assert strict.identity == {**common, "max_completion_tokens": 4096}


@pytest.mark.parametrize("settings", ["", "no_seed,no_seed", "sk-secret", "no_seed,", "NO_SEED"])
def test_settings_that_are_not_known_are_refused_and_not_repeated(settings: str) -> None:
    target = f"m@http://h/v1#{settings}"
    if not settings:
        assert list_chat_problems(target)[0].startswith("no server listens")
        return
    with pytest.raises(BackendError, match="max_completion_tokens, no_temperature") as caught:
        load_chat(target, device="cpu", precision="fp32", name="m")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([{"type": "text", "text": "B"}], "B"),
        (
            [
                {"type": "thinking", "thinking": []},
                {"type": "text", "text": "It is "},
                {"type": "text", "text": "A"},
            ],
            "It is A",
        ),
        ([{"type": "refusal", "refusal": "No."}], "No."),
        ([], ""),
    ],
)
def test_a_reply_in_parts_is_read(server: ChatServer, parts: list[dict[str, object]], text: str) -> None:
    assert one(server, lambda request, number: says(parts)).text == text  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [["B"], [{"type": "text"}], [{"text": "B"}], [None]])
def test_parts_that_are_no_parts_are_no_reply(server: ChatServer, parts: list[object]) -> None:
    assert one(server, lambda request, number: says(parts), max_attempts=1).text is None  # type: ignore[arg-type]


def test_a_value_that_is_too_large_is_no_refused_parameter(server: ChatServer) -> None:
    message = "max_tokens is too large: 64. This model supports at most 32 completion tokens."
    with pytest.raises(BackendError) as caught:
        one(server, lambda request, number: refuses(400, message))
    assert "#" not in str(caught.value)
