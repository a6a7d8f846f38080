"""The benchmark (two images × two captions) and the training set, from what was kept."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING


class AssembledTables(NamedTuple):
    """The benchmark, the training set, and the rows of all images that they name.

    Where the positives of the benchmark are drawn, ``source_form`` is the benchmark with those of the source instead.
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
    """Return instances and the training set of all negatives that have a chosen image.

    Rows of the train split train, rows of val choose and watch, rows of test are the benchmark:
    ``instances`` holds val and test, the training set train and val. All methods train on its pairs: of each a method takes the
    negatives that it is made for, first of all the one with an image; behind it stand the pair's other hard negatives.

    Args:
        pairs, negatives, paraphrases: tables of those names, as refined.
        choices: table ``choices``; rows with ``chosen_by`` name the negative images.
        images: positive images of the source; table ``images``, as the index of these has it (``image_store.referred``).
        negative_images: pictures of the chosen candidates, and the positives that were drawn with them; in the same form.
        positives: source: as the source has them; drawn: by the same process as the negative images, so that nothing
            but what they show tells the two apart. The training set is of the same form.

    Raises:
        DataError: a negative has two chosen images, or a chosen image has no negative, no pair or no picture: the
            tables are not of one run.
    """
    names = ["negative_id", "image_id", "positive_image_id"]
    chosen = choices.loc[choices["chosen_by"].notna(), names]
    # Of millions of negatives those of the chosen ones' pairs will do.
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
    """Raise a DataError where the tables do not fit together; see ``assemble``."""
    of_chosen = negatives[negatives["negative_id"].isin(chosen["negative_id"])]
    named = pairs[pairs["pair_id"].isin(of_chosen["pair_id"])]
    lacking = {
        "negatives with two chosen images": chosen["negative_id"][chosen["negative_id"].duplicated()],
        "chosen images without a negative": _find_missing(chosen["negative_id"], negatives["negative_id"]),
        "negatives without a pair": _find_missing(of_chosen["pair_id"], pairs["pair_id"]),
        "chosen images without a picture": _find_missing(
            pd.concat([chosen["image_id"], chosen["positive_image_id"].dropna()]), negative_images["image_id"]
        ),
        "pairs without a picture": _find_missing(named["image_id"], images["image_id"]),
    }
    for what, names in lacking.items():
        if len(names):
            raise DataError(
                f"{len(names)} {what}:\n{format_items([repr(name) for name in names])}\n"
                f"The tables are not of one run. Run `dvc repro` to make them again."
            )


def _find_missing(names: pd.Series, known: pd.Series) -> pd.Series:
    """Return the names that are not known."""
    return names[~names.isin(known)]


def _build_training_set(rows: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, each with its negative first and the other negatives of its pair behind it, in the order of their names."""
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
