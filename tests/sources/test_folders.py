import csv
import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from stored_images import Taken

from caramel.errors import ConfigError, DataError
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import check_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.folders import assign_splits, read_pairs
from caramel.sources.sugarcrepe_files import read_captions

ROW = {"filename": "1.jpg", "caption": "A red cat.", "negative_caption": "A blue cat."}
SHARES = (0.1, 0.2)
DATA = os.environ.get("CARAMEL_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")


def write_json(folder: Path, name: str, data: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def write_image(path: Path, size: tuple[int, int] = (5, 3)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path)


def read(folder: Path, held_out: tuple[float, float] = SHARES, seed: int = 1, put=None):
    source = read_pairs(data_dir=str(folder), val_test_frac=held_out, seed=seed, put=put or Taken())
    for table, rows in zip((PAIRS, REJECTS), source, strict=True):
        check_table(table, rows, "test")
    return source


def write_captions(folder: Path, rows: list[tuple[str, str]], form: str) -> None:
    if form == "csv":
        stream = io.StringIO()
        csv.writer(stream).writerows([("filename", "caption"), *rows])
        (folder / "captions.csv").write_text(stream.getvalue(), encoding="utf-8")
    elif form == "jsonl":
        lines = [json.dumps({"filename": n, "caption": c}) for n, c in rows]
        (folder / "captions.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    else:
        names = list(dict.fromkeys(n for n, _ in rows))
        images = [{"id": i, "file_name": n} for i, n in enumerate(names)]
        notes = [{"image_id": names.index(n), "caption": c} for n, c in rows]
        write_json(folder, "captions.json", {"images": images, "annotations": notes})


def write_sums(folder: Path, names: list[str]) -> None:
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()} *{name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def test_sugarcrepe_rows_are_pairs_without_images(tmp_path):
    write_json(tmp_path, "swap_obj.json", {"0": ROW, "7": {**ROW, "filename": "2.jpg", "extra": 1}})
    taken = Taken()
    source = read(tmp_path, put=taken)
    assert source.pairs["pair_id"].tolist() == ["swap_obj-0", "swap_obj-7"]
    assert source.pairs["image_id"].tolist() == ["1.jpg", "2.jpg"]
    assert source.pairs["source"].tolist() == ["sugarcrepe"] * 2
    assert not taken.files
    assert source.rejects.empty


def test_sugarcrepe_pp_has_paraphrases_and_names_rows_by_id(tmp_path):
    write_json(tmp_path, "replace_att.json", [{**ROW, "id": 3, "caption2": "There is a red cat."}])
    rows = read_captions(tmp_path)
    assert rows.to_dict("records") == [
        {
            "pair_id": "replace_att-3",
            "image_id": "1.jpg",
            "subtype": "replace_att",
            "caption": "A red cat.",
            "caption2": "There is a red cat.",
            "negative_caption": "A blue cat.",
        }
    ]
    assert read(tmp_path).pairs["source"].tolist() == ["sugarcrepe_pp"]


def test_one_file_is_read_alone(tmp_path):
    write_json(tmp_path, "add_obj.json", {"0": ROW})
    path = write_json(tmp_path, "add_att.json", {"0": ROW})
    assert read_captions(path)["pair_id"].tolist() == ["add_att-0"]


def test_a_row_that_stands_twice_is_rejected(tmp_path):
    write_json(tmp_path, "swap_obj.json", {"0": ROW, "1": ROW, "2": {**ROW, "negative_caption": "A cat."}})
    source = read(tmp_path)
    assert source.pairs["pair_id"].tolist() == ["swap_obj-0", "swap_obj-2"]
    assert source.rejects[["id", "stage"]].to_numpy().tolist() == [["swap_obj-1", "scenes"]]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({k: v for k, v in ROW.items() if k != "caption"}, ["'caption'", "no field"]),
        ({**ROW, "caption": 5}, ["'caption'", "5"]),
        ({**ROW, "caption": None}, ["'caption'", "None"]),
        ({**ROW, "negative_caption": "  "}, ["'negative_caption'", "empty"]),
        ({**ROW, "filename": ""}, ["'filename'", "empty"]),
        ({**ROW, "caption2": 3}, ["'caption2'", "3"]),
        ({**ROW, "caption": "\ud800"}, ["'caption'", "surrogate"]),
        ("text", ["object", "'text'"]),
    ],
)
def test_a_wrong_row_is_an_error_that_names_file_index_and_field(tmp_path, row, named):
    write_json(tmp_path, "replace_obj.json", {"0": ROW, "41": row})
    with pytest.raises(DataError) as error:
        read_captions(tmp_path)
    for part in ("replace_obj.json", "'41'", *named):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not valid JSON"),
        ('{"0": 1, "0": 2}', "duplicate keys"),
        ("[" * 100_000, "not valid JSON"),
        ("1" * 5000, "not valid JSON"),
        ("3", "object of rows"),
        ('[{"caption2": "x", "id": true}]', "'id'"),
        ('[{"caption2": "x", "id": 1.5}]', "'id'"),
        ("[{}]", "'caption2'"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path, text, part):
    (tmp_path / "swap_att.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"swap_att\.json") as error:
        read_captions(tmp_path)
    assert part in str(error.value)


def test_an_id_that_stands_twice_is_an_error(tmp_path):
    write_json(tmp_path, "swap_att.json", [{**ROW, "id": 1, "caption2": "x"}] * 2)
    with pytest.raises(DataError, match="duplicate id"):
        read_captions(tmp_path)


def test_text_that_is_not_utf8_is_an_error(tmp_path):
    (tmp_path / "swap_att.json").write_bytes(b'{"0": "\xff"}')
    with pytest.raises(DataError, match="UTF-8"):
        read_captions(tmp_path)


def test_a_missing_folder_and_an_unknown_one_say_what_to_do(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_captions(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"scenes\.data_dir"):
        read(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"replace_obj\.json"):
        read_captions(tmp_path)
    with pytest.raises(DataError) as error:
        read(tmp_path)
    for name in ("replace_obj.json", "captions.csv", "captions.jsonl", "captions.json"):
        assert name in str(error.value)


def test_two_sources_in_one_folder_are_an_error(tmp_path):
    write_json(tmp_path, "swap_obj.json", {"0": ROW})
    write_captions(tmp_path, [("a.png", "A cat.")], "csv")
    with pytest.raises(DataError, match="more than one source"):
        read(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["0", "id", "filename", "caption", "caption2", "negative_caption", "images"])
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=JSON, name=st.sampled_from([f"{SUBTYPES[0]}.json", "captions.json", "captions.jsonl"]))
def test_any_json_is_read_or_refused_with_a_data_error(tmp_path, data, name):
    path = write_json(tmp_path, name, data)
    try:
        read(tmp_path)
    except DataError:
        pass
    finally:
        path.unlink()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60), name=st.sampled_from(["swap_obj.json", "captions.csv", "captions.jsonl"]))
