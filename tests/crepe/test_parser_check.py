"""Precision and recall of a parser of scene graphs, against rows worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from commands import call_command

from caramel.crepe.parser_check import (
    AnnotatedCaption,
    check_parser,
    compare_graphs,
    compute_precision_recall,
    read_annotated_captions,
)
from caramel.crepe.parsers.sequence_parser import read_graph
from caramel.errors import BackendError, DataError
from caramel.interfaces.scene_graph import SceneGraph

HEADER = "image_id,caption,scene_graph\n"


def test_precision_and_recall_are_those_worked_out_by_hand() -> None:
    rows = [
        AnnotatedCaption(
            "a tall man on a brown horse",
            read_graph("( man , on , horse ) , ( horse , is , brown ) , ( man , is , tall )"),
        ),
        AnnotatedCaption("a dog", read_graph("( dog )")),
    ]
    parsed = [read_graph("( man , on , horse ) , ( man , is , brown )"), SceneGraph(())]
    table = compute_precision_recall(compare_graphs(rows, parsed))
    assert table["n_annotated"].tolist() == [3, 2, 1, 2, 1]
    assert table["n_parsed"].tolist() == [2, 1, 1, 1, 1]
    assert table["precision"].tolist() == [1, 1, 1, 0, 1]
    assert table["recall"].tolist() == pytest.approx([2 / 3, 1 / 2, 1, 0, 1])


def test_precision_is_missing_where_nothing_was_parsed() -> None:
    table = compute_precision_recall(
        compare_graphs([AnnotatedCaption("a dog", read_graph("( dog )"))], [SceneGraph(())])
    )
    assert pd.isna(table.loc["object", "precision"])
    assert table.loc["object", "recall"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("1,a dog,dog\n", "row 1 .* has no object: 'dog'"),
        ("1,,( dog )\n", "caption"),
    ],
)
def test_rows_that_cannot_be_compared_are_an_error_that_names_them(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + text)
    with pytest.raises(DataError, match=message):
        read_annotated_captions(path)


def test_the_command_prints_the_table_and_writes_the_counts_of_each_caption(tmp_path: Path) -> None:
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    path.write_text(HEADER + '1,a brown horse on grass,"( horse , on , grass ) , ( horse , is , brown )"\n')
    printed = call_command(
        tmp_path, "crepe", "check-parser", path, "--parser", "phrases", "--out", out
    ).stdout
    assert "triplet              precision 100.0%, recall 100.0% of 1" in printed
    assert pd.read_csv(out)["n_common"].tolist() == [2, 1, 1, 1, 1]


def test_the_command_refuses_to_write_over_its_rows_and_an_unknown_parser(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + "1,a dog,( dog )\n")
    with pytest.raises(BackendError, match="stanford"):
        check_parser(read_annotated_captions(path), "stanford")
    refused = call_command(tmp_path, "crepe", "check-parser", path, "--parser", "phrases", "--out", path)
    assert refused.returncode != 0
    assert path.read_text().startswith(HEADER)
