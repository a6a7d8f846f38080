"""Build items that show images: choose a candidate, which image fits, is it true, the human baseline.

Sources: BiVLC (Miranda et al. 2024, 3.1 and 4) for the choice of candidates, the fitting image and the baseline; CREPE
(Ma et al. 2023, 3) for people who check samples of captions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from caramel.annotation.items import Item, Option, Question, format_answer

PutImage = Callable[[Path, str], str]  # (table `images`, image_id) -> key
NONE = Option("none", caption="None of them", fixed=True)
BOTH = Option("both", caption="Both", fixed=True)
NEITHER = Option("neither", caption="Neither", fixed=True)
YES, NO = Option("yes", caption="Yes", fixed=True), Option("no", caption="No", fixed=True)


def build_choose_items(candidates: pd.DataFrame, index: Path, put_image: PutImage) -> list[Item]:
    """Return one item per negative of table `candidates`: the best of its images, or none."""
    items = []
    for negative_id, rows in candidates.sort_values("candidate").groupby("negative_id", sort=True):
        options = [
            Option(str(row.candidate), image=put_image(index, str(row.image_id))) for row in rows.itertuples()
        ]
        question = Question(
            "image", "Which image fits the caption best?", (*options, NONE), caption=rows["prompt"].iloc[0]
        )
        items.append(Item(str(negative_id), (question,)))
    return items


def build_fits_items(
    chosen: pd.DataFrame, pairs: pd.DataFrame, *, source: Path, drawn: Path, put_image: PutImage
) -> list[Item]:
    """Return one item per chosen image: which image fits the *original* caption, both or neither.

    An instance is ambiguous if the answer is not `positive`.

    Args:
        chosen: negative_id, pair_id, image_id of the chosen image, and positive_image_id (or None for the pair's own).
        source: table `images` of the pairs.
        drawn: table `images` of the candidates.
    """
    pair_of = pairs.set_index("pair_id")
    items = []
    for row in chosen.sort_values("negative_id").to_dict("records"):
        pair = pair_of.loc[row["pair_id"]]
        positive = (
            put_image(drawn, str(row["positive_image_id"]))
            if isinstance(row["positive_image_id"], str)
            else put_image(source, pair["image_id"])
        )
        options = (
            Option("positive", image=positive),
            Option("negative", image=put_image(drawn, str(row["image_id"]))),
        )
        question = Question(
            "image", "Which image fits the caption?", (*options, BOTH, NEITHER), caption=pair["caption"]
        )
        items.append(Item(str(row["negative_id"]), (question,)))
    return items


def build_true_items(captions: pd.DataFrame, index: Path, put_image: PutImage) -> list[Item]:
    """Return one item per row of ``captions`` (item_id, caption, image_id): is the caption true of the image?"""
    return [
        Item(
            row["item_id"],
            (
                Question(
                    "true",
                    "Is the caption true of the image?",
                    (YES, NO),
                    caption=row["caption"],
                    image=put_image(index, row["image_id"]),
                ),
            ),
        )
        for row in captions.sort_values("item_id").to_dict("records")
    ]


def build_baseline_items(instances: pd.DataFrame, index: Path, put_image: PutImage) -> list[Item]:
    """Return one item per instance with two images: its four retrieval questions, in random order.

    The right answers are known, and are the items' expected answers.
    """
    right = {"i0": "c0", "i1": "c1", "c0": "i0", "c1": "i1"}
    items = []
    whole = instances[instances["negative_image_id"].notna()]
    for row in whole.sort_values("instance_id").to_dict("records"):
        captions = {"c0": row["caption"], "c1": row["negative_caption"]}
        images = {"i0": put_image(index, row["image_id"]), "i1": put_image(index, row["negative_image_id"])}
        items.append(
            Item(row["instance_id"], _ask_four(captions, images), format_answer(right), shuffled=True)
        )
    return items


def _ask_four(captions: Mapping[str, str], images: Mapping[str, str]) -> tuple[Question, ...]:
    """Return the questions of an instance: an image for each caption, a caption for each image."""
    of_images = tuple(Option(name, image=key) for name, key in images.items())
    of_captions = tuple(Option(name, caption=text) for name, text in captions.items())
    return (
        *(
            Question(name, "Which image fits the caption?", of_images, caption=text)
            for name, text in captions.items()
        ),
        *(
            Question(name, "Which caption fits the image?", of_captions, image=key)
            for name, key in images.items()
        ),
    )
