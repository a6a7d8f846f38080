"""Filter candidate images: choose for each negative the best faithful one that is not ambiguous, or none.

This replaces two manual steps of BiVLC (3.1). There, annotators choose the best of four candidates or none; then an
instance is dropped if the negative image also fits the positive caption. With the exact reading as judge, fewer than
four candidates can be enough: see ``candidates.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.judge import DecisionJudge, Judge
from caramel.io.image_store import LazySequence
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.calibration import Calibration, calibrate_threshold, can_calibrate

FAITHFUL = (
    0.5  # least fit of a faithful image in the metrics, even if the threshold for keeping an image is lower
)
NO_FAITHFUL = "no candidate is faithful"
AMBIGUOUS = "the positive caption is true of every faithful candidate"


@dataclass(frozen=True)
class FilterSettings:
    """Settings that determine which candidates are kept.

    Attributes:
        faithfulness_threshold: least fit of a candidate to its caption, in [0, 1]; None: the calibrated threshold.
        margin: how much a model's score of the negative caption must exceed that of the positive caption, in [0, 1].
        keep_ambiguous: types of negatives that are kept though their positive caption stays true by construction.
        ambiguity_test: what a judge compares. ``captions``: both captions on the candidate; ``images``: the candidate and
            the positive image on the positive caption, as BiVLC's annotators did (3.1, step 4).
    """

    faithfulness_threshold: float | None
    margin: float
    keep_ambiguous: Sequence[str]
    ambiguity_test: Literal["captions", "images"] = "captions"


class FilterResult(NamedTuple):
    """All judgements, the rows of the chosen images, the negatives without an image, and the metrics."""

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
    ambiguity_judge: Judge | None = None,
    second_judge: Judge | None,
    settings: FilterSettings,
    seed: int,
) -> FilterResult:
    """Return the filtered candidates; a threshold that is not given is calibrated first.

    Args:
        source_files: encoded files of the source's images, by image_id.
        calibration_negatives: table ``negatives`` of the pairs of the split ``calibration.SPLIT``.
        settings: which candidates are kept; ``calibration.calibrate_threshold`` replaces a threshold of None.
        seed: seed of the calibration.
        candidates, images, files, negatives, pairs, judge, ambiguity_judge, second_judge: as in ``filter_images``.

    Raises:
        DataError: there are too few images to calibrate a threshold.
    """
    calibrate = partial(
        calibrate_threshold, pairs=pairs, negatives=calibration_negatives, images=source_files, seed=seed
    )
    calibration = calibrate(judge) if settings.faithfulness_threshold is None else None
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
        ambiguity_judge=ambiguity_judge,
        second_judge=second_judge,
        settings=settings,
        calibration=calibration,
        second_calibration=second_calibration,
        source_files=source_files,
    )


def filter_images(
    candidates: pd.DataFrame,
    images: pd.DataFrame,
    files: Mapping[str, bytes],
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    judge: Judge,
    ambiguity_judge: Judge | None = None,
    second_judge: Judge | None,
    settings: FilterSettings,
    calibration: Calibration | None = None,
    second_calibration: Calibration | None = None,
    source_files: Mapping[str, bytes] | None = None,
) -> FilterResult:
    """Return the filtered candidates.

    Args:
        candidates: table ``candidates``.
        images: table ``images`` of the candidates, and of the positive images if these are drawn with them. In that
            case a candidate is faithful only if both its images are.
        files: encoded files by image_id.
        negatives: table ``negatives``.
        pairs: table ``pairs``.
        judge: the judge that decides.
        ambiguity_judge: the judge that decides whether the positive caption is also true of an image; None: the same.
        second_judge: a judge that is compared with the first, for example an image–text model with the exact
            reading; None: no comparison.
        settings: which candidates are kept.
        calibration: gives the threshold if the settings have none, and is part of the metrics.
        second_calibration: gives the least fit that the second judge accepts; None: ``FAITHFUL``.
        source_files: encoded files of the source's images, for ``ambiguity_test`` ``images``.

    Raises:
        DataError: people are a judge, and have not decided on some of the images.
    """
    faithfulness_threshold = settings.faithfulness_threshold
    if faithfulness_threshold is None:
        assert calibration is not None, "no threshold is given, and none was calibrated"
        faithfulness_threshold = calibration.threshold
    rows = candidates.merge(
        negatives[["negative_id", "pair_id", "type", "subtype", "negative_caption"]],
        on="negative_id",
        validate="many_to_one",
    ).merge(
        pairs[["pair_id", "caption", "image_id"]].rename(columns={"image_id": "source_image_id"}),
        on="pair_id",
        validate="many_to_one",
    )
    rows = _add_judgements(rows, files, judge, "first", settings.margin)
    _require_scores(rows, "first_negative", "choose", judge)
    if ambiguity_judge is not None:
        rows = _add_judgements(rows, files, ambiguity_judge, "ambiguity", settings.margin)
        rows["first_ambiguous"], rows["first_positive"] = (
            rows["ambiguity_ambiguous"],
            rows["ambiguity_positive"],
        )
    if second_judge is not None:
        rows = _add_judgements(rows, files, second_judge, "second", settings.margin)
        least = second_calibration.threshold if second_calibration else FAITHFUL
        if settings.ambiguity_test == "images":
            rows["second_ambiguous"] = _compare_on_original_caption(
                rows, files, source_files, second_judge, "second", settings.margin
            )
        rows["passed"] = rows["second_negative"] >= least
        rows["accepted"] = rows["passed"] & ~rows["second_ambiguous"]
    if settings.ambiguity_test == "images":
        rows["first_ambiguous"] = _compare_on_original_caption(
            rows, files, source_files, ambiguity_judge or judge, "first", settings.margin
        )
    rows["of_positive"] = _score_positives(rows, files, judge)
    rows["good"] = (rows["first_negative"] >= faithfulness_threshold) & ~(
        rows["of_positive"] < faithfulness_threshold
    )
    faithful_from = max(FAITHFUL, faithfulness_threshold)
    rows["faithful"] = (rows["first_negative"] >= faithful_from) & ~(rows["of_positive"] < faithful_from)
    chosen = _choose_candidates(rows, settings.keep_ambiguous)
    decisive = chosen[~chosen["type"].isin(list(settings.keep_ambiguous))]
    _require_scores(decisive, "first_positive", "fits", ambiguity_judge or judge)
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
    """Return the rows with a judge's fits to both captions, and whether it finds the image ambiguous."""
    images = LazySequence(files.__getitem__, [*rows["image_id"], *rows["image_id"]])
    # One call, so that the judge reads or encodes images of equal content only once.
    scores = judge.score_match(images, [*rows["negative_caption"], *rows["caption"]])
    negative, positive = scores[: len(rows)], scores[len(rows) :]
    return rows.assign(
        **{
            f"{name}_negative": negative,
            f"{name}_positive": positive,
            f"{name}_ambiguous": judge.is_ambiguous(negative, positive, margin),
        }
    )


