import unicodedata
from pathlib import Path

import pytest

from caramel.io.suggestions import NearNames

NFC, NFD = (unicodedata.normalize(form, "café.jpg") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("present", "wanted", "difference"),
    [
        ("COCO_val2014_000000085329.jpg", "000000085329.jpg", "of another year"),
        ("val2014/COCO_val2014_000000085329.jpg", "000000085329.jpg", "of another year"),
        ("000000085329.jpg", "COCO_train2014_000000085329.jpg", "of another year"),
        ("train2017/000000085329.jpg", "000000085329.jpg", "in another folder"),
        ("A.JPG", "A.jpg", "differs in upper and lower case"),
        ("a.png", "a.jpg", "has the suffix '.png'"),
        (NFD, NFC, "another Unicode normal form (NFD)"),
        (NFC, NFD, "another Unicode normal form (NFC)"),
        (
            NFD.removesuffix(".jpg") + "/1.jpg",
            NFC.removesuffix(".jpg") + "/1.jpg",
            "Unicode normal form (NFD)",
        ),
    ],
)
def test_a_missing_file_is_explained_by_one_of_nearly_its_name(
    tmp_path: Path, present: str, wanted: str, difference: str
) -> None:
    (tmp_path / present).parent.mkdir(exist_ok=True)
    (tmp_path / present).touch()
    explanation = NearNames().explain_missing(tmp_path / wanted)
    assert explanation.startswith(f"missing; {str(tmp_path / present)!r} exists, ")
    assert difference in explanation
    assert explanation.endswith("rename it, or link it to this name")


@pytest.mark.parametrize("present", ["b.jpg", "other/1.jpg", "000000085328.jpg"])
def test_what_is_not_near_is_only_missing(tmp_path: Path, present: str) -> None:
    (tmp_path / present).parent.mkdir(exist_ok=True)
    (tmp_path / present).touch()
    for wanted in ("1.jpg", "000000085329.jpg", "nowhere/at/all.jpg"):
        assert NearNames().explain_missing(tmp_path / wanted) == "missing"
