"""The instances of a version that has captions and no images, and its files in the formats of SugarCrepe(++)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.release.publishing.contents import VersionContents
from caramel.release.publishing.public_formats import write_split_files
from caramel.schemas.columns import SPLIT, SUBTYPE, TYPE
from caramel.schemas.contracts import TEXT, Column, Table
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS

CAPTIONS = Table(
    "captions",
    ("instance_id",),
    {
        "instance_id": Column(TEXT, "the negative_id"),
        "image_name": Column(
            TEXT, "name of the image that the captions describe; the image is not in the data"
        ),
        "caption": Column(TEXT, "positive caption"),
        "caption2": Column(TEXT, "paraphrase", null=True),
        "negative_caption": Column(TEXT, "hard negative"),
        "type": TYPE,
        "subtype": SUBTYPE,
        "split": SPLIT,
    },
)


def load_caption_instances(contents: VersionContents) -> tuple[pd.DataFrame, list[str]] | None:
    """Return the refined captions of a version as instances without negative images, and their sources.

    None if the version has no refined captions.

    Raises:
        ContractError: a table breaks its contract.
        DataError: a table is neither on disk nor in DVC's cache.
    """
    pairs = contents.load_table(PAIRS, "data/refine/pairs.parquet")
    negatives = contents.load_table(NEGATIVES, "data/refine/negatives.parquet")
    if pairs is None or negatives is None or negatives.empty:
        return None
    paraphrases = contents.load_table(PARAPHRASES, "data/refine/paraphrases.parquet")
    second = build_frame(PARAPHRASES, []) if paraphrases is None else paraphrases
    rows = negatives.merge(pairs.drop(columns="scene"), on="pair_id").merge(
        second[["pair_id", "caption2"]], "left", on="pair_id"
    )
    rows = rows.assign(instance_id=rows["negative_id"], negative_image_id=None)
    return build_frame(INSTANCES, rows), sorted(rows["source"].unique())


def build_captions(instances: pd.DataFrame) -> pd.DataFrame:
    """Return instances as the released table ``captions``."""
    return build_frame(CAPTIONS, instances.rename(columns={"image_id": "image_name"}))


def write_caption_formats(instances: pd.DataFrame, folder: Path) -> None:
    """Write instances in the formats of SugarCrepe and SugarCrepe++, split by split; no image is written."""
    for split in dict.fromkeys(instances["split"]):
        rows = instances[instances["split"] == split]
        write_split_files(
            rows, dict(zip(rows["image_id"], rows["image_id"], strict=True)), folder / str(split)
        )
