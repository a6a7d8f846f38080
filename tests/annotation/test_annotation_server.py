"""The server answers its annotators and nobody else, and stores before it gives."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from annotation_tasks import SECRET, Client, image_task, list_keys, serving, text_item, write_task

from caramel.annotation.answers import read_answers


def task(tmp_path: Path, count: int = 6, **more: object) -> Path:
    return write_task(tmp_path / "task.db", [text_item(n) for n in range(count)], **more)  # type: ignore[arg-type]


def test_a_link_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(tmp_path: Path) -> None:
    with serving(task(tmp_path)) as origin:
        reply = requests.get(f"{origin}/", params={"token": SECRET}, timeout=30)
        cookie = reply.headers["Set-Cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert SECRET not in reply.text
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("guess", ["", "x", SECRET[:-1], SECRET + "x", "é", "%00", "me"])
def test_a_guessed_token_gets_nothing(tmp_path: Path, guess: str) -> None:
    with serving(image_task(tmp_path, 2)) as origin:
        assert requests.get(f"{origin}/", params={"token": guess}, timeout=30).status_code == 403
        client = Client(origin, guess)
        assert client.send("next", holding=[]).status_code == 403
        assert client.answer("n001", 0).status_code == 403
        assert client.session.get(f"{origin}/image/x", timeout=30).status_code == 403
    assert len(read_answers(tmp_path / "task.db")) == 0


def test_each_guess_is_compared_with_every_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    from caramel.annotation.accounts import find_annotator, hash_secret

    calls: list[str] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: (calls.append(a), compare(a, b))[1])
    accounts = {name: hash_secret(name * 9) for name in ("a", "b", "c")}
    assert find_annotator(accounts, "a" * 9) == "a"
    assert find_annotator(accounts, "x") is None
    assert len(calls) == 6


def test_a_request_from_another_origin_or_to_another_host_is_refused(tmp_path: Path) -> None:
    with serving(task(tmp_path)) as origin:
        client = Client(origin)
        name = client.start()[0]["item_key"]
        for value in ("http://evil.example", "null", origin.replace("http:", "https:"), ""):
            client.session.headers["Origin"] = value
            assert client.answer(name, 0).status_code == 403, value
        client.session.headers["Origin"] = origin
        rebound = {"Host": f"evil.example:{origin.rpartition(':')[2]}"}
        assert client.session.get(origin, headers=rebound, timeout=30).status_code == 403
        form = client.session.post(
            f"{origin}/api/next", data="{}", headers={"Content-Type": "text/plain"}, timeout=30
        )
        assert form.status_code == 415
        assert client.answer(name, 0).status_code == 200
    assert len(read_answers(tmp_path / "task.db")) == 1


def test_pages_run_only_their_own_script_and_stand_in_no_frame(tmp_path: Path) -> None:
    with serving(task(tmp_path)) as origin:
        policy = requests.get(origin, timeout=30).headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "body",
    [
        {"responses": [9]},
        {"responses": ["<b>"]},
        {"responses": "0"},
        {"responses": [0], "seconds": -1},
        {"responses": [0], "seconds": float("nan")},
        {"responses": [0], "seconds": "1"},
        {"responses": [0], "seconds": 10**400},
        {"responses": [0], "answer_id": ""},
        {"responses": [0], "item_key": "unknown"},
        {"responses": [0], "holding": "x"},
        {"responses": [0], "page": None},
        {"skipped": " "},
        {"skipped": "x" * 3000},
        {"skipped": 3},
    ],
)
def test_a_malformed_answer_is_an_error_that_says_what_is_wrong(
    tmp_path: Path, body: dict[str, object]
) -> None:
    with serving(task(tmp_path)) as origin:
        client = Client(origin)
        name = client.start()[0]["item_key"]
        text = {"answer_id": "1", "item_key": name, "seconds": 1.0, "holding": [], "page": client.page}
        text = {**text, "task_id": client.task_id, **body}
        import json

        reply = client.session.post(
            f"{origin}/api/answer",
            data=json.dumps(text),
            headers={"Content-Type": "application/json"},
            timeout=30,
        )
        assert reply.status_code == 422
        assert reply.json()["error"]
        assert client.session.post(f"{origin}/api/answer", json=[1], timeout=30).status_code == 422
        large = client.answer(name, 0, filler="x" * 100_000)
        assert large.status_code == 413


def test_an_answer_is_stored_before_the_next_item_is_given(tmp_path: Path) -> None:
    path = task(tmp_path)
    with serving(path) as origin:
        client = Client(origin)
        items = client.start()
        assert len(items) == 2, "the current one and the next"
        reply = client.answer(items[0]["item_key"], 1, holding=[items[1]["item_key"]]).json()
        assert [list_keys(path)[name] for name in read_answers(path)["item_id"]] == [items[0]["item_key"]]
        assert len(reply["items"]) == 1
        assert reply["progress"] == {
            "answered": 1,
            "stored": 1,
            "wanted": 6,
            "last_answer": f"{client.page}-{items[0]['item_key']}",
            "state": "open",
        }


def test_a_second_page_replaces_the_first_whose_answer_is_still_stored(tmp_path: Path) -> None:
    path = task(tmp_path)
    with serving(path) as origin:
        first, second = Client(origin, page="one"), Client(origin, page="two")
        items = first.start()
        assert [item["item_key"] for item in second.start()] == [item["item_key"] for item in items]
        reply = first.answer(items[0]["item_key"], 0)
        assert reply.status_code == 409
        assert reply.json() == {"replaced": True, "new": True}
        assert first.send("undo", answer_id="x").status_code == 409
        assert second.answer(items[0]["item_key"], 1).json()["new"] is False
    assert len(read_answers(path)) == 1


def test_annotators_at_once_get_each_item_once_and_lose_no_answer(tmp_path: Path) -> None:
    path = task(tmp_path, 60, overlap=3)
    accounts = {f"a{n}": f"secret-{n}" for n in range(6)}
    seen: list[tuple[str, str]] = []

    def work(name: str) -> None:
        client = Client(origin, accounts[name], page=name)
        queue = client.start()
        while queue:
            item = queue.pop(0)
            seen.append((name, item["item_key"]))
            reply = client.answer(item["item_key"], 0, holding=[other["item_key"] for other in queue])
            client.answer(item["item_key"], 0, holding=[])  # a browser that sends again
            queue += reply.json()["items"]

    with serving(path, accounts) as origin:
        threads = [threading.Thread(target=work, args=(name,)) for name in accounts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = read_answers(path)
    assert len(set(seen)) == len(seen)
    assert len(rows) == len(seen) == 180
    assert set(Counter(rows["item_id"]).values()) == {3}


def fill(path: Path) -> None:
    """Fill the volume of a file."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_a_full_disk_is_told_and_the_answer_is_stored_once_there_is_space(
    tmp_path: Path, mount: object
) -> None:
    volume = mount(tmp_path / "small", 4)  # type: ignore[operator]
    path = write_task(volume / "task.db", [text_item(n) for n in range(40)])
    filler = volume / "filler"
    with serving(path) as origin:
        client = Client(origin)
        queue, failed = client.start(), None
        fill(filler)
        while failed is None:
            item = queue.pop(0)
            reply = client.answer(item["item_key"], 0, holding=[other["item_key"] for other in queue])
            if reply.status_code != 200:
                failed = item["item_key"]
                assert reply.status_code == 507
                assert "full" in reply.json()["error"]
            else:
                queue += reply.json()["items"]
        filler.unlink()
        assert client.answer(failed, 0).status_code == 200
    assert failed in [list_keys(path)[name] for name in read_answers(path)["item_id"]]


