"""Captions alone are read from each form, and what cannot be used is a reject or a clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from caramel.errors import ConfigError, DataError
from caramel.interfaces.source import Source
from caramel.schemas.contracts import check_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.caption_files import EMPTY, list_caption_files, read_captions_alone


def read(folder: Path, shares: tuple[float, float] = (0.1, 0.2)) -> Source:
    source = read_captions_alone(data_dir=str(folder), val_test_frac=shares, seed=1)
    for table, rows in zip((PAIRS, REJECTS), source, strict=True):
        check_table(table, rows, "test")
    return source


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def build_karpathy(**fields: Any) -> str:
    image = {"filename": "a.jpg", "split": "restval", "sentences": [{"raw": "A cat."}, {"raw": " A dog. "}]}
    return json.dumps({"images": [{**image, **fields}], "dataset": "coco"})


def test_each_line_of_a_text_file_is_a_caption(tmp_path: Path) -> None:
    pairs = read(write(tmp_path, "captions.txt", "\ufeffA cat.\n A dog. \r\nA bird")).pairs
    assert pairs["caption"].tolist() == ["A cat.", "A dog.", "A bird"]
    assert pairs["pair_id"].tolist() == ["line-1", "line-2", "line-3"]
    assert set(pairs["source"]) == {"captions"}


def test_rows_of_csv_and_jsonl_give_the_same_pairs(tmp_path: Path) -> None:
    rows = [("a.jpg", "A cat, black."), ("a.jpg", "A dog."), ("b.jpg", "A cat, black.")]
    folders = [tmp_path / form for form in ("csv", "jsonl")]
    for folder in folders:
        folder.mkdir()
    table = "n,filename,caption\n" + "".join(f'1,{name},"{text}"\n' for name, text in rows)
    lines = "".join(json.dumps({"filename": name, "caption": text}) + "\n" for name, text in rows)
    first = read(write(folders[0], "captions.csv", table))
    second = read(write(folders[1], "captions.jsonl", lines))
    assert first.pairs.equals(second.pairs)
    assert first.pairs["pair_id"].tolist() == ["a.jpg-0", "a.jpg-1", "b.jpg-0"]
    assert first.rejects.empty


@pytest.mark.parametrize("other", ["./a.jpg", ".//a.jpg"])
def test_two_forms_of_a_file_name_are_one_image(tmp_path: Path, other: str) -> None:
    pairs = read(write(tmp_path, "captions.csv", f"filename,caption\na.jpg,A cat.\n{other},A dog.\n")).pairs
    assert pairs["image_id"].tolist() == ["a.jpg", "a.jpg"]
    assert pairs["pair_id"].tolist() == ["a.jpg-0", "a.jpg-1"]


def test_captions_of_one_image_are_in_one_split(tmp_path: Path) -> None:
    lines = "".join(f"i{n % 20}.jpg,A caption {n}.\n" for n in range(60))
    pairs = read(write(tmp_path, "captions.csv", f"filename,caption\n{lines}")).pairs
    assert pairs.groupby("image_id")["split"].nunique().max() == 1
    assert pairs.drop_duplicates("image_id")["split"].value_counts().to_dict() == {
        "train": 14,
        "test": 4,
        "val": 2,
    }


@pytest.mark.parametrize(
    ("given", "expected"), [("train", "train"), ("restval", "train"), ("val", "val"), ("test", "test")]
)
def test_splits_of_karpathy_are_kept(tmp_path: Path, given: str, expected: str) -> None:
    pairs = read(write(tmp_path, "dataset_coco.json", build_karpathy(split=given))).pairs
    assert pairs["split"].tolist() == [expected] * 2
    assert pairs["caption"].tolist() == ["A cat.", "A dog."]


@pytest.mark.parametrize(
    ("name", "text", "rejected"),
    [
        ("captions.txt", "A cat.\n\n  \nA dog.\n", [("line-2", EMPTY), ("line-3", EMPTY)]),
        ("captions.txt", "A cat.\nA dog.\nA cat.\n", [("line-3", "the row stands twice")]),
        (
            "captions.csv",
            'caption\nA cat.\n" "\nA cat.\n',
            [("row-2", EMPTY), ("row-3", "the row stands twice")],
        ),
        ("captions.jsonl", '{"caption": "A cat."}\n{"caption": ""}\n', [("row-2", EMPTY)]),
        ("dataset_coco.json", build_karpathy(sentences=[{"raw": "A."}, {"raw": ""}]), [("a.jpg-1", EMPTY)]),
    ],
)
def test_empty_and_duplicate_captions_are_rejects(
    tmp_path: Path, name: str, text: str, rejected: list[tuple[str, str]]
) -> None:
    source = read(write(tmp_path, name, text))
    assert list(zip(source.rejects["id"], source.rejects["reason"], strict=True)) == rejected
    assert len(source.pairs) >= 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("captions.txt", "\n \n", "contains no caption"),
        ("captions.txt", "A cat.\0\n", "contains a NUL"),
        ("captions.csv", "filename,text\na.jpg,A cat.\n", r"lacks the columns \['caption'\]"),
        ("captions.csv", "filename,caption\n../a.jpg,A cat.\n", "filename"),
        ("captions.jsonl", '{"text": "A cat."}\n', "caption"),
        ("captions.jsonl", '"A cat."\n', "caption"),
        ("captions.jsonl", '{"caption": 3}\n', "must be text"),
        ("captions.jsonl", '{"caption": \n', r"captions\.jsonl"),
        (
            "captions.jsonl",
            '{"caption": "A."}\n{"caption": "B.", "filename": "row"}\n{"caption": "C.", "filename": "row"}\n',
            r"line 2 has field 'filename', which the rows before lack",
        ),
        (
            "captions.jsonl",
            '{"caption": "A.", "filename": "a.jpg"}\n{"caption": "B."}\n',
            r"line 2 lacks field 'filename', which the rows before have",
        ),
        (
            "dataset_coco.json",
            json.dumps(
                {
                    "images": [
                        {"filename": name, "split": "val", "sentences": []} for name in ("a.jpg", "./a.jpg")
                    ]
                }
            ),
            "duplicate filename 'a.jpg'",
        ),
        ("dataset_coco.json", "[]", "list in field 'images'"),
        (
            "dataset_coco.json",
            build_karpathy(split="dev"),
            "split 'dev' is unknown. Expected one of: train, restval, val, test",
        ),
        ("dataset_coco.json", build_karpathy(split=None), "split"),
        ("dataset_coco.json", build_karpathy(sentences="A cat."), "'sentences' must be a list"),
        ("dataset_coco.json", build_karpathy(sentences=[{"tokens": ["a"]}]), "raw"),
        (
            "dataset_coco.json",
            json.dumps({"images": json.loads(build_karpathy())["images"] * 2}),
            "duplicate filename",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_where(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, name, text))


def test_another_encoding_than_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_bytes("Ein Hündchen.\n".encode("latin-1"))
    with pytest.raises(DataError, match="cannot be read as UTF-8"):
        read(tmp_path)


def test_a_folder_has_exactly_one_file_of_captions(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file of captions. Expected one of:\n.*captions\.txt"):
        read(tmp_path)
    write(tmp_path, "captions.txt", "A cat.\n")
    assert list_caption_files(tmp_path) == ["captions.txt"]
    write(tmp_path, "captions.csv", "caption\nA cat.\n")
    with pytest.raises(DataError, match=r"more than one file of captions: captions\.txt, captions\.csv"):
        read(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        read(tmp_path / "captions.txt")


def test_shares_beyond_one_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="val_test_frac"):
        read(write(tmp_path, "captions.txt", "A cat.\n"), shares=(0.6, 0.6))
