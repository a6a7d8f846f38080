"""What attackers make of the benchmark's pictures, in both of its forms: alone, and with the texts but not their relation."""

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
    """The scores of each form's pictures, and how often they tell.

    Attributes:
        scores: form -> table ``scores`` of its instances; those of a type that is too few to attack are not in it.
        figures: JSON-like: ``folds``, ``split``, ``fewest`` and, for each of the ``forms``, ``pictures`` (attacker ->
            subset -> accuracy) and ``joint`` (attacker -> metric -> subset -> value), each with ``ci_low``, ``ci_high``,
            ``n`` and ``unscored``. Subsets are ``all``, ``without_add``, each type and each subtype. ``planted`` is the positive
            control: the same of attackers to whom something was given to find; see ``planted_control``.
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
    """Return what attackers make of the pictures of a benchmark that see no caption, and of both apart from each other.

    All instances are attacked, out of fold; a fold holds all instances with an image, or with a picture equal to
    it, in any form. Figures are of one split.

    Args:
        forms: name -> table ``instances``: the same instances in the same order, with other positive images.
        images: encoded files by image_id, with all that they name.
        texts: table ``scores`` of the blind scorers of texts; the joint attacker goes by their mean.
        folds: of the cross-validation.
        seed: of folds, draws and weights.
        split: part of the instances that the figures are of.

    Raises:
        DataError: an image is missing or does not decode, or the forms are not of the same instances.
    """
    first = next(iter(forms.values()))
    for name, rows in forms.items():
        if rows["instance_id"].tolist() != first["instance_id"].tolist():
            raise DataError(
                f"Form {name!r} has other instances than {next(iter(forms))!r}. Run `dvc repro assemble`."
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
    """Return the encoded images of those names, column by column."""
    lacking = sorted({*pd.concat(list(columns))} - {*images})
    if lacking:
        raise DataError(
            f"{len(lacking)} images of the instances are not in the table of images:\n"
            f"{format_items([repr(name) for name in lacking])}\nRun `dvc repro assemble`."
        )
    return [LazySequence(images.__getitem__, names.tolist()) for names in columns]


def _find_subset_rows(rows: pd.DataFrame, split: str) -> dict[str, Ints]:
    """Return the places of the rows of each subset, of one split."""
    in_split = (rows["split"] == split).to_numpy()
    masks = {"all": in_split, "without_add": in_split & (rows["type"] != "add").to_numpy()}
    for column, usual in (("type", TYPES), ("subtype", SUBTYPES)):
        masks |= {name: in_split & (rows[column] == name).to_numpy() for name in usual}
    return {name: np.flatnonzero(inside) for name, inside in masks.items() if inside.any()}


def _compute_mean_scores(rows: pd.DataFrame, texts: pd.DataFrame) -> Scores:
    """Return the mean over the blind scorers of each text's score; NaN where there is none."""
    mean = texts.groupby("negative_id")[["positive_score", "negative_score"]].mean()
    of_rows = mean.reindex(rows["instance_id"]).to_numpy(dtype=np.float64)
    return of_rows[:, 0], of_rows[:, 1]


def _build_score_table(names: pd.Series, scores: Mapping[str, Scores]) -> pd.DataFrame:
    """Return table ``scores`` of what was attacked."""
    parts = [
        pd.DataFrame({"negative_id": names, "scorer": a, "positive_score": p, "negative_score": n}).dropna()
        for a, (p, n) in scores.items()
    ]
    return build_frame(SCORES, pd.concat(parts, ignore_index=True))


def _compute_accuracy(
    scores: Scores, subsets: Mapping[str, Ints], cluster: Ints, folds: int
) -> dict[str, Any]:
    """Return how often the true picture scores higher; a tie counts half."""
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
