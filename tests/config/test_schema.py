"""params.yaml is parsed strictly, and every mistake is named with the way out."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import run_command

from caramel.config.fields import MOST_CONNECTIONS
from caramel.config.schema import Config, load_config, parse_config
from caramel.errors import ConfigError
from caramel.io.safe_yaml import read_yaml
from caramel.release.pin import load_params

ROOT = Path(__file__).parents[2]
DEFAULT = read_yaml(ROOT / "params" / "default.yaml", "")


def raw() -> dict[str, Any]:
    values: dict[str, Any] = copy.deepcopy(DEFAULT)
    return values


def test_params_yaml_is_the_default_profile_where_it_says_so() -> None:
    if load_config(ROOT / "params.yaml").profile == "default":
        assert (ROOT / "params.yaml").read_bytes() == (ROOT / "params" / "default.yaml").read_bytes()


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    values = raw()
    values["scenes"]["tran"] = values["scenes"].pop("train")
    with pytest.raises(ConfigError) as stopped:
        parse_config(values, "params.yaml")
    assert "scenes.tran: unknown key; did you mean 'train'?" in str(stopped.value)
    assert "scenes.train: missing" in str(stopped.value)
    assert str(stopped.value).endswith("`caramel config use NAME` writes a complete params.yaml.")


def test_an_unknown_section_and_a_nested_key_are_named() -> None:
    values = raw()
    values["finetun"] = {}
    values["synthesize"]["grid"]["guidence"] = [1.0]
    with pytest.raises(ConfigError) as stopped:
        parse_config(values, "params.yaml")
    assert "did you mean 'finetune'?" in str(stopped.value)
    assert "synthesize.grid.guidence: unknown key; did you mean 'guidance'?" in str(stopped.value)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("scenes", "train", "many"),
        ("scenes", "train", 2.5),
        ("scenes", "train", -1),
        ("scenes", "typical_color_prob", 1.5),
        ("scenes", "absolute_positions", 1.5),
        ("scenes", "group_size", 0),
        ("scenes", "num_objects", [4]),
        ("run", "device", "tpu"),
        ("refine", "scorers", "ngram"),
        ("pretrain", "lr", 0),
        ("finetune", "variants", ["both"]),
    ],
)
def test_a_wrong_value_is_named_with_its_key(section: str, key: str, value: object) -> None:
    values = raw()
    values[section][key] = value
    shown = value[0] if isinstance(value, list) else value
    with pytest.raises(ConfigError, match=rf"{section}\.{key}.* = {re.escape(repr(shown))}"):
        parse_config(values, "params.yaml")


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the place of every number in nested values."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return [place for key, part in parts for place in numbers(part, (*path, key))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_every_number_of_the_config_has_a_lowest_and_a_highest_value() -> None:
    def unbounded(schema: Any, place: str) -> list[str]:
        if isinstance(schema, list):
            return [found for part in schema for found in unbounded(part, place)]
        if not isinstance(schema, dict):
            return []
        found = [f for key, part in schema.items() for f in unbounded(part, f"{place}.{key}")]
        if schema.get("type") in ("integer", "number"):
            low, high = (
                {"minimum", "exclusiveMinimum"} & set(schema),
                {"maximum", "exclusiveMaximum"} & set(schema),
            )
            found += [place] * (not low or not high)
        return found

    assert unbounded(Config.model_json_schema(), "") == []


@pytest.mark.parametrize("place", numbers(raw()), ids=lambda place: ".".join(map(str, place)))
def test_a_number_that_is_negative_huge_or_not_finite_is_an_error(place: tuple[str | int, ...]) -> None:
    for value in (float("nan"), float("inf"), float("-inf"), -1, -0.5, 10**30, 1e30, True, "1"):
        values: Any = raw()
        at = values
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
        with pytest.raises(ConfigError, match=r"params\.yaml has \d invalid entries"):
            parse_config(values, "params.yaml")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("temperature", 0.0, "greater than 0"),
        ("temperature", 1.6, "less than or equal to 1.5"),
        ("top_p", 0.0, "greater than 0"),
        ("top_p", 1.1, "less than or equal to 1"),
        ("min_p", 1.1, "less than or equal to 1"),
        ("seed", -1, "greater than or equal to 0"),
    ],
)
def test_sampling_outside_of_its_range_is_an_error(key: str, value: float, said: str) -> None:
    values: Any = raw()
    values["negatives"]["language_model"][key] = value
    with pytest.raises(ConfigError, match=rf"negatives\.language_model\.{key} = {value}: .*{said}"):
        parse_config(values, "params.yaml")


@pytest.mark.parametrize("value", ["many", 0, MOST_CONNECTIONS + 1, 2.5, None, True])
def test_a_number_of_connections_is_a_number_or_auto(value: object) -> None:
    values: Any = raw()
    values["negatives"]["language_model"]["max_connections"] = MOST_CONNECTIONS
    assert parse_config(values, "params.yaml").crepe.max_connections == "auto"
    values["negatives"]["language_model"]["max_connections"] = value
    said = rf"1 invalid entries:\n.*language_model\.max_connections = {value!r}: .*'auto' or an integer from 1 to {MOST_CONNECTIONS}"
    with pytest.raises(ConfigError, match=said):
        parse_config(values, "params.yaml")


def test_all_mistakes_are_named_at_once() -> None:
    values = raw()
    values["scenes"]["train"] = values["scenes"]["val"] = "many"
    with pytest.raises(ConfigError, match="2 invalid entries"):
        parse_config(values, "params.yaml")


def test_the_config_cannot_be_changed() -> None:
    config: Config = parse_config(raw(), "params.yaml")
    with pytest.raises(ValueError, match="frozen"):
        config.scenes.seed = 7  # type: ignore[misc]


@pytest.mark.parametrize("text", ["a: [1", "a: 1\na: 2", "\t- x: {"])
def test_bad_yaml_is_an_error_that_names_the_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"params\.yaml is not valid YAML"):
        load_config(tmp_path / "params.yaml")


def test_a_missing_file_or_a_list_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="caramel config use default"):
        load_config(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("- 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is a list, but must be a mapping"):
        load_config(tmp_path / "params.yaml")


def test_an_unknown_training_method_lists_those_that_there_are() -> None:
    values = raw()
    values["finetune"]["variants"] = ["both"]
    with pytest.raises(ConfigError) as stopped:
        parse_config(values, "params.yaml")
    known = "Input should be 'infonce', 'siglip', 'negclip', 'trohn_text', 'trohn_img', 'negative_images'"
    assert f"finetune.variants.0 = 'both': {known}" in str(stopped.value)


def test_what_a_method_has_of_its_own_is_checked_as_what_all_have() -> None:
    values = raw()
    values["finetune"]["variants"] = ["infonce", "ce_clip"]
    own = {"ce_clip": {"weights": {"imc": 0.5}, "lr": 0.001, "betas": [0.9, 0.99], "negatives": None}}
    values["finetune"]["overrides"] = own
    assert parse_config(values, "params.yaml").finetune.overrides == own
    for own, said in (
        ({"ce_clip": {"weights": {"icm": 0.5}}}, "ce_clip has no weight 'icm'; it has: imc, cmr, margin"),
        ({"infonce": {"weights": {"scale": 1.0}}}, "infonce has no weight 'scale'; it has: none"),
        ({"ce_clip": {"weights": {"imc": -1.0}}}, "ce_clip: imc = -1.0: Input should be greater than"),
        ({"ce_clip": {"learning": 1.0}}, "ce_clip: learning = 1.0: Extra inputs are not permitted"),
        ({"ce_clip": {"steps": 0}}, "ce_clip: steps = 0: Input should be greater than 0"),
        ({"ce_clip": {"seeds": [1]}}, "ce_clip: 'seeds' applies to all variants"),
        ({"ceclip": {"lr": 1.0}}, "Input should be 'infonce', 'siglip'"),
        (
            {"ce_clip": {"weights": 0.5}},
            "finetune.overrides = {'ce_clip': {'weights': 0.5}}: Value error, ce_clip: weights = 0.5",
        ),
        ({"ce_clip": {"weights": None}}, "ce_clip: weights = None: Input should be"),
        (
            {"ce_clip": {"wise_ft_alphas": [0.5, 0.1]}},
            "ce_clip: wise_ft_alphas = [0.5, 0.1]: mixing weights must ascend",
        ),
        ({"clic": {"lr": 0.001}}, "clic is not among finetune.variants"),
    ):
        values["finetune"]["overrides"] = own
        with pytest.raises(ConfigError) as stopped:
            parse_config(values, "params.yaml")
        assert said in str(stopped.value)


def test_what_a_search_tries_is_checked_as_what_a_method_has_of_its_own() -> None:
    values = raw()
    values["finetune"]["variants"] = ["infonce", "ce_clip"]
    rest = {"draws": None, "seed": 1, "seeds": [1], "asha": None}
    space: dict[str, Any] = {"ce_clip": {"lr": [0.001, 0.1], "lora.rank": [2], "weights.imc": [0.5, 1.0]}}
    values["finetune"]["search"] = {"space": space, **rest}
    search = parse_config(values, "params.yaml").finetune.search
    assert search is not None
    assert search.space == space
    drawn = {"ce_clip": {"ema_decay": {"uniform": [0.5, 0.9]}}}
    for changes, said in (
        (
            {"space": {"ce_clip": {"lr": [0.1, 2.0]}}},
            "ce_clip: lr = 2.0: Input should be less than or equal to 1",
        ),
        ({"space": {"ce_clip": {"lr": []}}}, "ce_clip: lr = []: the list is empty"),
        ({"space": {"ce_clip": {}}}, "ce_clip: there is nothing to try"),
        ({"space": {}}, "finetune.search.space = {}"),
        (
            {"space": {"ce_clip": {"learning": [1.0]}}},
            "ce_clip: learning = 1.0: Extra inputs are not permitted",
        ),
        ({"space": {"ce_clip": {"lora.rnk": [1]}}}, "ce_clip: lora.rnk = 1: Extra inputs are not permitted"),
        ({"space": {"ce_clip": {"weights.icm": [0.5]}}}, "ce_clip has no weight 'icm'"),
        ({"space": {"ce_clip": {"seeds": [[1]]}}}, "ce_clip: 'seeds' applies to all variants"),
        ({"space": {"ce_clip": {"search": [None]}}}, "ce_clip: 'search' applies to all variants"),
        ({"space": {"clic": {"lr": [0.1]}}}, "clic is not among finetune.variants"),
        ({"space": {"clc": {"lr": [0.1]}}}, "Input should be 'infonce', 'siglip'"),
        ({"space": drawn}, "ema_decay is drawn, but draws = None"),
        (
            {"space": {"ce_clip": {"steps": {"uniform": [5, 9]}}}, "draws": 2},
            "Input should be a valid integer",
        ),
        ({"draws": 2}, "finetune.search.draws = 2: Value error, must be null if all are lists"),
        ({"asha": {"first": 1, "factor": 1}}, "finetune.search.asha.factor = 1"),
        ({"asha": {"frst": 1, "first": 1, "factor": 2}}, "asha.frst: unknown key; did you mean 'first'?"),
        ({"seeds": []}, "finetune.search.seeds = []"),
        (
            {"space": {"ce_clip": {"batch_size": [32, 400]}}, "selection_metric": "contrastive"},
            "ce_clip: 'batch_size' cannot be searched with selection_metric: contrastive",
        ),
        (
            {"space": {"ce_clip": {"negatives": [1, 2]}}, "selection_metric": "contrastive"},
            "ce_clip: 'negatives' cannot be searched with selection_metric: contrastive",
        ),
    ):
        values["finetune"]["selection_metric"] = changes.pop("selection_metric", "group")
        values["finetune"]["search"] = {"space": space, **rest, **changes}  # type: ignore[dict-item]
        with pytest.raises(ConfigError) as stopped:
            parse_config(values, "params.yaml")
        assert said in str(stopped.value)


@pytest.mark.parametrize(
    "target",
    [
        "chat:m@http://me:sk-planted@127.0.0.1:9/v1",
        "chat:m@http://127.0.0.1:9/v1?api_key=sk-planted",
        "chat:m@http://127.0.0.1:9/v1?x=1&access-token=sk-planted",
    ],
)
def test_a_key_in_an_address_of_the_params_is_refused_and_not_repeated_by_any_command(
    target: str, tmp_path: Path
) -> None:
    """Before it is in ``dvc.lock``, a pin, a tracked run, the replies or the report: every stage reads the params so."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    done = run_command(
        tmp_path, "config", "use", "smoke", "--set", f"negatives.language_model.target={target}"
    )
    assert (done.returncode, (tmp_path / "params.yaml").exists()) == (1, False)
    assert "the URL in negatives.language_model.target contains a password or key" in done.stderr
    assert "planted" not in done.stdout + done.stderr
    values = raw()
    values["negatives"]["language_model"]["target"] = target
    (tmp_path / "params.yaml").write_text(json.dumps(values))
    for read in (load_config, lambda path: load_params(path.parent)):
        with pytest.raises(
            ConfigError, match=r"the URL in negatives\.language_model\.target contains"
        ) as caught:
            read(tmp_path / "params.yaml")
        assert "planted" not in str(caught.value)
