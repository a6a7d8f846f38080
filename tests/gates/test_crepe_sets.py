"""The gate of CREPE's sets passes what `caramel crepe` writes, and names what breaks a rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from caramel.crepe.example_files import Example, write_examples
from caramel.errors import DataError, GateError
from caramel.gates.crepe_sets import validate_crepe_sets

FOLDER = Path(__file__).parents[2] / "expectations"


def write_sets(folder: Path, atom: Sequence[str], caption: str = "a red car") -> dict[str, Path]:
    comp = [f"a {colour} car and a red bus" for colour in ("blue", "green", "black", "white", "grey", "pink")]
    negatives = {"valid_hard_negs_atom": list(atom), "valid_hard_negs_comp": comp}
    row = Example("1", (0, 0, 300, 300), caption, negatives)
    write_examples(folder / "s" / "syst_vg_hard_negs_seen_compounds_in_x.csv", [row])
    swap = Example("1", (0, 0, 300, 300), caption, {"hard_negs": [f"no car {i}" for i in range(5)]})
    write_examples(folder / "p" / "swap" / "prod_vg_hard_negs_swap_complexity_4.csv", [swap])
    return {"systematicity": folder / "s", "productivity": folder / "p"}


GOOD = ("a blue car", "a red bus", "a green car", "a red dog")


def validate(sets: dict[str, Path], folder: Path, min_examples: int = 1) -> list[str]:
    summaries = validate_crepe_sets(
        sets, min_examples=min_examples, folder=FOLDER, docs_folder=folder / "docs"
    )
    return [summary.suite for summary in summaries]


def test_sets_as_they_are_written_pass(tmp_path: Path) -> None:
    sets = write_sets(tmp_path, GOOD)
    assert validate(sets, tmp_path) == ["crepe_examples of systematicity", "crepe_examples of productivity"]


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        (GOOD[:3], "expect_column_pair_values_to_be_equal on n_negatives, n_wanted: 3 of 9 rows"),
        ((*GOOD[:3], GOOD[0]), "expect_column_pair_values_to_be_equal on n_negatives, n_wanted"),
        (
            (*GOOD[:3], "A red car."),
            "expect_caption_to_differ_from_its_negative on caption, negative: 1 of 10",
        ),
        ((*GOOD[:3], "a car red"), "expect_negative_to_change_more_than_word_order on caption, negative"),
    ],
)
def test_a_set_that_breaks_a_rule_is_stopped_by_name(
    atom: Sequence[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GateError, match=message):
        validate(write_sets(tmp_path, atom), tmp_path)


def test_a_set_of_too_few_examples_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(GateError, match=r"crepe\.min_examples"):
        validate(write_sets(tmp_path, GOOD), tmp_path, min_examples=2)


@pytest.mark.parametrize("cell", ["[]", "not a list"])
def test_a_cell_without_hard_negatives_is_an_error_that_names_it(cell: str, tmp_path: Path) -> None:
    sets = write_sets(tmp_path, GOOD)
    path = tmp_path / "s" / "syst_vg_hard_negs_seen_compounds_in_x.csv"
    table = pd.read_csv(path)
    pd.concat([table, table.assign(valid_hard_negs_atom=cell)]).to_csv(path, index=False)
    message = r"negatives: 1\. The first is '.*in_x\.csv', row 2 .*column 'valid_hard_negs_atom'"
    with pytest.raises(DataError, match=message) as error:
        validate(sets, tmp_path)
    assert cell in str(error.value)
