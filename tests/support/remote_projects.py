"""Small projects whose data DVC made, and what is done with them by its own commands."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from dvc_commands import run_dvc
from processes import checked
from s3_server import BUCKET

QUIET = {"DVC_NO_ANALYTICS": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
WHO = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def run(
    *command: str, root: Path, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a project; on failure show what it said."""
    env = {**os.environ, **QUIET, **WHO, **environment}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return checked(done) if check else done


def dvc(
    *command: str, root: Path, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC."""
    done = run_dvc(command, root, {**os.environ, **QUIET, **WHO, **environment})
    return checked(done) if check else done


def cached(root: Path) -> None:
    """Put all outputs that ``dvc.lock`` names into DVC's cache, as DVC would have, and make it a project of DVC."""
    from caramel.release.pin import compute_dvc_hash, read_locked_outputs

    objects = root / ".dvc" / "cache" / "files" / "md5"

    def put(oid: str, data: bytes) -> None:
        (objects / oid[:2]).mkdir(parents=True, exist_ok=True)
        (objects / oid[:2] / oid[2:]).write_bytes(data)

    for out, oid in read_locked_outputs(root).items():
        files = (
            [root / out]
            if (root / out).is_file()
            else sorted(p for p in (root / out).rglob("*") if p.is_file())
        )
        for path in files:
            put(compute_dvc_hash(path), path.read_bytes())
        if oid.endswith(".dir"):
            names = sorted(
                (path.relative_to(root / out).as_posix(), compute_dvc_hash(path)) for path in files
            )
            rows = [{"md5": digest, "relpath": name} for name, digest in names]
            put(oid, json.dumps(rows, sort_keys=True).encode())


def with_remote(root: Path, server: Any, prefix: str) -> Path:
    """Give a project a remote on the S3 server, as a user would, and commit that."""
    text = (root / ".dvc" / "config").read_text(encoding="utf-8")
    text += (
        f"[core]\n    remote = store\n['remote \"store\"']\n    url = s3://{BUCKET}/{prefix}\n"
        f"    endpointurl = {server.url}\n    verify = true\n"
    )
    (root / ".dvc" / "config").write_text(text, encoding="utf-8")
    run("git", "commit", "-qam", "remote", root=root)
    return root


def in_bucket(server: Any, prefix: str) -> dict[str, str]:
    """Return object -> key of what lies in the bucket below a prefix."""
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/files")
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    return {"".join(key.split("/")[-2:]): key for key in keys}


def spoil(server: Any, key: str) -> None:
    """Flip a byte of an object."""
    data = bytearray(server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    server.client().put_object(Bucket=BUCKET, Key=key, Body=bytes(data))


def clone(root: Path, to: Path) -> Path:
    """Clone a project's git repository: nothing of its data."""
    run("git", "clone", "-q", str(root), str(to), root=root)
    return to
