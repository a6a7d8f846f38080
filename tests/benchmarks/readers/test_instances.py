import io
from pathlib import Path

import pandas as pd
import pytest
from encoders import CountingEncoder, opened
from PIL import Image
from stored_images import stored

from caramel.benchmarks import image_files
from caramel.benchmarks.image_files import check_images, read_encoded_images
from caramel.benchmarks.readers.instances import BENCHMARK, SOURCE_FORM, list_subsets, read_instances
from caramel.errors import DataError
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import ABSENT, Comparisons
from caramel.interfaces.settings import Compute
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table


def instance(number: int, **changes: object) -> dict[str, object]:
    return {
        "instance_id": f"p{number}:swap_obj",
        "image_id": f"image{number % 3}",
        "caption": f"caption {number}",
        "caption2": f"paraphrase {number}",
        "negative_caption": f"negative {number}",
        "negative_image_id": f"image{3 + number % 3}",
        "type": "swap",
        "subtype": "swap_obj",
        "split": "test",
        **changes,
    }


def picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (number * 20, 0, 0)).save(file, "PNG")
    return file.getvalue()


def images(count: int = 6) -> list[dict[str, object]]:
    return [
        {
            "image_id": f"image{n}",
            "data": picture(n),
            "width": 4,
            "height": 4,
            "source": "test",
            "split": "test",
        }
        for n in range(count)
    ]


def written(folder: Path, instances: list[dict[str, object]], count: int = 6) -> Path:
    rows = build_frame(INSTANCES, instances)
    write_table(INSTANCES, rows, folder / "instances.parquet")
    stored(folder / "images.parquet", images(count))
    return folder


def scored(task: Comparisons, store: Path) -> pd.DataFrame:
    run = RunConfig("counting:16", Compute("cpu", "fp32"), 4, str(store), "inline")
    rows = compute_similarities(task, check_images(task.images, "instances"), run, benchmark="instances")
    check_table(SIMILARITIES, rows, "test")
    return rows


def cosine(a: str | bytes, b: str | bytes) -> float:
    """Return the similarity of two items by encoding just them."""
    encoder = CountingEncoder()
    rows = [
        encoder.encode_images([x], 1)[0] if isinstance(x, bytes) else encoder.encode_texts([x], 1)[0]
        for x in (a, b)
    ]
    return float(rows[0].astype(float) @ rows[1].astype(float))


def test_every_similarity_is_of_the_pair_that_its_column_names(tmp_path: Path, families: None) -> None:
    task = read_instances(written(tmp_path, [instance(n) for n in range(8)]), tmp_path, "test")
    rows = scored(task, tmp_path / "store")
    assert rows["instance_id"].tolist() == [f"p{n}:swap_obj" for n in range(8)]
    for n, row in rows.iterrows():
        assert isinstance(n, int)
        item = {
            "c0": f"caption {n}",
            "c1": f"negative {n}",
            "c2": f"paraphrase {n}",
            "i0": picture(n % 3),
            "i1": picture(3 + n % 3),
            "p1": f"caption {n}",
            "p2": f"paraphrase {n}",
            "n": f"negative {n}",
        }
        columns = [c for c in rows.columns if c[:2] in ("s_", "t_") and c not in ("s_true", "s_other")]
        assert len(columns) == 8
        for column in columns:
            a, b = column.split("_")[1:]
            assert row[column] == pytest.approx(cosine(item[a], item[b])), column


def test_what_an_instance_lacks_has_no_similarity(tmp_path: Path, families: None) -> None:
    lines = [instance(0, caption2=None), instance(1, negative_image_id=None), instance(2)]
    task = read_instances(written(tmp_path, lines), tmp_path)
    assert task.rows["caption2"].tolist() == [None, "paraphrase 1", "paraphrase 2"]
    assert (task.rows["negative_image"] == ABSENT).tolist() == [False, True, False]
    rows = scored(task, tmp_path / "store")
    assert rows[["s_c2_i0", "t_p1_p2", "t_p2_n"]].isna().all(axis=1).tolist() == [True, False, False]
    assert rows[["s_c0_i1", "s_c1_i1"]].isna().all(axis=1).tolist() == [False, True, False]
    assert rows[["s_c0_i0", "s_c1_i0", "t_p1_n"]].notna().all(axis=None)


