"""`caramel table` writes results beside the published rows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from eval_calls import run_eval

Call = Callable[..., tuple[int, str, str]]


def test_table_shows_models_beside_published_rows(eval_call: Call, clip_folder: Path) -> None:
    run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "a")
    run_eval(eval_call, "blind:length", "b")
    code, out, _ = eval_call("table", "a", "b", "--benchmark", "sugarcrepe", "--n-bootstrap", "100")
    assert code == 0
    assert "tiny" in out
    assert "blind:length" in out
    code, out, _ = eval_call("table", "a", "--benchmark", "sugarcrepe", "--style", "latex", "--out", "t.tex")
    assert code == 0
    assert "\\toprule" in Path("t.tex").read_text()


def test_a_csv_table_has_the_notes_of_the_other_styles_beside_it(eval_call: Call) -> None:
    run_eval(eval_call, "blind:length", "a")
    settings = ("table", "a", "--benchmark", "sugarcrepe", "--n-bootstrap", "100", "--intervals")
    markdown = eval_call(*settings)[1].replace("\\", "")
    code, said, err = eval_call(*settings, "--style", "csv", "--out", "t.csv")
    assert (code, said, err) == (0, "Wrote t.csv and t.notes.txt.\n", "")
    notes = Path("t.notes.txt").read_text().splitlines()
    assert len(notes) >= 2
    assert all(note in markdown for note in notes)
    assert pd.read_csv("t.csv")["Model"].tolist() == ["Instances", "Chance", "blind:length"]
    code, said, err = eval_call(*settings, "--style", "csv")
    assert (code, said) == (0, Path("t.csv").read_text()), "only the table is on stdout"
    assert err.splitlines() == [f"Note: {note}" for note in notes]
    assert eval_call(*settings, "--style", "csv", "--out", "t.csv", "--failures", "t.notes.txt")[0] == 1


def test_one_model_in_two_runs_is_not_counted_twice_in_a_table(eval_call: Call) -> None:
    run_eval(eval_call, "blind:length", "a")
    shutil.copytree("a", "b")
    code, _, err = eval_call("table", "a", "b", "--benchmark", "sugarcrepe")
    assert code == 1
    assert "Several runs hold model 'blind:length' on 'sugarcrepe'" in err


def test_table_takes_what_metrics_wrote(call: Call) -> None:
    """Others' verdicts have no rule of a score: no published row by one stands beside them."""
    rows = "".join(f"{n}.jpg,swap_obj,{n % 4 != 0}\n" for n in range(8))
    Path("theirs.csv").write_text("filename,subtype,correct\n" + rows)
    assert call("metrics", "--benchmark", "sugarcrepe", "theirs.csv", "--out", "theirs")[0] == 0
    code, out, err = call("table", "theirs", "--benchmark", "sugarcrepe", "--subset", "all")
    assert (code, err) == (0, "")
    assert re.search(r"\| theirs +\| 75\.0", out)
    assert "CLIP ViT-B/32" not in out
    shutil.copytree("theirs", "again")
    code, _, err = call("table", "theirs", "again", "--benchmark", "sugarcrepe")
    assert (code, "Several runs hold the model 'theirs'" in err) == (1, True)


def test_table_lists_the_instances_that_most_models_fail(eval_call: Call) -> None:
    for number, scorer in enumerate(("blind:length", "blind:words", "blind:casing")):
        run_eval(eval_call, scorer, f"run{number}")
    runs = [f"run{number}" for number in range(3)]
    code, _, err = eval_call(
        "table", *runs, "--benchmark", "sugarcrepe", "--n-bootstrap", "100", "--failures", "failures.csv"
    )
    assert (code, err) == (0, "")
    head, *rows = Path("failures.csv").read_text().splitlines()
    assert head == "instance_id,image_id,subsets,failed_by_most,accuracy_failed,accuracy_models"
    assert all(row.split(",")[-2:] in (["2", "3"], ["3", "3"]) for row in rows)
    code, _, err = eval_call("table", "run0", "--benchmark", "sugarcrepe", "--failures", "one.csv")
    assert (code, "at least two" in err) == (1, True)
    same = ("--out", "both.csv", "--failures", "./both.csv")
    code, _, err = eval_call("table", *runs, "--benchmark", "sugarcrepe", *same)
    assert (code, "Two outputs are to be written" in err, Path("both.csv").exists()) == (1, True, False)
    code, _, err = eval_call("table", *runs, "--benchmark", "sugarcrepe", "--skill", "no_image")
    assert (code, "--skill needs --data" in err) == (1, True)
