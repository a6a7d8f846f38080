"""What a plan fixes beside its comparison: the sources and settings of the stages that a study runs, as one hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from caramel.config.schema import Config
from caramel.io.files import compute_file_hash
from caramel.runtime.code_manifest import CODE, load_stages
from caramel.study import workspace

# Of the dependencies of a stage: its script, and the list of all sources that this reaches.
SOURCES = ("pipelines/", f"{CODE}/")
UNFIXED = {
    "run",
    "report",
    "study",
}  # how it is run, and what is told of it; the draws are an entry of the plan


def hash_fixed(root: Path, config: Config) -> str:
    """Return the SHA-256 of names and hashes of all sources that a study's stages depend on, and of its settings.

    Seeds are those of the profile, each of which a study moves on by the same step for each draw.

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
