import hashlib
import json

import pytest
from paper_inputs import write_coco, write_sugarcrepe
from PIL import Image
from stored_images import Taken

from caramel.errors import DataError
from caramel.sources.folders import read_pairs
from caramel.sources.sugarcrepe_images import read_benchmark_pairs

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
