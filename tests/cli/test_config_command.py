"""`caramel config use` writes params.yaml from a profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from caramel.config.schema import load_config

Call = Callable[..., tuple[int, str, str]]


def test_profile_prints_what_changed(call: Call) -> None:
    code, out, _ = call("config", "use", "smoke", "--set", "scenes.train=77", "--set", "run.executor=inline")
    assert code == 0
    assert "scenes.train: None -> 77" in out, "there was no file before"
    config = load_config("params.yaml")
    assert (config.profile, config.scenes.train, config.run.executor) == ("smoke", 77, "inline")
    code, out, _ = call("config", "use", "smoke", "--set", "scenes.train=78", "--set", "run.executor=inline")
    assert out.splitlines() == ["scenes.train: 77 -> 78", "Wrote params.yaml. Now run `dvc repro`."]
    code, out, _ = call("config", "use", "smoke", "--set", "scenes.train=78", "--set", "run.executor=inline")
    assert out == "params.yaml is unchanged.\n"


@pytest.mark.parametrize("value", ["scenes.train", "=5", ""])
def test_a_setting_without_key_or_value_is_an_error(value: str, call: Call) -> None:
    code, _, err = call("config", "use", "smoke", "--set", value)
    assert code == 1
    assert "is not key=value" in err
    assert not Path("params.yaml").exists()
