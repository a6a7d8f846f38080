"""A folder of results gives CREPE's figures and tables, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import call_command
from crepe_sets import write_counts, write_results
from PIL import Image

from caramel.crepe.results.figures import compute_r2
from caramel.crepe.results.frequencies import (
    read_frequencies,
    summarise_frequencies,
)
from caramel.crepe.results.recalls import select_productivity, summarise_retrieval
from caramel.crepe.results.write import VERIFIED_TABLES, list_output_names, write_crepe_figures
from caramel.errors import ConfigError, DataError
from caramel.report.published_rows import read_published_rows


def test_all_figures_and_tables_are_made_of_one_folder(tmp_path: Path) -> None:
    counts = write_counts(tmp_path / "frequencies_in_x.csv")
    written, missing = write_crepe_figures(
        write_results(tmp_path / "r"),
        tmp_path / "out",
        frequencies=[counts],
        verified=dict.fromkeys(VERIFIED_TABLES, pd.DataFrame({"share": [87.9]})),
    )
    assert missing == []
    figures = ["figure_12_x", "figure_13", *(f"figure_{n}" for n in range(4, 9))]
    assert sorted(path.name for path in written) == [
        *(f"{name}.png" for name in figures),
        "table_4.csv",
        "table_7.csv",
        "table_8_x.csv",
        "tables_15_16.csv",
    ]
    assert sorted(list_output_names([counts])) == sorted(path.name for path in written)
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert np.asarray(image.convert("L")).std() > 10, path.name


def test_table_8_counts_different_items_and_those_that_the_corpus_has(tmp_path: Path) -> None:
    table = summarise_frequencies(read_frequencies(write_counts(tmp_path / "f.csv")))
    assert table.values.tolist() == [["sc", 2, 2, 1, 1], ["uc", 3, 3, 1, 0]]


def test_plain_retrieval_is_the_mean_and_the_spread_over_folds(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        [
            ("a", "crepe_retrieval", f"t2i/n5{fold}", v)
            for fold, v in (("", 0.3), ("/fold0", 0.2), ("/fold1", 0.4))
        ],
        columns=["model", "benchmark", "subset", "value"],
    )
    (row,) = summarise_retrieval(rows).to_dict("records")
    assert row == {"model": "a", "direction": "t2i", "split": "n5", "mean": pytest.approx(30.0), "sd": pytest.approx(10.0), "folds": 2}  # fmt: skip


def test_the_published_recalls_are_correlated_with_imagenet_as_the_paper_says() -> None:
    """Figure 8: R² > 0.78 on HN-Neg and > 0.54 on HN-Atom; the accuracies are those of open_clip's docs/PRETRAINED.md."""
    accuracies = {
        "CLIP RN50 (CC-12M)": 36.45, "CLIP RN50 (YFCC-15M)": 32.7, "CLIP RN101 (YFCC-15M)": 34.8,
        "CLIP ViT-B/32 (LAION-400M)": 62.96, "CLIP ViT-B/16 (LAION-400M)": 67.07,
        "CLIP ViT-B/16+240 (LAION-400M)": 69.21, "CLIP ViT-L/14 (LAION-400M)": 72.77,
    }  # fmt: skip
    published = pd.DataFrame(read_published_rows())
    published = published[published["paper"] == "CREPE"].astype({"value": float})
    rows = select_productivity(published.assign(value=published["value"] / 100))
    least = {"atom": 0.54, "negate": 0.775}
    for (negative_type, n), part in rows[rows["model"].isin(accuracies)].groupby(["type", "n"]):
        if negative_type in least and n in (4, 8, 12):
            x = np.array([accuracies[model] for model in part["model"]])
            assert compute_r2(x, part["value"].to_numpy()) > least[str(negative_type)], (negative_type, n)


def test_what_the_results_lack_is_named(tmp_path: Path) -> None:
    written, missing = write_crepe_figures(
        write_results(tmp_path / "r", ("crepe_retrieval",)), tmp_path / "out"
    )
    assert [path.name for path in written] == ["tables_15_16.csv"]
    assert missing == [
        "figure_4, figure_7: the results have no crepe_systematicity",
        "figures 5, 6, 8, 13: the results have no crepe_productivity",
        "figure_12, table_8: no file of frequencies is given",
        "table_4: no answers of people to its items are given",
        "table_7: no answers of people to its items are given",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,accuracy\na,high\n", "accuracy 'high' is no number"),
        ("model,accuracy\na,101\n", "not in"),
        ("model\na\n", "accuracy"),
    ],
)
def test_accuracies_that_are_none_are_an_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "acc.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        write_crepe_figures(write_results(tmp_path / "r"), tmp_path / "o", imagenet=tmp_path / "acc.csv")


def test_the_command_refuses_a_folder_without_results_of_crepe(tmp_path: Path) -> None:
    write_results(tmp_path / "r", ("zero_shot",))
    (tmp_path / "empty").mkdir()
    for folder, message in {
        "r": "has no recall at 1 on crepe_systematicity",
        "empty": "has no metrics.parquet",
    }.items():
        done = call_command(tmp_path, "crepe", "figures", tmp_path / folder, "--out", tmp_path / "out")
        assert done.returncode == 1
        assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_command_names_what_it_wrote(tmp_path: Path) -> None:
    done = call_command(
        tmp_path, "crepe", "figures", write_results(tmp_path / "r"), "--out", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    assert "figure_13.png" in done.stdout
    assert "Not made: figure_12, table_8: no file of frequencies is given." in done.stdout


def test_no_input_is_written_over(tmp_path: Path) -> None:
    results = write_results(tmp_path / "r")
    (results / "figure_4.png").symlink_to(results / "metrics.parquet")
    done = call_command(tmp_path, "crepe", "figures", results, "--out", results)
    assert (done.returncode, "inputs are never overwritten" in done.stderr) == (1, True)


def test_two_files_of_frequencies_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "frequencies_in_x.csv" for folder in "ab"]
    with pytest.raises(ConfigError, match=r"(?s)one name.*a/frequencies_in_x.csv.*b/frequencies_in_x.csv"):
        list_output_names(paths)
