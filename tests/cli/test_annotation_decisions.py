"""`caramel annotate agreement`, `decide`, `calibrate`, `baseline` and `sample-size`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from annotated import (
    annotated,
    build_swap_instances,
    decided,
    hash_swap_instances,
    index_swap_images,
    load_simulation,
)
from stored_images import indexed

from caramel import cli
from caramel.annotation.content import hash_candidates
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.evaluation import METRICS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that runs `caramel annotate` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, group: str = "annotate") -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([group, *arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def test_agreement_prints_coefficients_and_habits_and_writes_both_tables(call: Call) -> None:
    answers = load_simulation().build_answers(["good", "good", "left"], 60, 0.9, np.random.default_rng(0))
    write_table(ANNOTATIONS, answers, "answers.parquet")
    code, out, err = call("agreement", "answers.parquet", "--out", "found", "--n-bootstrap", "200")
    assert (code, err) == (0, "")
    assert out.startswith("Task fits, guideline 0000000000000000.")
    assert "krippendorff_alpha" in out
    (left,) = (line for line in out.splitlines() if line.startswith("left-2"))
    assert left.split()[-1] == "position"
    annotators = pd.read_csv("found/annotators.csv").set_index("annotator")
    assert "position" in annotators.loc["left-2", "flags"]
    assert len(pd.read_csv("found/agreement.csv")) == 4 + 3


def test_decisions_are_written_and_counted(call: Call) -> None:
    write_table(
        ANNOTATIONS,
        annotated({"ada": {"a": "0", "b": "1"}, "bob": {"a": "0", "b": "none"}}, "choose"),
        "c.parquet",
    )
    write_table(ANNOTATIONS, annotated({"ada": {"a": "positive"}}), "f.parquet")
    code, out, _ = call("decide", "c.parquet", "f.parquet", "--out", "d.parquet")
    assert code == 0
    assert "choose: 1 decisions, 1 undecided, 0 on the answer of one person." in out
    assert "fits: 1 decisions, 0 undecided, 1 on the answer of one person." in out
    assert read_table(DECISIONS, "d.parquet")["decision"].tolist()[::2] == ["0", "positive"]


@pytest.mark.parametrize("command", [("agreement",), ("decide", "--out", "d.parquet")])
def test_bad_answers_are_one_message_and_nothing_is_written(call: Call, command: tuple[str, ...]) -> None:
    mixed = pd.concat(
        [annotated({"ada": {"a": "both"}}), annotated({"bob": {"a": "both"}}, guideline="<i>2</i>")]
    )
    write_table(ANNOTATIONS, mixed, "mixed.parquet")
    code, _, err = call(command[0], "mixed.parquet", *command[1:])
    assert code == 1
    assert "'mixed.parquet' mixes 2 values of guideline" in err
    Path("text.parquet").write_text("no table")
    assert call(command[0], "text.parquet", *command[1:])[0] == 1
    assert not Path("d.parquet").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("decide", "a.parquet", "--out", "./a.parquet"),
        ("baseline", "metrics.parquet", "--instances", "a.parquet", "--out", "."),
    ],
)
def test_nothing_is_written_over_the_answers(call: Call, arguments: tuple[str, ...]) -> None:
    for name in ("a.parquet", "metrics.parquet"):
        write_table(ANNOTATIONS, annotated({"ada": {"a": "both"}}), name)
    before = Path(arguments[1]).read_bytes()
    code, _, err = call(*arguments)
    assert code == 1
    assert arguments[1] in err
    assert Path(arguments[1]).read_bytes() == before


def test_people_stand_in_the_results_table_beside_a_model(call: Call) -> None:
    write_table(INSTANCES, build_swap_instances(8), "instances.parquet")
    write_table(IMAGES, index_swap_images(8), "images.parquet")
    right = {"i0": "c0", "i1": "c1", "c0": "i0", "c1": "i1"}
    replies = [json.dumps(right | ({"c1": "i0"} if n == 0 else {})) for n in range(8)]
    answers = {f"a{k}": {f"i{n}": replies[n] for n in range(4 * k, 4 * k + 4)} for k in range(2)}
    write_table(ANNOTATIONS, annotated(answers, "baseline", hash_swap_instances(8)), "answers.parquet")
    code, out, _ = call("baseline", "answers.parquet", "--instances", "instances.parquet", "--out", "people")
    assert code == 0
    metrics = read_table(METRICS, "people/metrics.parquet").set_index(["subset", "metric"])
    assert metrics.loc[("all", "group"), "value"] == 0.875
    code, out, _ = call("people", "--benchmark", "instances", "--intervals", group="table")
    assert code == 0
    (row,) = (line for line in out.splitlines() if "people" in line)
    assert "87.5" in row or "87.50" in row
    assert call("people", "--benchmark", "instances", "--subset", "macro", group="table")[0] == 0


def test_a_judge_is_calibrated_on_decisions(call: Call) -> None:
    names = [f"n{n:03d}" for n in range(100)]
    rows = [
        {"negative_id": name, "candidate": 0, "image_id": name, "ambiguous": False, "judge_negative": None}
        | {"faithful": 0.8 if n % 2 else 0.4, "chosen_by": None}
        for n, name in enumerate(names)
    ]
    write_table(CHOICES, build_frame(CHOICES, rows), "choices.parquet")
    drawn = {"candidate": 0, "seed": 0, "generator": "g", "prompt": "p"}
    candidates = build_frame(CANDIDATES, [{"negative_id": n, "image_id": n, **drawn} for n in names])
    write_table(CANDIDATES, candidates, "data/synthesize/candidates.parquet")
    write_table(IMAGES, indexed(names), "data/synthesize/images.parquet")
    contents = hash_candidates(candidates, indexed(names))
    truth = {name: "0" if n % 2 else "none" for n, name in enumerate(names)}
    outdated = contents | {"n098": "drawn before", "n099": "drawn before"}
    write_table(DECISIONS, decided("choose", truth, contents=outdated), "d.parquet")
    code, _, err = call("calibrate", "d.parquet", "--choices", "choices.parquet")
    assert code == 1
    assert "2 decisions are on other images or captions than the candidates:\n  - n098\n  - n099\n" in err
    current = decided("choose", dict([*truth.items()][:98]), contents=contents)
    write_table(DECISIONS, current, "d.parquet")
    code, out, _ = call("calibrate", "d.parquet", "--choices", "choices.parquet")
    assert code == 0
    assert out.startswith("49 images that people chose, 49 that they refused.")
    assert "threshold    0.6000" in out
    assert "precision    1.000 [0.927, 1.000]" in out
    code, _, err = call("calibrate", "d.parquet", "--choices", "choices.parquet", "--judge", "second")
    assert code == 1
    assert "has no scores of the second judge" in err


def test_sample_sizes_are_printed_and_need_an_expectation(call: Call) -> None:
    code, out, _ = call("sample-size", "--kappa", "0.5", "--prevalence", "0.7", "--within", "0.1")
    assert (code, out) == (0, "343 items, each answered by both annotators, for kappa 0.5 ± 0.1.\n")
    code, out, _ = call("sample-size", "--accuracy", "0.9", "--within", "0.03")
    assert "569 instances, 23 annotators with 25 each" in out
    assert call("sample-size")[0] == 1
    assert call("sample-size", "--kappa", "1.5")[0] == 1
    assert call("sample-size", "--kappa", "nan")[0] == 1
