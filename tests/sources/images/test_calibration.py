"""A judge's threshold is chosen where it tells captions of an image best from their hard negatives."""

import numpy as np
import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.images.calibration import (
    LEAST,
    SPLIT,
    calibrate_threshold,
    can_calibrate,
    check_enough,
    compute_cross_fitted_threshold,
    select_threshold,
)
from caramel.sources.images.judges import ReadingJudge, clip_judge


class Named:
    """A judge of pictures that are names: the fit is high for a caption of that name, by a scale of its own."""

    name = "named"

    def __init__(self, low=0.58, high=0.64):
        self.low, self.high, self.seen = low, high, []

    def score_match(self, pictures, captions):
        self.seen += list(zip(pictures, captions, strict=True))
        return np.array([self.high if p.decode() in c else self.low for p, c in self.seen])

    def is_ambiguous(self, negative, positive, margin):
        return negative <= positive


def known(images, captions=2, split=SPLIT):
    """Return pairs, a negative of each, and pictures that are names; the captions name their image, the negatives none."""
    names = [f"<{split}-{i}>" for i in range(images)]
    rows = [(f"{n}/{k}", n, f"Caption {k} of {n}.", None, split, "t") for n in names for k in range(captions)]
    pairs = pd.DataFrame(rows, columns=list(PAIRS.columns))
    negatives = [
        {"negative_id": f"{p}:{m}", "pair_id": p, "negative_caption": f"No {m} of {p}."}
        for p in pairs["pair_id"]
        for m in range(2)
    ]
    return pairs, build_frame(NEGATIVES, negatives), {name: name.encode() for name in names}


def test_the_threshold_lies_between_what_fits_and_what_does_not():
    judge = Named()
    judge.score_match = lambda pictures, captions: np.array(
        [0.58 if c.startswith("No") else 0.64 for c in captions]
    )
    found = calibrate_threshold(judge, *known(40), seed=1)
    assert found.threshold == pytest.approx(0.61)
    assert (found.images, found.precision, found.recall, found.balanced_accuracy) == (40, 1.0, 1.0, 1.0)


def test_each_image_stands_once_with_a_caption_of_its_own_and_once_with_that_pair_s_negative():
    judge, parts = Named(), [known(n, split=split) for n, split in ((40, "val"), (9, "test"), (9, "train"))]
    pairs, negatives = (pd.concat([part[k] for part in parts]) for k in (0, 1))
    calibrate_threshold(judge, pairs, negatives, {k: v for part in parts for k, v in part[2].items()}, seed=1)
    own, false = judge.seen[:40], judge.seen[40:]
    pair_of = pairs.set_index("caption")["pair_id"]
    pair_of_negative = negatives.set_index("negative_caption")["pair_id"]
    assert [pair_of[c] for _, c in own] == [pair_of_negative[c] for _, c in false]
    assert [p for p, _ in own] == [p for p, _ in false]
    assert {p for p, _ in own} == set(known(40)[2].values())


def test_a_judge_that_tells_shuffled_captions_but_no_hard_negative_is_not_said_to_tell():
    """Its fit is high for any caption that names the image, as those of a bag of words are."""

    class OfNames(Named):
        def score_match(self, pictures, captions):
            rng = np.random.default_rng(0)
            pairs = zip(pictures, captions, strict=True)
            return np.array([0.6 * (p.decode() in c) for p, c in pairs]) + 0.1 * rng.random(len(captions))

    found = calibrate_threshold(OfNames(), *known(200), seed=1)
    assert found.balanced_accuracy < 0.6, "0.99 between captions of one image and of another"


def test_what_is_reached_is_counted_on_images_that_had_no_part_in_the_choice():
    rng = np.random.default_rng(0)
    found = [
        compute_cross_fitted_threshold(*rng.random((2, 40)), np.arange(40) % 5).balanced_accuracy
        for _ in range(60)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=0.03)
    chosen = [select_threshold(*rng.random((2, 40))).balanced_accuracy for _ in range(60)]
    assert np.mean(chosen) > 0.55, "counted where it was chosen, noise looks like skill"


def test_the_order_of_rows_changes_nothing_and_the_seed_draws():
    pairs, negatives, images = known(60)
    drawn = []
    for rows, seed in ((pairs, 1), (pairs.sample(frac=1, random_state=0), 1), (pairs, 2)):
        judge = Named()
        calibrate_threshold(judge, rows, negatives.sample(frac=1, random_state=seed), images, seed=seed)
        drawn.append(judge.seen)
    assert drawn[0] == drawn[1] != drawn[2]


def test_too_few_images_are_refused_with_the_cure():
    with pytest.raises(
        DataError, match=rf"than {LEAST} images of the val split .* is {LEAST - 1}\..*faithfulness_threshold"
    ):
        calibrate_threshold(Named(), *known(LEAST - 1), seed=1)
    pairs, negatives, images = known(LEAST)
    check_enough(pairs)
    assert can_calibrate(pairs, negatives)
    assert not can_calibrate(pairs, negatives.iloc[4:])
    for few in (known(LEAST - 1)[0], pairs.assign(split="train"), pairs.head(0)):
        with pytest.raises(DataError, match="cannot be calibrated with fewer than"):
            check_enough(few)
    with pytest.raises(DataError, match="val_test_frac"):
        calibrate_threshold(Named(), pairs, negatives, dict(list(images.items())[:3]), seed=1)
    with pytest.raises(DataError, match=r"cannot be calibrated .* their number is 0"):
        calibrate_threshold(Named(), pairs.head(0), negatives, {}, seed=1)


def test_what_is_reached_is_counted_on_pairs_that_overlap():
    fitting, shuffled = np.array([0.2, 0.5, 0.6, 0.7, 0.8]), np.array([0.1, 0.2, 0.3, 0.4, 0.65])
    found = select_threshold(fitting, shuffled)
    assert found.threshold == pytest.approx(0.45)
    assert found.recall == 0.8
    assert found.precision == 0.8
    assert found.balanced_accuracy == 0.8


def test_a_judge_that_cannot_tell_reaches_one_half_and_says_so():
    found = select_threshold(np.full(50, 0.6), np.full(50, 0.6))
    assert (found.precision, found.recall, found.balanced_accuracy) == (0.5, 1.0, 0.5)


def test_real_judges_are_calibrated_on_the_world(world, files, clip_folder):
    source, written = world
    pairs = source.pairs.assign(split=SPLIT)
    exact = calibrate_threshold(
        ReadingJudge(allow_unmentioned_objects=False), pairs, written.negatives, files, seed=1
    )
    assert exact.threshold == 0.5
    assert (exact.precision, exact.recall) == (1.0, 1.0)
    clip = clip_judge(checkpoint=str(clip_folder), device="cpu")
    model = calibrate_threshold(clip, pairs, written.negatives, files, seed=1)
    assert model.images == exact.images > 100
    assert 0.3 <= model.balanced_accuracy < 0.8


def test_precision_recall_and_yield_have_intervals() -> None:
    fold = np.arange(40) % 5
    fitting = np.where(np.arange(40) < 36, 0.9, 0.1)
    found = compute_cross_fitted_threshold(fitting, np.full(40, 0.2), fold)
    assert (found.precision, found.recall, found.passed) == (1.0, 0.9, 0.45)
    assert found.recall_interval == pytest.approx((0.7695, 0.9604), abs=1e-4)
    assert found.precision_interval is not None
    assert found.precision_interval[0] == pytest.approx(0.9036, abs=1e-4)
    assert found.passed_interval is not None
    assert found.passed_interval[0] < 0.45 < found.passed_interval[1]
