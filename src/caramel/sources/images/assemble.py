"""Assemble the benchmark (two images × two captions) and the training set from the chosen images."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from caramel.errors import DataError, format_items
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING
from caramel.utils.arrays import Ints, find_indices

LARGE_TEXT = pa.large_string()  # pandas' own form: no copy
# Columns of the tables that are needed; there can be millions of rows.
PAIR_COLUMNS = ["pair_id", "image_id", "caption", "split"]
NEGATIVE_COLUMNS = ["negative_id", "pair_id", "type", "subtype", "negative_caption", "compounds"]


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
    training: Literal["drawn", "all", "none"] = "drawn",
) -> AssembledTables:
    """Return the benchmark of all negatives that have a chosen image, and the training set.

    The train split is for training, the val split for model selection and monitoring, and the test split is the
    benchmark. ``instances`` holds val and test; the training set holds train and val.

    All methods train on the pairs of the training set. Each pair lists first the negatives with an image, then its
    other hard negatives. A method uses those negatives that it is designed for.

    Args:
        pairs, negatives, paraphrases: tables of those names, after refinement; of the first two, ``PAIR_COLUMNS`` and
            ``NEGATIVE_COLUMNS`` are enough.
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
    if training != "all":
        # There can be millions of negatives; only those of pairs with a chosen image are needed.
        its_pairs = negatives.loc[negatives["negative_id"].isin(chosen["negative_id"]), "pair_id"]
        negatives = negatives[negatives["pair_id"].isin(its_pairs)]
    of_chosen = negatives[find_indices(negatives["negative_id"], chosen["negative_id"]) >= 0]
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
    named, source_form = {*rows["image_id"], *rows["negative_image_id"]}, None
    if positives == "drawn":
        source_form = build_frame(INSTANCES, rows[in_benchmark])
        rows = rows.assign(image_id=rows["positive_image_id"])
        named |= {*rows["image_id"]}
    if training != "all":
        trained = rows[in_training & (training == "drawn")].drop_duplicates("pair_id")
    else:
        trained = pairs[pairs["split"] != "test"].merge(
            paraphrases[["pair_id", "caption2"]], on="pair_id", how="left", validate="one_to_one"
        )
        named |= {*trained["image_id"]}
    drawn = rows[["instance_id", "negative_image_id"]]
    training_set = _build_training_set(trained, negatives, drawn)
    everything = pd.concat([images, negative_images], ignore_index=True)
    used_images = everything[everything["image_id"].isin(named)].sort_values("image_id", ignore_index=True)
    instances = build_frame(INSTANCES, rows[in_benchmark])
    return AssembledTables(instances, source_form, training_set, used_images)


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


def _build_training_set(rows: pd.DataFrame, negatives: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """Return the training set: each row lists its negatives with an image first, each part sorted by id.

    Rows are sorted by their first negative, and those without a negative by their pair. The lists are Arrow's: as
    Python lists, millions of negatives would take gigabytes.

    Args:
        rows: one row per pair.
        negatives: table ``negatives``.
        drawn: columns ``instance_id``, a negative, and ``negative_image_id``, its image.
    """
    pair = find_indices(negatives["pair_id"], rows["pair_id"])
    order, at_image = _sort_negatives(negatives["negative_id"], pair, drawn["instance_id"])
    counts = np.bincount(pair[order], minlength=len(rows))
    ends = np.cumsum(counts)
    first = rows["pair_id"].to_numpy(object, copy=True)
    first[counts > 0] = negatives["negative_id"].array[order[(ends - counts)[counts > 0]]]
    by_first = np.argsort(first)
    # The order of the negatives follows the rows' new order.
    starts = np.repeat((ends - counts)[by_first], counts[by_first])
    within = np.arange(len(order)) - np.repeat(
        np.cumsum(counts[by_first]) - counts[by_first], counts[by_first]
    )
    order, offsets = order[starts + within], pa.array(np.append(0, np.cumsum(counts[by_first])), pa.int32())
    del starts, within, pair

    def build_lists(values: pd.Series, indices: Ints) -> pd.Series:
        """Return a list for each row, of the values at the indices; -1: the value is missing."""
        texts = pa.table({"text": pa.array(values, LARGE_TEXT)})
        taken = texts.take(pa.array(indices, mask=indices < 0)).column("text").combine_chunks()
        return pd.Series(pa.ListArray.from_arrays(offsets, taken), dtype=pd.ArrowDtype(pa.list_(LARGE_TEXT)))

    return build_frame(
        TRAINING,
        rows.iloc[by_first]
        .reset_index(drop=True)
        .assign(
            negative_captions=build_lists(negatives["negative_caption"], order),
            negative_image_ids=build_lists(drawn["negative_image_id"], at_image[order]),
            subtypes=build_lists(negatives["subtype"], order),
        ),
    )


def _sort_negatives(names: pd.Series[str], pair: Ints, drawn: pd.Series[str]) -> tuple[Ints, Ints]:
    """Return the order of the negatives that have a pair, and the index of each negative among those drawn.

    The negatives of a pair come together, those that were drawn first, each part sorted by name.

    Args:
        names: n values of ``negative_id``.
        pair: (n,) number of each negative's pair, -1 without one.
        drawn: names of the negatives that were drawn.
    """
    at_image = find_indices(names, drawn)
    by_name = pc.sort_indices(pa.array(names, LARGE_TEXT)).to_numpy().astype(np.int64)
    by_name = by_name[pair[by_name] >= 0]
    return by_name[np.lexsort((at_image[by_name] < 0, pair[by_name]))], at_image
