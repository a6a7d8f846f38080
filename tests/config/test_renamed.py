"""Keys of params of caramel 0.1: an error names the new key, pins are read by it, and a search draws the same points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from caramel.config.renamed import CHECKS, RENAMED, get_former_key, rename_dotted, rename_params
from caramel.config.schema import parse_config
from caramel.config.search_space import draw_points
from caramel.errors import ConfigError

PARAMS = Path(__file__).parents[2] / "params" / "default.yaml"


def load_default() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(PARAMS.read_text(encoding="utf-8"))
    return values


def get_section(values: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return the mapping that holds a dotted key, and the key's last part."""
    *path, name = key.split(".")
    for part in path:
        values = values[part]
    return values, name


def put_old_names(values: dict[str, Any]) -> dict[str, Any]:
    for old, new in RENAMED.items():
        section, name = get_section(values, new)
        section[old.rpartition(".")[2]] = section.pop(name)
    model = values["negatives"]["language_model"]
    former = {new: old for old, new in CHECKS.items()}
    model["required"] = [former.get(name, name) for name in model["required"]]
    return values


def test_every_new_key_is_a_key_of_the_params_and_no_old_one_is() -> None:
    values = load_default()
    for old, new in RENAMED.items():
        section, name = get_section(values, new)
        assert name in section
        section, name = get_section(values, old)
        assert name not in section


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_key_is_one_error_that_names_the_new_one_and_what_to_do(old: str, new: str) -> None:
    values = load_default()
    section, name = get_section(values, new)
    section[old.rpartition(".")[2]] = section.pop(name)
    with pytest.raises(ConfigError) as error:
        parse_config(values, "params.yaml")
    text = str(error.value)
    assert f"{old}: the key is now {new}; `caramel upgrade`" in text
    assert "has 1 invalid entries" in text


def test_an_old_key_among_a_variant_s_own_settings_is_named_as_well() -> None:
    values = load_default()
    values["finetune"]["overrides"] = {"trohn_img": {"batch": 64}}
    with pytest.raises(
        ConfigError, match="trohn_img: batch = 64: the key is now batch_size; `caramel upgrade`"
    ):
        parse_config(values, "params.yaml")


def test_params_of_0_1_are_read_by_the_names_of_today() -> None:
    values = put_old_names(load_default())
    values["finetune"]["own"] = {"clic": {"trained": "text", "weights": {"pairs": 0.4}}}
    values["finetune"]["search"] = {"space": {"clic": {"batch": [64, 128], "lora.rank": [2]}}, "draws": None}
    expected = load_default()
    expected["finetune"]["overrides"] = {"clic": {"trainable": "text", "weights": {"pairs": 0.4}}}
    expected["finetune"]["search"] = {
        "space": {"clic": {"batch_size": [64, 128], "lora.rank": [2]}},
        "draws": None,
    }
    assert rename_params(values) == expected
    assert rename_params(expected) == expected


def test_dotted_keys_in_a_text_are_renamed_whole() -> None:
    text = "params: [scenes.files, finetune.own, run.workers]\ndeps: ['${scenes.files}', my.scenes.files, scenes.filesystem]"
    assert rename_dotted(text) == (
        "params: [scenes.data_dir, finetune.overrides, run.num_workers]\n"
        "deps: ['${scenes.data_dir}', my.scenes.files, scenes.filesystem]"
    )


def test_a_search_draws_the_points_that_it_drew_by_the_old_names() -> None:
    for new in ("batch_size", "warmup_steps", "ema_decay", "grad_clip_norm"):
        old, tried = get_former_key(new), {"loguniform": [1e-3, 1e-1]}
        found = draw_points({new: tried}, 5, seed=3, name="clic")
        assert [point[new] for point in found] == [
            point[old] for point in draw_points({old: tried}, 5, seed=3, name="clic")
        ]
