"""DVC's settings: what is wrong is an error that names its file, whatever form it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from caramel.errors import ConfigError
from caramel.runtime.dvc.credentials import get_login_address, parse_remote_address
from caramel.runtime.dvc.settings import FOLDER, cache_folder, find_unverified_remotes, load_settings

BROKEN = {
    "interpolation of nothing": "['remote \"a\"']\nurl = s3://%(x)s\n",
    "interpolation of itself": "[core]\nremote = %(remote)s\n",
    "a bracket": "[[[[",
    "a line that is nothing": "hello\n",
    "a value for a section": "remote = 5\n['remote \"a\"']\nurl = x\n",
    "a section of values": "[remote]\na = 5\n",
    "cache is a value": "cache = 5\n",
    "core is a value": "core = 5\n",
    "a list for a path": "['remote \"a\"']\nurl = a, b\n",
    "a section for a path": "['remote \"a\"']\n[[url]]\nx = y\n",
    "no url": "['remote \"a\"']\nverify = true\n",
    "a scheme of none": "['remote \"a\"']\nurl = nothing://a/b\n",
    "a bracket in the url": "['remote \"a\"']\nurl = http://[x/y\n",
    "an odd value": "[core]\nautostage = maybe\n",
    "an unknown name": "[core]\nnone = 1\n",
    "a key twice": "[core]\nremote = a\nremote = b\n",
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own settings; there are none."""
    for name in ("global", "system"):
        monkeypatch.setenv(f"DVC_{name.upper()}_CONFIG_DIR", str(tmp_path / name))
    (tmp_path / "global").mkdir()
    return tmp_path / "global"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".dvc").mkdir(parents=True)
    return tmp_path / "project"


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_settings_are_an_error_that_names_the_file_which_is_broken(
    text: str, user: Path, project: Path
) -> None:
    fine = project / ".dvc" / "config"
    fine.write_text("['remote \"store\"']\nurl = /x\nverify = true\n", encoding="utf-8")
    for path in (user / "config", project / ".dvc" / "config.local"):
        path.write_text(text, encoding="utf-8")
        for read in (load_settings, find_unverified_remotes):
            with pytest.raises(ConfigError) as raised:
                read(project)
            assert str(raised.value).startswith(f"DVC's settings in '{path}' are broken: ")
        path.unlink()
    assert find_unverified_remotes(project) == []
    fine.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^DVC's settings in 'https://h/x/.dvc/config' are broken: "):
        load_settings(project, FOLDER, label="https://h/x")


@pytest.mark.parametrize("data", [b"\xff\xfe[core]", b"[core]\nremote = \xff\n", b"\0"])
def test_a_file_that_is_no_text_is_named(data: bytes, user: Path, project: Path) -> None:
    (user / "config").write_bytes(data)
    with pytest.raises(ConfigError, match=f"'{user / 'config'}' are broken"):
        load_settings(project)


def test_a_folder_in_place_of_the_file_is_named(user: Path, project: Path) -> None:
    (user / "config").mkdir()
    with pytest.raises(ConfigError, match=f"'{user / 'config'}' are broken: it is not a file"):
        load_settings(project)


def test_the_cache_is_where_dvc_has_it_though_other_settings_are_odd(user: Path, project: Path) -> None:
    assert cache_folder(project) == project / ".dvc" / "cache"
    (user / "config").write_text("[core]\nautostage = maybe\n[cache]\ndir = /big\n", encoding="utf-8")
    assert cache_folder(project) == Path("/big")
    (project / ".dvc" / "config").write_text("[cache]\ndir = ../near\n", encoding="utf-8")
    assert cache_folder(project) == project / "near"


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"url": "/x"}, None),
        ({"url": "file:///x"}, None),
        ({"url": "s3://Box/x"}, "s3://box"),
        (
            {"url": "s3://box/x", "endpointurl": "https://me:pw@S3.example.org:443/y"},
            "https://s3.example.org",
        ),
        ({"url": "ssh://me@host:22/x"}, "ssh://host"),
        ({"url": "ssh://host/x", "port": 23}, "ssh://host:23"),
        ({"url": "azure://box/x", "account_name": "evil.org/?"}, "https://evil.org"),
        ({"url": "azure://box/x", "account_name": "lab"}, "https://lab.blob.core.windows.net"),
    ],
)
def test_the_address_of_a_login_is_the_host_that_it_would_be_sent_to(
    options: dict[str, object], address: str | None
) -> None:
    assert get_login_address(options) == address


@pytest.mark.parametrize("text", ["", "host", "host:80", "s3://", "http://h:x", "http://[h", "/x"])
def test_what_names_no_host_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a remote"):
        parse_remote_address(text)
