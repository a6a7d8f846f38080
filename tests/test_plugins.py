"""Other packages add backends by entry points: a broken one is named only when it is used, and results depend on their code."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from commands import call_command

from caramel import plugins
from caramel.config.profiles import write_profile
from caramel.config.schema import load_config
from caramel.config.validate import list_named_plugins
from caramel.errors import BackendError, ConfigError
from caramel.interfaces.model import Form
from caramel.models.specs import open_model
from caramel.registry import BENCHMARKS, FAMILIES, JUDGES, METHODS, SCORERS, Registry
from caramel.runtime.code_deps import compute_code_version
from caramel.runtime.code_manifest import (
    load_stages,
    read_sums,
    require_listed,
    require_plugins_listed,
    write_manifests,
)
from caramel.sources.images.judge_specs import load_judge

ROOT = Path(__file__).parents[1]
BENCHMARK = """
from caramel.interfaces.benchmark import Benchmark
BENCHMARK = Benchmark("mine", "", lambda data, images: None, (), "")
OTHER = Benchmark("other", "", lambda data, images: None, (), "")
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package with one module and one entry point of a group."""
    caches = (plugins.find_plugins, plugins.list_entry_points, compute_code_version)

    def write(package: str, entry: str, code: str, *, group: str = "benchmarks") -> Path:
        folder = tmp_path / package
        info = folder / f"{package}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[caramel.{group}]\n{entry}\n")
        (folder / f"{package}.py").write_text(code)
        monkeypatch.syspath_prepend(folder)
        for cache in caches:
            cache.cache_clear()
        return folder / f"{package}.py"

    yield write
    for cache in caches:
        cache.cache_clear()


def test_a_plugin_is_listed_and_its_module_is_not_imported_before_its_name_is_used(install: Install) -> None:
    install("pack_lazy", "mine = pack_lazy:BENCHMARK", BENCHMARK)
    assert "mine" in BENCHMARKS
    assert [*BENCHMARKS][-1] == "mine"
    assert BENCHMARKS.get_target("mine") == "pack_lazy:BENCHMARK"
    assert str(BENCHMARKS.plugins["mine"]) == "pack_lazy 1.5"
    assert len(BENCHMARKS.plugins["mine"].hash_code()) == 64
    assert "pack_lazy" not in sys.modules
    assert BENCHMARKS["mine"].name == "mine"
    assert "pack_lazy" in sys.modules


@pytest.mark.parametrize(
    ("entry", "code", "problem"),
    [
        ("mine = pack_bad:BENCHMARK", "import no_such_module", "ModuleNotFoundError: No module named"),
        ("mine = pack_bad:BENCHMARK", "1 / 0", "ZeroDivisionError: division by zero"),
        ("mine = pack_bad:NOTHING", BENCHMARK, "AttributeError: module 'pack_bad' has no attribute"),
        ("mine = pack_bad:OTHER", BENCHMARK, "has the name 'other', which must be that of its entry point"),
        ("mine = pack_bad:BENCHMARK", "BENCHMARK = 3", "is a int, not a Benchmark"),
        (
            "mine = pack_bad:BENCHMARK",
            BENCHMARK.replace("lambda data, images: None", "None"),
            "lacks a function: reader",
        ),
    ],
)
def test_a_broken_plugin_is_an_error_with_package_and_entry_point_and_only_where_it_is_used(
    install: Install, monkeypatch: pytest.MonkeyPatch, entry: str, code: str, problem: str
) -> None:
    monkeypatch.delitem(sys.modules, "pack_bad", raising=False)
    install("pack_bad", entry, code)
    assert BENCHMARKS["sugarcrepe"].name == "sugarcrepe"
    with pytest.raises(BackendError, match=problem) as stopped:
        BENCHMARKS["mine"]
    assert f"package pack_bad 1.5 (entry point {entry})" in str(stopped.value)


FAMILY = """
from caramel.interfaces.model import Family
class Model:
    name = "mine"
    @property
    def identity(self):
        raise AssertionError("it is slow to compute")
    def encode_images(self, images, batch_size): ...
