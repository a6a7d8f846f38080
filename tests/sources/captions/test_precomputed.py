import json
import os
from pathlib import Path

import pytest
from stored_images import Taken

from caramel.errors import DataError
from caramel.schemas.contracts import check_table
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.precomputed import given_negatives
from caramel.sources.folders import read_pairs

ROW = {"filename": "1.jpg", "caption": "A red cat.", "negative_caption": "A blue cat."}
DATA = os.environ.get("CARAMEL_DATA")


def written(folder: Path):
    pairs = read_pairs(data_dir=str(folder), val_test_frac=(0.1, 0.2), seed=1, put=Taken()).pairs
    found = given_negatives(pairs, data_dir=str(folder), seed=2, max_attempts=5)
    for table, rows in zip((NEGATIVES, PARAPHRASES, REJECTS), found[:3], strict=True):
        check_table(table, rows, "test")
    assert len(found.negatives) == len(pairs) == len(found.paraphrases) + len(found.rejects)
    return found


def test_each_pair_gets_the_negative_of_its_file(tmp_path):
    (tmp_path / "swap_obj.json").write_text(json.dumps({"0": ROW}))
    (tmp_path / "add_att.json").write_text(json.dumps({"0": {**ROW, "negative_caption": "A red fat cat."}}))
    negatives = written(tmp_path).negatives
    assert negatives["negative_id"].tolist() == ["swap_obj-0:swap_obj", "add_att-0:add_att"]
    assert negatives["type"].tolist() == ["swap", "add"]
    assert negatives["negative_caption"].tolist() == ["A blue cat.", "A red fat cat."]
    assert negatives["generator"].unique().tolist() == ["given"]


def test_a_paraphrase_is_given_or_rejected(tmp_path):
    (tmp_path / "swap_obj.json").write_text(json.dumps({"0": ROW, "1": {**ROW, "caption2": "Cat, red."}}))
    found = written(tmp_path)
    assert found.paraphrases[["pair_id", "caption2"]].to_numpy().tolist() == [["swap_obj-1", "Cat, red."]]
    assert found.rejects.to_dict("records") == [
        {
            "id": "swap_obj-0:paraphrase",
            "stage": "negatives",
            "reason": "no paraphrase in the source",
            "text": "A red cat.",
        }
    ]


@pytest.mark.parametrize("change", [{"pair_id": "swap_obj-9"}, {"caption": "A green cat."}])
def test_pairs_of_other_files_are_an_error(tmp_path, change):
    (tmp_path / "swap_obj.json").write_text(json.dumps({"0": ROW}))
    pairs = read_pairs(data_dir=str(tmp_path), val_test_frac=(0, 0), seed=1, put=Taken()).pairs.assign(
        **change
    )
    with pytest.raises(DataError, match="1 of 1 pairs"):
        given_negatives(pairs, data_dir=str(tmp_path), seed=2, max_attempts=5)


def test_no_pairs_have_no_negatives(tmp_path):
    (tmp_path / "swap_obj.json").write_text(json.dumps({"0": ROW}))
    found = given_negatives(build_frame(PAIRS, []), data_dir=str(tmp_path), seed=2, max_attempts=5)
    assert [len(table) for table in found[:3]] == [0, 0, 0]


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
def test_the_public_files_give_a_negative_for_every_pair():
    found = written(Path(str(DATA)) / "sugarcrepe_pp")
    assert len(found.negatives) == len(found.paraphrases) == 4756
    assert found.rejects.empty
