"""Which keys of the config a stage's script reads: held against ``dvc.yaml``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

WHOLE = "the whole config"


def missing_params(
    script: Path, params: list[str], sections: Mapping[str, list[str]], *, exempt: frozenset[str]
) -> list[str]:
    """Return the keys of the config that a script reads and that are no params of its stage.

    Args:
        script: whose functions take the config as an argument with the annotation ``Config``.
        params: of the stage: sections, or keys of one.
        sections: of the config, with their keys; none: it is a value.
        exempt: keys that change nothing in what is made.
    """
    found: list[str] = []
    for section, key in sorted(keys_read(script)):
        keys = sections.get(section, [])
        read = [f"{section}.{name}" for name in keys if key in (name, "") or key not in keys] or [section]
        found += [name for name in read if section not in params and name not in {*params, *exempt}]
    return list(dict.fromkeys(found))


def keys_read(script: Path) -> set[tuple[str, str]]:
    """Return what a script reads of the config: (section, key), or (section, "") where it takes it whole."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    configs = {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for argument in [*node.args.args, *node.args.kwonlyargs]
        if argument.annotation is not None and ast.unparse(argument.annotation).split(".")[-1] == "Config"
    }
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in configs:
            section = above[node]
            key = above.get(section)
            if not isinstance(section, ast.Attribute):
                found.add((WHOLE, ""))
            else:
                found.add((section.attr, key.attr if isinstance(key, ast.Attribute) else ""))
    return found
