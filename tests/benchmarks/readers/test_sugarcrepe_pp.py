import json
import os
from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, drawn, listed, with_nan, write_images, write_json

from caramel.benchmarks.readers.sugarcrepe_pp import BENCHMARK, read_sugarcrepe_pp
from caramel.errors import DataError

PUBLIC = os.environ.get("CARAMEL_DATA")
SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")


def release(root: Path, per_subtype: int = 12) -> tuple[Path, Path, list[Instance]]:
    """Write the five files and the images of COCO that they name."""
    pictures = {f"{n:012}.jpg": drawn(n, "JPEG") for n in range(10)}
    write_images(root / "coco", pictures)
    instances = []
    for k, subtype in enumerate(SUBTYPES):
        rows = []
        for n in range(per_subtype):
            name = f"{(k + 3 * n) % 10:012}.jpg"
            caption, second, negative = f"{subtype} dog {n}", f"dog of {subtype} {n}", f"{subtype} cat {n}"
            if n == 2:
                negative = caption
            if n == 5:
                second = negative
            if n == 7:
                second = caption
            rows.append(
                {
                    "id": 100 + n,
                    "filename": name,
                    "caption": caption,
                    "caption2": second,
                    "negative_caption": negative,
                }
            )
            instances.append(
                Instance(
                    f"{subtype}-{100 + n}",
                    name,
                    (subtype.split("_")[0], subtype),
                    pictures[name],
                    caption,
                    negative,
                    paraphrase=second,
                )
            )
        write_json(root / "sugarcrepe_pp" / f"{subtype}.json", rows)
    return root / "sugarcrepe_pp", root / "coco", instances


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data, images, instances = release(tmp_path)
    metrics, verdicts = agree(BENCHMARK, data, images, instances, spec, tmp_path / "store", SUBTYPES)
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    shown = metrics.set_index(["subset", "metric"])
    assert set(shown.index.get_level_values("metric")) == {"itt", "tot", "p2_vs_n", "accuracy"}
    assert shown["ties"]["all", "itt"] >= 5
    if spec == MATCHER:  # it embeds no texts, so that there is no text-only task
        assert shown["unscored"]["all", "tot"] == len(instances)
    else:
        assert shown["ties"]["all", "tot"] >= 10


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data, images, _ = release(tmp_path)
    (images / "000000000001.jpg").unlink()
    (images / "000000000002.jpg").write_bytes(b"")
    message = listed(BENCHMARK, data, images)
    assert "2 of 10 images are missing or corrupt" in message
    assert "000000000001.jpg: missing" in message
    assert "000000000002.jpg: corrupt" in message


def test_files_of_sugarcrepe_are_not_taken_for_it(tmp_path: Path) -> None:
    data, images, _ = release(tmp_path)
    row = {"filename": "000000000001.jpg", "caption": "a dog", "negative_caption": "a cat"}
    write_json(data / "add_obj.json", {"0": row})
    with pytest.raises(DataError, match=r"1 rows have no field 'caption2', the first in add_obj\.json"):
        read_sugarcrepe_pp(data, images)


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    write_json(tmp_path / "add_obj.json", {})
    with pytest.raises(DataError, match=r"(?s)holds none of replace_obj\.json.*Expected layout:.*scpp"):
        read_sugarcrepe_pp(tmp_path, tmp_path)


def test_a_row_with_a_wrong_field_is_named(tmp_path: Path) -> None:
    data, images, _ = release(tmp_path)
    rows = json.loads((data / "swap_att.json").read_text())
    rows[3]["caption2"] = 7
    write_json(data / "swap_att.json", rows)
    with pytest.raises(DataError, match=r"swap_att\.json', row .*'caption2' must be text .*not 7"):
        read_sugarcrepe_pp(data, images)


@pytest.mark.skipif(PUBLIC is None, reason="CARAMEL_DATA names no folder with the public files")
def test_the_public_files_are_read_whole() -> None:
    task = read_sugarcrepe_pp(Path(str(PUBLIC), "sugarcrepe_pp"), Path("nowhere"))
    rows = task.rows
    assert len(rows) == 4757
    assert len(task.images) == 1542 == rows["image_id"].nunique()
    assert len({*rows["caption"], *rows["negative_caption"], *rows["caption2"]}) == 13189
    assert rows["instance_id"].is_unique
    sizes = rows["subsets"].map(lambda names: names[1]).value_counts().to_dict()
    counts = (1652, 788, 1406, 245, 666)
    assert sizes == dict(zip(SUBTYPES, counts, strict=True))


@pytest.mark.skipif(PUBLIC is None, reason="CARAMEL_DATA names no folder with the public files")
def test_every_public_row_keeps_its_three_captions() -> None:
    rows = read_sugarcrepe_pp(Path(str(PUBLIC), "sugarcrepe_pp"), Path("nowhere")).rows
    read = {row.instance_id: row for row in rows.itertuples()}
    for subtype in SUBTYPES:
        for row in json.loads(Path(str(PUBLIC), "sugarcrepe_pp", f"{subtype}.json").read_text()):
            found = read[f"{subtype}-{row['id']}"]
            assert (found.image_id, found.caption) == (row["filename"], row["caption"])
            assert (found.caption2, found.negative_caption) == (row["caption2"], row["negative_caption"])
