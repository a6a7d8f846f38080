"""From candidates to negative images: the best faithful one or none, and nothing ambiguous.

An automatic stand-in for two steps of people in BiVLC (3.1): annotators choose the best of four candidates or none; then an
instance is dropped if the negative image fits the positive caption too. The exact reading need not see four: see ``candidates``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from caramel.interfaces.judge import Judge
from caramel.io.image_store import LazySequence
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.calibration import Calibration, calibrate_threshold, can_calibrate

FAITHFUL = (
    0.5  # a judge's least fit for a picture to count as faithful, however little is asked of what is kept
)
NO_FAITHFUL = "no candidate is faithful"
AMBIGUOUS = "the positive caption is true of every faithful candidate"


class FilterResult(NamedTuple):
    """All judgements, the rows of the chosen images, the negatives that got none, and the figures."""

    choices: pd.DataFrame
    images: pd.DataFrame
    rejects: pd.DataFrame
    metrics: dict[str, Any]


def calibrate_and_filter(
    candidates: pd.DataFrame,
    images: pd.DataFrame,
    files: Mapping[str, bytes],
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    source_files: Mapping[str, bytes],
    calibration_negatives: pd.DataFrame,
    judge: Judge,
    second_judge: Judge | None,
    faithfulness_threshold: float | None,
    seed: int,
    margin: float,
    keep_ambiguous: Sequence[str],
) -> FilterResult:
    """Return what is kept of the candidates, by thresholds that are calibrated where none is given.

    Args:
        source_files: encoded files of the source's images, by image_id.
        calibration_negatives: table ``negatives``, of the pairs of the split ``calibration.SPLIT``.
        faithfulness_threshold: a candidate's least fit to its caption; None: what ``calibration.calibrate_threshold`` returns.
        seed: of the calibration.
        candidates, images, files, negatives, pairs, judge, second_judge, margin, keep_ambiguous: as in ``filter_images``.

    Raises:
        DataError: a threshold is to be calibrated on too few images.
    """
    calibrate = partial(
        calibrate_threshold, pairs=pairs, negatives=calibration_negatives, images=source_files, seed=seed
    )
    calibration, threshold = None, faithfulness_threshold
    if threshold is None:
        calibration = calibrate(judge)
        threshold = calibration.threshold
    second_calibration = None
    if second_judge is not None and can_calibrate(pairs, calibration_negatives):
        second_calibration = calibrate(second_judge)
    return filter_images(
        candidates,
        images,
        files,
        negatives,
        pairs,
        judge=judge,
        second_judge=second_judge,
        faithfulness_threshold=threshold,
        margin=margin,
        keep_ambiguous=keep_ambiguous,
        calibration=calibration,
        second_calibration=second_calibration,
    )


def filter_images(
    candidates: pd.DataFrame,
    images: pd.DataFrame,
    files: Mapping[str, bytes],
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    judge: Judge,
    second_judge: Judge | None,
    faithfulness_threshold: float,
    margin: float,
    keep_ambiguous: Sequence[str],
    calibration: Calibration | None = None,
    second_calibration: Calibration | None = None,
) -> FilterResult:
    """Return what is kept of the candidates.

    Args:
        candidates: table ``candidates``.
        images: their pictures, table ``images``; where positives are drawn with them, theirs too. Then a candidate is
            faithful where both pictures are.
        files: encoded files by image_id.
        negatives: table ``negatives``.
        pairs: table ``pairs``.
        judge: decides.
        second_judge: measured against the first, for example an image–text model against the
            exact reading; None for no measurement.
        faithfulness_threshold: a candidate's least fit to its caption.
        margin: by how much a model's score of the negative caption must beat the positive's.
        keep_ambiguous: types whose positive caption stays true by construction.
        calibration: how ``faithfulness_threshold`` was found, if it was, for the figures.
        second_calibration: from which fit on the second judge accepts a candidate; None: from ``FAITHFUL``.
    """
    rows = candidates.merge(
        negatives[["negative_id", "pair_id", "type", "subtype", "negative_caption"]],
        on="negative_id",
        validate="many_to_one",
    ).merge(pairs[["pair_id", "caption"]], on="pair_id", validate="many_to_one")
    rows = _add_judgements(rows, files, judge, "first", margin)
    if second_judge is not None:
        rows = _add_judgements(rows, files, second_judge, "second", margin)
        least = second_calibration.threshold if second_calibration else FAITHFUL
        rows["passed"] = rows["second_negative"] >= least
        rows["accepted"] = rows["passed"] & ~rows["second_ambiguous"]
    rows["of_positive"] = _score_positives(rows, files, judge)
    rows["good"] = (rows["first_negative"] >= faithfulness_threshold) & ~(
        rows["of_positive"] < faithfulness_threshold
    )
    faithful_from = max(FAITHFUL, faithfulness_threshold)
    rows["faithful"] = (rows["first_negative"] >= faithful_from) & ~(rows["of_positive"] < faithful_from)
    chosen = _choose_candidates(rows, keep_ambiguous)
    rejects = _build_rejects(rows, chosen)
    drawn = rows["negative_id"].nunique()
    assert len(chosen) + len(rejects) == drawn, (len(chosen), len(rejects), drawn)
    choices = pd.DataFrame(
        {
            "negative_id": rows["negative_id"],
            "candidate": rows["candidate"],
            "image_id": rows["image_id"],
            "faithful": rows["first_negative"],
            "ambiguous": rows["first_ambiguous"],
            "judge_negative": rows["second_negative"] if second_judge else None,
            "judge_positive": rows["second_positive"] if second_judge else None,
            "positive_image_id": rows["positive_image_id"],
            "chosen_by": rows["image_id"].isin(chosen["image_id"]).map({True: judge.name, False: None}),
        }
    )
    names = {*chosen["image_id"], *chosen["positive_image_id"].dropna()}
    chosen_images = images[images["image_id"].isin(names)].reset_index(drop=True)
    threshold = {
        "faithfulness_threshold": faithfulness_threshold,
        "faithful_from": faithful_from,
        "calibration": calibration._asdict() if calibration else None,
    }
    return FilterResult(
        choices,
        chosen_images,
        rejects,
        {"threshold": threshold, **_compute_metrics(rows, chosen, second_judge, second_calibration)},
    )


def _add_judgements(
    rows: pd.DataFrame, files: Mapping[str, bytes], judge: Judge, name: str, margin: float
) -> pd.DataFrame:
    """Return the rows with a judge's fits to both captions, and what it finds ambiguous."""
    images = LazySequence(files.__getitem__, [*rows["image_id"], *rows["image_id"]])
    # In one call, in which a judge reads or encodes images of equal content once.
    scores = judge.score_match(images, [*rows["negative_caption"], *rows["caption"]])
    negative, positive = scores[: len(rows)], scores[len(rows) :]
    return rows.assign(
        **{
            f"{name}_negative": negative,
            f"{name}_positive": positive,
            f"{name}_ambiguous": judge.is_ambiguous(negative, positive, margin),
        }
    )


