"""``dvc.yaml`` says all that a stage depends on."""

import dataclasses
import functools
import re
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from graph import WHOLE, missing_params

from caramel.config.fields import Section
from caramel.config.schema import Config
from caramel.errors import ConfigError
from caramel.runtime import code_manifest
from caramel.runtime.code_deps import CARAMEL, find_dependencies
from caramel.runtime.code_manifest import (
    data_beside,
    find_outdated_sums,
    load_all_stages,
    read_sums,
    require_listed,
    write_manifests,
)

ROOT = Path(__file__).parents[2]
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
EXEMPT = frozenset({"run.executor", "run.gpus", "run.num_workers"})


def keys(annotation: Any) -> list[str]:
    """The keys of a section, also of one that may be null."""
    parts = get_args(annotation) or (annotation,)
    return [key for part in parts if issubclass(part, Section) for key in part.model_fields]


SECTIONS = {name: keys(field.annotation) for name, field in Config.model_fields.items() if field.annotation}


def test_the_lists_of_sources_are_up_to_date_and_each_stage_depends_on_its_own() -> None:
    """If this fails, `make graph` writes what should stand there."""
    assert find_outdated_sums(ROOT) == {}
    assert {path.stem for path in (ROOT / "code").iterdir()} == set(load_all_stages(ROOT))
    for stage in GRAPH:
        assert f"code/{stage}.txt" in GRAPH[stage]["deps"]
        assert set(read_sums(ROOT / "code" / f"{stage}.txt")) == {
            path.relative_to(ROOT / "src").as_posix()
            for name in modules_of(stage)
            if (module := CARAMEL.find_file(name))
            for path in (module, *data_beside(module))
        }


