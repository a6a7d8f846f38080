"""`caramel eval --config` reads the command's options from a YAML file, and the command line has precedence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from caramel.cli.config_file import read_options
from caramel.cli.eval import evaluate_models
from caramel.errors import ConfigError

Call = Callable[..., tuple[int, str, str]]
WHOLE = """
model: [blind:length, again=blind:length]
benchmark: [sugarcrepe]
data: data
images: images
out: out
n_bootstrap: 100
limit: 5
"""


def test_a_file_holds_all_options_and_gives_what_the_options_give(eval_call: Call) -> None:
    Path("eval.yaml").write_text(WHOLE)
    code, out, err = eval_call("eval", "--config", "eval.yaml")
    assert code == 0, err
    assert "the first 5 instances" in out
    words = ["--benchmark", "sugarcrepe", "--data", "data", "--images", "images", "--n-bootstrap", "100"]
    models = ["--model", "blind:length", "--model", "again=blind:length"]
    assert eval_call("eval", *models, *words, "--limit", "5", "--out", "other")[0] == 0
    assert Path("out/metrics.csv").read_text() == Path("other/metrics.csv").read_text()


def test_the_command_line_has_precedence(eval_call: Call) -> None:
    Path("eval.yaml").write_text(WHOLE)
    words = ["--config", "eval.yaml", "--model", "one=blind:length", "--limit", "3", "--out", "other"]
    assert eval_call("eval", *words)[0] == 0
    metrics = pd.read_csv("other/metrics.csv").query("subset == 'all'")
    assert metrics[["model", "n"]].values.tolist() == [["one", 3]]
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bechmark: sugarcrepe", r"unknown key 'bechmark'\. Did you mean 'benchmark'\? The keys are"),
        ("config: other.yaml", "unknown key 'config'"),
        ("n-bootstrap: 100\nn_bootstrap: 200", "'n_bootstrap' is given twice"),
        ("dry-run: 3", "dry-run is 3. Write true or false"),
        ("data: {a: b}", "data is {'a': 'b'}. Write a text"),
        ("limit: true", "limit is True. Write a text"),
        ("limit: [3, 4]", "limit is a list, but the option has one value"),
        ("- sugarcrepe", "must hold options as keys"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "eval.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as stopped:
        read_options(tmp_path / "eval.yaml", evaluate_models)
    assert "eval.yaml" in str(stopped.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [("limit: none", "'--limit'"), ("limit: 0", "'--limit'"), ("precision: 32", "'--precision'")],
)
def test_a_value_is_checked_as_on_the_command_line(eval_call: Call, line: str, message: str) -> None:
    Path("eval.yaml").write_text(WHOLE.replace("limit: 5", line))
    code, _, err = eval_call("eval", "--config", "eval.yaml")
    assert code == 2
    assert f"Invalid value for {message}" in err


def test_a_missing_file_is_named(eval_call: Call) -> None:
    code, _, err = eval_call("eval", "--config", "no.yaml")
    assert code == 1
    assert "no.yaml" in err


def test_what_file_and_command_line_both_lack_is_missing(eval_call: Call) -> None:
    Path("eval.yaml").write_text("model: blind:length")
    code, _, err = eval_call("eval", "--config", "eval.yaml")
    assert code == 2
    assert "Missing option '--benchmark'" in err
