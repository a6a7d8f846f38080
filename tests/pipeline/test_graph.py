"""``dvc.yaml`` says all that a stage depends on."""

from pathlib import Path

import pytest
import yaml
from graph import WHOLE, Package, missing_deps, missing_params, reached

from caramel.config import Config, Section
from caramel.registry import BACKENDS

ROOT = Path(__file__).parents[2]
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
# What carries the work but does not shape its outcome.
INFRASTRUCTURE = {
    "config",
    "dvc_state",
    "errors",
    "files",
    "names",
    "parallel",
    "plain_yaml",
    "registry",
    "stages",
    "timings",
    "tracking",
    "volumes",
}
CARAMEL = Package("caramel", ROOT / "src" / "caramel", BACKENDS, frozenset(INFRASTRUCTURE))
EXEMPT = frozenset({"run.executor"})


def keys(section: type) -> list[str]:
    return list(section.model_fields) if issubclass(section, Section) else []


SECTIONS = {name: keys(field.annotation) for name, field in Config.model_fields.items() if field.annotation}


@pytest.mark.parametrize("stage", GRAPH)
def test_every_module_that_shapes_a_stage_is_a_dependency(stage: str) -> None:
    script = ROOT / "pipelines" / f"{stage}.py"
    assert missing_deps(script, GRAPH[stage]["deps"], CARAMEL, ROOT) == []


@pytest.mark.parametrize("stage", GRAPH)
def test_what_a_script_reads_of_the_config_is_a_parameter_of_its_stage(stage: str) -> None:
    script = ROOT / "pipelines" / f"{stage}.py"
    assert missing_params(script, GRAPH[stage].get("params", []), SECTIONS, exempt=EXEMPT) == []


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_its_script_and_its_section_bear_one_name(stage: str) -> None:
    script = f"pipelines/{stage}.py"
    assert f"def {stage}(config: Config)" in (ROOT / script).read_text()
    assert GRAPH[stage]["cmd"] == f"python {script}"
    assert script in GRAPH[stage]["deps"]
    assert stage in Config.model_fields or stage == "assemble"


def test_the_gate_on_captions_reaches_what_opens_pictures_and_the_evaluation_the_blind_scorers() -> None:
    modules = {stage: reached(ROOT / "pipelines" / f"{stage}.py", CARAMEL) for stage in GRAPH}
    assert "caramel.storage.pictures" in modules["validate_captions"]
    assert {"caramel.blind.scorer_specs", "caramel.blind.probe"} <= modules["evaluate"]
    assert "caramel.sources.world.reading" in modules["synthesize"]
    assert "caramel.quality" not in modules["evaluate"], "an empty package shapes nothing"


PLANTED = {
    "from package import module": ("from mine.low import paint\n", "low/paint.py"),
    "from package import name": ("from mine.low.paint import colour\n", "low/paint.py"),
    "plain import": ("import mine.low.paint\n", "low/paint.py"),
    "relative import": ("from ..low import paint\n", "low/paint.py"),
    "import in a function": ("def f():\n    from mine.low import paint\n", "low/paint.py"),
    "import in a method": (
        "class A:\n    def f(self):\n        if self:\n            import mine.low.paint\n",
        "low/paint.py",
    ),
    "import of two more": ("from mine.low import far\n", "low/paint.py"),
    "package that does something": ("from mine.busy import quiet\n", "busy/__init__.py"),
    "backend": ("from mine.registry import backend\ndef f(name): backend('judge', name)()\n", "low/paint.py"),
    "backend's place": ("import mine.registry as r\nr.location('judge', 'x')\n", "low/paint.py"),
    "backend's table": (
        "from mine.registry import BACKENDS\nx = BACKENDS['judge']['good']\n",
        "low/paint.py",
    ),
}


@pytest.fixture
def mine(tmp_path: Path) -> Package:
    """A small package, with a registry of one backend."""
    files = {
        "__init__.py": '"""Mine."""\n',
        "registry.py": "BACKENDS = {}\n",
        "low/__init__.py": "",
        "low/paint.py": "colour = 1\n",
        "low/far.py": "def f():\n    from mine.low.paint import colour\n",
        "busy/__init__.py": "x = 1\n",
        "busy/quiet.py": "",
        "high/__init__.py": "",
        "high/work.py": "",
    }
    for name, text in files.items():
        (tmp_path / "src/mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src/mine" / name).write_text(text, encoding="utf-8")
    (tmp_path / "script.py").write_text("from mine.high import work\n", encoding="utf-8")
    backends = {"judge": {"good": "mine.low.paint:f"}}
    return Package("mine", tmp_path / "src" / "mine", backends, frozenset({"registry"}))


@pytest.mark.parametrize("kind", PLANTED)
def test_a_module_that_a_stage_reaches_in_any_way_is_missed(kind: str, mine: Package, tmp_path: Path) -> None:
    text, found = PLANTED[kind]
    (mine.folder / "high/work.py").write_text(text, encoding="utf-8")
    deps = ["src/mine/high", "src/mine/low/far.py", "src/mine/busy/quiet.py"]
    assert missing_deps(tmp_path / "script.py", deps, mine, tmp_path) == [f"src/mine/{found}"]
    assert missing_deps(tmp_path / "script.py", ["src/mine"], mine, tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "import json\nfrom pathlib import Path\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mine.low import paint\n",
        "from mine import registry\n",
        "backend('other', 'x')\n",
    ],
)
def test_what_shapes_nothing_is_not_missed(text: str, mine: Package, tmp_path: Path) -> None:
    (mine.folder / "high/work.py").write_text(text, encoding="utf-8")
    assert missing_deps(tmp_path / "script.py", ["src/mine/high"], mine, tmp_path) == []


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
