"""Select among stored negatives what ``select_rows`` selects among audit rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.refine import best_negatives
from caramel.refine.selection import find_reasons, score_rows, select_rows
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS

SETTINGS = {"scorers": ["length", "final_punctuation"], "percentile": 30.0, "cell": 1.0, "within": "subtype"}


def store_tables(folder: Path, pairs: int = 60) -> tuple[Path, Path]:
    """Store captions with two negatives each, in an order other than that of their names."""
    rng = np.random.default_rng(0)
    order = rng.permutation(pairs)
    texts = [
        " ".join(f"w{i}" for i in rng.integers(9, size=rng.integers(5, 8))) + "." for _ in range(3 * pairs)
    ]
    names = pd.Series([f"p{i:03d}" for i in order], dtype="str")
    table = pd.DataFrame({"pair_id": names, "image_id": names.str[:3], "caption": texts[:pairs]})
    table = build_frame(PAIRS, table.assign(split="train", source="x"))
    rows = table.loc[rng.permutation(np.repeat(np.arange(pairs), 2))].reset_index(drop=True)
    rows["subtype"] = np.where(rows.groupby("pair_id").cumcount(), "add_obj", "swap_obj")
    negatives = pd.DataFrame(
        {"negative_id": rows["pair_id"] + ":" + rows["subtype"], "pair_id": rows["pair_id"]}
    ).assign(
        type=rows["subtype"].str.partition("_")[0],
        subtype=rows["subtype"],
        negative_caption=texts[pairs:],
        generator="x",
        seed=1,
        attempt=1,
    )
    return (
        write_table(NEGATIVES, build_frame(NEGATIVES, negatives), folder / "given" / "negatives.parquet"),
        write_table(PAIRS, table, folder / "given" / "pairs.parquet"),
    )


def test_stored_negatives_are_selected_as_audit_rows_are(tmp_path: Path) -> None:
    paths = store_tables(tmp_path)
    out = tmp_path / "out"
    scoring = {"folds": 2, "seed": 3, "executor": "inline"}
    best_negatives.select_best_negatives(
        *paths, out, similarity=None, folder=tmp_path / "scores", **SETTINGS, **scoring
    )
    given = read_table(NEGATIVES, paths[0])
    pairs = read_table(PAIRS, paths[1]).set_index("pair_id")[["image_id", "caption"]]
    rows = given.join(pairs, on="pair_id").assign(pair_id=given["negative_id"])
    scores = score_rows(rows, SETTINGS["scorers"], folder=tmp_path / "again", **scoring)
    expected = select_rows(rows, find_reasons(rows, *scores, seed=3, **SETTINGS))
    kept, rejects = (
        read_table(NEGATIVES, out / "negatives.parquet"),
        read_table(REJECTS, out / "rejects.parquet"),
    )
    assert 10 < len(kept) < len(given) - 10
    is_kept = given["negative_id"].isin(expected.rows["pair_id"])
    pd.testing.assert_frame_equal(kept, given[is_kept].reset_index(drop=True))
    assert rejects.equals(expected.rejects.assign(stage="select_negatives"))


def test_a_negative_without_its_pair_is_an_error(tmp_path: Path) -> None:
    negatives, pairs = store_tables(tmp_path)
    write_table(PAIRS, read_table(PAIRS, pairs)[1:], pairs)
    with pytest.raises(DataError, match="have no pair"):
        best_negatives.read_audit_rows(negatives, pairs)
