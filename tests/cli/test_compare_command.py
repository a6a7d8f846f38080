"""`caramel compare` tests two models on the same instances, and refuses what cannot be compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from eval_calls import run_eval

Call = Callable[..., tuple[int, str, str]]


def test_compare_of_a_model_with_itself_finds_nothing(eval_call: Call, clip_folder: Path) -> None:
    run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "a")
    run_eval(eval_call, f"same=open_clip:{clip_folder}", "b")
    code, out, _ = eval_call("compare", "a", "b", "--out", "c", "--n-bootstrap", "100")
    assert code == 0
    rows = pd.read_csv("c/comparison.csv")
    assert (rows["difference"] == 0).all()
    assert not rows["significant"].any()
    assert "+0.0" in out


@pytest.mark.parametrize(
    ("place", "what"),
    [("nowhere", "does not exist"), ("images", "holds no"), ("mine.csv", "is not a file of")],
)
def test_what_is_no_run_is_said_to_be_none(eval_call: Call, place: str, what: str) -> None:
    Path("mine.csv").write_text("a,b\n1,2\n")
    code, _, err = eval_call("compare", place, place)
    assert code == 1
    assert f"{place!r} {what}" in err
    assert "caramel eval" in err
    assert "dvc" not in err


def corrected(subtype: str = "swap_att") -> None:
    """Let every second instance of a subtype have its captions the other way round, as a later release may."""
    path = Path("data/sugarcrepe", f"{subtype}.json")
    rows = json.loads(path.read_text())
    for row in [row for key, row in rows.items() if int(key) % 2]:
        row["caption"], row["negative_caption"] = row["negative_caption"], row["caption"]
    path.write_text(json.dumps(rows))


def test_results_of_two_releases_with_other_texts_stand_beside_each_other_nowhere(
    eval_call: Call, clip_folder: Path
) -> None:
    assert run_eval(eval_call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    corrected()
    assert run_eval(eval_call, f"b=open_clip:{clip_folder}", "second")[0] == 0
    for words in (
        ("compare", "first", "second"),
        ("table", "first", "second", "--benchmark", "sugarcrepe"),
        ("metrics", "first", "second", "--benchmark", "sugarcrepe", "--out", "again"),
    ):
        code, out, err = eval_call(*words)
        assert (code, out) == (1, ""), words
        assert "8 of 32 instances have the same id but different texts" in err, words
        assert "'swap_att-1' of sugarcrepe" in err
        assert "different releases" in err
    assert not Path("again/metrics.csv").exists()


def test_a_model_that_looks_at_no_image_is_compared_with_one_that_does(
    eval_call: Call, clip_folder: Path
) -> None:
    assert run_eval(eval_call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    assert run_eval(eval_call, "blind:length", "second")[0] == 0
    hashes = pd.read_parquet("second/similarities.parquet")[["texts_hash", "images_hash"]]
    assert hashes["texts_hash"].notna().all()
    assert hashes["images_hash"].isna().all()
    assert eval_call("compare", "first", "second")[0] == 0


def test_results_on_other_images_of_the_same_names_are_not_compared(
    eval_call: Call, clip_folder: Path
) -> None:
    assert run_eval(eval_call, f"a=open_clip:{clip_folder}", "first")[0] == 0
    shutil.copy("images/000000000001.jpg", "images/000000000000.jpg")
    assert run_eval(eval_call, f"a=open_clip:{clip_folder}", "second")[0] == 0
    code, _, err = eval_call("compare", "first", "second")
    assert code == 1
    assert "4 of 32 instances have the same id but different images" in err
