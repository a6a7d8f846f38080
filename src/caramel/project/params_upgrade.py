"""Rename the keys of a project's params and graph from caramel 0.1's to today's.

Only keys change. Comments, order and layout of the files stay byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from caramel.config.renamed import CHECKS, rename_dotted, rename_key
from caramel.io.files import write_text
from caramel.io.regular_files import read_plain_text
from caramel.io.safe_yaml import parse_yaml

Edit = tuple[int, int, str]  # start and end in the text, replacement


def rename_project_keys(root: Path) -> list[str]:
    """Rewrite ``params.yaml``, ``params/*.yaml`` and ``dvc.yaml`` of a project; return the changed files.

    Raises:
        ConfigError: a file is not plain YAML.
    """
    changed = []
    for path in [root / "params.yaml", *sorted((root / "params").glob("*.yaml")), root / "dvc.yaml"]:
        if not path.is_file():
            continue
        text = read_plain_text(path)
        parse_yaml(text, str(path))  # raises if it is broken
        renamed = rename_dotted(text) if path.name == "dvc.yaml" else rename_yaml_keys(text)
        if renamed != text:
            write_text(path, renamed)
            changed.append(path.relative_to(root).as_posix())
    return changed


def rename_yaml_keys(text: str) -> str:
    """Return a params file with today's keys; ``text`` is plain YAML."""
    from ruamel.yaml import YAML

    document = YAML(typ="safe", pure=True).compose(text)
    for start, end, name in sorted(_iter_edits(document, []), reverse=True):
        text = text[:start] + name + text[end:]
    return text


def _iter_edits(node: Any, path: list[str]) -> Iterator[Edit]:
    """Yield the edits below a node at a path of keys."""
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if isinstance(node, MappingNode):
        for key, value in node.value:
            if (name := rename_key(path, key.value)) != key.value:
                yield key.start_mark.index, key.end_mark.index, name
            yield from _iter_edits(value, [*path, key.value])
    elif isinstance(node, SequenceNode) and path[-1:] == ["required"]:
        for item in node.value:
            if isinstance(item, ScalarNode) and item.value in CHECKS:
                yield item.start_mark.index, item.end_mark.index, CHECKS[item.value]
