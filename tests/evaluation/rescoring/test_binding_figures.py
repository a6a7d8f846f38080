"""Figures by binding split count the instances of the split, and results of another release are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from explored import write_release, write_results

from caramel import cli

Run = Callable[..., int]
CAPTIONS = {
    "replace_att": [
        ("A red dog.", "A blue dog."),
        ("A red cat.", "A blue cat."),
        ("A red cup.", "A green cup."),
    ],
    "swap_obj": [("A dog.", "A dog .")],
}
GAPS = [1.0, -1.0, -1.0, 1.0]
CORPUS = "a red dog\na blue cat\nthe red cup\na green cup"


class ColourParser:
    """Parses "A red dog." as a dog that is red."""

    def __call__(self, texts: list[str]) -> list[object]:
        from caramel.interfaces.scene_graph import Node, SceneGraph

        words = [text.strip(" .").lower().split() for text in texts]
        return [SceneGraph((Node(word[-1], tuple(word[1:-1])),)) for word in words]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command of caramel beside a release, its results and a corpus."""
    from caramel.crepe import binding_splits
    from caramel.interfaces.scene_graph import GraphParserSpec
    from caramel.registry import GRAPH_PARSERS

    class Parsers:
        def __getitem__(self, name: str) -> GraphParserSpec:
            colours = GraphParserSpec("colours", lambda target, atoms: ColourParser(), lambda target: {})  # type: ignore[arg-type]
            return colours if name == "colours" else GRAPH_PARSERS[name]

    monkeypatch.setattr(binding_splits, "GRAPH_PARSERS", Parsers())
    monkeypatch.chdir(tmp_path)
    write_release(Path("sugarcrepe"), CAPTIONS)
    write_results(Path("results"), Path("sugarcrepe"), {"model": GAPS})
    Path("corpus.txt").write_text(CORPUS)

    def call(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        return int(ended.value.code or 0)

    return call


def index_corpus(run: Run, *more: str) -> int:
    return run(
        "crepe", "index", "corpus.txt", "--benchmark", "sugarcrepe", "--data", ".", "--caption-parser", "colours",
        "--out", "index", *more,
    )  # fmt: skip


def compute_metrics(run: Run) -> int:
    return run(
        *("metrics", "--benchmark", "sugarcrepe", "results", "--binding", "index", "--out", "out"),
        *("--n-bootstrap", "100"),
    )


def test_every_figure_is_given_by_what_the_corpus_holds(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert index_corpus(run) == 0
    splits = pd.read_csv("index/binding.csv", keep_default_na=False).set_index("instance_id")
    assert splits["positive"].tolist() == ["seen", "unseen", "seen", "none"]
    assert splits["negative"].tolist() == ["unseen", "seen", "seen", "none"]
    assert splits.loc["replace_att-1", "positive_unseen"] == "red cat"
    assert splits.loc["replace_att-0", "negative_unseen"] == "blue dog"
    assert compute_metrics(run) == 0
    assert "unseen" in capsys.readouterr().out
    figures = pd.read_csv("out/binding.csv", keep_default_na=False)
    whole = figures[figures["subset"] == "all"].set_index(["positive", "negative"])
    assert whole["n"].astype(int).to_dict() == {
        **{
            ("any", "any"): 4,
            ("seen", "any"): 2,
            ("unseen", "any"): 1,
            ("none", "any"): 1,
            ("any", "seen"): 2,
        },
        **{("any", "unseen"): 1, ("any", "none"): 1, ("seen", "seen"): 1, ("seen", "unseen"): 1},
        **{("unseen", "seen"): 1, ("none", "none"): 1},
    }
    for cell, value in {("seen", "unseen"): 1, ("unseen", "seen"): 0, ("seen", "any"): 0.5}.items():
        assert whole.loc[cell, "value"] == value
    metrics = pd.read_csv("out/metrics.csv").set_index("subset")
    assert metrics.loc["all", ["value", "n"]].tolist() == [0.5, 4], "the metrics themselves do not change"


def test_results_of_other_texts_are_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert index_corpus(run) == 0
    splits = pd.read_csv("index/binding.csv", keep_default_na=False)
    splits.assign(texts_hash="0" * 32).to_csv("index/binding.csv", index=False)
    assert compute_metrics(run) != 0
    assert "'replace_att-0' was scored with other texts" in capsys.readouterr().err


def test_a_result_without_a_split_does_not_count_and_is_noted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert index_corpus(run) == 0
    path = Path("index/binding.csv")
    path.write_text(path.read_text().replace("replace_att-1,", "replace_att-9,"))
    assert compute_metrics(run) == 0
    assert "1 results are of instances without a binding split" in capsys.readouterr().out
    figures = pd.read_csv("out/binding.csv").query(
        "subset == 'all' and positive == 'any' and negative == 'any'"
    )
    assert figures["n"].tolist() == [3]


def test_a_folder_without_splits_says_how_to_write_them(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("index").mkdir()
    assert compute_metrics(run) != 0
    assert "caramel crepe index CORPUS --benchmark sugarcrepe" in capsys.readouterr().err


def test_a_parser_that_needs_a_list_of_words_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert index_corpus(run, "--caption-parser", "phrases") != 0
    assert "finds no word in" in capsys.readouterr().err
    assert index_corpus(run, "--graphs", ".") != 0
    assert "either --graphs, or --benchmark" in capsys.readouterr().err


def test_only_the_named_compounds_count(run: Run) -> None:
    assert index_corpus(run, "--compounds", "relations") == 0
    splits = pd.read_csv("index/binding.csv", keep_default_na=False)
    assert set(splits["positive"]) == {"none"}, "the captions state attributes alone"
