"""A profile is the default with what it changes, comments kept; a wrong one changes nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from caramel.config.profiles import write_profile
from caramel.config.schema import load_config, parse_config
from caramel.errors import ConfigError
from caramel.io.safe_yaml import read_yaml
from caramel.registry import JUDGES, METHODS, SCORERS, SOURCES, WRITERS

ROOT = Path(__file__).parents[2]
PROFILES = sorted(path.stem for path in (ROOT / "params").glob("*.yaml"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_parses_and_names_itself_and_known_backends(name: str, project: Path) -> None:
    config = load_config(write_profile(name, {}, project))
    assert config.profile == name
    assert config.scenes.source in SOURCES
    assert config.negatives.backend in WRITERS
    selected = config.select_negatives.scorers if config.select_negatives else ()
    specs = [*config.scores.scorers, *config.refine.scorers, *selected]
    assert {spec.partition(":")[0] for spec in specs} <= set(SCORERS)
    assert set(config.refine.scorers) <= set(config.scores.scorers)
    assert config.filter_images.judge in JUDGES


def test_the_profile_methods_compares_all_that_are_published_but_that_of_sugarcrepe_pp_alone(
    project: Path,
) -> None:
    compared = set(load_config(write_profile("methods", {}, project)).finetune.variants)
    arms = {
        "pairs_unpaired",
        "shuffled",
        "negative_images",
    }  # of comparison, which nobody trains for their own sake
    assert set(METHODS) - compared == {"two_captions", "sentence_transformers", *arms}


@pytest.mark.parametrize(
    ("text", "said"), [("", "is empty"), ("# nothing\n", "is empty"), ("- a\n", "is a list")]
)
@pytest.mark.parametrize("name", ["smoke", "default"])
def test_an_empty_profile_or_a_list_is_an_error(name: str, text: str, said: str, project: Path) -> None:
    (project / "params" / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{name}\.yaml {said}, but must be a mapping of sections"):
        write_profile("smoke", {}, project)


@pytest.mark.parametrize("text", ["2024-01-02", "2024-13-45", "&a [*a]", "!!set {x}", "[" * 300 + "]" * 300])
def test_a_setting_that_is_no_plain_value_is_named(text: str, project: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"--set scenes.data_dir={text!r}")):
        write_profile("smoke", {"scenes.data_dir": text}, project)


def test_a_profile_keeps_the_comments_and_takes_further_values(project: Path) -> None:
    default = read_yaml(ROOT / "params" / "default.yaml", "")
    path = write_profile(
        "smoke", {"scenes.train": "77", "finetune.seeds": "[1, 2]", "run.executor": "inline"}, project
    )
    config = load_config(path)
    assert (config.scenes.train, config.finetune.seeds, config.run.executor) == (77, (1, 2), "inline")
    assert config.scenes.val == 100, "from the profile"
    assert config.negatives == parse_config(default, "default").negatives, "from the default"
    text = path.read_text(encoding="utf-8")
    for comment in (
        "# scenes per split (source world)",
        "# Every setting of the pipeline",
        "# captions of a step",
    ):
        assert comment in text


def test_a_profile_does_not_depend_on_the_one_before(project: Path) -> None:
    once = write_profile("smoke", {}, project).read_bytes()
    write_profile("sugarcrepe", {}, project)
    assert write_profile("smoke", {}, project).read_bytes() == once
    assert (
        write_profile("default", {}, project).read_bytes() == (ROOT / "params" / "default.yaml").read_bytes()
    )


@pytest.mark.parametrize(
    ("name", "sets", "said"),
    [
        ("smok", {}, "Unknown profile 'smok'.*smoke"),
        ("smoke", {"scenes.tran": "5"}, "did you mean 'train'"),
        ("smoke", {"scenes.train": "many"}, "scenes.train = 'many'"),
        ("smoke", {"scenes": "5"}, "scenes = 5"),
        ("smoke", {"scenes.train.x": "5"}, "scenes.train"),
    ],
)
def test_a_wrong_profile_leaves_the_old_file(
    name: str, sets: dict[str, str], said: str, project: Path
) -> None:
    path = write_profile("default", {}, project)
    with pytest.raises(ConfigError, match=said):
        write_profile(name, sets, project)
    assert path.read_bytes() == (ROOT / "params" / "default.yaml").read_bytes()
    assert sorted(p.name for p in project.iterdir()) == ["params", "params.yaml"]


def test_the_header_of_the_default_params_names_every_profile() -> None:
    header = (ROOT / "params/default.yaml").read_text(encoding="utf-8").partition("\nprofile:")[0]
    named = re.search(r"`caramel config use NAME` \((.*?)\)", header)
    assert named is not None
    assert sorted(named[1].split(", ")) == sorted(PROFILES)
