"""A small server on the loopback interface that speaks the hub's protocol for uploads, with a repository in memory.

The protocol is that of huggingface_hub's client: create, look, list, ask how each file is sent, send large ones by
git-LFS's batch API, commit. Storage by Xet is not part of it: clients fall back to LFS with HF_HUB_DISABLE_XET=1.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopback import KeptHandler, listening

LARGE = 2000  # bytes from which a file is sent as LFS
TOKEN = "hf_notForAnyoneElse"


@dataclass
class Hub:
    """What the server holds and was sent."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # of the one repository
    stored: dict[str, bytes] = field(default_factory=dict)  # SHA-256 -> content sent as LFS
    created: list[dict[str, Any]] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)  # headers of the commits
    bodies: list[bytes] = field(default_factory=list)
    authorized: list[str | None] = field(default_factory=list)
    refusal: tuple[int, str] | None = None  # of commits

    @property
    def sha(self) -> str:
        """The current commit."""
        return f"{len(self.commits):040x}"

    def commit(self, lines: list[dict[str, Any]]) -> None:
        """Take a commit."""
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value)
            elif line["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.files[value["path"]] = self.stored[value["oid"]]
            elif line["key"] == "deletedFile":
                del self.files[value["path"]]


def answer(hub: Hub, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Return status and JSON of the reply to a request."""
    path = path.partition("?")[0]
    if method == "PUT":
        hub.stored[path.rpartition("/")[2]] = body
        return 200, {}
    if path == "/api/repos/create":
        hub.created.append(json.loads(body))
        return 200, {"url": hub.url + "/datasets/lab/set", "name": "lab/set", "id": "0"}
    if path == "/api/validate-yaml":
        return 200, {"errors": [], "warnings": []}
    if path.endswith("/objects/batch"):
        objects = [
            {**one, "actions": {"upload": {"href": f"{hub.url}/lfs/{one['oid']}", "header": {}}}}
            for one in json.loads(body)["objects"]
        ]
        return 200, {"transfer": "basic", "objects": objects}
    match = re.fullmatch(r"/api/(datasets|models)/lab/set(?:/(tree|preupload|commit)/\w+)?", path)
    if match is None:
        return 404, {"error": "Repository not found"}
    if match[2] == "tree":
        return 200, [
            {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
            for name, data in hub.files.items()
        ]
    if match[2] == "preupload":
        modes = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["size"] >= LARGE else "regular",
                "shouldIgnore": False,
            }
            for one in json.loads(body)["files"]
        ]
        return 200, {"files": modes}
    if match[2] == "commit":
        if hub.refusal:
            return hub.refusal[0], {"error": hub.refusal[1]}
        hub.commit([json.loads(line) for line in body.splitlines()])
        return 200, {"commitUrl": f"{hub.url}/{match[1]}/lab/set/commit/{hub.sha}", "commitOid": hub.sha}
    return 200, {"id": "lab/set", "sha": hub.sha, "siblings": []}


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve an empty repository ``lab/set`` until the end of the block."""
    hub = Hub()

    class Handler(KeptHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hub.bodies.append(body)
            if self.command != "PUT":
                hub.authorized.append(self.headers.get("Authorization"))
            status, reply = answer(hub, self.command, self.path, body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status >= 400:
                self.send_header("X-Error-Message", reply["error"])
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_GET

    with listening(Handler) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