def test_an_image_that_is_broken_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    path = image_task(tmp_path, 2)
    (shard,) = (tmp_path / "images").glob("*.parquet")
    data = bytearray(shard.read_bytes())
    at = data.index(b"\x89PNG") + 40
    data[at] ^= 255
    shard.write_bytes(data)
    with serving(path) as origin:
        client = Client(origin)
        keys = [o["image"] for item in client.start() for o in item["questions"][0]["options"] if o["image"]]
        replies = [client.session.get(f"{origin}/image/{key}", timeout=30) for key in keys]
        assert sorted(reply.status_code for reply in replies) == [200, 200, 200, 404]
        assert {reply.headers["Content-Type"] for reply in replies if reply.ok} == {"image/png"}
        assert client.session.get(f"{origin}/image/unknown", timeout=30).status_code == 404
        assert not any(str(tmp_path) in reply.text for reply in replies), (
            "folders of the server are told to nobody"
        )


def test_names_of_items_do_not_tell_the_answer(tmp_path: Path) -> None:
    items = [replace(text_item(n), item_id=name) for n, name in enumerate(("p1", "p1:replace_att"))]
    with serving(write_task(tmp_path / "t.db", items)) as origin:
        client = Client(origin)
        keys = [item["item_key"] for item in client.start()]
        replies = [client.answer(key, 9) for key in keys] + [client.answer(key, 0) for key in keys]
    assert [reply.status_code for reply in replies] == [422, 422, 200, 200]
    assert not any("p1" in reply.text for reply in replies)
    assert set(read_answers(tmp_path / "t.db")["item_id"]) == {"p1", "p1:replace_att"}


def test_an_answer_to_another_task_is_refused_and_may_be_sent_again_there(tmp_path: Path) -> None:
    paths = [write_task(tmp_path / f"{name}.db", [text_item(n) for n in range(3)]) for name in "ab"]
    with serving(paths[0]) as origin:
        client = Client(origin)
        key = client.start()[0]["item_key"]
    with serving(paths[1], port=int(origin.rpartition(":")[2])):
        for reply in (
            client.answer(key, 0),
            client.send("next", holding=[]),
            client.send("undo", answer_id="1"),
        ):
            assert reply.status_code == 412
            assert reply.json()["other_task"]
    with serving(paths[0], port=int(origin.rpartition(":")[2])):
        assert client.answer(key, 0).status_code == 200
    assert [len(read_answers(path)) for path in paths] == [1, 0]


def test_names_of_images_do_not_tell_which_they_are(tmp_path: Path) -> None:
    with serving(image_task(tmp_path, 3)) as origin:
        client = Client(origin)
        client.start()
        text = client.send("next", holding=[]).text
    assert '"items":[{' in text
    assert '"i0"' not in text
    assert "value" not in text