def test_an_edited_source_is_refused_until_the_lists_of_the_stages_that_reach_it_are_written_again(
    tmp_path: Path,
) -> None:
    for name in ("src", "code", "pipelines"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    copied = dataclasses.replace(CARAMEL, folder=tmp_path / "src" / "caramel")
    with (copied.folder / "schemas" / "evaluation.py").open("a", encoding="utf-8") as stream:
        stream.write("\n# edited\n")
    require_listed("scenes", tmp_path, copied)
    with pytest.raises(
        ConfigError, match=r"(?s)code/evaluate.txt was written:\n.*schemas/evaluation.py.*make graph"
    ):
        require_listed("evaluate", tmp_path, copied)
    assert write_manifests(tmp_path, copied) == [
        "finetune_sugarcrepe_pp",
        "evaluate",
        "report",
        "crepe_models",
    ]
    require_listed("evaluate", tmp_path, copied)
    assert write_manifests(tmp_path, copied) == []


def test_a_project_that_holds_its_environment_is_told_to_upgrade(tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "site-packages" / "caramel"
    shutil.copytree(ROOT / "src" / "caramel", installed, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "code", tmp_path / "code")
    (installed / "schemas" / "evaluation.py").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="caramel upgrade"):
        require_listed("evaluate", tmp_path, dataclasses.replace(CARAMEL, folder=installed))


def test_no_stage_is_long() -> None:
    text = (ROOT / "dvc.yaml").read_text()
    lines = [part.rstrip().count("\n") + 1 for part in re.split(r"(?m)^  \w+:", text)[1:]]
    assert max(lines) <= 16


@pytest.mark.parametrize("stage", GRAPH)
def test_what_a_script_reads_of_the_config_is_a_parameter_of_its_stage(stage: str) -> None:
    script = ROOT / "pipelines" / f"{stage}.py"
    assert missing_params(script, GRAPH[stage].get("params", []), SECTIONS, exempt=EXEMPT) == []


def test_an_edit_in_a_folder_of_the_users_own_reruns_what_reads_it() -> None:
    for stage, folder in (
        ("scenes", "scenes.data_dir"),
        ("negatives", "scenes.data_dir"),
        ("evaluate", "evaluate.zero_shot"),
    ):
        assert f"${{{folder}}}" in GRAPH[stage]["deps"]


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_its_script_and_its_section_bear_one_name(stage: str) -> None:
    script = f"pipelines/{stage}.py"
    assert f"def {stage}(config: Config)" in (ROOT / script).read_text()
    assert GRAPH[stage]["cmd"] == f"python {script}"
    assert script in GRAPH[stage]["deps"]
    assert stage in Config.model_fields or stage == "assemble"


@functools.cache
def modules_of(stage: str) -> frozenset[str]:
    """Return the modules that a stage reaches."""
    return frozenset(find_dependencies([ROOT / "pipelines" / f"{stage}.py"]))


# Table ``images`` -> folders of the shards that it may point to.
SHARDS = {
    "data/scenes/images.parquet": ("data/scenes/images",),
    "data/synthesize/images.parquet": ("data/synthesize/images",),
    "data/filter_images/images.parquet": ("data/synthesize/images",),
    "data/assemble/images.parquet": ("data/scenes/images", "data/synthesize/images"),
}


def covers(deps: list[str], path: str) -> bool:
    return any(path == dep or path.startswith(f"{dep}/") for dep in deps)


@functools.cache
def opens_pictures(stage: str) -> bool:
    """Return whether a stage's script, or a module that it reaches, opens images by an index."""
    script = ROOT / "pipelines" / f"{stage}.py"
    files = [script, *filter(None, (CARAMEL.find_file(name) for name in modules_of(stage)))]
    return any("ImageStore(" in file.read_text() for file in files if file.name != "image_store.py")


def without_shards(deps: list[str]) -> list[str]:
    """Return the folders of shards that tables of images among the dependencies point to, and that are none of these."""
    named = [shards for index, shards in SHARDS.items() if covers(deps, index)]
    return [folder for shards in named for folder in shards if not covers(deps, folder)]


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_that_opens_pictures_depends_on_the_shards_that_it_can_reach(stage: str) -> None:
    assert not opens_pictures(stage) or without_shards(GRAPH[stage]["deps"]) == []


def test_shards_that_no_dependency_covers_are_seen() -> None:
    assert {"pretrain", "filter_images", "image_scores", "finetune", "evaluate", "report"} <= {
        *filter(opens_pictures, GRAPH)
    }
    assert not opens_pictures("assemble"), "it joins tables"
    deps = [dep for dep in GRAPH["finetune"]["deps"] if dep != "data/scenes/images"]
    assert without_shards(deps) == ["data/scenes/images"]
    assert without_shards([*deps, "data/scenes"]) == []


def rerun_by(*rooms: str) -> set[str]:
    """Return the stages that an edit of any module in some rooms reruns, before their outputs are looked at."""
    return {
        stage
        for stage in GRAPH
        if any(name.removeprefix("caramel.").startswith(room) for name in modules_of(stage) for room in rooms)
    }


def test_no_edit_in_a_chat_client_a_reader_the_audit_or_the_report_trains_a_model() -> None:
    assert rerun_by("models.chat") == {
        "evaluate",
        "negatives",
        "select_negatives",
        "finetune_sugarcrepe_pp",  # whose trainings are stored by the code that trains
    }  # whose tables stay what they were
    assert rerun_by("benchmarks.readers") == {"evaluate", "report", "finetune_sugarcrepe_pp"}
    assert rerun_by("audit") == {"report"}
    assert rerun_by("report") == {"report"}
    assert rerun_by("release", "cli", "doctor") == set()
    assert not {"train_generator", "pretrain", "finetune"} & rerun_by(
        "blind", "gates", "refine", "evaluation"
    )


def test_a_column_of_a_table_reruns_what_reads_or_writes_the_tables_of_its_family() -> None:
    assert rerun_by("schemas.evaluation") == {"evaluate", "report", "finetune_sugarcrepe_pp"}
    assert rerun_by("schemas.llm") == {"negatives", "report"}
    assert rerun_by("schemas.candidates") == {"synthesize", "filter_images", "assemble", "report"}
    assert rerun_by("schemas.training") == {
        *("assemble", "validate_captions", "validate_benchmark", "finetune", "evaluate", "report"),
        "finetune_sugarcrepe_pp",
    }
    assert rerun_by("schemas.study") == {"report"}


def test_what_opens_pictures_and_the_blind_scorers_are_reached_through_packages_and_the_registry() -> None:
    assert "caramel.io.image_codec" in modules_of("validate_captions")
    assert {"caramel.blind.scorer_specs", "caramel.blind.text.linear_probe"} <= modules_of("evaluate")
    assert "caramel.sources.world.exact_reader" in modules_of("synthesize")
    assert "caramel.blind" not in modules_of("evaluate"), "an empty package shapes nothing"


@pytest.mark.parametrize(
    ("body", "params", "missing"),
    [
        ("f(config.run.device)", ["make"], ["run.device"]),
        ("f(config.run.device, config.run.executor)", ["run.device"], []),
        ("f(**config.run.model_dump())", ["run.device"], ["run.precision"]),
        ("f(config.run)", ["run.precision"], ["run.device"]),
        ("section = config.make", ["other"], ["make.size", "make.seed"]),
        ("section = config.make", ["make"], []),
        ("f(config.make.seed)", ["make.size"], ["make.seed"]),
        ("f(config.make.seed)", ["make.seed"], []),
        ("f(config.make.seed.bit_count())", ["make.seed"], []),
        ("def g():\n        return config.make.size", [], ["make.size"]),
        ("f(config.profile)", ["make"], ["profile"]),
        ("f(config.profile)", ["profile"], []),
        ("f(config)", ["make", "run"], [WHOLE]),
    ],
)
def test_a_key_that_a_script_reads_and_its_stage_does_not_name_is_missed(
    body: str, params: list[str], missing: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "make.py"
    script.write_text(f"def make(config: Config) -> None:\n    {body}\n", encoding="utf-8")
    sections = {"run": ["executor", "device", "precision"], "make": ["size", "seed"], "profile": []}
    assert missing_params(script, params, sections, exempt=EXEMPT) == missing


def test_a_broken_graph_is_one_message_where_the_lists_of_code_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: [")
    with pytest.raises(SystemExit, match=r"Error: dvc\.yaml is not valid YAML"):
        code_manifest.main()
