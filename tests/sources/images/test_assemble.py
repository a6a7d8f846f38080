"""The tables that are joined must be of one run."""

import pandas as pd
import pytest
from stored_images import indexed

from caramel.errors import DataError
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import build_frame
from caramel.sources.images.assemble import assemble_datasets

KIND = {"type": "swap", "subtype": "swap_obj", "negative_caption": "A cat.", "generator": "x"}


def joined(positives="drawn", **changes):
    """Return what is assembled of three pairs, each with a chosen image; tables are changed first."""
    names = [f"p{n}" for n in range(3)]
    made = {
        "pairs": [
            {"pair_id": n, "image_id": f"i{n}", "caption": "A dog.", "split": "test", "source": "x"}
            for n in names
        ],
        "negatives": [
            {"negative_id": f"{n}:s", "pair_id": n, "seed": 1, "attempt": 1, **KIND} for n in names
        ],
        "paraphrases": [{"pair_id": n, "caption2": "Dog.", "generator": "x", "attempts": 1} for n in names],
        "choices": [
            {
                "negative_id": f"{n}:s",
                "candidate": 0,
                "image_id": f"c{n}",
                "faithful": 1.0,
                "ambiguous": False,
                "positive_image_id": f"c{n}+",
            }
            | {"chosen_by": "world"}
            for n in names
        ],
        "images": indexed(f"i{n}" for n in names),
        "negative_images": indexed(f"c{n}{mark}" for n in names for mark in ("", "+")),
    }
    whole = {
        name: build_frame(TABLES["images" if "images" in name else name], rows) for name, rows in made.items()
    }
    whole |= {name: change(whole[name]) for name, change in changes.items()}
    return assemble_datasets(**whole, positives=positives)


def test_the_positives_of_the_benchmark_are_drawn_or_those_of_the_source() -> None:
    drawn, source = joined(), joined("source")
    assert drawn.instances["image_id"].tolist() == ["cp0+", "cp1+", "cp2+"]
    assert source.instances["image_id"].tolist() == ["ip0", "ip1", "ip2"]
    assert drawn.source_form.equals(source.instances)
    assert source.source_form is None
    others = drawn.instances.columns.drop("image_id")
    assert drawn.instances[others].equals(source.instances[others])
    assert {*drawn.images["image_id"]} == {f"{mark}p{n}" for mark in "ci" for n in range(3)} | {
        f"cp{n}+" for n in range(3)
    }
    assert {*source.images["image_id"]} == {f"{mark}p{n}" for mark in "ci" for n in range(3)}


def test_a_pair_is_trained_on_with_all_its_negatives_those_with_an_image_first() -> None:
    def in_training(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(split="train")

    def two_more(rows: pd.DataFrame) -> pd.DataFrame:
        more = rows.iloc[[1, 1]].assign(
            negative_id=["p1:z", "p1:a"], negative_caption=["Z.", "A."], subtype=["swap_att", "add_obj"]
        )
        return pd.concat([rows, more], ignore_index=True)

    found = joined(pairs=in_training, negatives=two_more, paraphrases=first_lost).training
    assert found["pair_id"].tolist() == ["p0", "p1", "p2"]
    assert found["negative_captions"].tolist() == [["A cat."], ["A cat.", "A.", "Z."], ["A cat."]]
    assert found["negative_image_ids"].tolist() == [["cp0"], ["cp1", None, None], ["cp2"]]
    assert found["subtypes"].tolist() == [["swap_obj"], ["swap_obj", "add_obj", "swap_att"], ["swap_obj"]]
    assert found["image_id"].tolist() == ["cp0+", "cp1+", "cp2+"]
    assert found["caption2"].isna().tolist() == [True, False, False]
    assert joined().training.empty


def first_lost(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[1:]


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("pairs", first_lost, "Negatives without a pair (1):\n  - 'p0'"),
        ("negatives", first_lost, "Chosen images without a negative (1):\n  - 'p0:s'"),
        ("images", first_lost, "Pairs without an image (1):\n  - 'ip0'"),
        (
            "negative_images",
            first_lost,
            "Chosen images without a row in the tables of images (1):\n  - 'cp0'",
        ),
        (
            "choices",
            lambda rows: pd.concat([rows, rows[:1]]),
            "Negatives with two chosen images (1):\n  - 'p0:s'",
        ),
    ],
)
def test_tables_that_are_not_of_one_run_are_an_error(table, change, message):
    assert len(joined().instances) == 3
    with pytest.raises(DataError) as error:
        joined(**{table: change})
    assert message in str(error.value)
    assert "dvc repro" in str(error.value)