def test_any_bytes_are_read_or_refused_with_a_data_error(tmp_path, data, name):
    path = tmp_path / name
    path.write_bytes(data)
    try:
        read(tmp_path)
    except DataError:
        pass
    finally:
        path.unlink()


@pytest.mark.parametrize("form", ["csv", "jsonl", "coco"])
def test_captioned_images_keep_file_bytes_and_size(tmp_path, form):
    write_image(tmp_path / "a.png")
    write_image(tmp_path / "images" / "b.jpg", (4, 9))
    write_captions(tmp_path, [("a.png", "A cat, red."), ("b.jpg", "A dog"), ("a.png", "A pet")], form)
    taken = Taken()
    source = read(tmp_path, put=taken)
    assert [(row["image_id"], row["width"], row["height"]) for row in taken.rows] == [
        ("a.png", 5, 3),
        ("b.jpg", 4, 9),
    ]
    assert taken.files["b.jpg"] == (tmp_path / "images" / "b.jpg").read_bytes()
    assert source.pairs["pair_id"].tolist() == ["a.png-0", "b.jpg-0", "a.png-1"]
    assert source.pairs["caption"].tolist() == ["A cat, red.", "A dog", "A pet"]
    assert source.pairs["split"][0] == source.pairs["split"][2]


@pytest.mark.parametrize("form", ["csv", "jsonl", "coco"])
def test_an_image_under_two_spellings_is_one_image(tmp_path, form):
    write_image(tmp_path / "a" / "b.png")
    write_captions(tmp_path, [("a/b.png", "A cat."), ("./a//b.png", "A dog.")], form)
    taken = Taken()
    source = read(tmp_path, put=taken)
    assert list(taken.files) == ["a/b.png"]
    assert source.pairs["pair_id"].tolist() == ["a/b.png-0", "a/b.png-1"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "coco"])
