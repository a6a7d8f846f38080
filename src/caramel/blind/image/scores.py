"""Attack the images of each form of a benchmark: images alone, and images with texts but not their relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.blind.image.attack import (
    ATTACKERS,
    FEWEST,
    Scores,
    attack_images,
    compute_pair_hits,
    decode_images,
)
from caramel.blind.image.joint import METRICS, compute_hit_shares, compute_joint_hits
from caramel.blind.image.planted import run_planted_control
from caramel.errors import DataError, format_items
from caramel.io.image_store import LazySequence
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.schemas.io import build_frame
from caramel.schemas.scores import SCORES
from caramel.utils.arrays import Ints
from caramel.utils.grouping import merge_groups
from caramel.utils.resampling import CrossValidation


class ImageScores(NamedTuple):
    """The scores of each form's images, and the accuracy of the attackers.

    Attributes:
        scores: form -> table ``scores`` of its instances, without types that have too few groups to attack.
        figures: JSON-like: ``folds``, ``split``, ``fewest`` and, for each of the ``forms``, ``pictures``
            (attacker -> subset -> accuracy) and ``joint`` (attacker -> metric -> subset -> value), each with
            ``ci_low``, ``ci_high``, ``n`` and ``unscored``. Subsets are ``all``, ``without_add``, each type
            and each subtype. ``planted`` holds the same figures on a planted shortcut, the positive control;
            see ``run_planted_control``.
    """

    scores: dict[str, pd.DataFrame]
    figures: dict[str, Any]


def compute_image_scores(
    forms: Mapping[str, pd.DataFrame],
    images: Mapping[str, bytes],
    texts: pd.DataFrame,
    *,
    folds: int,
    seed: int,
    split: str,
) -> ImageScores:
    """Return the results of attackers that see images alone, or images and captions without their relation.

    All instances are attacked, out of fold. In any form, all instances with the same image, or with images of
    equal pixels, are in one fold. Figures cover one split.

    Args:
        forms: name -> table ``instances``. All forms have the same instances in the same order, with
            different positive images.
        images: encoded files by image_id, with all images that the forms name.
        texts: table ``scores`` of the blind text scorers; the joint attacker uses their mean.
        folds: number of cross-validation folds.
        seed: random seed for folds, sampling and weights.
        split: split that the figures cover.

    Raises:
        DataError: an image is missing or does not decode, or the forms do not have the same instances.
    """
    first = next(iter(forms.values()))
    for name, rows in forms.items():
        if rows["instance_id"].tolist() != first["instance_id"].tolist():
            raise DataError(
                f"Form {name!r} and form {next(iter(forms))!r} have different instances. Run `dvc repro assemble`."
            )
    columns = [rows["image_id"] for rows in forms.values()] + [first["negative_image_id"]]
    files = _load_encoded_images(columns, images)
    figures: dict[str, Any] = {"folds": folds, "split": split, "fewest": FEWEST, "forms": {}, "planted": {}}
    if first.empty:
        return ImageScores({name: build_frame(SCORES, []) for name in forms}, figures)
    decoded_images = decode_images(*files)
    form_sides = [decoded_images.find_indices(column, files[-1]) for column in files[:-1]]
    groups = merge_groups(
        columns[-1].tolist(), np.stack(columns), decoded_images.equal[np.vstack(form_sides)]
    )
    cv = CrossValidation(groups, folds, seed)
    cluster = np.unique(np.array(groups, dtype=str), return_inverse=True)[1].astype(np.int64)
    subsets, blind = _find_subset_rows(first, split), _compute_mean_scores(first, texts)
    types, scores = first["type"].tolist(), {}
    jobs: list[Callable[[], Any]] = [
        partial(attack_images, decoded_images, sides, types, cv) for sides in form_sides
    ]
    jobs.append(partial(run_planted_control, files[0], files[-1], cv))
    *attacked, figures["planted"] = map_in_threads(lambda job: job(), jobs)
    for name, form_scores in zip(forms, attacked, strict=True):
        scores[name] = _build_score_table(first["instance_id"], form_scores)
        figures["forms"][name] = {
            "pictures": {a: _compute_accuracy(form_scores[a], subsets, cluster, folds) for a in ATTACKERS},
            "joint": {
                a: _compute_joint_metrics(blind, form_scores[a], subsets, cluster, folds) for a in ATTACKERS
            },
        }
    return ImageScores(scores, figures)


def _load_encoded_images(
    columns: Sequence[pd.Series], images: Mapping[str, bytes]
) -> list[LazySequence[str]]:
    """Return the encoded images of the names in each column.

    Raises:
        DataError: an image is missing.
    """
    lacking = sorted({*pd.concat(list(columns))} - {*images})
    if lacking:
        raise DataError(
            f"Images of the instances are missing from the table of images (number missing: {len(lacking)}):\n"
            f"{format_items([repr(name) for name in lacking])}\nRun `dvc repro assemble`."
        )
    return [LazySequence(images.__getitem__, names.tolist()) for names in columns]


def _find_subset_rows(rows: pd.DataFrame, split: str) -> dict[str, Ints]:
    """Return the indices of the rows of each subset in one split."""
    in_split = (rows["split"] == split).to_numpy()
    masks = {"all": in_split, "without_add": in_split & (rows["type"] != "add").to_numpy()}
    for column, usual in (("type", TYPES), ("subtype", SUBTYPES)):
        masks |= {name: in_split & (rows[column] == name).to_numpy() for name in usual}
    return {name: np.flatnonzero(inside) for name, inside in masks.items() if inside.any()}


def _compute_mean_scores(rows: pd.DataFrame, texts: pd.DataFrame) -> Scores:
    """Return the mean over the blind scorers of each text's scores; NaN if it has none."""
    mean = texts.groupby("negative_id")[["positive_score", "negative_score"]].mean()
    of_rows = mean.reindex(rows["instance_id"]).to_numpy(dtype=np.float64)
    return of_rows[:, 0], of_rows[:, 1]


def _build_score_table(names: pd.Series, scores: Mapping[str, Scores]) -> pd.DataFrame:
    """Return table ``scores`` of the attacked instances."""
    parts = [
        pd.DataFrame({"negative_id": names, "scorer": a, "positive_score": p, "negative_score": n}).dropna()
        for a, (p, n) in scores.items()
    ]
    return build_frame(SCORES, pd.concat(parts, ignore_index=True))


def _compute_accuracy(
    scores: Scores, subsets: Mapping[str, Ints], cluster: Ints, folds: int
) -> dict[str, Any]:
    """Return how often the true image scores higher; a tie counts half."""
    return dict(
        compute_hit_shares(compute_pair_hits(scores), subsets, cluster, folds=folds, value="accuracy")
    )


def _compute_joint_metrics(
    texts: Scores, images: Scores, subsets: Mapping[str, Ints], cluster: Ints, folds: int
) -> dict[str, Any]:
    """Return the benchmark's metrics of the joint attacker."""
    hits = compute_joint_hits(texts, images)
    return {
        metric: compute_hit_shares(
            hits[metric].to_numpy(np.float64), subsets, cluster, folds=folds, value="value"
        )
        for metric in METRICS
    }
