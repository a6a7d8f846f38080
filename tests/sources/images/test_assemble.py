"""The tables that are joined must be of one run."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from stored_images import indexed

from caramel.errors import DataError
from caramel.schemas.candidates import CHOICES
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.training import TRAINING
from caramel.sources.images import training_set
from caramel.sources.images.assemble import PAIR_COLUMNS, assemble_datasets

KIND = {"type": "swap", "subtype": "swap_obj", "negative_caption": "A cat.", "generator": "x"}


def assemble(pairs, negatives, *tables, **settings):
    """Return what is assembled, with the training set as one table."""
    with TemporaryDirectory() as folder:
        path = write_table(NEGATIVES, negatives, Path(folder, "negatives.parquet"))
        assembled = assemble_datasets(pairs, path, *tables, **settings)
        parts = [*assembled.training] or [build_frame(TRAINING, [])]
    return assembled._replace(training=pd.concat(parts, ignore_index=True))


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
    return assemble(*whole.values(), positives=positives)


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


def test_the_training_set_of_all_pairs_has_the_bytes_of_one_that_is_joined_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_set, "GROUP", 7)
    rng = np.random.default_rng(3)
    pairs = build_frame(
        PAIRS,
        [
            {"pair_id": f"p{n}", "image_id": f"i{n // 5}", "caption": f"Dog {n}.", "source": "x"}
            | {"split": ["train", "val", "test"][n % 3]}
            for n in rng.permutation(60)
        ],
    )
    names = [f"p{n}:{m}" for n in range(60) for m in range(n % 5)]
    negatives = build_frame(
        NEGATIVES,
        [
            {"negative_id": name, "pair_id": name.partition(":")[0], "seed": 1, "attempt": 1, **KIND}
            | {"negative_caption": f"Cat {name}."}
            for name in rng.permutation(names)
        ],
    )
    chosen = rng.permutation(names)[:40]
    choices = build_frame(
        CHOICES, [{"negative_id": n, "candidate": 0, "image_id": f"c{n}", "chosen_by": "x"} for n in chosen]
    )
    assembled = assemble(
        pairs[PAIR_COLUMNS], negatives, build_frame(PARAPHRASES, []), choices,
        indexed(f"i{n}" for n in range(12)), indexed(f"c{n}" for n in chosen),
        positives="source", training="all",
    )  # fmt: skip
    rows = []
    for pair in pairs[pairs["split"] != "test"].to_dict("records"):
        own = [name for name in names if name.startswith(f"{pair['pair_id']}:")]
        own.sort(key=lambda name: (name not in chosen, name))
        row = {"negative_captions": [f"Cat {name}." for name in own], "subtypes": ["swap_obj"] * len(own)}
        row["negative_image_ids"] = [f"c{name}" if name in chosen else None for name in own]
        rows.append((own[0] if own else pair["pair_id"], {**pair, **row}))
    expected = build_frame(TRAINING, [row for _, row in sorted(rows, key=lambda row: row[0])])
    found, oracle = (
        write_table(TRAINING, table, tmp_path / name)
        for table, name in ((assembled.training, "found.parquet"), (expected, "expected.parquet"))
    )
    assert len(expected) == 40
    assert found.read_bytes() == oracle.read_bytes()


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