def test_an_image_under_two_names_is_an_error_that_says_both(tmp_path, form):
    write_image(tmp_path / "images" / "a.png")
    write_captions(tmp_path, [("a.png", "A cat."), ("images/a.png", "A dog.")], form)
    with pytest.raises(DataError, match=r"'images/a\.png': the same file as 'a\.png'.* use one name"):
        read(tmp_path)


def test_two_files_of_one_name_are_two_images_with_their_own_sums(tmp_path):
    write_image(tmp_path / "a.png", (5, 3))
    write_image(tmp_path / "images" / "a.png", (4, 9))
    names = ["a.png", "images/a.png"]
    write_captions(tmp_path, [(name, f"In {name}.") for name in names], "csv")
    write_sums(tmp_path, names)
    taken = Taken()
    read(tmp_path, put=taken)
    assert taken.files == {name: (tmp_path / name).read_bytes() for name in names}


@pytest.mark.parametrize("caption_name", ["a.png", "images/a.png"])
@pytest.mark.parametrize("sums_name", ["a.png", "./images/a.png", "images/a.png"])
@pytest.mark.parametrize("sums_folder", [".", "images"])
def test_an_image_is_found_in_the_sums_by_each_of_its_names(tmp_path, caption_name, sums_name, sums_folder):
    path = tmp_path / "images" / "a.png"
    write_image(path)
    write_captions(tmp_path, [(caption_name, "A cat.")], "csv")
    sums = tmp_path / sums_folder / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {sums_name}\n", encoding="utf-8")
    read(tmp_path)
    sums.write_text(f"{'0' * 64}  {sums_name}\n", encoding="utf-8")
    with pytest.raises(DataError, match="its SHA-256 differs"):
        read(tmp_path)


def test_every_image_that_cannot_be_used_is_named_at_once(tmp_path):
    write_image(tmp_path / "good.png")
    whole = (tmp_path / "good.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:-20])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no image")
    names = ["good.png", "cut.png", "empty.jpg", "text.jpg", "gone.png", "../out.png", "/etc/x", "x" * 300]
    write_captions(tmp_path, [(name, "A cat.") for name in names], "csv")
    with pytest.raises(DataError) as error:
        read(tmp_path)
    message = str(error.value)
    assert "7 of 8 images" in message
    assert "and 2 more" in message
    for part in (
        "'cut.png' does not decode",
        "'empty.jpg'",
        "'text.jpg'",
        "'gone.png': missing",
        "must name a file",
    ):
        assert part in message