def _score_positives(rows: pd.DataFrame, files: Mapping[str, bytes], judge: Judge) -> pd.Series[float]:
    """Return the fit of each positive that was drawn to its caption; NaN where none was."""
    drawn = rows[rows["positive_image_id"].notna()]
    positive_images = LazySequence(files.__getitem__, drawn["positive_image_id"].tolist())
    scores = judge.score_match(positive_images, drawn["caption"].tolist()).tolist() if positive_images else []
    return pd.Series(scores, drawn.index, dtype=float).reindex(rows.index)


def _choose_candidates(rows: pd.DataFrame, keep_ambiguous: Sequence[str]) -> pd.DataFrame:
    """Return one row per negative that has a candidate to keep: clear ones first, then the best fit."""
    good = rows[rows["good"] & (~rows["first_ambiguous"] | rows["type"].isin(keep_ambiguous))]
    order = good.sort_values(
        ["negative_id", "first_ambiguous", "first_negative", "candidate"], ascending=[True, True, False, True]
    )
    return order.drop_duplicates("negative_id")


def _build_rejects(rows: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives that got no image, with the reason."""
    left = rows[~rows["negative_id"].isin(chosen["negative_id"])]
    any_faithful = left.groupby("negative_id")["good"].any()
    texts = left.drop_duplicates("negative_id").set_index("negative_id")["negative_caption"]
    records = [
        (name, "filter_images", AMBIGUOUS if faithful else NO_FAITHFUL, texts[name])
        for name, faithful in zip(any_faithful.index.tolist(), any_faithful.tolist(), strict=True)
    ]
    return pd.DataFrame(records, columns=list(REJECTS.columns))


def _compute_metrics(
    rows: pd.DataFrame, chosen: pd.DataFrame, second_judge: Judge | None, calibration: Calibration | None
) -> dict[str, Any]:
    """Return yield and noise of the pictures, and the second judge's errors against the first.

    Shares of candidates are of first ones alone: where a further one is drawn only if none is kept yet, hard captions
    have more candidates than easy ones, and those of all would be too low.
    """
    first = rows[rows["candidate"] == 0]
    by_subtype = first.groupby("subtype")["faithful"].agg(["size", "mean"])
    best = rows.groupby("negative_id")["faithful"].any()
    # A detail that was added leaves the positive caption true: shares of what is ambiguous, and the
    # second judge's errors, are of the other types.
    part = first[first["type"] != "add"]
    faithful_clear = rows["faithful"] & ~rows["first_ambiguous"]
    clear = faithful_clear.groupby(rows["negative_id"]).any()
    out: dict[str, Any] = {
        "candidates": {
            "drawn": len(rows),
            "n": len(first),
            "faithful": _compute_share(first["faithful"]),
            "ambiguous_of_faithful": _compute_share(part.loc[part["faithful"], "first_ambiguous"]),
            "by_subtype": {
                str(name): {"n": int(row["size"]), "faithful": round(float(row["mean"]), 4)}
                for name, row in by_subtype.iterrows()
            },
        },
        "negatives": {
            "n": len(best),
            "with_faithful": _compute_share(best),
            "with_faithful_and_clear": _compute_share(clear),
            "ambiguous": _compute_share((best & ~clear)[best.index.isin(part["negative_id"])]),
            "kept": len(chosen),
        },
    }
    if second_judge is not None:
        truth, accepted = part["faithful"] & ~part["first_ambiguous"], part["accepted"]
        out["second_judge"] = {
            "name": second_judge.name,
            "n": len(part),
            "accepted_from": calibration.threshold if calibration else FAITHFUL,
            "calibration": calibration._asdict() if calibration else None,
            "passed": _compute_share(part["passed"]),
            "passed_of_unfaithful": _compute_share(part.loc[~part["faithful"], "passed"]),
            "share_true": _compute_share(truth),
            "precision": _compute_share(truth[accepted]),
            "recall": _compute_share(accepted[truth]),
            "agreement": _compute_share(truth == accepted),
        }
    return out


def _compute_share(flags: pd.Series[bool]) -> float | None:
    """Return the share of true values rounded to four digits, or None of no values."""
    return round(float(flags.mean()), 4) if len(flags) else None
