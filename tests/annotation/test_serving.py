"""The server answers under the addresses that annotators use: names, tunnels and proxies, and no others."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from annotation_browser import begin, press, wait_for, wait_stored
from annotation_tasks import SECRET, Client, image_task, serving, text_item, write_task
from tunnels import forwarding

from caramel.annotation.accounts import AccountsFile, add_accounts, remove_accounts
from caramel.annotation.answers import read_answers
from caramel.annotation.serving import list_origins, open_socket
from caramel.errors import ConfigError


def test_origins_are_written_as_browsers_write_them() -> None:
    assert list_origins("127.0.0.1", 5080) == ["http://127.0.0.1:5080", "http://localhost:5080"]
    assert list_origins("192.0.2.1", 80) == ["http://192.0.2.1"], "browsers leave the port 80 out"
    assert list_origins("FE80:0::1", 5080) == ["http://[fe80::1]:5080"]
    assert list_origins("Lab.example", 5080) == ["http://lab.example:5080"]
    for url, origin in {
        "https://Annotate.example.org/": "https://annotate.example.org",
        "https://annotate.example.org:443": "https://annotate.example.org",
        "http://localhost:8080": "http://localhost:8080",
        "http://[::1]:80": "http://[::1]",
    }.items():
        assert list_origins("127.0.0.1", 5080, url) == [
            origin,
            "http://127.0.0.1:5080",
            "http://localhost:5080",
        ]


def test_a_reply_leaves_at_once_on_a_connection_that_is_kept() -> None:
    """With Nagle's algorithm its second part would wait for the client's delayed acknowledgement of the first, for 40 ms."""

    async def read_option() -> int:
        nodelay = asyncio.get_running_loop().create_future()

        def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            nodelay.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = open_socket("127.0.0.1", 0)
        async with await asyncio.start_server(serve, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            option: int = await asyncio.wait_for(nodelay, 10)
            writer.close()
        return option

    assert asyncio.run(read_option())


def test_a_wildcard_address_is_refused_because_no_host_could_be_checked() -> None:
    for address in ("0.0.0.0", "::"):
        with pytest.raises(ConfigError, match="one address"):
            list_origins(address, 80)


@pytest.mark.parametrize(
    "url",
    [
        "annotate.example.org",
        "ftp://x",
        "https://x/path",
        "https://x?a=1",
        "http://",
        "http://x:y",
        "https://me@x",
    ],
)
def test_a_public_url_that_is_more_or_less_than_an_origin_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--public-url"):
        list_origins("127.0.0.1", 5080, url)


def test_behind_a_proxy_that_ends_tls_the_cookie_is_secure_and_other_origins_stay_out(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(3)])
    with serving(path, public_url="https://annotate.example.org") as origin:
        client = Client(origin)
        client.session.headers.update(
            {"Host": "annotate.example.org", "Origin": "https://annotate.example.org"}
        )
        reply = client.session.get(origin, params={"token": SECRET}, timeout=30)
        cookie = reply.headers["Set-Cookie"]
        assert "Secure" in cookie
        client.session.headers["Cookie"] = cookie.partition(";")[0]
        (key, *_) = [item["item_key"] for item in client.start()]
        for foreign in (
            "http://annotate.example.org",
            "https://evil.example",
            "https://annotate.example.org:8443",
        ):
            client.session.headers["Origin"] = foreign
            assert client.answer(key, 0).status_code == 403, foreign
        client.session.headers["Origin"] = "https://annotate.example.org"
        assert client.answer(key, 0).status_code == 200
        for host in ("evil.example", "annotate.example.org:80"):
            client.session.headers["Host"] = host
            assert client.answer(key, 0).status_code == 403, host
    assert len(read_answers(path)) == 1


def test_a_proxy_that_names_this_machine_as_host_is_answered(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(3)])
    with serving(path, public_url="https://annotate.example.org") as origin:
        client = Client(origin)
        cookie = client.session.get(origin, params={"token": SECRET}, timeout=30).headers["Set-Cookie"]
        assert "Secure" in cookie
        client.session.headers.update(
            {"Origin": "https://annotate.example.org", "Cookie": cookie.partition(";")[0]}
        )
        assert client.answer(client.start()[0]["item_key"], 0).status_code == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_page_works_through_a_tunnel_at_another_port(browser: Any, tmp_path: Path, scheme: str) -> None:
    """The recipe of docs/annotation.md: `ssh -L 8080:127.0.0.1:5080`, and a proxy that ends TLS."""
    context = None
    if scheme == "https":
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl, which makes the certificate")
        names = [
            "-keyout",
            str(tmp_path / "key.pem"),
            "-out",
            str(tmp_path / "cert.pem"),
            "-subj",
            "/CN=localhost",
        ]
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            *names,
        ]
        subprocess.run(command, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    path, listener = image_task(tmp_path, 2), open_socket("127.0.0.1", 0)
    public = f"{scheme}://localhost:{listener.getsockname()[1]}"
    with (
        serving(path, public_url=public) as origin,
        forwarding(int(origin.rpartition(":")[2]), listener, context),
    ):
        window = browser.new_context(ignore_https_errors=True)
        page = window.new_page()
        begin(page, f"{public}/?token={SECRET}")
        assert [cookie["secure"] for cookie in window.cookies()] == [scheme == "https"]
        press(page, "1")
        press(page, "2")
        wait_for(page, "All done")
        wait_stored(path, 2)
        window.close()


def test_accounts_are_added_renewed_and_removed_while_a_task_is_served(tmp_path: Path) -> None:
    path, accounts = (
        write_task(tmp_path / "t.db", [text_item(n) for n in range(9)]),
        tmp_path / "accounts.json",
    )
    old = add_accounts(accounts, ["a01", "a02"])
    with serving(path, get_accounts=AccountsFile(accounts)) as origin:
        pages = {name: Client(origin, secret) for name, secret in old.items()}
        keys = {name: client.start()[0]["item_key"] for name, client in pages.items()}
        new = {**add_accounts(accounts, ["a03"]), **add_accounts(accounts, ["a01"], renew=True)}
        remove_accounts(accounts, ["a02"])
        assert [pages[name].answer(keys[name], 0).status_code for name in ("a01", "a02")] == [403, 403]
        for name in ("a01", "a03"):
            assert Client(origin, new[name], page="new").start(), name
        accounts.write_text("{")
        assert Client(origin, new["a01"]).send("start").status_code == 503, (
            "unreadable: nobody gets in, pages try again"
        )
        accounts.write_text(json.dumps({"annotators": {}}))
        last = add_accounts(accounts, ["a04"])
        assert Client(origin, last["a04"]).start()
