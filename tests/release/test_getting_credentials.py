"""What `caramel get` sends to remotes that somebody else named, in processes with a user's logins around them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from recording_server import basic, recording
from released_projects import made
from remote_projects import QUIET, WHO, cached, run

from caramel.errors import ConfigError
from caramel.release.get import get_version

PLANTED = {
    "AWS_ACCESS_KEY_ID": "AKIAOFTHEREADER",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-reader",
    "AWS_SESSION_TOKEN": "token-of-the-reader",
}
NETRC = ("reader", "password-of-netrc")
SECRETS = ("AKIAOFTHEREADER", "of-the-reader", "AKIAOFAFILE", basic(*NETRC))


@dataclass
class Reader:
    """A user with a home of his own, in which logins lie."""

    home: Path

    def get(self, source: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call ``caramel get`` for a table, in a process of its own."""
        shutil.rmtree(self.home / "out", ignore_errors=True)
        command = ["-c", "import caramel.cli as c; c.main()", "get", f"file://{source}@v1", "rejects"]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), **QUIET, **PLANTED, **environment}
        call = [sys.executable, *command, "--out", str(self.home / "out"), *options]
        return subprocess.run(
            call, cwd=self.home, env=env, capture_output=True, text=True, check=False, timeout=300
        )

    def dvc_settings(self, text: str) -> Path:
        """Write the user's own settings of DVC."""
        path = self.home / ".config" / "dvc" / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A user whose keys of S3 are in the environment and in a file, and whose passwords are in ``~/.netrc``."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = AKIAOFAFILE\naws_secret_access_key = x\n"
    )
    user, password = NETRC
    for name in (".netrc", "netrc"):
        (home / name).write_text(
            "".join(
                f"machine {host} login {user} password {password}\n" for host in ("127.0.0.1", "localhost")
            )
        )
        (home / name).chmod(0o600)
    return Reader(home)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its cache, of which only the pin is in git."""
    root = tmp_path_factory.mktemp("published")
    made(root)
    cached(root)
    return root


@pytest.fixture
def objects(published: Path) -> Path:
    """The folder whose ``files/md5`` holds the objects of the version."""
    return published / ".dvc" / "cache"


def source_of(published: Path, folder: Path, settings: str) -> Path:
    """Make a git repository of the pin and DVC's settings."""
    root = folder / "source"
    shutil.copytree(published / "pins", root / "pins")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text(settings, encoding="utf-8")
    run("git", "init", "-q", root=root)
    run("git", "add", "-A", root=root, **WHO)
    run("git", "commit", "-qm", "version", root=root, **WHO)
    return root / ".git"


def remote_section(url: str, name: str = "store", **options: str) -> str:
    lines = "".join(f"    {option} = {value}\n" for option, value in options.items())
    return f"['remote \"{name}\"']\n    url = {url}\n{lines}"


def s3_section(endpoint: str, **options: str) -> str:
    return remote_section("s3://files/of", endpointurl=endpoint, **options)


def bucket(objects: Path, folder: Path) -> Path:
    """Return a folder that answers as a public bucket does: an object is a file."""
    shutil.copytree(objects / "files" / "md5", folder / "bucket" / "files" / "of" / "files" / "md5")
    return folder / "bucket"


