"""What ``caramel doctor`` looks at in ``params.yaml``: whether all that it names is there, and code and data suit it."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from caramel.config.schema import Config, load_config
from caramel.config.validate import is_there, iter_unmet_names
from caramel.doctor.findings import FAIL, OK, WARN, Finding
from caramel.errors import CaramelError, format_items
from caramel.runtime import code_manifest


def check_params(root: Path) -> Finding:
    """Whether ``params.yaml`` can be read, and its profile."""
    try:
        config = load_config(root / "params.yaml")
    except CaramelError as error:
        return Finding(FAIL, "params", str(error).replace("\n", "\n" + " " * 17))
    return Finding(OK, "params", f"profile {config.profile!r}, source {config.scenes.source!r}")


def check_backends(config: Config) -> Finding:
    """Whether all backends, scorers, models and benchmarks that the params name are there."""
    unmet_names = [line.replace("\n", " ") for line in iter_unmet_names(config)]
    if unmet_names:
        cure = (
            f"put there what is named, or set these keys: caramel config use {config.profile} --set KEY=VALUE"
        )
        return Finding(FAIL, "backends", f"not there:\n{format_items(unmet_names, 20)}", cure)
    return Finding(OK, "backends", "all that the params name are there")


def check_inputs(root: Path, config: Config) -> Finding:
    """Whether the folders of the user's own that the params name are there; a hub name is none."""
    named = {
        key: name
        for key, backend, name in (
            (
                "train_generator.pretrained",
                config.train_generator.backend,
                config.train_generator.pretrained,
            ),
            ("pretrain.pretrained", config.pretrain.backend, config.pretrain.pretrained),
        )
        if backend == "pretrained" and name and _is_path(root, name)
    }
    if config.scenes.source == "files":
        named = {"scenes.data_dir": config.scenes.data_dir, **named}
    lacking = [f"{key} = {name!r}" for key, name in named.items() if not (root / name).exists()]
    if "scenes.data_dir" in named and not lacking and not _has_captions(root / config.scenes.data_dir):
        lacking.append(f"captions: scenes.data_dir = {config.scenes.data_dir!r} holds no file of captions")
    if lacking:
        message = f"not there:\n{format_items(lacking)}"
        return Finding(
            FAIL, "inputs", message, "put them there, or set these keys; see the profile's comments"
        )
    return Finding(OK, "inputs", ", ".join(named.values()) or "none are needed")


def _has_captions(folder: Path) -> bool:
    """Return whether a folder holds what stage ``scenes`` reads: a table of captions, or SugarCrepe's files."""
    from caramel.sources.folders import READERS
    from caramel.sources.sugarcrepe_files import list_subtype_files

    return any((folder / name).is_file() for name in READERS) or bool(list_subtype_files(folder))


def _is_path(root: Path, name: str) -> bool:
    """Return whether a name is meant as a path here: its first folder is one of the project's."""
    return Path(name).is_absolute() or (len(Path(name).parts) > 1 and (root / Path(name).parts[0]).is_dir())


def check_methods(root: Path, config: Config) -> Finding:
    """Whether the pairs and the model have what the methods of ``finetune.variants`` train on, as far as they are made."""
    from caramel.training.variants import check_data, check_settings, split_rows

    rows, base = root / "data/assemble/training.parquet", root / "data/base"
    names = ", ".join(config.finetune.variants)
    if not (rows.exists() and base.exists()):
        return Finding(OK, "methods", f"{names}; pairs and model are not made yet")
    try:
        train_rows, _ = split_rows(rows)
        check_data(config.finetune.variants, train_rows, base)
        for variant in config.finetune.variants:
            variant_settings = {**config.finetune.model_dump(), **config.finetune.overrides.get(variant, {})}
            check_settings(variant, variant_settings, len(train_rows), config.finetune.nproc)
    except CaramelError as error:
        return Finding(FAIL, "methods", str(error))
    return Finding(OK, "methods", f"{names}; their data is there")


def check_code(root: Path) -> Finding:
    """Whether the files of ``code/`` list the sources of the installed caramel, or of this repository."""
    version = metadata.version("caramel")
    try:
        other = code_manifest.find_outdated_sums(root)
    except CaramelError as error:
        return Finding(FAIL, "code", str(error))
    if other:
        text = f"caramel {version} has other sources than code/ lists for {', '.join(other)}"
        cure = "make graph" if code_manifest.holds_sources(root) else "caramel upgrade"
        return Finding(FAIL, "code", text, cure)
    return Finding(OK, "code", f"that of caramel {version}, as code/ lists it")


def check_hub(config: Config | None) -> Finding:
    """Whether models may be fetched, and whether the params ask for it."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    named = [p for p in _list_pretrained(config) if not (is_there(p) or _is_path(Path(), p))]
    if named and offline:
        return Finding(
            WARN,
            "hub",
            f"params name {', '.join(map(repr, named))}, but HF_HUB_OFFLINE is set",
            "export HF_HUB_OFFLINE=0, unless the files are in the local cache",
        )
    return Finding(OK, "hub", "offline: nothing is fetched" if offline else "models may be fetched")


def _list_pretrained(config: Config | None) -> list[str]:
    """Return the pretrained models that the params ask for."""
    if config is None:
        return []
    stages = (config.train_generator, config.pretrain)
    return [s.pretrained for s in stages if s.backend == "pretrained" and s.pretrained]
