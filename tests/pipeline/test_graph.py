"""``dvc.yaml`` says all that a stage depends on."""

from pathlib import Path

import grimp
import pytest
import yaml

from caramel.config import Config
from caramel.registry import BACKENDS

ROOT = Path(__file__).parents[2]
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
# What carries the work but does not shape its outcome.
INFRASTRUCTURE = {
    "errors",
    "files",
    "plain_yaml",
    "dvc_state",
    "config",
    "registry",
    "stages",
    "parallel",
    "tracking",
}
# Backends that a stage looks up by name.
LOOKED_UP = {
    "scenes": ["source"],
    "negatives": ["negatives"],
    "scores": ["scorer"],
    "refine": ["scorer"],
    "train_generator": ["generator"],
    "pretrain": ["base"],
    "synthesize": ["judge"],
    "filter_images": ["judge"],
}


def imported(stage: str) -> set[str]:
    """Return the package's modules that the stage's script names, and the backends it looks up."""
    lines = (ROOT / "pipelines" / f"{stage}.py").read_text().splitlines()
    found = {line.split()[1] for line in lines if line.startswith("from caramel.")}
    for kind in LOOKED_UP.get(stage, []):
        found |= {place.partition(":")[0] for place in BACKENDS[kind].values()}
    return {module for module in found if module.split(".")[1] not in INFRASTRUCTURE}


@pytest.mark.parametrize("stage", GRAPH)
def test_every_module_that_shapes_a_stage_is_a_dependency(stage: str) -> None:
    graph = grimp.build_graph("caramel")
    for name in INFRASTRUCTURE:
        graph.remove_module(f"caramel.{name}")
    modules = imported(stage)
    for module in list(modules):
        modules |= graph.find_upstream_modules(module)
    deps = [ROOT / dep for dep in GRAPH[stage]["deps"] if dep.startswith("src/")]
    files = [ROOT / "src" / Path(*m.split(".")).with_suffix(".py") for m in sorted(modules)]
    missing = [
        str(file.relative_to(ROOT))
        for file in files
        if file.exists() and not any(file == dep or dep in file.parents for dep in deps)
    ]
    assert missing == []


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_its_script_and_its_section_bear_one_name(stage: str) -> None:
    assert f"def {stage}(config: Config)" in (ROOT / "pipelines" / f"{stage}.py").read_text()
    assert stage in Config.model_fields or stage == "assemble"


@pytest.mark.parametrize("stage", GRAPH)
def test_a_section_that_a_script_reads_is_a_parameter_of_its_stage(stage: str) -> None:
    text = (ROOT / "pipelines" / f"{stage}.py").read_text()
    params = GRAPH[stage].get("params", [])
    for section in set(Config.model_fields) - {"run", "profile"}:
        if f"config.{section}" in text:
            assert any(param == section or param.startswith(f"{section}.") for param in params), section
