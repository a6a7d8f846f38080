"""Calibrate a judge of images on labels: whether a caption fits an image, as people decided or as a file says.

A label is about an image of the source, or about a candidate of an earlier run with the same settings. Unlike captions
and hard negatives of photographs (``calibration.py``), labels can show how a judge does on drawn images.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.judge import Judge
from caramel.io.image_store import LazySequence
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value, read_text_field
from caramel.sources.images.calibration import FOLDS, LEAST, Calibration, compute_cross_fitted_threshold
from caramel.utils.hashing import assign_folds

FILE = "labels.csv"
COLUMNS = ["image_id", "caption", "fits"]
HASH = "sha256"  # column that candidates need; empty for images of the source, whose names stay theirs
VALUES = {"true": True, "false": False}


def read_labels(folder: str | Path, candidates: pd.DataFrame) -> pd.DataFrame:
    """Return image_id, caption and fits (bool) of the folder's ``labels.csv``.

    A candidate keeps its image_id when it is drawn again. Its label therefore names the image's SHA-256 as well, in
    column ``sha256``.

    Args:
        folder: folder of the file.
        candidates: table ``images`` of the candidates.

    Raises:
        DataError: the file is missing or has no row, ``fits`` is not true or false, an image and caption occur twice, or a
            candidate's ``sha256`` is missing or that of another image.
    """
    path, rows = Path(folder, FILE), []
    hashes = dict(zip(candidates["image_id"], candidates["sha256"], strict=True))
    other: set[str] = set()
    if not path.is_file():
        raise DataError(
            f"{str(path)!r} is missing: the table of labels, with the columns {', '.join(COLUMNS)} and, for candidates, "
            f"{HASH}. Write it, or set filter_images.calibrate_on to 'val'."
        )
    for where, row in iter_csv_rows(path, COLUMNS):
        image_id, caption, value = (read_text_field(row, name, where) for name in COLUMNS)
        if value.lower() not in VALUES:
            raise DataError(f"{where}: field 'fits' must be true or false, not {format_value(value)}.")
        if image_id in hashes and row.get(HASH) != hashes[image_id]:
            other.add(image_id)
        rows.append((image_id, caption, VALUES[value.lower()]))
    if other:
        raise DataError(
            f"{str(path)!r}: {len(other)} candidates have another or no value of column {HASH!r} than table images of stage "
            f"synthesize:\n{format_items(sorted(other))}\nTheir labels are about images that may have been drawn again: label "
            f"the current images and write their sha256, or remove the rows."
        )
    labels = pd.DataFrame(rows, columns=COLUMNS)
    twice = labels[labels.duplicated(["image_id", "caption"])]
    if labels.empty or len(twice):
        problem = (
            f"has {len(twice)} rows whose image and caption have a label already"
            if len(twice)
            else "is empty"
        )
        raise DataError(f"{str(path)!r} {problem}. Give each image and caption one label.")
    return labels


def build_labels_of_decisions(
    decisions: pd.DataFrame, candidates: pd.DataFrame, negatives: pd.DataFrame
) -> pd.DataFrame:
    """Return the labels that people's choices among candidates imply, with their ``negative_id``.

    Args:
        decisions: table ``decisions`` of task ``choose``.
        candidates, negatives: tables of those names.

    Raises:
        DataError: a chosen candidate does not exist.
    """
    labels = label_candidates(decisions, candidates).merge(
        negatives[["negative_id", "negative_caption"]], on="negative_id", validate="many_to_one"
    )
    return labels.rename(columns={"negative_caption": "caption"})[[*COLUMNS, "negative_id"]]


def label_candidates(decisions: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Return the candidates that people's choices say something about, with the column ``fits``.

    A chosen image fits. If people chose none, no candidate fits. Candidates that lost to a better one say nothing and
    are left out, and so are ties.

    Args:
        decisions: table ``decisions`` of task ``choose``.
        candidates: columns negative_id and candidate, among others.

    Raises:
        DataError: a chosen candidate does not exist.
    """
    decided = decisions.set_index("item_id")["decision"].dropna()
    decision = candidates["negative_id"].map(decided)
    is_chosen = decision == candidates["candidate"].astype(str)
    lacking = {*decided.index[decided != "none"]} - {*candidates.loc[is_chosen, "negative_id"]}
    if lacking:
        raise DataError(
            f"People chose candidates that have no score or do not exist, of {len(lacking)} negatives:\n"
            f"{format_items(sorted(lacking))}\nTheir decisions are about other candidates: have these ones judged."
        )
    is_labelled = is_chosen | (decision == "none")
    return candidates.assign(fits=is_chosen)[is_labelled].reset_index(drop=True)


def calibrate_on_labels(
    judge: Judge, labels: pd.DataFrame, images: Mapping[str, bytes], *, seed: int
) -> Calibration:
    """Return the threshold with the best balanced accuracy on labels, see ``calibrate_on_scores``.

    Args:
        judge: the judge to calibrate.
        labels: columns image_id, caption and fits, and negative_id if they are candidates'.
        images: encoded files by image_id.
        seed: seed of the folds.

    Raises:
        DataError: an image is missing, or fewer than ``LEAST`` images have a caption that fits, or one that does not.
    """
    lacking = sorted({*labels["image_id"]} - {*images})
    if lacking:
        raise DataError(
            f"{len(lacking)} images with a label do not exist:\n{format_items(lacking)}\nThey belong to another run: "
            f"label images of this one, or remove their rows."
        )
    scored = labels.assign(
        score=judge.score_match(
            LazySequence(images.__getitem__, labels["image_id"].tolist()), labels["caption"].tolist()
        )
    )
    return calibrate_on_scores(scored, seed=seed)


def calibrate_on_scores(scored: pd.DataFrame, *, seed: int) -> Calibration:
    """Return the threshold with the best balanced accuracy, with figures cross-fitted over images.

    Of several images that do not fit a negative, or a caption where labels name no negative, the one that the judge
    scores highest counts, because a filter would keep that one.

    Args:
        scored: columns image_id, fits and score, and negative_id or caption.
        seed: seed of the folds.

    Raises:
        DataError: fewer than ``LEAST`` images have a caption that fits, or one that does not.
    """
    fitting, unfitting = scored[scored["fits"]], select_best_unfitting(scored)
    counts = [side["image_id"].nunique() for side in (fitting, unfitting)]
    if min(counts) < LEAST:
        raise DataError(
            f"A judge cannot be calibrated on {counts[0]} images with a caption that fits and {counts[1]} with one that does "
            f"not: at least {LEAST} of each are needed. Give more labels, or set filter_images.calibrate_on to 'val'."
        )
    folds = [
        np.array(assign_folds(side["image_id"].tolist(), folds=FOLDS, seed=seed))
        for side in (fitting, unfitting)
    ]
    scores = [side["score"].to_numpy(np.float64) for side in (fitting, unfitting)]
    calibration = compute_cross_fitted_threshold(*scores, *folds)
    return calibration._replace(images=int(pd.concat([fitting, unfitting])["image_id"].nunique()))


def select_best_unfitting(scored: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that do not fit and count in ``calibrate_on_scores``."""
    unit = "negative_id" if "negative_id" in scored else "caption"
    unfitting = scored[~scored["fits"]].sort_values(
        [unit, "score", "image_id"], ascending=[True, False, True]
    )
    return unfitting.drop_duplicates(unit)
