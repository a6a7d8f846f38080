"""Find the source from which this caramel was installed, as a requirement for pip."""

from __future__ import annotations

import json
from importlib import metadata

from caramel.errors import redact_secrets

HERE = (
    "caramel @ file:",
    "caramel @ git+file:",
)  # prefixes that only this machine can install


def get_requirement() -> str:
    """Return the line by which pip installs this caramel again: its version, or the URL of its source.

    An installer stores that URL in ``direct_url.json`` (PEP 610). For a git repository it also stores the
    commit and the folder of the project.
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
    """Return a warning if the requirement names a path of this machine, else ""."""
    line = get_requirement()
    if not line.startswith(HERE):
        return ""
    return (
        f"{line!r} is a path of this machine and cannot be installed elsewhere. Replace it by a public source, as in "
        f"'caramel @ git+https://HOST/REPOSITORY@COMMIT'."
    )
