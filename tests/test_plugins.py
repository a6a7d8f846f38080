"""Other packages add backends by entry points: the template's package runs, and a broken one is named only when it is used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from PIL import Image
from small_releases import put

from caramel import plugins
from caramel.config.validate import list_named_plugins
from caramel.errors import BackendError
from caramel.registry import BENCHMARKS, FAMILIES, JUDGES, METHODS, SCORERS, Registry
from caramel.runtime.code_deps import compute_code_version

TEMPLATE = Path(__file__).parents[1] / "docs" / "plugin_template"
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the template's package, installed by pip."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(TEMPLATE, folder / "source")
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([sys.executable, "-m", "pip", *words, folder / "site", source], check=True)
    return folder / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small release of the template's benchmark."""
    colors = ("red", "blue", "green", "black")
    rows = [
        {
            "image": f"{n % 8}.png",
            "subset": "swap",
            "caption": f"A {colors[n % 4]} car beside cup number {n}.",
            "negative_caption": f"Cup number {n} beside a {colors[(n + 1) % 4]} car.",
        }
        for n in range(24)
    ]
    put(tmp_path / "data/my_pairs/pairs.csv", rows)
    (tmp_path / "data/my_pairs/images").mkdir()
    for n in range(8):
        pixels = np.random.default_rng(n).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"data/my_pairs/images/{n}.png")
    return tmp_path


def test_the_templates_benchmark_is_scored_by_its_scorer_and_audited_without_an_edit_of_caramel(
    installed: Path, project: Path
) -> None:
    environment = {"PYTHONPATH": str(installed)}
    words = [
        "--model",
        "blind:first_word",
        "--benchmark",
        "my_pairs",
        "--data",
        "data",
        "--n-bootstrap",
        "100",
    ]
    done = run_command(project, "eval", *words, "--out", "out", environment=environment)
    assert done.returncode == 0, done.stderr
    used = json.loads((project / "out/plugins.json").read_text())
    assert [len(entry.pop("code")) for entry in used] == [64, 64]
    package = {"package": "caramel-pairs", "version": "1.0"}
    assert used == [
        {"type": "benchmark", "name": "my_pairs", **package},
        {"type": "scorer", "name": "first_word", **package},
    ]
    words = ["data/my_pairs", "--format", "my_pairs", "--scorer", "first_word", "--scorer", "length"]
    done = run_command(project, "audit", *words, "--out", "audit", environment=environment)
    assert done.returncode == 0, done.stderr
    audit = json.loads((project / "audit/audit.json").read_text())
    assert audit["rows"] == 24
    assert audit["scorers"]["first_word"]["overall"]["micro"] == 1.0
    assert [(entry["type"], entry["name"]) for entry in audit["plugins"]] == [
        ("scorer", "first_word"),
        ("benchmark", "my_pairs"),
    ]


def test_commands_list_the_templates_backends_and_their_package(installed: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(installed)}
    done = run_command(tmp_path, "benchmarks", environment=environment)
    assert done.stdout.splitlines()[-1].split() == ["my_pairs", "of", "package", "caramel-pairs", "1.0"]
    assert "first_word" in run_command(tmp_path, "audit", "--help", environment=environment).stdout
    assert (
        "my_pairs/pairs.csv"
        in run_command(tmp_path, "benchmarks", "my_pairs", environment=environment).stdout
    )


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


def test_a_judge_must_be_a_function(install: Install) -> None:
    install("pack_judge", "mine = pack_judge:JUDGE", "JUDGE = 3", group="judges")
    with pytest.raises(BackendError, match="is a int, not a function"):
        JUDGES["mine"]


def test_a_name_that_caramel_has_is_refused_with_both_packages_where_it_is_used(install: Install) -> None:
    install("pack_taken", "sugarcrepe = pack_taken:BENCHMARK", BENCHMARK)
    assert "sugarcrepe" not in BENCHMARKS.plugins
    assert [*BENCHMARKS].count("sugarcrepe") == 1
    with pytest.raises(
        BackendError, match=r"provide the benchmark 'sugarcrepe': caramel and pack_taken 1\.5"
    ):
        BENCHMARKS["sugarcrepe"]
    assert BENCHMARKS["bivlc"].name == "bivlc"


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
    from caramel.config.schema import load_config

    monkeypatch.chdir(TEMPLATE.parents[1])
    config = load_config()
    assert list_named_plugins(config) == []
    install("pack_named", "mine = pack_named:SCORER", "", group="scorers")
    scores = config.scores.model_copy(update={"scorers": (*config.scores.scorers, "mine")})
    named = list_named_plugins(config.model_copy(update={"scores": scores}))
    assert plugins.format_plugins(named) == "scorer mine: pack_named 1.5"


@pytest.mark.parametrize("table", [BENCHMARKS, FAMILIES, JUDGES, METHODS, SCORERS])
def test_every_type_that_the_docs_name_can_be_added_to(table: Registry[object]) -> None:
    text = (TEMPLATE.parent / "plugins.md").read_text(encoding="utf-8")
    assert f"`{table.group}`" in text
    assert not table.form or table.form.partition(":")[2] in text
