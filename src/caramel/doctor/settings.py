"""Check ``params.yaml`` for ``caramel doctor``: everything that it names is available, and code and data match it."""

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
    """Check that ``params.yaml`` can be read, and report its profile."""
    try:
        config = load_config(root / "params.yaml")
    except CaramelError as error:
        return Finding(FAIL, "params", str(error).replace("\n", "\n" + " " * 17))
    return Finding(OK, "params", f"profile {config.profile!r}, source {config.scenes.source!r}")


def check_backends(config: Config) -> Finding:
    """Check that all backends, scorers, models and benchmarks in the params are available."""
    unmet_names = [line.replace("\n", " ") for line in iter_unmet_names(config)]
    if unmet_names:
        cure = f"add what is missing, or set these keys: caramel config use {config.profile} --set KEY=VALUE"
        return Finding(FAIL, "backends", f"missing:\n{format_items(unmet_names, 20)}", cure)
    return Finding(OK, "backends", "all in the params are available")


def check_inputs(root: Path, config: Config) -> Finding:
    """Check that the user's folders in the params exist; names on the hub are not folders."""
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
    if config.scenes.source != "world":
        named = {"scenes.data_dir": config.scenes.data_dir, **named}
    lacking = [f"{key} = {name!r}" for key, name in named.items() if not (root / name).exists()]
    if (
        "scenes.data_dir" in named
        and not lacking
        and not _has_captions(config.scenes.source, root / config.scenes.data_dir)
    ):
        lacking.append(f"captions: scenes.data_dir = {config.scenes.data_dir!r} has no captions file")
    if lacking:
        message = f"not there:\n{format_items(lacking)}"
        return Finding(FAIL, "inputs", message, "add them, or set these keys; see the profile's comments")
    return Finding(OK, "inputs", ", ".join(named.values()) or "none needed")


def _has_captions(source: str, folder: Path) -> bool:
    """Return whether a folder has the input of stage ``scenes``: a table of captions, or SugarCrepe's files."""
    from caramel.sources.caption_files import list_caption_files
    from caramel.sources.folders import READERS
    from caramel.sources.sugarcrepe_files import list_subtype_files

    if source == "captions":
        return bool(list_caption_files(folder))
    return any((folder / name).is_file() for name in READERS) or bool(list_subtype_files(folder))


def _is_path(root: Path, name: str) -> bool:
    """Return whether a name is a path in this project: its first folder is one of the project's."""
    return Path(name).is_absolute() or (len(Path(name).parts) > 1 and (root / Path(name).parts[0]).is_dir())


def check_methods(root: Path, config: Config) -> Finding:
    """Whether the pairs and the model have what the methods of ``finetune.variants`` train on, as far as they are made."""
    from caramel.training.data.row_units import RowCounts
    from caramel.training.variants import GRID_KEYS, check_data, check_variant, split_rows

    rows, base = root / "data/assemble/training.parquet", root / "data/base"
    names = ", ".join(config.finetune.variants)
    if not (rows.exists() and base.exists()):
        return Finding(OK, "methods", f"{names}; pairs and model do not exist yet")
    try:
        train_rows, _ = split_rows(rows)
        check_data(config.finetune.variants, train_rows, base, config.finetune.rows)
        counts = RowCounts.from_rows(train_rows)
        common = config.finetune.model_dump(exclude=set(GRID_KEYS))
        common |= {"device": config.run.device, "precision": config.run.precision}
        for variant in config.finetune.variants:
            overrides = config.finetune.overrides.get(variant, {})
            point = {"variant": variant, "seed": config.finetune.seeds[0], "overrides": overrides}
            check_variant(point, common, counts=counts, nproc=config.finetune.nproc)
    except CaramelError as error:
        return Finding(FAIL, "methods", str(error))
    return Finding(OK, "methods", f"{names}; their data is available")


def check_code(root: Path) -> Finding:
    """Check that ``code/`` lists the sources of the installed caramel, or of this repository."""
    version = metadata.version("caramel")
    try:
        other = code_manifest.find_outdated_sums(root)
    except CaramelError as error:
        return Finding(FAIL, "code", str(error))
    if other:
        text = f"caramel {version} has different sources from those in code/ for {', '.join(other)}"
        cure = "make graph" if code_manifest.holds_sources(root) else "caramel upgrade"
        return Finding(FAIL, "code", text, cure)
    return Finding(OK, "code", f"caramel {version}, matching code/")


def check_hub(config: Config | None) -> Finding:
    """Check whether models may be downloaded, and whether the params need it."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    named = [p for p in _list_pretrained(config) if not (is_there(p) or _is_path(Path(), p))]
    if named and offline:
        return Finding(
            WARN,
            "hub",
            f"params name {', '.join(map(repr, named))}, but HF_HUB_OFFLINE is set",
            "export HF_HUB_OFFLINE=0, unless the files are in the local cache",
        )
    return Finding(OK, "hub", "offline: no downloads" if offline else "downloads allowed")


def _list_pretrained(config: Config | None) -> list[str]:
    """Return the pretrained models in the params."""
    if config is None:
        return []
    stages = (config.train_generator, config.pretrain)
    return [s.pretrained for s in stages if s.backend == "pretrained" and s.pretrained]
