from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published import (
    DUAL,
    MATCHER,
    Instance,
    agree,
    drawn,
    listed,
    with_nan,
    write_images,
    write_json,
    write_parquet,
)

from caramel.benchmarks import pairs
from caramel.benchmarks.readers.bivlc import BENCHMARK, read_bivlc
from caramel.errors import DataError
from caramel.schemas.columns import SUBTYPES

COUNT = 42
KINDS = [name.split("_") for name in SUBTYPES]  # the release writes type "replace" and subtype "obj"


def instances() -> list[Instance]:
    """Return instances that share seven positive images, as those of the release share COCO's."""
    found = []
    for n in range(COUNT):
        kind, part = KINDS[n % 7]
        caption, negative = f"A dog {n} on a mat.", f"A cat {n} on a mat."
        cluster = (3 * n + n // 7) % 7
        image, other = drawn(cluster, "JPEG"), drawn(100 + n, "JPEG")
        if n == 3:
            negative = caption
        if n == 5:
            other = image
        found.append(
            Instance(
                f"bivlc-{n}",
                f"{cluster}",
                (kind, f"{kind}_{part}"),
                image,
                caption,
                negative,
                negative_image=other,
            )
        )
    return found


def rows() -> list[dict[str, object]]:
    return [
        {
            "caption": x.caption,
            "negative_caption": x.negative,
            "type": x.subsets[0],
            "subtype": x.subsets[1].split("_")[1],
        }
        for x in instances()
    ]


def release(folder: Path, paths: list[str | None] | None = None) -> Path:
    """Write Parquet files whose positive images have these paths; None: no path at all."""
    items = instances()
    positive = list(zip((x.image for x in items), paths or [None] * COUNT, strict=True))
    negative = [(x.negative_image, None) for x in items]
    write_parquet(folder, rows(), {"image": positive, "negative_image": negative})
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "bivlc/data").parent
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    ties = metrics.set_index(["subset", "metric"])["ties"]
    assert ties["all", "i_pos2t"] >= 1
    assert ties["all", "t_pos2i"] >= 1


def test_files_beside_each_other_are_judged_as_those_inside_of_parquet(
    tmp_path: Path, families: None
) -> None:
    data, items = tmp_path / "bivlc", instances()
    named = []
    for n, (row, x) in enumerate(zip(rows(), items, strict=True)):
        assert x.negative_image is not None
        names = {"image": f"coco/{x.cluster}.jpg", "negative_image": f"negative/{n}.jpg"}
        write_images(data / "images", dict(zip(names.values(), (x.image, x.negative_image), strict=True)))
        named.append({**row, **names})
    write_json(data / "test.jsonl", named)
    agree(BENCHMARK, data, data, items, DUAL, tmp_path / "store")


def test_an_image_is_a_cluster_however_it_is_named(tmp_path: Path) -> None:
    clusters = [x.cluster for x in instances()]
    coco = [f"{name}.jpg" for name in clusters]
    one_name: list[str | None] = ["image.jpg"] * COUNT
    row_names: list[str | None] = [f"row-{n}.jpg" for n in range(COUNT)]
    gaps: list[str | None] = [None if n == 8 else name for n, name in enumerate(coco)]
    found = {}
    for case, paths in {
        "coco": coco,
        "none": None,
        "one": one_name,
        "rows": row_names,
        "gaps": gaps,
    }.items():
        task = read_bivlc(release(tmp_path / case, paths), tmp_path)  # type: ignore[arg-type]
        names = task.rows["image_id"].tolist()
        assert len(set(names)) == 7
        assert len(set(zip(names, clusters, strict=True))) == 7
        found[case] = names
    assert found["coco"] == coco
    assert found["none"] == found["one"] == found["rows"] == found["gaps"]


def test_a_positive_image_is_decoded_once(tmp_path: Path) -> None:
    task = read_bivlc(release(tmp_path), tmp_path)
    positives = {task.images[place] for place in task.rows["image"]}
    assert len(positives) == 7
    assert len(task.images) == 7 + COUNT


