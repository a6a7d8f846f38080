"""The profiles of papers have the published settings, or say in their header that they differ."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from caramel.config.profiles import read_profile
from caramel.config.validate import iter_unmet_names
from caramel.errors import ConfigError
from caramel.io.safe_yaml import parse_yaml

ROOT = Path(__file__).parents[2]
ROWS = list(csv.DictReader((Path(__file__).parent / "published_settings.csv").open(encoding="utf-8")))


def value_at(params: Any, key: str) -> Any:
    for part in key.split("."):
        params = params[part]
    return params


def header(profile: str) -> str:
    """The comment at the beginning of a profile, in one line."""
    lines = (ROOT / "params" / f"{profile}.yaml").read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines[: lines.index(f"profile: {profile}")])


@pytest.mark.parametrize("profile", sorted({row["profile"] for row in ROWS}))
def test_a_profile_has_the_published_settings_or_its_header_says_what_differs(profile: str) -> None:
    params = parse_yaml(read_profile(profile, {}, ROOT)[0], profile)
    rows = [row for row in ROWS if row["profile"] == profile]
    wrong = {
        row["key"]: (value_at(params, row["key"]), json.loads(row["value"]))
        for row in rows
        if not row["differs"] and value_at(params, row["key"]) != json.loads(row["value"])
    }
    assert not wrong
    for row in (row for row in rows if row["differs"]):
        assert value_at(params, row["key"]) != json.loads(row["value"]), f"{row['key']} differs no more"
        assert row["differs"] in header(profile) or row["key"] in header(profile), row["key"]


def test_every_published_setting_has_its_place_in_a_paper() -> None:
    assert all(row["paper"] and row["place"] for row in ROWS)
    assert len({(row["profile"], row["key"]) for row in ROWS}) == len(ROWS) > 50


@pytest.mark.parametrize("profile", ["bivlc", "trohn"])
def test_no_candidate_and_a_judge_that_calibrates_nothing_are_refused(profile: str) -> None:
    with pytest.raises(ConfigError, match=r"synthesize\.candidates = 0"):
        read_profile(profile, {"synthesize.candidates": "0"}, ROOT)
    sets = {
        "filter_images.judge": "none",
        "filter_images.faithfulness_threshold": "null",
        "assemble.positives": "drawn",
    }
    _, config = read_profile(profile, {**sets, "assemble.training": "all"}, ROOT)
    problems = "\n".join(iter_unmet_names(config))
    assert "filter_images.judge = 'none' has nothing to calibrate" in problems
    assert "assemble.training = 'all' needs assemble.positives = 'source'" in problems


@pytest.mark.parametrize(
    ("method", "need"), [("trohn_img", "negative images"), ("siglip", "a bias"), ("fsc_clip", "patches")]
)
def test_a_method_that_needs_more_than_captions_does_not_tune_on_sugarcrepe_pp(
    method: str, need: str
) -> None:
    with pytest.raises(ConfigError, match=rf"finetune_sugarcrepe_pp\.method.*needs {need}"):
        read_profile("sugarcrepe_pp", {"finetune_sugarcrepe_pp.method": method}, ROOT)


def test_a_locked_image_tower_does_not_learn_from_negatives() -> None:
    with pytest.raises(ConfigError, match=r"pretrain\.image_steps = 10: .*must be 0 with negatives"):
        read_profile("scratch", {"pretrain.image_steps": "10"}, ROOT)
