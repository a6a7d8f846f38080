import json
import os
from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, drawn, listed, with_nan, write_images, write_json

from caramel.benchmarks.readers.sugarcrepe import BENCHMARK, read_sugarcrepe
from caramel.errors import DataError
from caramel.schemas.columns import SUBTYPES

PUBLIC = os.environ.get("CARAMEL_DATA")


def release(root: Path, per_subtype: int = 9) -> tuple[Path, Path, list[Instance]]:
    """Write the seven files and the images of COCO that they name."""
    pictures = {f"{n:012}.jpg": drawn(n, "JPEG") for n in range(12)}
    write_images(root / "coco/val2017", pictures)
    instances = []
    for k, subtype in enumerate(SUBTYPES):
        rows = {}
        for n in range(per_subtype):
            name = f"{(k + 2 * n) % 12:012}.jpg"
            caption = f"a {subtype} dog {n}"
            negative = caption if n == 4 else f"a {subtype} cat {n}"  # a tie, whatever the model
            rows[str(n)] = {"filename": name, "caption": caption, "negative_caption": negative}
            subsets = (subtype.split("_")[0], subtype)
            instances.append(Instance(f"{subtype}-{n}", name, subsets, pictures[name], caption, negative))
        write_json(root / "sugarcrepe" / f"{subtype}.json", rows)
    return root / "sugarcrepe", root / "coco", instances


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data, images, instances = release(tmp_path)
    metrics, verdicts = agree(BENCHMARK, data, images, instances, spec, tmp_path / "store", SUBTYPES)
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    ties = metrics.set_index(["subset", "metric"])["ties"]
    assert ties["all", "accuracy"] >= (6 if spec == MATCHER else 7)


def test_a_caption_that_equals_its_negative_is_a_tie_and_a_miss(tmp_path: Path, families: None) -> None:
    data, images, instances = release(tmp_path)
    metrics, _ = agree(BENCHMARK, data, images, instances, DUAL, tmp_path / "store", SUBTYPES)
    row = metrics.set_index(["subset", "metric"]).loc[("swap_obj", "accuracy")]
    assert (row["n"], row["ties"]) == (9, 1)
    assert row["value"] <= 8 / 9


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data, images, _ = release(tmp_path)
    (images / "val2017/000000000003.jpg").unlink()
    (images / "val2017/000000000005.jpg").write_bytes(b"no picture")
    cut = images / "val2017/000000000007.jpg"
    cut.write_bytes(cut.read_bytes()[:200])
    message = listed(BENCHMARK, data, images)
    assert "3 of 12 images are missing or corrupt" in message
    assert "000000000003.jpg: missing" in message
    assert "000000000005.jpg: corrupt" in message
    assert "000000000007.jpg: corrupt" in message


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of replace_obj\.json.*Expected layout:.*COCO 2017"):
        read_sugarcrepe(tmp_path, tmp_path)


def test_a_row_without_a_field_is_named(tmp_path: Path) -> None:
    data, images, _ = release(tmp_path)
    rows = json.loads((data / "add_obj.json").read_text())
    del rows["2"]["negative_caption"]
    write_json(data / "add_obj.json", rows)
    with pytest.raises(DataError, match=r"add_obj\.json', row '2' has no field 'negative_caption'"):
        read_sugarcrepe(data, images)


@pytest.mark.skipif(PUBLIC is None, reason="CARAMEL_DATA names no folder with the public files")
def test_the_public_files_are_read_whole() -> None:
    task = read_sugarcrepe(Path(str(PUBLIC), "sugarcrepe"), Path("nowhere"))
    assert len(task.rows) == 7511
    assert len(task.images) == 1560 == task.rows["image_id"].nunique()
    assert len({*task.rows["caption"], *task.rows["negative_caption"]}) == 11844
    assert task.rows["instance_id"].is_unique
    sizes = task.rows["subsets"].map(lambda names: names[1]).value_counts().to_dict()
    assert sizes == {
        "replace_obj": 1652,
        "replace_att": 788,
        "replace_rel": 1406,
        "swap_obj": 245,
        "swap_att": 666,
        "add_obj": 2062,
        "add_att": 692,
    }
