import numpy as np
import pandas as pd
import pytest
from encoders import CountingEncoder

from caramel import tables
from caramel.errors import DataError
from caramel.evaluation.benchmarks import instances as benchmark
from caramel.evaluation.benchmarks.instances import similarities


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


def images(count: int = 6) -> pd.DataFrame:
    rows = [
        {
            "image_id": f"image{n}",
            "image": {"bytes": bytes([n]), "path": None},
            "width": 1,
            "height": 1,
            "source": "test",
            "split": "test",
        }
        for n in range(count)
    ]
    return tables.frame(tables.IMAGES, rows)


def cosine(encoder: CountingEncoder, a: str | bytes, b: str | bytes) -> float:
    """Return the similarity of two items by encoding just them."""
    rows = [
        encoder.encode_images([x], 1)[0] if isinstance(x, bytes) else encoder.encode_texts([x], 1)[0]
        for x in (a, b)
    ]
    return float(rows[0].astype(float) @ rows[1].astype(float))


def test_every_similarity_is_of_the_pair_that_its_column_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "BLOCK", 3)
    frame = tables.frame(tables.INSTANCES, [instance(n) for n in range(8)])
    rows = similarities(frame, images(), CountingEncoder(), batch=4)
    assert rows["instance_id"].tolist() == frame["instance_id"].tolist()
    for n, row in rows.iterrows():
        assert isinstance(n, int)
        item = {
            "c0": f"caption {n}",
            "c1": f"negative {n}",
            "c2": f"paraphrase {n}",
            "i0": bytes([n % 3]),
            "i1": bytes([3 + n % 3]),
            "p1": f"caption {n}",
            "p2": f"paraphrase {n}",
            "n": f"negative {n}",
        }
        for column in rows.columns[2:]:
            a, b = column.split("_")[1:]
            assert row[column] == pytest.approx(cosine(CountingEncoder(), item[a], item[b])), column


def test_what_an_instance_lacks_has_no_similarity_and_the_contract_holds() -> None:
    frame = tables.frame(
        tables.INSTANCES, [instance(0, caption2=None), instance(1, negative_image_id=None), instance(2)]
    )
    rows = similarities(frame, images(), CountingEncoder(), batch=4)
    tables.check(tables.SIMILARITIES, rows, "test")
    assert rows[["s_c2_i0", "t_p1_p2", "t_p2_n"]].isna().all(axis=1).tolist() == [True, False, False]
    assert rows[["s_c0_i1", "s_c1_i1"]].isna().all(axis=1).tolist() == [False, True, False]
    assert rows[["s_c0_i0", "s_c1_i0", "t_p1_n"]].notna().all(axis=None)


def test_a_profile_without_any_paraphrase_or_negative_image_is_scored() -> None:
    frame = tables.frame(tables.INSTANCES, [instance(0, caption2=None, negative_image_id=None)])
    rows = similarities(frame, images(), CountingEncoder(), batch=4)
    assert rows["s_c0_i0"].notna().all()
    assert rows["s_c1_i1"].isna().all()


def test_captions_of_equal_embedding_tie_exactly_wherever_they_stand() -> None:
    pairs = {f"negative {n}": f"caption {n}" for n in range(50)}
    encoder = CountingEncoder(width=37, alike=pairs)
    frame = tables.frame(tables.INSTANCES, [instance(n) for n in range(50)])
    rows = similarities(frame, images(), encoder, batch=4)
    assert (rows["s_c0_i0"] == rows["s_c1_i0"]).all()
    assert (rows["s_c0_i1"] == rows["s_c1_i1"]).all()


def test_shared_images_are_encoded_once_for_all_instances() -> None:
    encoder = CountingEncoder()
    similarities(tables.frame(tables.INSTANCES, [instance(n) for n in range(30)]), images(), encoder, batch=4)
    assert len(encoder.images) == 6
    assert len(encoder.texts) == 90


def test_a_missing_image_is_named() -> None:
    frame = tables.frame(tables.INSTANCES, [instance(n) for n in range(6)])
    with pytest.raises(DataError, match=r"1 images .*\n.*'image5'"):
        similarities(frame, images(5), CountingEncoder(), batch=4)


def test_an_image_without_content_is_named() -> None:
    stock = images()
    stock.at[2, "image"] = {"bytes": None, "path": "elsewhere.png"}
    with pytest.raises(DataError, match="'image2'"):
        similarities(tables.frame(tables.INSTANCES, [instance(2)]), stock, CountingEncoder(), batch=4)


def test_the_instances_are_not_changed() -> None:
    frame = tables.frame(tables.INSTANCES, [instance(n) for n in range(4)])
    before = frame.copy()
    similarities(frame, images(), CountingEncoder(), batch=4)
    pd.testing.assert_frame_equal(frame, before)
    assert np.array_equal(frame.index, before.index)
