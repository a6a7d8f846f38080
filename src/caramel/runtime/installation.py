"""What this caramel was installed from, as pip installs it again."""

from __future__ import annotations

import json
from importlib import metadata

from caramel.errors import redact_secrets

HERE = ("caramel @ file:", "caramel @ git+file:")  # how a requirement begins that no other machine can follow


def get_requirement() -> str:
    """Return the line by which pip installs this caramel again: its version, or the address it was installed from.

    An installer keeps that address in ``direct_url.json`` (PEP 610); of a git repository with the commit, and with the
    folder in which the project lies.
    """
    installed = metadata.distribution("caramel")
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if not origin:
        return f"caramel=={installed.version}"
    url, vcs = redact_secrets(origin["url"]), origin.get("vcs_info")
    address = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    inside = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"caramel @ {address}{inside}"


def format_local_warning() -> str:
    """Return what to know of a requirement that names a path of this machine, "" where it does not."""
    line = get_requirement()
    if not line.startswith(HERE):
        return ""
    return (
        f"{line!r} is a path of this machine, and can be installed nowhere else: write there where others get it from, as in "
        f"'caramel @ git+https://…@COMMIT'."
    )
