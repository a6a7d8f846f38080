"""`caramel upgrade` renames keys in a project's params and graph, and leaves every other byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from commands import run_command

from caramel.config.renamed import RENAMED
from caramel.errors import ConfigError
from caramel.project.create import create_project
from caramel.project.params_upgrade import rename_project_keys, rename_yaml_keys

OLD = """\
# my settings
scenes:   {files: "inputs/photos", seed: 3}   # files: a folder
'finetune':
  own:
    clic: {trained: text, weights: {pairs: 0.4}}
  search: {space: {clic: {batch: [64, 128], lora.rank: [2]}}, draws: null}
  batch : 64
negatives:
  language_model:
    required: [statement, "finished", one_change]
    price_in: 0.1
mine: {files: 1}
"""
NEW = """\
# my settings
scenes:   {data_dir: "inputs/photos", seed: 3}   # files: a folder
'finetune':
  overrides:
    clic: {trainable: text, weights: {pairs: 0.4}}
  search: {space: {clic: {batch_size: [64, 128], lora.rank: [2]}}, draws: null}
  batch_size : 64
negatives:
  language_model:
    required: [statement, complete, one_change]
    price_per_mtok_in: 0.1
mine: {files: 1}
"""


def test_keys_are_renamed_where_they_stand_and_nothing_else_changes() -> None:
    assert rename_yaml_keys(OLD) == NEW
    assert rename_yaml_keys(NEW) == NEW


def test_a_project_with_old_keys_runs_after_an_upgrade(tmp_path: Path) -> None:
    project = tmp_path / "mine"
    create_project(project)
    params = project / "params.yaml"
    text = params.read_text(encoding="utf-8")
    for old, new in (("files", "data_dir"), ("own", "overrides"), ("retrieval", "retrieval_images")):
        text = text.replace(f"  {new}: ", f"  {old}: ")
    params.write_text(text, encoding="utf-8")
    graph = project / "dvc.yaml"
    graph.write_text(
        graph.read_text(encoding="utf-8").replace("scenes.data_dir", "scenes.files"), encoding="utf-8"
    )
    (project / "params" / "mine.yaml").write_text(
        "profile: mine\nevaluate: {bootstrap: 200}  # few\n", encoding="utf-8"
    )
    done = run_command(project, "upgrade")
    assert "renamed keys in params.yaml" in done.stdout, done.stdout + done.stderr
    values = yaml.safe_load(params.read_text(encoding="utf-8"))
    for new in RENAMED.values():
        section = values
        for part in new.split("."):
            section = section[part]
    assert (project / "params" / "mine.yaml").read_text(encoding="utf-8") == (
        "profile: mine\nevaluate: {n_bootstrap: 200}  # few\n"
    )
    assert "scenes.files" not in graph.read_text(encoding="utf-8")
    assert "renamed keys" not in run_command(project, "upgrade").stdout


def test_a_broken_params_file_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("scenes: {files: [", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"params.yaml is not valid YAML"):
        rename_project_keys(tmp_path)
    assert (tmp_path / "params.yaml").read_text(encoding="utf-8") == "scenes: {files: ["