def test_why_an_image_cannot_be_used_is_said_with_its_cure(tmp_path, monkeypatch):
    write_image(tmp_path / "large.png")
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "deep.tif")
    write_captions(tmp_path, [(name, "A cat.") for name in ("large.png", "deep.tif", "x" * 300)], "csv")
    monkeypatch.setenv("CARAMEL_MAX_PIXELS", "5")
    with pytest.raises(DataError) as error:
        read(tmp_path)
    for part in (
        "Scale it down, or set CARAMEL_MAX_PIXELS",
        "no range from black to white",
        "at most 240 bytes",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("captions.csv", "filename,caption\na.png\n", ["row 1", "1 fields, but the header has 2"]),
        ("captions.csv", "file,caption\na.png,x\n", ["lacks the columns", "'filename'"]),
        ("captions.csv", "filename,caption\n1.png,A dog, brown and big\n", ["row 1", "3 fields", "Quote"]),
        ("captions.csv", "filename,caption,caption\n1.png,a,b\n", ["duplicate columns", "'caption'"]),
        ("captions.csv", "", ["empty"]),
        ("captions.csv", "filename,caption\n", ["no caption"]),
        ("captions.csv", 'filename,caption\na.png,"x', ["not valid CSV"]),
        ("captions.jsonl", '{"filename": "a", "caption": "b"}\n{', ["line 2", "not valid JSON"]),
        ("captions.jsonl", '{"filename": "a"}', ["line 1", "'caption'"]),
        ("captions.json", "[]", ["'images'", "COCO"]),
        ("captions.json", '{"images": [], "annotations": 3}', ["'annotations'"]),
        ("captions.json", '{"images": [{"id": 1}], "annotations": []}', ["images[0]", "'file_name'"]),
        ("captions.json", '{"images": [{"file_name": "a"}], "annotations": []}', ["images[0]", "'id'"]),
        (
            "captions.json",
            '{"images": [], "annotations": [{"image_id": 5, "caption": "x"}]}',
            ["annotations[0]", "5"],
        ),
        (
            "captions.json",
            '{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": []}',
            ["images[1]", "duplicate id 1"],
        ),
    ],
)
def test_a_wrong_captions_table_is_an_error_that_names_the_place(tmp_path, name, text, parts):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        read(tmp_path)
    for part in (name, *parts):
        assert part in str(error.value)


def test_images_without_a_caption_and_repeated_captions_are_rejects(tmp_path):
    write_image(tmp_path / "a.png")
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "unused.png"}]
    notes = [{"image_id": 1, "caption": "A cat."}] * 2
    write_json(tmp_path, "captions.json", {"images": images, "annotations": notes})
    source = read(tmp_path)
    assert source.pairs["pair_id"].tolist() == ["a.png-0"]
    assert source.rejects["id"].tolist() == ["a.png-1", "unused.png"]


@given(
    names=st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=60),
    val=st.floats(0, 0.5),
    test=st.floats(0, 0.5),
    seed=st.integers(0, 9),
)
def test_splits_are_by_image_in_the_shares_asked_for_and_ignore_order(names, val, test, seed):
    splits = assign_splits(names, (val, test), seed)
    assert splits == assign_splits(names[::-1], (val, test), seed)
    found, count = list(splits.values()), len(set(names))
    assert found.count("val") == round(val * count)
    assert abs(found.count("test") - test * count) <= 1
    assert set(splits) == set(names)


def test_another_seed_gives_another_split(tmp_path):
    write_json(tmp_path, "swap_obj.json", {str(i): {**ROW, "filename": f"{i}.jpg"} for i in range(50)})
    first, second = (read(tmp_path, seed=seed).pairs["split"] for seed in (1, 2))
    assert first.value_counts().to_dict() == {"train": 35, "test": 10, "val": 5}
    assert (first != second).any()


def test_shares_beyond_one_are_an_error(tmp_path):
    with pytest.raises(ConfigError, match="val_test_frac"):
        read(tmp_path, held_out=(0.6, 0.5))


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "rejected"),
    [("sugarcrepe", 7511, 0), ("sugarcrepe_pp", 4757, 1), ("sugarcrepe_unrefined", 17478, 1)],
)
def test_the_public_files_are_read_in_full(name, rows, rejected):
    source = read(Path(str(DATA)) / name)
    assert len(source.pairs) == rows - rejected
    assert len(source.rejects) == rejected
    assert source.pairs.groupby("image_id")["split"].nunique().max() == 1
