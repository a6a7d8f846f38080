"""Errata: each figure moves by the instances that were touched, and a patch that does not fit its item is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from explored import write_release, write_results

from caramel import cli

Run = Callable[..., int]
CAPTIONS = {
    "replace_att": [(f"A red cup {n}.", f"A blue cup {n}.") for n in range(6)],
    "swap_obj": [("A cat beside a dog.", "A dog beside a cat."), ("Two texts.", "Two texts.")],
}
GAPS = [1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
EXCLUDED = {
    "benchmark": "sugarcrepe",
    "release": "made up",
    "instance": "swap_obj-1",
    "field": "negative_caption",
    "from": "Two texts.",
    "exclude": True,
    "reason": "the negative equals the caption",
}
CORRECTED = {
    **{key: value for key, value in EXCLUDED.items() if key != "exclude"},
    "instance": "replace_att-1",
    "from": "A blue cup 1.",
    "to": "A green cup 1.",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that writes errata and runs `caramel metrics` with them beside results of one model."""
    monkeypatch.chdir(tmp_path)
    write_release(Path("sugarcrepe"), CAPTIONS)
    write_results(Path("results"), Path("sugarcrepe"), {"model": GAPS})

    def metrics(*errata: dict[str, object], files: str = "results") -> int:
        Path("errata.jsonl").write_text("\n".join(map(json.dumps, errata)))
        with pytest.raises(SystemExit) as ended:
            cli.main(["metrics", "--benchmark", "sugarcrepe", files, "--errata", "errata.jsonl", "--data", ".",
                      "--out", "out", "--n-bootstrap", "100"])  # fmt: skip
        return int(ended.value.code or 0)

    return metrics


def read_moves() -> pd.DataFrame:
    return pd.read_csv("out/errata.csv").set_index("subset")


def test_an_excluded_instance_leaves_the_figures_of_its_subsets(run: Run) -> None:
    assert run(EXCLUDED) == 0
    moves = read_moves()
    assert moves.loc["swap_obj", ["before", "after", "touched", "n_before", "n_after"]].tolist() == [0.5, 1, 1, 2, 1]  # fmt: skip
    assert moves.loc["all", "after"] == pytest.approx(6 / 7)
    assert moves.loc["replace_att", ["difference", "touched"]].tolist() == [0, 0]
    written = pd.read_csv("out/metrics.csv").set_index("subset")
    assert written.loc["all", ["value", "n"]].tolist() == pytest.approx([6 / 7, 7]), "corrected metrics"