def test_the_endpoint_of_an_s3_remote_that_others_named_gets_no_keys_of_the_reader(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(folder=bucket(objects, tmp_path)) as server:
        done = reader.get(source_of(published, tmp_path, s3_section(server.url)))
        assert done.returncode == 0, done.stderr
        assert server.logins == {None}
        assert not any(secret in server.text for secret in SECRETS)
    assert (reader.home / "out" / "data" / "refine" / "rejects.parquet").is_file()


def test_neither_an_http_remote_nor_where_it_redirects_gets_a_password_of_netrc(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(folder=objects) as end, recording() as start:
        start.redirect = end.url.replace("127.0.0.1", "localhost")
        done = reader.get(
            source_of(published, tmp_path, remote_section(start.url)), NETRC=str(reader.home / "netrc")
        )
        assert done.returncode == 0, done.stderr
        assert start.logins == end.logins == {None}


def test_a_login_that_was_published_with_the_remote_is_used_and_stays_at_its_host(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(folder=objects) as end, recording(redirect=end.url, login=("all", "known")) as start:
        section = remote_section(start.url, auth="basic", user="all", password="known")
        done = reader.get(source_of(published, tmp_path, section))
        assert done.returncode == 0, done.stderr
        assert start.logins == {basic("all", "known")}
        assert end.logins == {None}


def test_keys_that_were_published_with_an_s3_remote_are_used_without_the_readers_token(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(folder=bucket(objects, tmp_path)) as server:
        section = s3_section(server.url, access_key_id="AKIAPUBLIC", secret_access_key="known")
        source = source_of(published, tmp_path, section)
        done = reader.get(source)
        assert done.returncode == 0, done.stderr
        assert all("Credential=AKIAPUBLIC/" in str(login) for login in server.logins)
        assert not any(secret in server.text for secret in SECRETS)
        shutil.rmtree(reader.home / "out")
        done = reader.get(source, "--credentials", server.url)
        assert done.returncode == 0, done.stderr
        assert all("Credential=AKIAPUBLIC/" in str(login) for login in server.logins), (
            "before the environment's"
        )


def test_keys_go_to_an_s3_server_that_the_reader_named_and_only_there(
    published: Path, objects: Path, tmp_path: Path, reader: Reader, s3: Any
) -> None:
    for path in (path for path in (objects / "files" / "md5").rglob("*") if path.is_file()):
        key = f"named/files/md5/{path.parent.name}/{path.name}"
        s3.client().put_object(Bucket="data", Key=key, Body=path.read_bytes())
    keys = {**s3.reader, "AWS_SESSION_TOKEN": ""}
    with recording(forward_port=s3.port) as server:
        source = source_of(
            published, tmp_path, remote_section("s3://data/named", endpointurl=server.url, region="us-east-1")
        )
        refused = reader.get(source, "--credentials", "http://127.0.0.1:1", **keys)
        assert refused.returncode == 1
        assert server.logins == {None}
        assert (
            f"refuses access without a login: Forbidden. If you trust it with yours: --credentials {server.url};"
            in refused.stderr
        )
        done = reader.get(source, "--credentials", f"{server.url}/", **keys)
        assert done.returncode == 0, done.stderr
        server.requests.clear()
        own = f"access_key_id = {s3.reader['AWS_ACCESS_KEY_ID']}\n    secret_access_key = {s3.reader['AWS_SECRET_ACCESS_KEY']}\n"
        reader.dvc_settings(
            f"['remote \"mine\"']\n    url = s3://data/x\n    endpointurl = {server.url}\n    {own}"
        )
        done = reader.get(source, "--credentials", server.url)
        assert done.returncode == 0, done.stderr
        assert "token-of-the-reader" not in server.text


def test_netrc_is_used_for_a_host_that_the_reader_named(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(folder=objects, login=NETRC) as server:
        source = source_of(published, tmp_path, remote_section(server.url))
        refused = reader.get(source)
        assert refused.returncode == 1
        assert "refuses access without a login: 401" in refused.stderr
        assert f"--credentials {server.url};" in refused.stderr
        done = reader.get(source, "--credentials", server.url)
        assert done.returncode == 0, done.stderr
        reader.dvc_settings(remote_section(server.url, auth="basic", user="me", password="wrong"))
        assert reader.get(source, "--credentials", server.url).returncode == 1
        assert basic("me", "wrong") in server.logins, "his settings of DVC for that host come first"


def test_a_remote_that_needs_a_login_does_not_keep_from_one_that_is_public(
    published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    with recording(login=("a", "b")) as private, recording(folder=objects) as public:
        sections = (
            f"[core]\n    remote = first\n{remote_section(private.url, 'first')}"
            f"{remote_section('ssh://127.0.0.1/x', 'second')}{remote_section(public.url, 'third')}"
        )
        done = reader.get(source_of(published, tmp_path, sections))
        assert done.returncode == 0, done.stderr
        assert private.logins == public.logins == {None}


@pytest.mark.parametrize(
    ("url", "options", "address"),
    [
        ("ssh://all@127.0.0.1/x", {"port": "2222", "password": "known"}, "ssh://127.0.0.1:2222"),
        ("azure://box/x", {"account_name": "evil.org/"}, "https://evil.org"),
        ("oss://box/x", {"oss_endpoint": "https://oss.evil.org/"}, "https://oss.evil.org"),
        ("gdrive://box/x", {}, "gdrive://box"),
        ("hdfs://127.0.0.1:80/x", {}, "hdfs://127.0.0.1:80"),
        ("remote://base/x", {}, "webhdfs://127.0.0.1"),
    ],
)
def test_a_remote_of_a_kind_that_looks_for_logins_itself_is_not_opened(
    url: str, options: dict[str, str], address: str, published: Path, tmp_path: Path
) -> None:
    sections = remote_section(url, **options)
    if url.startswith("remote:"):
        sections += remote_section("webhdfs://127.0.0.1/y", "base")
    source = source_of(published, tmp_path, sections)
    with pytest.raises(ConfigError, match=r"Remote 'store' .* is of a type that needs a login") as raised:
        get_version(f"file://{source}", ["rejects"], out=tmp_path / "out")
    assert f"If you trust it with yours: --credentials {address}; see docs/remote.md." in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n    autostage = maybe\n",
        "[cache]\n    type = odd\n    dir = /nowhere\n",
        "[[[[",
        "[core]\n    remote = %(x)s\n",
        "['remote \"store\"']\n    url = s3://mine/x\n    endpointurl = http://127.0.0.1:1\n    password = p\n    timeout = x\n",
    ],
)
def test_the_readers_own_settings_of_dvc_change_nothing_of_a_version_of_others(
    text: str, published: Path, objects: Path, tmp_path: Path, reader: Reader
) -> None:
    path = reader.dvc_settings(text)
    with recording(folder=objects) as server:
        source = source_of(published, tmp_path, remote_section(server.url))
        done = reader.get(source)
        assert done.returncode == 0, done.stderr
        if "dir = " not in text:
            return
        done = reader.get(source, "--credentials", server.url)
        assert done.returncode == 1
        assert f"DVC's settings in '{path}' are broken: cache.type: " in done.stderr


def test_settings_of_a_source_that_are_broken_are_an_error_that_names_its_file(
    published: Path, tmp_path: Path, reader: Reader
) -> None:
    source = source_of(published, tmp_path, remote_section("s3://%(x)s/files"))
    done = reader.get(source)
    assert done.returncode == 1
    assert f"DVC's settings in 'file://{source}/.dvc/config' are broken: " in done.stderr
