"""What else strangers do: special files left for `get`, odd versions of models, addresses in graphs that count who asks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import hostile
import projects
import served
from corpus import put
from harness import Seen
from mutations_of_paths import MARKER
from projects import put_text
from sandbox import SECRET
from specials import make_special
from tracking_servers import Impostor, send_body

LEFT = "left.specials"  # a line for each: its path, and what it is
HOST, URL = (
    "http://127.0.0.1:1",
    "CARAMEL_FUZZ_URL",
)  # stands for a server's address; variable with the real one
NUMBER = "server/version.numbers"


def emptied() -> None:
    """A pinned version, and no special file yet where it is got."""
    projects.kept()
    put_text(LEFT, "")


def leave_special_files(box: Path) -> None:
    """Make what is left in the folder that a version is got into."""
    for path, kind in map(str.split, (box / LEFT).read_text().splitlines()):
        place = box / "out" / path
        with suppress(OSError):  # another one is in its way
            if any(folder.is_symlink() for folder in place.parents):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind in ("link", "folder"):
                place.symlink_to(box.parent / SECRET if kind == "link" else box.parent)
            else:
                make_special(kind, place)


def registry() -> None:
    """A checkpoint, and the replies of a server that has registered it."""
    from caramel.io.files import compute_file_hash
    from caramel.release.publishing_models.model_registry import CONTENT

    served.open_clip()
    Path("data/model").rename("model")
    hostile.put_headers()
    tag = {"key": CONTENT, "value": compute_file_hash(Path("model"))}
    version = {
        "name": "tuned",
        "version": "@NUMBER@",
        "creation_timestamp": 0,
        "status": "READY",
        "tags": [tag],
    }
    put("version.json", {"model_version": version}, Path("server"))
    put("uri.json", {"artifact_uri": "file://@BOX@/model"}, Path("server"))
    put_text(NUMBER, "1")


def serve_registry(box: Path) -> str:
    """Start a server with that model; return its URL."""
    return hostile.serve_tracking(box, partial(_fill_in, box))


def only_its_own_folder_is_written(seen: Seen) -> Iterator[str]:
    """A registered model is put into ``work/registered/NAME-NUMBER``, whatever a server says, and nothing elsewhere."""
    top = seen.box / "work" / "registered"
    for path in seen.box.rglob("*"):
        name = path.relative_to(seen.box).as_posix()
        if (
            path.is_file()
            and not path.is_symlink()
            and name not in seen.files
            and not path.is_relative_to(top)
        ):
            yield f"wrote {name!r}"
    for path in top.glob("*") if top.exists() else ():
        if not path.name.removesuffix(".lock").removeprefix("tuned-").isdecimal():
            yield "made a folder of another name"


def addressed() -> None:
    """A project whose graph, imports and remote name a server."""
    projects.whole()
    story = Path("dvc.yaml").read_text(encoding="utf-8")
    put_text("dvc.yaml", story.replace("cmd: 'true'\n", f"cmd: 'true'\n    deps:\n    - {HOST}/x\n", 1))
    put_text("data.dvc", f"frozen: true\ndeps:\n- path: {HOST}/y\nouts:\n- path: y\n")
    put_text(
        ".dvc/config",
        f"[core]\n    no_scm = true\n    remote = far\n['remote \"far\"']\n    url = {HOST}/z\n    verify = true\n",
    )


def name_server(box: Path) -> None:
    """Have the files of a project name the server that notes who asks."""
    for name in ("dvc.yaml", "data.dvc", ".dvc/config"):
        if (path := box / name).is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes().replace(HOST.encode(), os.environ[URL].encode()))


def note_requests(_: Path) -> str:
    """Start a server that makes the marker of planted programs when it is asked; return its URL."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        Path(os.environ[MARKER]).touch()
        send_body(handler, b"x")

    return Impostor(answer).url


def _fill_in(box: Path, body: bytes) -> bytes:
    """Return a reply with the sandbox's folder and the number of the version."""
    number = (box / NUMBER).read_text(errors="replace") if (box / NUMBER).is_file() else ""
    return body.replace(b"@BOX@", bytes(box)).replace(b'"@NUMBER@"', json.dumps(number).encode())