def test_a_corrected_text_counts_only_once_it_was_scored(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(CORRECTED) == 0
    assert "scored again with `caramel eval --errata`: replace_att-1." in capsys.readouterr().out
    assert read_moves().loc["all", "after"] == pytest.approx(6 / 7)
    corrected = {
        **CAPTIONS,
        "replace_att": [
            (a, "A green cup 1." if n == 1 else b) for n, (a, b) in enumerate(CAPTIONS["replace_att"])
        ],
    }
    write_release(Path("again/sugarcrepe"), corrected)
    write_results(Path("again/results"), Path("again/sugarcrepe"), {"model": [1.0, *GAPS[1:]]})
    assert run(EXCLUDED, CORRECTED, files="again/results") == 0
    assert read_moves().loc["all", ["n_after", "touched"]].tolist() == [7, 1], "the corrected instance counts"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"from": "Other words."}, "negative_caption of 'swap_obj-1' is 'Two texts.', not 'Other words.'"),
        ({"instance": "swap_obj-9"}, "there is no instance 'swap_obj-9'"),
        ({"field": "image"}, "must be one of caption, negative_caption, caption2"),
        ({"to": "Both."}, "give either `exclude: true` or the corrected text `to`"),
        ({"exclude": False}, "give either `exclude: true` or the corrected text `to`"),
        ({"benchmark": "sugarcrepe_pp"}, "has no erratum of benchmark 'sugarcrepe'"),
        ({"because": "x"}, "unknown keys ['because']"),
        ({"reason": 3}, "reason"),
    ],
)
def test_a_patch_that_does_not_fit_is_an_error(
    run: Run, change: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run({**EXCLUDED, **change}) == 1
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_two_corrections_of_one_text_are_an_error(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EXCLUDED, EXCLUDED) == 1
    assert "line 2: 'errata.jsonl', line 1 is about the same text" in capsys.readouterr().err


def test_results_of_another_release_are_an_error(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(Path("other/sugarcrepe"), {**CAPTIONS, "swap_obj": [("a", "b"), ("Two", "Three")]})
    write_results(Path("other/results"), Path("other/sugarcrepe"), {"model": GAPS})
    assert run(EXCLUDED, files="other/results") == 1
    assert "The results are of another release" in capsys.readouterr().err


def test_results_without_a_touched_instance_are_an_error(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.csv").write_text("instance_id,accuracy\nreplace_att-0,1\n")
    assert run(EXCLUDED, files="own.csv") == 1
    assert "No result is of an instance with an erratum" in capsys.readouterr().err


def test_results_of_excluded_instances_alone_are_an_error(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.csv").write_text("instance_id,accuracy\nswap_obj/1,1\n")
    assert run(EXCLUDED, files="one.csv") == 1
    assert "No result is left" in capsys.readouterr().err


def test_results_of_corrected_texts_alone_do_not_move(run: Run) -> None:
    corrected = {**CAPTIONS, "replace_att": [*CAPTIONS["replace_att"]]}
    corrected["replace_att"][1] = ("A red cup 1.", "A green cup 1.")
    write_release(Path("again/sugarcrepe"), corrected)
    write_results(Path("again/results"), Path("again/sugarcrepe"), {"model": GAPS})
    assert run(CORRECTED, files="again/results") == 0
    assert read_moves()["touched"].sum() == 0


def test_eval_scores_the_corrected_items(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("errata.jsonl").write_text(json.dumps(EXCLUDED) + "\n" + json.dumps(CORRECTED))
    call = ["eval", "--model", "blind:length", "--data", ".", "--errata", "errata.jsonl", "--out", "scored"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*call, "--benchmark", "sugarcrepe"])
    assert not ended.value.code
    assert len(pd.read_parquet("scored/similarities.parquet")) == 7
    assert run(CORRECTED, files="scored") == 0
    assert read_moves()["touched"].sum() == 0, "the corrected text was scored"
    with pytest.raises(SystemExit) as ended:
        cli.main([*call, "--benchmark", "sugarcrepe,sugarcrepe_pp"])
    assert ended.value.code == 1
    assert "is for one benchmark" in capsys.readouterr().err


def show_table(*options: str, files: str = "results") -> int:
    arguments = ["table", files, "--benchmark", "sugarcrepe", "--style", "csv", "--out", "table.csv"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--n-bootstrap", "100", *options])
    return int(ended.value.code or 0)


def test_a_table_has_corrected_figures_and_how_far_each_moved(run: Run) -> None:
    Path("errata.jsonl").write_text(json.dumps(EXCLUDED))
    assert show_table("--data", ".", "--errata", "errata.jsonl") == 0
    table = pd.read_csv("table.csv", index_col="Model")
    assert table.loc["model", ["all", "swap_obj", "replace_att"]].tolist() == ["85.7", "100.0", "83.3"]
    moved = table.loc["model moved by errata", ["all", "swap_obj", "replace_att"]].tolist()
    assert moved == [f"{100 * (6 / 7 - 6 / 8):+.3f}", "+50.000", "–"]
    assert table.loc["Ceiling bag_of_words", "swap_obj"] == "0.0", (
        "the ceiling is that of the corrected items"
    )
    assert show_table() == 0
    assert "model moved by errata" not in pd.read_csv("table.csv")["Model"].tolist()


def test_errata_of_a_table_need_the_files_and_scores_of_instances(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(EXCLUDED) == 0
    assert show_table("--errata", "errata.jsonl") == 1
    assert "--errata needs --data" in capsys.readouterr().err
    assert show_table("--errata", "errata.jsonl", "--data", ".", files="out") == 1
    assert "only answers or metrics: model" in capsys.readouterr().err
