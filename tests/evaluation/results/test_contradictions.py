import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.evaluation.external.rows import read_others
from caramel.interfaces.benchmark import Benchmark
from caramel.registry import BENCHMARKS

SCORES = {"image": ["a.jpg", "b.jpg"], "s_c0_i0": [0.9, 0.1], "s_c1_i0": [0.5, 0.2]}


def written(folder: Path, name: str = "m.csv", **columns: list[object]) -> Path:
    path = folder / name
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def scored_by(metric: str) -> Benchmark:
    return replace(BENCHMARKS["sugarcrepe"], metrics=(metric,))


def test_scores_and_the_verdicts_that_they_give_are_read(tmp_path: Path) -> None:
    found = read_others(written(tmp_path, **SCORES, correct=[True, False]), scored_by("accuracy"))
    assert found.outcomes.hits["accuracy"].tolist() == [1, 0]


def test_verdicts_that_the_scores_of_their_rows_contradict_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, **SCORES, correct=[True, True])
    with pytest.raises(DataError, match=r"contradicts itself.*'accuracy'.* 1 of 2:\n.*row 1|line 3"):
        read_others(path, scored_by("accuracy"))


def test_a_tie_may_be_called_either_way_and_what_is_not_scored_contradicts_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, image=["a", "b"], s_c0_i0=[0.5, None], s_c1_i0=[0.5, 0.1], correct=[True, True])
    found = read_others(path, scored_by("accuracy"))
    assert found.outcomes.hits["accuracy"].iloc[0] == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"n_above": 4, "n_tied": 1, "n_candidates": 5}, "than 'n_candidates' can hold"),
        ({"n_above": 0, "n_tied": 0, "n_candidates": 5, "s_true": 0.1, "s_other": 0.2}, "do not match"),
        ({"n_above": 1, "n_tied": 0, "n_candidates": 5, "s_true": 0.3, "s_other": 0.2}, "do not match"),
        ({"n_above": 0, "n_tied": 0, "n_candidates": 5, "s_true": 0.2, "s_other": 0.2}, "do not match"),
    ],
)
def test_counts_that_cannot_be_of_one_query_are_refused(
    row: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, image=["a"], **{name: [value] for name, value in row.items()})
    with pytest.raises(DataError, match=message):
        read_others(path, scored_by("recall@1"))


def test_counts_that_fit_are_read(tmp_path: Path) -> None:
    columns = {
        "n_above": [0, 1],
        "n_tied": [1, 3],
        "n_candidates": [5, 5],
        "s_true": [0.2, 0.1],
        "s_other": [0.2, 0.2],
    }
    found = read_others(written(tmp_path, image=["a", "b"], **columns), scored_by("recall@1"))  # type: ignore[arg-type]
    assert found.outcomes.hits["recall@1"].tolist() == [0, 0]


def test_a_type_and_a_subtype_of_another_type_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, **SCORES, type=["swap", "swap"], subtype=["swap_obj", "replace_obj"])
    with pytest.raises(DataError, match="column 'type' is 'swap', but column 'subtype' is 'replace_obj'"):
        read_others(path, scored_by("accuracy"))


def test_a_name_that_no_row_bears_out_is_noted(tmp_path: Path) -> None:
    path = written(tmp_path, "m-swap_att.csv", **SCORES, subset=["swap_obj", "swap_obj"])
    notes = read_others(path, scored_by("accuracy")).notes
    assert any("is named after subset 'swap_att'" in note for note in notes)
    whole = written(tmp_path, "n-swap_att.csv", **SCORES, subset=["swap_obj", "swap_att"])
    assert read_others(whole, scored_by("accuracy")).notes == ()


def test_subsets_with_an_apostrophe_in_a_list_are_read_each(tmp_path: Path) -> None:
    lists = ["[\"dog's\", 'tail']", json.dumps(["dog's", "ear"])]
    found = read_others(written(tmp_path, **SCORES, subsets=lists), scored_by("accuracy"))
    assert found.rows["subsets"].tolist() == [["dog's", "tail"], ["dog's", "ear"]]
