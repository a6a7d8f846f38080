"""The audit command reads any format, writes its files, and exits by the thresholds it is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from caramel import cli
from caramel.cli import quality
from caramel.registry import BACKENDS

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in a folder with a small data set: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    rows = {
        str(i): {
            "filename": f"{i}.jpg",
            "caption": f"a cat and {i} dogs",
            "negative_caption": f"A dog, {i} cats too",
        }
        for i in range(30)
    }
    Path("bench").mkdir()
    Path("bench", "swap_obj.json").write_text(json.dumps(rows), encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["audit", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_audit_prints_and_writes_what_blind_attackers_make_of_a_folder(call: Call) -> None:
    code, out, err = call("bench", "--out", "audit", "--scorer", "casing", "--folds", "2")
    assert (code, err) == (0, "")
    assert "30 rows of bench" in out
    assert "best_blind_attacker" in out
    files = {path.name for path in Path("audit").iterdir()}
    assert files == {"audit.json", "audit.html", "rows.parquet", "pairs.parquet", "badge.svg", "badge.md"}
    assert json.loads(Path("audit", "audit.json").read_text())["best_blind_attacker"]["overall"]["micro"] == 1


def test_a_broken_threshold_is_said_and_is_exit_code_one(call: Call) -> None:
    options = ("bench", "--out", "audit", "--scorer", "casing", "--max-accuracy", "0.55")
    code, _, err = call(*options)
    assert code == 1
    assert err.startswith("Threshold broken: The best blind attacker is right on 100.0 % [")
    assert Path("audit", "audit.json").exists()
    assert call("bench", "--out", "audit", "--scorer", "digits", "--max-accuracy", "0.55")[0] == 0
    assert call("bench", "--out", "audit", "--scorer", "digits", "--max-defects", "0")[0] == 0


def test_a_corpus_is_learned_from(call: Call) -> None:
    Path("corpus.txt").write_text("A dog, 100 cats too\n" * 3, encoding="utf-8")
    code, _, _ = call("bench", "--out", "audit", "--scorer", "ngram", "--corpus", "corpus.txt")
    assert code == 0
    figures = json.loads(Path("audit", "audit.json").read_text())["scorers"]["ngram"]
    assert figures["overall"]["micro"] == 0
    Path("corpus.txt").write_text("\n \n", encoding="utf-8")
    code, _, err = call("bench", "--out", "audit", "--scorer", "ngram", "--corpus", "corpus.txt")
    assert code == 1
    assert "'corpus.txt' holds no line of text" in err


def test_an_unknown_scorer_lists_the_choices(call: Call) -> None:
    code, _, err = call("bench", "--out", "audit", "--scorer", "lenght")
    assert code == 1
    assert "Unknown scorer 'lenght'. Did you mean 'length'?" in err


def test_all_scorers_without_a_model_are_the_default() -> None:
    assert quality.default_scorers() == (*BACKENDS["scorer"], *BACKENDS["pair_scorer"])


def test_published_figures_are_shares_by_subset() -> None:
    found = quality.published("sugarcrepe_pp")
    assert found["replace_obj"] == pytest.approx(0.9086)
    assert quality.published("sugarcrepe")["all"] == pytest.approx(0.7656)
    assert quality.published("of nobody") == {}
