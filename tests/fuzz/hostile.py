"""Repositories and servers of strangers: valid ones whose paths, settings and replies are mutated, and their oracles."""

from __future__ import annotations

import gzip
import json
import shutil
import time
import unicodedata
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import projects
from corpus import put
from harness import Seen
from hostile_projects import Hostile, git_settings
from mutations_of_paths import MARKER
from projects import put_text
from remote_projects import run
from tracking_servers import Impostor, send_body

VERSION = "version.paths"  # a line for each file: [output] or [output, name in its list]
STORE = "@STORE@"  # stands for the folder of the objects
DVC_SETTINGS = f"[core]\n    remote = store\n['remote \"store\"']\n    url = {STORE}\n    verify = true\n"
CONTENT = b'{"a": 1}'
SUFFIXES = (".json", ".csv")  # of all that is drawn those of data


# Called as modules that a command or a program that it starts imports.
MODULES = ("sitecustomize", "usercustomize", "argparse", "logging", "dvc", "git", "mlflow", "caramel")


def plant(folder: Path) -> None:
    """Give a repository settings that name programs wherever git takes one, and modules beside its pins and data."""
    (folder / ".git" / "config").write_bytes(git_settings(Path(f"${MARKER}")))
    for place in (folder, folder / "pins"):
        plant_python(place)


def plant_python(folder: Path) -> None:
    """Put modules into a folder that make the marker when they are imported."""
    for name in MODULES:
        put_text(str(folder / f"{name}.py"), f"import os\nopen(os.environ[{MARKER!r}], 'a').close()\n")


def stranger() -> None:
    """What a stranger's repository is made of: the paths of its version, and the settings of DVC and git."""
    rows = [["data/x", "a.json"], ["data/x", "more/b.csv"], ["data/y", "c.json"], ["data/z.json"]]
    put_text(VERSION, "".join(f"{json.dumps(row)}\n" for row in rows))
    put_text("dvc.settings", DVC_SETTINGS)
    put_text("git.settings", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")


def build(box: Path) -> None:
    """Make the stranger's repository of what it is made of."""
    outs: dict[str, bytes | dict[str, bytes]] = {}
    for out, *name in map(json.loads, (box / VERSION).read_bytes().splitlines()):
        if not name:
            outs[out] = CONTENT
        elif isinstance(files := outs.setdefault(out, {}), dict):
            files[name[0]] = CONTENT
    settings = (box / "dvc.settings").read_bytes()
    stranger = Hostile(
        box / "repository", outs, settings=lambda store: settings.replace(STORE.encode(), store)
    )
    (stranger.root / ".git" / "config").write_bytes((box / "git.settings").read_bytes())


def watched_repository() -> None:
    """A pinned project in a git repository whose settings name programs."""
    projects.whole()
    shutil.rmtree("mlruns")
    Path(".gitattributes").write_text("*.json filter=evil diff=x\n")
    run("git", "init", "-q", "--template=", root=Path())
    run("git", "add", "-A", root=Path())
    run("git", "commit", "-qm", "data", root=Path())
    from caramel.release.pin import create_pin

    create_pin("v1", Path())
    plant(Path())


def is_data(path: str) -> bool:
    """Return whether a version may have a file of a path, of those that are drawn here."""
    parts = path.split("/")
    odd = any(not p or p[0] == "." or p[-1] in ". " or "~" in p or "\\" in p for p in parts)
    device = any(p.partition(".")[0] in ("con", "aux") for p in parts)
    unseen = any(unicodedata.category(sign) in ("Cc", "Cf") for sign in path)
    return (
        len(parts) > 1
        and parts[0] == "data"
        and not (odd or device or unseen)
        and path.lower().endswith(SUFFIXES)
    )


def only_data_is_got(seen: Seen) -> Iterator[str]:
    """``get`` takes a version of files of data alone, and writes these and the pin; of another one nothing."""
    out = seen.box / "out"
    got = [p for p in out.rglob("*") if ".caramel-get" not in p.parts and (p.is_symlink() or not p.is_dir())]
    if seen.code:
        if got:
            yield "left files of a version that it refused"
        return
    rows = [json.loads(line) for line in seen.files[VERSION].splitlines()]
    paths = ["/".join(row) for row in rows]
    if bad := [path for path in paths if not is_data(path)]:
        yield f"took a version with {'a' if len(bad) == 1 else len(bad)} path that is none of data"
    folded = {unicodedata.normalize("NFC", path.casefold()) for path in paths}
    if len(folded) < len(set(paths)):
        yield "took two paths that are one file on some systems"
    for path in got:
        name = path.relative_to(out).as_posix()
        if name != "pins/v1.json" and (
            name not in paths or path.is_symlink() or path.read_bytes() != CONTENT
        ):
            yield "wrote a file that the version does not have"


# How a request's path ends -> file with the reply.
REPLIES = {
    "experiments/search": "experiments",
    "experiments/get-by-name": "experiment",
    "runs/search": "runs",
    "model-versions/get": "version",
    "model-versions/get-download-uri": "uri",
}
EXPERIMENT = {
    "experiment_id": "1",
    "name": "caramel",
    "artifact_location": "mlflow-artifacts:/1",
    "lifecycle_stage": "active",
}
RUN = {
    "info": {"run_id": "a" * 32, "run_uuid": "a" * 32, "run_name": "one", "experiment_id": "1", "status": "FINISHED",
             "start_time": 1, "end_time": 2, "artifact_uri": "mlflow-artifacts:/1/a/artifacts", "lifecycle_stage": "active"},
    "data": {"params": [{"key": "seed", "value": "7"}], "tags": [{"key": "stage", "value": "finetune"}]},
    "inputs": {},
}  # fmt: skip
IMPATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}


def tracked_elsewhere() -> None:
    """A pinned project, and the replies of the server where its runs are tracked."""
    projects.pinned()
    server = Path("server")
    put("experiments.json", {"experiments": [EXPERIMENT]}, server)
    put("experiment.json", {"experiment": EXPERIMENT}, server)
    put("runs.json", {"runs": [RUN]}, server)
    put_headers()


def put_headers() -> None:
    """Have the server reply well."""
    headers = {"status": 200, "Content-Type": "application/json", "X-Body": "whole"}
    put("headers.json", headers, Path("server"))


def serve_tracking(box: Path, fill_in: Callable[[bytes], bytes] = bytes) -> str:
    """Start a server that replies with the files of the folder ``server``, with what is filled in; return its URL."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        name = next((file for end, file in REPLIES.items() if path.endswith(end)), "")
        try:
            body = fill_in((box / f"server/{name}.json").read_bytes()) if name else b"{}"
            headers = json.loads((box / "server/headers.json").read_bytes())
            status, form = int(headers.get("status", 200)), headers.get("X-Body")
        except (OSError, ValueError, AttributeError, TypeError, RecursionError, OverflowError):
            handler.wfile.write(b"\x00 no HTTP")
            return
        if form == "whole":
            kind = headers.get("Content-Type")
            plain = kind if isinstance(kind, str) and kind.isascii() and kind.isprintable() else "x"
            send_body(handler, body, status if 200 <= status < 600 else 500, Content_Type=plain)
        elif len(body) % 2:
            send_body(handler, gzip.compress(bytes(300_000_000), 1), Content_Encoding="gzip")
        else:
            _drip(handler)

    return Impostor(answer).url


def _drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.05)