def test_captions_are_read_without_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release(tmp_path)
    asked: list[list[str]] = []
    whole = pairs.iter_parquet_rows

    def parquet_rows(path: Path, columns: list[str]) -> Iterator[tuple[str, Any]]:
        asked.append(columns)
        return whole(path, columns)

    monkeypatch.setattr(pairs, "iter_parquet_rows", parquet_rows)
    read_bivlc(tmp_path, tmp_path)
    assert asked == [["caption", "negative_caption", "type", "subtype"]] * 2


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    items = instances()
    positive = [(x.image, None) for x in items]
    negative: list[tuple[bytes | None, str | None]] = [(x.negative_image, None) for x in items]
    negative[4], negative[20], negative[41] = (None, "lost.jpg"), (b"no picture", None), (b"", None)
    write_parquet(tmp_path, rows(), {"image": positive, "negative_image": negative})
    message = listed(BENCHMARK, tmp_path, tmp_path)
    assert "3 of 49 images are missing or corrupt" in message
    first, second = (f"test-0000{n}-of-00002.parquet" for n in (0, 1))
    assert f"{first}, row 4, column 'negative_image': corrupt (the cell holds no image)" in message
    assert f"{first}, row 20, column 'negative_image': corrupt" in message
    assert f"{second}, row 20, column 'negative_image': corrupt (the cell holds no image)" in message


def test_positive_images_that_are_missing_do_not_form_one_cluster(tmp_path: Path) -> None:
    items = instances()
    positive: list[tuple[bytes | None, str | None]] = [(x.image, None) for x in items]
    positive[0] = positive[1] = (None, None)
    negative = [(x.negative_image, None) for x in items]
    write_parquet(tmp_path, rows(), {"image": positive, "negative_image": negative})
    names = read_bivlc(tmp_path, tmp_path).rows["image_id"]
    assert names[0] != names[1]


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of test-\*\.parquet, test\.jsonl.*imirandam/BiVLC"):
        read_bivlc(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "negate"}, r"row 0: type 'negate' has no subtype 'obj'"),
        ({"subtype": "OBJECT"}, r"type 'replace' has no subtype 'OBJECT'.*replace_obj"),
        ({"caption": None}, r"row 0: field 'caption' must be text that is not empty, not None"),
        ({"negative_caption": "  "}, r"row 0: field 'negative_caption' must be text"),
    ],
)
def test_a_row_with_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    found = rows()
    found[0] = {**found[0], **changes}
    cells = [(drawn(n), None) for n in range(COUNT)]
    write_parquet(tmp_path, found, {"image": cells, "negative_image": cells})
    with pytest.raises(DataError, match=message):
        read_bivlc(tmp_path, tmp_path)


def test_a_column_that_is_missing_or_holds_no_images_is_named(tmp_path: Path) -> None:
    path = tmp_path / "test-00000-of-00001.parquet"
    table = pa.Table.from_pylist(rows())
    pq.write_table(table, path)
    with pytest.raises(DataError, match=r"lacks the columns \['image', 'negative_image'\]"):
        read_bivlc(tmp_path, tmp_path)
    names = pa.array(["a.jpg"] * COUNT)
    pq.write_table(table.append_column("image", names).append_column("negative_image", names), path)
    with pytest.raises(DataError, match=r"column 'image' must hold encoded images.*not string"):
        read_bivlc(tmp_path, tmp_path)


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    release(tmp_path)
    path = tmp_path / "test-00001-of-00002.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        DataError, match=r"test-00001-of-00002\.parquet' is not a Parquet file.*Download or write it again"
    ):
        read_bivlc(tmp_path, tmp_path)


def test_a_release_without_rows_is_an_error(tmp_path: Path) -> None:
    write_json(tmp_path / "test.jsonl", [])
    with pytest.raises(DataError, match="has no rows"):
        read_bivlc(tmp_path, tmp_path)