def _compare_on_original_caption(
    rows: pd.DataFrame,
    files: Mapping[str, bytes],
    source_files: Mapping[str, bytes] | None,
    judge: Judge,
    name: str,
    margin: float,
) -> pd.Series[bool]:
    """Return where a candidate fits the positive caption as well as the positive image does (BiVLC 3.1, step 4).

    The positive image is the one drawn with the candidate, or that of the source.

    Raises:
        DataError: a positive image is missing.
    """
    images: list[tuple[Mapping[str, bytes], str]] = []
    for drawn, source in zip(rows["positive_image_id"], rows["source_image_id"], strict=True):
        if isinstance(drawn, str):
            images.append((files, drawn))
        elif source_files is not None and source in source_files:
            images.append((source_files, source))
        else:
            raise DataError(
                f"The positive image {source!r} is missing, so no judge can compare it with a candidate. Set "
                f"filter_images.ambiguity_test to 'captions', or give the image."
            )
    of_original = judge.score_match(LazySequence(lambda at: at[0][at[1]], images), rows["caption"].tolist())
    of_candidate = rows[f"{name}_positive"].to_numpy(float)
    return pd.Series(of_original - of_candidate <= margin, rows.index)


def _require_scores(rows: pd.DataFrame, column: str, task: str, judge: Judge) -> None:
    """Raise a DataError if a score is unknown, because people have not decided on the image, or on another one."""
    missing = rows[rows[column].isna()]
    if len(missing):
        negatives = missing["negative_id"].unique().tolist()
        decided = judge.decided[task] if isinstance(judge, DecisionJudge) else ()
        outdated = [name for name in negatives if name in decided]
        why = (
            f"{len(outdated)} of these negatives were judged with other images or captions than the current ones, and these "
            f"decisions do not count:\n{format_items(outdated)}\n"
            if outdated
            else ""
        )
        raise DataError(
            f"People have not decided on {len(missing)} of {len(rows)} images in task {task!r}, of these negatives:\n"
            f"{format_items(negatives)}\n{why}Make items of them with "
            f"`caramel annotate make {task}`, have them answered, and write the decisions with `caramel annotate decide` "
            f"into annotation.data_dir/images. Or set filter_images.{'judge' if task == 'choose' else 'ambiguity'} to a model."
        )


def _score_positives(rows: pd.DataFrame, files: Mapping[str, bytes], judge: Judge) -> pd.Series[float]:
    """Return the fit of each drawn positive image to its caption; NaN in rows without one."""
    drawn = rows[rows["positive_image_id"].notna()]
    positive_images = LazySequence(files.__getitem__, drawn["positive_image_id"].tolist())
    scores = judge.score_match(positive_images, drawn["caption"].tolist()).tolist() if positive_images else []
    return pd.Series(scores, drawn.index, dtype=float).reindex(rows.index)


def _choose_candidates(rows: pd.DataFrame, keep_ambiguous: Sequence[str]) -> pd.DataFrame:
    """Return the chosen candidate of each negative that has one: unambiguous candidates first, then the best fit."""
    good = rows[rows["good"] & (~rows["first_ambiguous"] | rows["type"].isin(keep_ambiguous))]
    order = good.sort_values(
        ["negative_id", "first_ambiguous", "first_negative", "candidate"], ascending=[True, True, False, True]
    )
    return order.drop_duplicates("negative_id")


def _build_rejects(rows: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives without a chosen image, with the reason, as table ``rejects``."""
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
    """Return yield and noise of the images, and the second judge's errors against the first judge.

    Shares of candidates count only the first candidate of each negative. If further candidates are drawn only while
    none is kept, hard captions have more candidates than easy ones, and shares of all candidates would be too low.
    """
    first = rows[rows["candidate"] == 0]
    by_subtype = first.groupby("subtype")["faithful"].agg(["size", "mean"])
    best = rows.groupby("negative_id")["faithful"].any()
    # An added detail leaves the positive caption true. Shares of ambiguous images and the second judge's errors are
    # therefore computed on the other types.
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
    """Return the share of true values, rounded to four digits; None if there are no values."""
    return round(float(flags.mean()), 4) if len(flags) else None
