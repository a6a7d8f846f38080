"""What the gates join for their suites, and that every expectation of caramel names rows and their number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from caramel.errors import GateError
from caramel.gates import expectations
from caramel.gates.suites import validate_table

N = 40
PAIRS = pd.DataFrame(
    {
        "pair_id": [f"p{i}" for i in range(N)],
        "image_id": [f"i{i % 8}" for i in range(N)],
        "caption": [f"A cat by {i} trees." for i in range(N)],
        "caption2": [f"By {i} trees is a cat." for i in range(N)],
        "negative_caption": [f"A dog by {i} trees." for i in range(N)],
        "type": "replace",
        "subtype": [("replace_obj", "swap_obj")[i % 2] for i in range(N)],
        "split": [("train", "test")[i % 8 > 3] for i in range(N)],
        "image_ok": True,
    }
)
ASKED = [f"Is a cat by {i} trees?" for i in range(N)]
MESSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "expect_caption_to_differ_from_its_negative": ({"negative_caption": PAIRS["caption"].str.lower()}, {}),
    "expect_paraphrase_to_differ_from_caption": ({"caption2": PAIRS["caption"]}, {}),
    "expect_paraphrase_to_differ_from_its_caption": ({"caption2": PAIRS["caption"]}, {}),
    "expect_negative_to_change_more_than_word_order": (
        {"caption": ASKED, "negative_caption": PAIRS["caption2"]},
        {},
    ),
    "expect_no_duplicate_pair": ({"caption": "A cat.", "negative_caption": "A dog."}, {}),
    "expect_captions_to_be_formatted_alike": ({"negative_caption": "a dog"}, {}),
    "expect_no_image_in_two_splits": ({"split": [f"s{i}" for i in range(N)]}, {}),
    "expect_subtype_share_to_be_at_most": ({"subtype": "swap_obj"}, {"max_share": 0.5}),
    "expect_images_to_decode": ({"image_ok": False}, {}),
    "expect_blind_accuracy_to_be_at_most": (
        {"negative_caption": PAIRS["negative_caption"] + " "},
        {"max_accuracy": 0.7, "scorers": ["ngram"], "acceptance": "not_refuted"},
    ),
}


def checked(rows: pd.DataFrame, kind: str, kwargs: dict[str, Any], folder: Path) -> None:
    suite = {"name": "s", "table": "t", "key": ["pair_id"]}
    part = {"type": kind, "kwargs": kwargs, "meta": {"notes": "why"}, "severity": "critical"}
    path = folder / "s.json"
    path.write_text(json.dumps({**suite, "expectations": [part]}), encoding="utf-8")
    validate_table(rows, path, docs_folder=folder)


def test_every_expectation_is_put_to_the_test_below() -> None:
    names = {
        "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).removeprefix("_")
        for name in expectations.__all__
    }
    assert names == set(MESSED)


@pytest.mark.parametrize("kind", MESSED)
def test_a_failure_names_five_rows_and_the_number_of_all(kind: str, tmp_path: Path) -> None:
    changes, kwargs = MESSED[kind]
    with pytest.raises(GateError) as stopped:
        checked(PAIRS.assign(**changes), kind, kwargs, tmp_path)
    said = str(stopped.value)
    assert f"{kind} on " in said
    assert f"{N} of {N} rows fail\n" in said
    assert said.count("  - pair_id='p") == 5
    assert f"… and {N - 5} more" in said
    assert "  why\n" in said
    page = (tmp_path / "s" / "index.html").read_text(encoding="utf-8")
    assert kind in page
    assert f"{N} unexpected values found" in " ".join(page.split())


@pytest.mark.parametrize("kind", MESSED)
def test_clean_rows_pass(kind: str, tmp_path: Path) -> None:
    kwargs = MESSED[kind][1]
    clean = PAIRS if "accuracy" not in kind else PAIRS.assign(negative_caption=PAIRS["caption"])
    checked(clean, kind, kwargs, tmp_path)
