"""What the library of a remote is told of this user's logins, before it connects to anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from caramel.runtime.dvc.credentials import open_file_system


class Told:
    """A file system of DVC that keeps what it is told."""

    protocol = ""

    def __init__(self, **options: Any) -> None:
        self.options, self.fs_args = options, {"client_kwargs": {}}


@pytest.mark.parametrize("public", [False, True])
def test_the_server_of_a_remote_over_ssh_never_gets_the_use_of_the_readers_agent(public: bool) -> None:
    fs = open_file_system(type("Ssh", (Told,), {"protocol": "ssh"}), {}, "ssh://host/x", public=public)
    assert fs.options == {"agent_forwarding": False}


@pytest.mark.parametrize(
    ("protocol", "url", "place"),
    [
        ("https", "https://host/x", "client_kwargs"),
        ("gs", "gs://b/x", "session_kwargs"),
        ("webdavs", "webdavs://host/x", None),
    ],
)
def test_a_library_looks_into_netrc_only_where_the_reader_named_the_server(
    protocol: str, url: str, place: str | None
) -> None:
    kind = type("Kind", (Told,), {"protocol": protocol})
    for public in (True, False):
        args = open_file_system(kind, {}, url, public=public).fs_args
        found = SimpleNamespace(**(args if place is None else args.get(place, {})))
        assert (getattr(found, "trust_env", True), public) in ((False, True), (True, False))


@pytest.mark.parametrize("protocol", ["s3", "gs"])
@pytest.mark.parametrize(
    ("options", "anonymous"),
    [({}, True), ({"access_key_id": "a"}, True), ({"access_key_id": "a", "secret_access_key": "b"}, False)],
)
def test_a_bucket_is_opened_without_a_login_unless_a_whole_one_was_published(
    protocol: str, options: dict[str, str], anonymous: bool
) -> None:
    kind = type("Kind", (Told,), {"protocol": protocol})
    assert (
        open_file_system(kind, options, "s3://b/x", public=True).options["allow_anonymous_login"] == anonymous
    )
    assert "allow_anonymous_login" not in open_file_system(kind, options, "s3://b/x", public=False).options
