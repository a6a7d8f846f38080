"""Hash the sources and settings of the stages that a study runs, so that a plan can fix them with its comparison."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from caramel.config.schema import Config
from caramel.io.files import compute_file_hash
from caramel.runtime.code_manifest import CODE, load_stages
from caramel.study import workspace

# Dependencies of a stage: its script, and the list of all sources that the script reaches.
SOURCES = ("pipelines/", f"{CODE}/")
UNFIXED = {
    "run",
    "report",
    "study",
}  # settings of execution and reporting; the plan lists the draws itself


def hash_fixed(root: Path, config: Config) -> str:
    """Return the SHA-256 of names and hashes of all sources that a study's stages depend on, and of its settings.

    The settings hold the profile's seeds; a study adds the same increment to each of them for each draw.

    Raises:
        ConfigError: the graph is broken.
        DataError: a source is missing.
    """
    graph = load_stages(root)
    named = {str(dep) for name in workspace.list_stages(root) for dep in graph[name].get("deps", ())}
    files = {root / name for name in named if name.startswith(SOURCES)}
    files.add(root / config.pretrain.model)
    sources = {file.relative_to(root).as_posix(): compute_file_hash(file) for file in files}
    fixed = {"sources": sources, "settings": config.model_dump(mode="json", exclude=UNFIXED)}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()
