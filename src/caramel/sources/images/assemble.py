"""Assemble the benchmark (two images × two captions) and the training set from the chosen images."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING


class AssembledTables(NamedTuple):
    """The benchmark, the training set, and the rows of all images that they name.

    If the benchmark's positive images are drawn, ``source_form`` is the benchmark with the source's images instead.
    """

    instances: pd.DataFrame
    source_form: pd.DataFrame | None
    training: pd.DataFrame
    images: pd.DataFrame


def assemble_datasets(
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    paraphrases: pd.DataFrame,
    choices: pd.DataFrame,
    images: pd.DataFrame,
    negative_images: pd.DataFrame,
    *,
    positives: Literal["source", "drawn"],
) -> AssembledTables:
    """Return the benchmark and the training set of all negatives that have a chosen image.

    The train split is for training, the val split for model selection and monitoring, and the test split is the
    benchmark. ``instances`` holds val and test; the training set holds train and val.

    All methods train on the pairs of the training set. Each pair lists first the negative with an image, then its
    other hard negatives. A method uses those negatives that it is designed for.

    Args:
        pairs, negatives, paraphrases: tables of those names, after refinement.
        choices: table ``choices``; rows with ``chosen_by`` name the negative images.
        images: table ``images`` of the source's positive images, with rewritten shard paths
            (``image_store.rewrite_shard_paths``).
        negative_images: the same table for the images of the chosen candidates, and for the positive images that
            were drawn with them.
        positives: ``source``: positive images are those of the source. ``drawn``: they are drawn by the same process
            as the negative images, so that only their content tells the two apart. This holds for the training set
            too.

    Raises:
        DataError: a negative has two chosen images, or a chosen image has no negative, no pair or no row in the
            tables of images. Then the tables are not from one run.
    """
    names = ["negative_id", "image_id", "positive_image_id"]
    chosen = choices.loc[choices["chosen_by"].notna(), names]
    # There can be millions of negatives; only those of pairs with a chosen image are needed.
    its_pairs = negatives.loc[negatives["negative_id"].isin(chosen["negative_id"]), "pair_id"]
    negatives = negatives[negatives["pair_id"].isin(its_pairs)]
    _check_consistency(chosen, pairs, negatives, images, negative_images)
    rows = (
        chosen.rename(columns={"image_id": "negative_image_id"})
        .merge(negatives, on="negative_id", validate="one_to_one")
        .merge(pairs, on="pair_id", validate="many_to_one")
        .merge(paraphrases[["pair_id", "caption2"]], on="pair_id", how="left", validate="many_to_one")
        .sort_values("negative_id", ignore_index=True)
        .rename(columns={"negative_id": "instance_id"})
    )
    assert len(rows) == len(chosen)
    in_benchmark, in_training = rows["split"] != "train", rows["split"] != "test"
    named, source_form = {*rows["image_id"], *rows["negative_image_id"]}, None
    if positives == "drawn":
        source_form = build_frame(INSTANCES, rows[in_benchmark])
        rows = rows.assign(image_id=rows["positive_image_id"])
        named |= {*rows["image_id"]}
    training = _build_training_set(rows[in_training], negatives)
    everything = pd.concat([images, negative_images], ignore_index=True)
    used_images = everything[everything["image_id"].isin(named)].sort_values("image_id", ignore_index=True)
    instances = build_frame(INSTANCES, rows[in_benchmark])
    return AssembledTables(instances, source_form, training, used_images)


def _check_consistency(
    chosen: pd.DataFrame,
    pairs: pd.DataFrame,
    negatives: pd.DataFrame,
    images: pd.DataFrame,
    negative_images: pd.DataFrame,
) -> None:
    """Raise a DataError if the tables do not fit together; see ``assemble_datasets``."""
    of_chosen = negatives[negatives["negative_id"].isin(chosen["negative_id"])]
    named = pairs[pairs["pair_id"].isin(of_chosen["pair_id"])]
    lacking = {
        "Negatives with two chosen images": chosen["negative_id"][chosen["negative_id"].duplicated()],
        "Chosen images without a negative": _find_missing(chosen["negative_id"], negatives["negative_id"]),
        "Negatives without a pair": _find_missing(of_chosen["pair_id"], pairs["pair_id"]),
        "Chosen images without a row in the tables of images": _find_missing(
            pd.concat([chosen["image_id"], chosen["positive_image_id"].dropna()]), negative_images["image_id"]
        ),
        "Pairs without an image": _find_missing(named["image_id"], images["image_id"]),
    }
    for what, names in lacking.items():
        if len(names):
            raise DataError(
                f"The tables are not from one run. {what} ({len(names)}):\n"
                f"{format_items([repr(name) for name in names])}\nRun `dvc repro` to build them again."
            )


def _find_missing(names: pd.Series, known: pd.Series) -> pd.Series:
    """Return the names that are not known."""
    return names[~names.isin(known)]


def _build_training_set(rows: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    """Return the training set: each row lists its own negative first, then the pair's others, sorted by id."""
    others = negatives[~negatives["negative_id"].isin(rows["instance_id"])].sort_values("negative_id")
    behind = others.groupby("pair_id")[["negative_caption", "subtype"]].agg(list)

    def list_values(column: str) -> list[list[str]]:
        further = rows["pair_id"].map(behind[column])
        return [
            [first, *(more if isinstance(more, list) else [])]
            for first, more in zip(rows[column], further, strict=True)
        ]

    captions = list_values("negative_caption")
    images = [
        [image] + [None] * (len(texts) - 1)
        for image, texts in zip(rows["negative_image_id"], captions, strict=True)
    ]
    columns: dict[str, Any] = {"negative_captions": captions, "negative_image_ids": images}
    columns["subtypes"] = list_values("subtype")
    return build_frame(TRAINING, rows.assign(**columns))