def test_a_profile_without_any_paraphrase_or_negative_image_is_scored(tmp_path: Path, families: None) -> None:
    lines = [instance(0, caption2=None, negative_image_id=None)]
    rows = scored(read_instances(written(tmp_path, lines), tmp_path), tmp_path / "store")
    assert rows["s_c0_i0"].notna().all()
    assert rows["s_c1_i1"].isna().all()


def test_subsets_are_the_type_the_subtype_and_all_but_add(tmp_path: Path) -> None:
    lines = [instance(0), instance(1, type="add", subtype="add_att")]
    task = read_instances(written(tmp_path, lines), tmp_path)
    assert task.rows["subsets"].tolist() == [["without_add", "swap", "swap_obj"], ["add", "add_att"]]
    assert [
        name for name in ("without_add", "swap", "swap_obj", "add_att", "add") if BENCHMARK.macro(name)
    ] == [
        "swap_obj",
        "add_att",
    ]


def test_one_split_is_read_with_its_images_alone(tmp_path: Path) -> None:
    lines = [instance(0), instance(1, split="val"), instance(3)]
    task = read_instances(written(tmp_path, lines), tmp_path, "val")
    assert task.rows["instance_id"].tolist() == ["p1:swap_obj"]
    assert read_encoded_images(task.images) == [picture(1), picture(4)]
    assert len(read_instances(tmp_path, tmp_path).rows) == 3


def test_shared_images_are_encoded_once_for_all_instances(tmp_path: Path, families: None) -> None:
    task = read_instances(written(tmp_path, [instance(n) for n in range(30)]), tmp_path)
    assert len(task.images) == 6
    scored(task, tmp_path / "store")
    encoder = opened["counting:16"]
    assert isinstance(encoder, CountingEncoder)
    assert (len(encoder.images), len(encoder.texts)) == (6, 90)


def test_a_split_without_instances_says_what_to_do(tmp_path: Path) -> None:
    folder = written(tmp_path, [instance(0), instance(1)])
    with pytest.raises(DataError, match=r"has no instance of split 'train' \(2 of other splits\)"):
        read_instances(folder, folder, "train")


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, [instance(n) for n in range(6)], count=5)
    with pytest.raises(DataError, match=r"1 images .*\n.*'image5'"):
        read_instances(folder, folder, "test")


def test_an_image_whose_shard_is_damaged_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, [instance(2)])
    shard = folder / "images" / "00000.parquet"
    shard.write_bytes(shard.read_bytes().replace(picture(2), b"x" + picture(2)[:-1]))
    with pytest.raises(DataError, match=r"1 of 2 images(.|\n)*images.parquet, image 'image2': corrupt"):
        check_images(read_instances(folder, folder).images, "instances")
    shard.unlink()
    image_files._load_image_store.cache_clear()
    with pytest.raises(DataError, match=r"2 of 2 images(.|\n)*00000.parquet' is missing"):
        check_images(read_instances(folder, folder).images, "instances")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'instances' is missing"):
        read_instances(tmp_path, tmp_path)


def test_the_form_with_the_positives_of_the_source_is_a_benchmark_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, [instance(0)])
    other = build_frame(INSTANCES, [instance(0, image_id="image5")])
    write_table(INSTANCES, other, tmp_path / "instances_source.parquet")
    ours, theirs = (b.reader(tmp_path, tmp_path) for b in (BENCHMARK, SOURCE_FORM))
    assert isinstance(ours, Comparisons)
    assert isinstance(theirs, Comparisons)
    assert ours.rows["image_id"].tolist() == ["image0"]
    assert theirs.rows["image_id"].tolist() == ["image5"]


def test_the_headline_leaves_add_out_and_is_told_apart_by_compounds_where_they_are_known() -> None:
    assert list_subsets("swap", "swap_obj", "unseen") == ["without_add", "unseen", "swap", "swap_obj"]
    assert list_subsets("only", "only_obj", "") == ["without_add", "only", "only_obj"]
    assert list_subsets("add", "add_obj", "seen") == ["add", "add_obj"]
