"""Write ``CHANGES.md`` and ``changes.json`` of a release: the differences from an earlier version."""

from __future__ import annotations

import json
import re
from pathlib import Path

from caramel.release.diff import diff_versions, format_diff
from caramel.release.pin_file import read_pin
from caramel.release.publishing.escaping import format_code


def write_changes(since: str, name: str, root: Path, folder: Path) -> None:
    """Write both files; errors as in ``diff_versions``."""
    difference = diff_versions(read_pin(since, root), read_pin(name, root), root)
    text = format_diff(difference)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    body = f"# Changes since {format_code(since)}\n\n{fence}text\n{text}\n{fence}\n"
    (folder / "CHANGES.md").write_text(body, encoding="utf-8")
    as_json = json.dumps(difference.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / "changes.json").write_text(as_json, encoding="utf-8")
