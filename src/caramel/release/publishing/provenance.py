"""Describe how a release was made, in the W3C's PROV-O (w3.org/TR/prov-o), from ``dvc.lock``.

A stage is an activity. Its dependencies are what it used, its outputs what it generated; each is an entity that is named
by its path and DVC's hash. Only stages whose outputs are those of the pin count, so a later run of one stage adds
nothing false. Croissant 1.1 takes the result as properties of the data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from caramel.io.validators import is_plain_path
from caramel.release.pin_file import Pin
from caramel.runtime.dvc.state import read_lock

PROV = "http://www.w3.org/ns/prov#"


def build_provenance(pinned: Pin, released: Iterable[str], root: Path) -> dict[str, Any]:
    """Return the properties of PROV-O for a data set.

    Args:
        pinned: the version.
        released: paths of the tables that the release holds, or of their folders.
        root: the project's folder. Without ``dvc.lock``, as after ``caramel get``, only the agent is known.

    Raises:
        DataError: ``dvc.lock`` is broken.
    """
    stages = _select_stages(read_lock(root).get("stages", {}), pinned, released)
    agent = {
        "@type": ["prov:Agent", "prov:SoftwareAgent"],
        "@id": "caramel",
        "prov:label": f"caramel, commit {pinned.commit}",
    }
    if not stages:
        return {"prov:wasAttributedTo": agent}
    used = {_name_entity(item): item for stage in stages.values() for item in _list_items(stage, "deps")}
    generated = {_name_entity(item): item for stage in stages.values() for item in _list_items(stage, "outs")}
    outs = [item["path"] for item in generated.values()]
    inputs = {name: item for name, item in used.items() if not _is_path_of(item["path"], outs)}
    return {
        "prov:wasAttributedTo": agent,
        "prov:wasGeneratedBy": [_build_activity(name, stage) for name, stage in stages.items()],
        "prov:wasDerivedFrom": [_build_entity(name, item) for name, item in sorted(inputs.items())],
    }


def _select_stages(
    stages: Mapping[str, Any], pinned: Pin, released: Iterable[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the stages that the released tables come from, in the order of the lock file."""
    current = {
        name: stage
        for name, stage in stages.items()
        if all(pinned.outs.get(out["path"]) == out["md5"] for out in stage.get("outs", ()))
    }
    wanted, selected = list(released), set[str]()
    while wanted:
        path = wanted.pop()
        for name, stage in current.items():
            if name not in selected and _is_path_of(path, [out["path"] for out in stage.get("outs", ())]):
                selected.add(name)
                wanted += [dep["path"] for dep in stage.get("deps", ())]
    return {name: stage for name, stage in current.items() if name in selected}


def _is_path_of(path: str, outs: Iterable[str]) -> bool:
    """Return whether a path is one of the outputs, lies in one, or holds one."""
    return any(f"{path}/".startswith(f"{out}/") or f"{out}/".startswith(f"{path}/") for out in outs)


def _list_items(stage: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return dependencies or outputs inside the project; a path outside of it is the machine's own."""
    return [item for item in stage.get(key, ()) if is_plain_path(item["path"]) and "md5" in item]


def _name_entity(item: Mapping[str, Any]) -> str:
    return f"{item['path']}#{item['md5']}"


def _build_entity(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"@type": "prov:Entity", "@id": name, "prov:label": item["path"]}


def _build_activity(name: str, stage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "prov:Activity",
        "@id": f"stage/{name}",
        "prov:label": name,
        "prov:used": [{"@id": _name_entity(item)} for item in _list_items(stage, "deps")],
        "prov:generated": [_build_entity(_name_entity(item), item) for item in _list_items(stage, "outs")],
        "prov:wasAssociatedWith": {"@id": "caramel"},
    }
