"""The released files that tests read are those of their manifest."""

import hashlib
import json

from released import released


def test_the_released_files_are_those_of_the_manifest() -> None:
    manifest = json.loads(released("MANIFEST.json").read_text())
    for entry in manifest:
        content = released(entry["repository"].replace("/", "+"), entry["path"]).read_bytes()
        assert len(content) == entry["bytes"], entry["path"]
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["path"]