FAMILY = Family("mine", FORM, "", "", load=lambda target, **settings: Model(), missing=lambda target: [])
"""


def test_a_family_whose_model_lacks_a_method_is_an_error_when_the_model_is_loaded(install: Install) -> None:
    install(
        "pack_model", "mine = pack_model:FAMILY", FAMILY.replace("FORM", "'dual'"), group="model_families"
    )
    assert FAMILIES["mine"].form == "dual"
    with pytest.raises(BackendError, match=r"package pack_model 1\.5 .* gives a Model without encode_texts"):
        open_model("mine:target", "cpu", "fp32")


def test_a_family_may_have_each_form_of_models() -> None:
    assert FAMILIES.contract.protocols.keys() == {*get_args(Form)}


def test_a_family_of_an_unknown_form_is_an_error(install: Install) -> None:
    install("pack_form", "mine = pack_form:FAMILY", FAMILY.replace("FORM", "'duel'"), group="model_families")
    with pytest.raises(BackendError, match=r"has the form 'duel', not one of dual, text, matcher"):
        FAMILIES["mine"]


def test_a_judge_must_be_a_function_that_gives_a_judge(install: Install) -> None:
    install("pack_judge", "mine = pack_judge:JUDGE", "JUDGE = 3", group="judges")
    with pytest.raises(BackendError, match="is a int, not a function"):
        JUDGES["mine"]
    install("pack_none", "yours = pack_none:JUDGE", "def JUDGE(**settings): ...", group="judges")
    with pytest.raises(BackendError, match=r"gives a NoneType without score_match, is_ambiguous, name"):
        load_judge("yours", checkpoint="", device="cpu", allow_unmentioned_objects=False)


def test_a_name_that_caramel_has_is_refused_with_both_packages_where_it_is_used(install: Install) -> None:
    install("pack_taken", "sugarcrepe = pack_taken:BENCHMARK", BENCHMARK)
    assert "sugarcrepe" not in BENCHMARKS.plugins
    assert [*BENCHMARKS].count("sugarcrepe") == 1
    with pytest.raises(
        BackendError, match=r"provide the benchmark 'sugarcrepe': caramel and pack_taken 1\.5"
    ):
        BENCHMARKS["sugarcrepe"]
    assert BENCHMARKS["bivlc"].name == "bivlc"


@pytest.mark.parametrize(
    ("group", "name", "words", "still"),
    [
        ("benchmarks", "sugarcrepe", ["benchmarks"], "bivlc "),
        ("model_families", "dual", ["eval", "--help"], "--benchmark NAME"),
        ("scorers", "length", ["audit", "--help"], "--scorer"),
    ],
)
def test_a_taken_name_does_not_break_the_commands_that_list_backends(
    install: Install, tmp_path: Path, group: str, name: str, words: list[str], still: str
) -> None:
    before = call_command(tmp_path, *words).stdout
    assert "pack_listed" not in before
    assert still in " ".join(before.split())
    install("pack_listed", f"{name} = pack_listed:THING", "", group=group)
    done = call_command(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert f"'{name}': caramel and pack_listed 1.5" in shown
    assert still in shown


def test_a_name_of_two_plugins_is_refused_with_both_packages(install: Install) -> None:
    install("pack_one", "mine = pack_one:BENCHMARK", BENCHMARK)
    install("pack_two", "mine = pack_two:BENCHMARK", BENCHMARK)
    with pytest.raises(BackendError, match=r"'mine': pack_one 1\.5 and pack_two 1\.5"):
        BENCHMARKS["mine"]


def test_results_that_a_plugin_may_have_shaped_depend_on_its_code_and_others_do_not(install: Install) -> None:
    module, other = "caramel.blind.sharded_scores", "caramel.training.recipes.finetune_trial"
    without, others = compute_code_version(module), compute_code_version(other)
    file = install("pack_code", "mine = pack_code:SCORER", "SCORER = 1\n", group="scorers")
    first = compute_code_version(module)
    assert first != without
    assert compute_code_version(other) == others
    file.write_text("SCORER = 2\n")
    compute_code_version.cache_clear()
    assert compute_code_version(module) not in (first, without)


def test_embeddings_of_a_model_depend_on_the_plugin_of_its_own_family_alone(install: Install) -> None:
    module = "caramel.evaluation.scores.encoding"
    ours = compute_code_version(module, model="open_clip")
    install("pack_family", "mine = pack_family:FAMILY", "", group="model_families")
    assert "mine" in FAMILIES
    assert compute_code_version(module, model="mine") != ours
    # ``benchmark`` and the other types have no plugin here.
    assert compute_code_version(module, model="open_clip") == ours


def test_the_plugins_that_params_name_are_known_to_a_stage(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config()
    assert list_named_plugins(config) == []
    install("pack_named", "mine = pack_named:SCORER", "", group="scorers")
    scores = config.scores.model_copy(update={"scorers": (*config.scores.scorers, "mine")})
    named = list_named_plugins(config.model_copy(update={"scores": scores}))
    assert plugins.format_plugins(named) == "scorer mine: pack_named 1.5"
    crepe = config.crepe.model_copy(update={"models": ("label=blind:mine",)})
    assert list_named_plugins(config.model_copy(update={"crepe": crepe})) == named


def test_a_stage_that_can_use_a_named_plugin_lists_its_code_and_does_not_run_after_an_edit(
    install: Install, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    for name in ("params", "pipelines"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("crepe"))
    graph = load_stages(ROOT)
    stages = {name: graph[name] for name in ("scenes", "scores")}
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    write_profile("smoke", {}, project)
    install("pack_other", "other = pack_other:SCORER", "SCORER = 1\n", group="scorers")
    file = install("pack_used", "mine = pack_used:SCORER", "SCORER = 1\n", group="scorers")
    write_manifests(project)
    unnamed = read_sums(project / "code/scores.txt")
    write_profile("smoke", {"scores.scorers": "[length, mine]"}, project)
    named = list_named_plugins(load_config(project / "params.yaml"))
    with pytest.raises(
        ConfigError, match=r"(?s)code/scores.txt does not .*plugin scorer mine.*caramel upgrade"
    ):
        require_plugins_listed("scores", named, project)
    assert write_manifests(project) == ["scores"]
    listed = read_sums(project / "code/scores.txt")
    assert listed == unnamed | {"plugin scorer mine": SCORERS.plugins["mine"].hash_code()}
    require_plugins_listed("scores", named, project)
    require_listed("scores", project)
    file.write_text("SCORER = 2\n")
    with pytest.raises(ConfigError, match="plugin scorer mine"):
        require_plugins_listed("scores", named, project)
    require_plugins_listed("scenes", named, project)  # it cannot use a scorer
    assert write_manifests(project) == ["scores"]
    require_plugins_listed("scores", named, project)


@pytest.mark.parametrize("table", [BENCHMARKS, FAMILIES, JUDGES, METHODS, SCORERS])
def test_every_type_that_the_docs_name_can_be_added_to(table: Registry[object]) -> None:
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert f"`{table.group}`" in text
    assert not table.contract.form or table.contract.form.partition(":")[2] in text
