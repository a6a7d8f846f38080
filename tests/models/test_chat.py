import base64
import io
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chat_server import (
    CLOSE,
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
from PIL import Image

from caramel.errors import BackendError, DataError
from caramel.models.chat import KEY, Chat, data_url, load_chat, missing_chat
from caramel.models.protocols import Chooser, Question, Reply
from caramel.models.specs import missing_of, open_model

KEY_VALUE = "sk-a-secret-of-the-test"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.close()


def chat(server: ChatServer, **settings: Any) -> Chat:
    return Chat("m", "test-model", server.url, **{"pause": 0.001, "attempts": 3, "timeout": 5, **settings})


def question(colour: str = "red") -> Question:
    return Question(f"What is it?\nA. {colour}\nB. other", lambda: picture(colour))


def asked(model: Chat, questions: list[Question]) -> dict[int, Reply]:
    replies: dict[int, Reply] = {}
    model.ask(questions, replies.__setitem__)
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


def test_as_many_requests_as_workers_are_under_way_at_once(server: ChatServer) -> None:
    all_there = threading.Barrier(4, timeout=10)

    def behave(request: Any, number: int) -> Response:
        all_there.wait()
        return says("A")

    server.behave = behave
    assert len(asked(chat(server, workers=4), [question()] * 8)) == 8


def test_heard_is_called_one_at_a_time(server: ChatServer) -> None:
    server.behave = always("A")
    inside: list[int] = []

    def heard(place: int, reply: Reply) -> None:
        inside.append(place)
        time.sleep(0.002)
        assert inside.pop() == place
        assert not inside

    chat(server).ask([question()] * 20, heard)


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
    reply = one(server, lambda request, number: trouble, attempts=4)
    assert reply.text is None
    assert reply.problem
    assert len(server.requests) == 2 + 4


def test_a_server_that_hangs_is_given_up(server: ChatServer) -> None:
    start = time.monotonic()
    reply = one(server, lambda request, number: HANG, timeout=0.1, attempts=2)
    assert time.monotonic() - start < 10
    assert reply.text is None
    assert "timed out" in reply.problem
    assert len(server.requests) == 2


def waited(server: ChatServer, retry_after: str, **settings: Any) -> float:
    start = time.monotonic()
    again = in_turn(refuses(429, "slow down", Retry_After=retry_after), says("B"))
    assert one(server, again, **settings).text == "B"
    server.requests.clear()
    return time.monotonic() - start


def test_retry_after_is_honoured_up_to_a_bound(server: ChatServer) -> None:
    assert waited(server, "0.3") >= 0.3
    assert 0.1 <= waited(server, "3600", longest=0.1) < 10
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 0.1 <= waited(server, later, longest=0.1) < 10
    earlier = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    assert waited(server, earlier) < 10
    assert waited(server, "soon") < 10


def test_pauses_double(server: ChatServer) -> None:
    times: list[float] = []

    def behave(request: Any, number: int) -> Response:
        times.append(time.monotonic())
        return refuses(500, "oh")

    one(server, behave, pause=0.05, attempts=4)
    gaps = [b - a for a, b in pairwise(times)]
    assert all(gap >= bound for gap, bound in zip(gaps, (0.05, 0.1, 0.2), strict=True))


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
        chat(server, workers=2).ask([question()] * 200, replies.__setitem__)
    assert len(server.requests) < 200
    assert len(replies) == len(server.requests) - 1


def test_after_a_refusal_pauses_are_cut_short(server: ChatServer) -> None:
    second_waits = threading.Event()

    def behave(request: Any, number: int) -> Response:
        if "red" in request.prompt:
            second_waits.wait(5)
            return refuses(401, "who are you")
        second_waits.set()
        return refuses(500, "oh", Retry_After="60")

    server.behave = behave
    start = time.monotonic()
    with pytest.raises(BackendError, match="who are you"):
        asked(chat(server, workers=2), [question("red"), question("blue")])
    assert time.monotonic() - start < 30


def test_what_heard_raises_ends_it(server: ChatServer) -> None:
    server.behave = always("B")

    def heard(place: int, reply: Reply) -> None:
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        chat(server).ask([question()] * 200, heard)
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
    assert one(server, lambda request, number: answer) == Reply(text)
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
    assert KEY_VALUE not in asked(Chat(**{**asdict(model), "pause": 0}), [question()])[0].problem


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


def test_endpoint_and_model_belong_to_the_identity_and_the_rest_does_not() -> None:
    first = Chat("m", "a", "http://127.0.0.1:1/v1")
    assert first.identity == Chat("n", "a", "http://127.0.0.1:1/v1", "key", 1, 1, 1, 1, 1).identity
    assert first.identity != Chat("m", "b", "http://127.0.0.1:1/v1").identity
    assert first.identity != Chat("m", "a", "http://127.0.0.1:2/v1").identity


def decoded(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_images_that_servers_read_are_sent_as_they_are(kind: str) -> None:
    image = picture("red", kind=kind)
    assert data_url(image) == f"data:image/{kind.lower()};base64,{base64.b64encode(image).decode()}"


@pytest.mark.parametrize("kind", ["PPM", "BMP", "TIFF"])
def test_images_that_servers_do_not_read_are_sent_as_png(kind: str) -> None:
    url = data_url(picture("blue", kind=kind))
    assert url.startswith("data:image/png;base64,")
    assert decoded(url).getpixel((0, 0)) == (0, 0, 255)


def test_an_image_that_does_not_decode_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match="does not decode"):
        data_url(b"no image")


def test_images_that_a_camera_marked_as_turned_are_sent_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.new("RGB", (8, 4)).save(buffer, "JPEG", exif=exif)
    assert decoded(data_url(buffer.getvalue())).size == (4, 8)


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
    assert len(missing_chat(target)) == 1


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
    assert f"nothing listens at 127.0.0.1:{port}" in line


def test_missing_does_not_look_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    assert missing_chat("m@http://model.invalid/v1") == []
    monkeypatch.setenv("NO_PROXY", "model.invalid")
    assert len(missing_chat("m@http://model.invalid/v1")) == 1


def test_the_family_chat_opens_by_spec(server: ChatServer) -> None:
    open_model.cache_clear()
    model = open_model(f"tester=chat:org/some-model:free@{server.url}/", "cpu", "fp32")
    assert isinstance(model, Chooser)
    assert (model.name, model.model, model.url) == ("tester", "org/some-model:free", server.url)
    open_model.cache_clear()
