import hashlib
import json
import os
from pathlib import Path

import pytest
from paper_inputs import write_coco, write_sugarcrepe
from PIL import Image
from stored_images import Taken

from caramel.errors import DataError
from caramel.sources.folders import read_pairs
from caramel.sources.sugarcrepe_files import read_captions
from caramel.sources.sugarcrepe_images import _find_edit_type, _infer_types, read_benchmark_pairs

SETTINGS = {"val_test_frac": (0.2, 0.8), "seed": 1}


@pytest.fixture
def folder(tmp_path):
    return write_sugarcrepe(tmp_path / "s", images=4, rows=6, subtypes=["replace_obj", "swap_att"])


def read(folder, reader=read_benchmark_pairs):
    taken = Taken()
    return reader(data_dir=str(folder), put=taken, **SETTINGS), taken


def test_pairs_come_with_their_images_and_every_image_is_in_one_split(folder):
    source, taken = read(folder)
    assert len(source.pairs) == 12
    assert set(taken.files) == set(source.pairs["image_id"])
    assert len(taken.files) == 4
    assert (source.pairs.groupby("image_id")["split"].nunique() == 1).all()
    assert source.pairs["split"].value_counts().to_dict().keys() == {"val", "test"}
    assert set(source.pairs["source"]) == {"sugarcrepe"}


def test_a_missing_image_is_an_error_with_the_file_and_row_that_name_it(folder):
    (folder / "images" / "000000000002.jpg").unlink()
    with pytest.raises(DataError, match=r"000000000002.jpg' \(replace_obj.json, row '2'\): missing"):
        read(folder)


def test_an_image_that_does_not_decode_is_an_error_with_its_row(folder):
    path = folder / "images" / "000000000003.jpg"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(
        DataError, match=r"(?s)1 of 4 images .*000000000003.jpg' \(replace_obj.json, row '3'\)"
    ):
        read(folder)


def test_an_image_with_another_hash_than_listed_is_another_image(folder):
    images = folder / "images"
    sums = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in sorted(images.glob("*.jpg"))]
    (images / "SHA256SUMS").write_text("\n".join(sums))
    read(folder)
    (images / "000000000001.jpg").write_bytes((images / "000000000000.jpg").read_bytes())
    with pytest.raises(
        DataError, match=r"000000000001.jpg' .*another file than the one that SHA256SUMS names"
    ):
        read(folder)
    (images / "SHA256SUMS").write_text("abc 000000000001.jpg")
    with pytest.raises(DataError, match=r"line 1: .* is not a SHA-256 and a file name"):
        read(folder)


def test_an_image_of_another_size_than_coco_states_is_another_image(tmp_path):
    coco = write_coco(tmp_path / "coco", images=3, captions=5)
    source, taken = read(coco, read_pairs)
    assert len(source.pairs) == 15
    assert len(taken.files) == 3
    Image.new("RGB", (30, 20)).save(coco / "images" / "000000000001.jpg")
    with pytest.raises(
        DataError, match=r"000000000001\.jpg': another image than the named one: 30 x 20 pixels"
    ):
        read(coco, read_pairs)


@pytest.mark.parametrize("name", ["swap_atts.json", "negate_obj.json"])
def test_a_json_that_is_not_named_after_a_subtype_is_refused(folder, name):
    (folder / name).write_text("{}")
    with pytest.raises(DataError, match=f"not named after a subtype:\n.*{name}"):
        read(folder)


def test_a_json_with_the_rows_of_another_subtype_is_refused(folder):
    (folder / "swap_obj.json").write_text((folder / "replace_obj.json").read_text())
    with pytest.raises(DataError, match=r"swap_obj\.json' has the same rows as 'replace_obj\.json'"):
        read(folder)


def test_a_folder_without_rows_or_files_is_refused(folder, tmp_path):
    for path in folder.glob("*.json"):
        path.write_text(json.dumps({}))
    with pytest.raises(DataError, match="contains no rows"):
        read(folder)
    with pytest.raises(DataError, match="is not a folder"):
        read(tmp_path / "none")


def test_an_image_that_the_sums_do_not_list_is_refused_and_a_blank_line_is_not_an_error(folder):
    images = folder / "images"
    sums = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in sorted(images.glob("*.jpg"))]
    (images / "SHA256SUMS").write_text("\n".join(sums) + "\n\n")
    read(folder)
    (images / "SHA256SUMS").write_text("\n".join(sums[1:]))
    with pytest.raises(DataError, match=r"1 of 4 images .*\n.*000000000000.jpg' .*: not in SHA256SUMS"):
        read(folder)


EDITS = {
    "swap_att": "a white dog {n} and a black cat",
    "replace_obj": "a black horse {n} and a white cat",
    "add_att": "a black wet dog {n} and a white cat",
}


def write_edits(folder, subtype, edits):
    """Write 40 rows of a subtype with the edits of another one, no row of which is in another file."""
    rows = {
        str(n): {
            "filename": f"{n % 4:012d}.jpg",
            "caption": f"a black dog {n} and a white cat",
            "negative_caption": EDITS[edits].format(n=n),
        }
        for n in range(40)
    }
    (folder / f"{subtype}.json").write_text(json.dumps(rows))


@pytest.mark.parametrize(("subtype", "edits"), [(s, e) for s in EDITS for e in EDITS], ids=lambda name: name)
def test_a_json_with_the_edits_of_another_type_is_refused(folder, subtype, edits):
    for path in folder.glob("*.json"):
        path.unlink()
    write_edits(folder, subtype, edits)
    if subtype == edits:
        assert len(read(folder)[0].pairs) == 40
        return
    named, shown = subtype.partition("_")[0], edits.partition("_")[0]
    with pytest.raises(
        DataError, match=rf"{subtype}\.json' holds hard negatives of type {shown}, .* not {named}"
    ):
        read(folder)


def test_the_released_files_show_their_types(released_captions):
    for subtype, rows in released_captions.groupby("subtype"):
        edits = [_find_edit_type(*row) for row in zip(rows["caption"], rows["negative_caption"], strict=True)]
        assert _infer_types(edits) == [subtype.partition("_")[0]], subtype


@pytest.fixture(params=["sugarcrepe", "sugarcrepe_pp", "sugarcrepe_unrefined"])
def released_captions(request):
    folder = Path(os.environ.get("CARAMEL_DATA", ""), request.param)
    if "CARAMEL_DATA" not in os.environ or not folder.is_dir():
        pytest.skip(f"CARAMEL_DATA names no folder with {request.param}/")
    return read_captions(folder)
