"""Assemble the benchmark (two images × two captions) and the training set from the chosen images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.sources.images.training_set import iter_training_parts
from caramel.utils.arrays import find_indices

# Columns of the tables that are needed; there can be millions of rows.
PAIR_COLUMNS = ["pair_id", "image_id", "caption", "split"]
NEGATIVE_COLUMNS = ["negative_id", "pair_id", "type", "subtype", "negative_caption", "compounds"]


class AssembledTables(NamedTuple):
    """The benchmark, the training set, and the rows of all images that they name.

    Attributes:
        instances: the benchmark.
        source_form: if the benchmark's positive images are drawn, the benchmark with the source's images instead.
        training: the training set in parts, which are built when they are requested.
        images: rows of table ``images``.
    """

    instances: pd.DataFrame
    source_form: pd.DataFrame | None
    training: Iterator[pd.DataFrame]
    images: pd.DataFrame


def assemble_datasets(
    pairs: pd.DataFrame,
    negatives: str | Path,
    paraphrases: pd.DataFrame,
    choices: pd.DataFrame,
    images: pd.DataFrame,
    negative_images: pd.DataFrame,
    *,
    positives: Literal["source", "drawn"],
    training: Literal["drawn", "all", "none"] = "drawn",
) -> AssembledTables:
    """Return the benchmark of all negatives that have a chosen image, and the training set.

    The train split is for training, the val split for model selection and monitoring, and the test split is the
    benchmark. ``instances`` holds val and test; the training set holds train and val.

    All methods train on the pairs of the training set. Each pair lists first the negatives with an image, then its
    other hard negatives. A method uses those negatives that it is designed for.

    Args:
        pairs, paraphrases: tables of those names, after refinement; of the first, ``PAIR_COLUMNS`` are enough.
        negatives: path of table ``negatives``, after refinement. There can be millions of rows, of which only those are
            read that are needed.
        choices: table ``choices``; rows with ``chosen_by`` name the negative images.
        images: table ``images`` of the source's positive images, with rewritten shard paths
            (``image_store.rewrite_shard_paths``).
        negative_images: the same table for the images of the chosen candidates, and for the positive images that
            were drawn with them.
        positives: ``source``: positive images are those of the source. ``drawn``: they are drawn by the same process
            as the negative images, so that only their content tells the two apart. This holds for the training set
            too.
        training: ``drawn``: the training set holds the pairs of the chosen images. ``all``: it holds every pair of
            train and val, with all its negatives, whether they were drawn or not. ``none``: it is empty.

    Raises:
        DataError: a negative has two chosen images, or a chosen image has no negative, no pair or no row in the
            tables of images. Then the tables are not from one run.
    """
    names = ["negative_id", "image_id", "positive_image_id"]
    chosen = choices.loc[choices["chosen_by"].notna(), names]
    of_chosen = read_table(
        NEGATIVES, negatives, NEGATIVE_COLUMNS, only=("negative_id", set(chosen["negative_id"]))
    )
    _check_consistency(chosen, pairs, of_chosen, images, negative_images)
    rows = (
        chosen.rename(columns={"image_id": "negative_image_id"})
        .merge(of_chosen, on="negative_id", validate="one_to_one")
        .merge(pairs, on="pair_id", validate="many_to_one")
        .merge(paraphrases[["pair_id", "caption2"]], on="pair_id", how="left", validate="many_to_one")
        .sort_values("negative_id", ignore_index=True)
        .rename(columns={"negative_id": "instance_id"})
    )
    assert len(rows) == len(chosen)
    in_benchmark, in_training = rows["split"] != "train", rows["split"] != "test"
    named, source_form = [rows["image_id"], rows["negative_image_id"]], None
    if positives == "drawn":
        source_form = build_frame(INSTANCES, rows[in_benchmark])
        rows = rows.assign(image_id=rows["positive_image_id"])
        named.append(rows["image_id"])
    if training != "all":
        trained = rows[in_training & (training == "drawn")].drop_duplicates("pair_id")
    else:
        trained = pairs[pairs["split"] != "test"].merge(
            paraphrases[["pair_id", "caption2"]], on="pair_id", how="left", validate="one_to_one"
        )
        named.append(trained["image_id"])
    parts = iter_training_parts(
        trained, negatives, rows[["instance_id", "negative_image_id"]], of_all_pairs=training == "all"
    )
    used = (
        table[find_indices(table["image_id"], pd.concat(named)) >= 0] for table in (images, negative_images)
    )
    used_images = pd.concat(used, ignore_index=True).sort_values("image_id", ignore_index=True)
    return AssembledTables(build_frame(INSTANCES, rows[in_benchmark]), source_form, parts, used_images)


def _check_consistency(
    chosen: pd.DataFrame,
    pairs: pd.DataFrame,
    of_chosen: pd.DataFrame,
    images: pd.DataFrame,
    negative_images: pd.DataFrame,
) -> None:
    """Raise a DataError if the tables do not fit together; ``of_chosen`` are the negatives with a chosen image."""
    named = pairs[pairs["pair_id"].isin(of_chosen["pair_id"])]
    lacking = {
        "Negatives with two chosen images": chosen["negative_id"][chosen["negative_id"].duplicated()],
        "Chosen images without a negative": _find_missing(chosen["negative_id"], of_chosen["negative_id"]),
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
    return names[find_indices(names, known) < 0]
