"""A judge's threshold is chosen where it tells captions of an image best from those of others."""

import numpy as np
import pandas as pd
import pytest

from caramel import tables
from caramel.errors import DataError
from caramel.images.calibration import LEAST, SPLIT, best_threshold, calibrate, check_enough
from caramel.images.judges import ReadingJudge, clip_judge


class Named:
    """A judge of pictures that are names: the fit is high for a caption of that name, by a scale of its own."""

    name = "named"

    def __init__(self, low=0.58, high=0.64):
        self.low, self.high, self.seen = low, high, []

    def fit(self, pictures, captions):
        self.seen += list(zip(pictures, captions, strict=True))
        return np.array([self.high if p.decode() in c else self.low for p, c in self.seen])

    def ambiguous(self, negative, positive, margin):
        return negative <= positive


def known(images, captions=2, split=SPLIT):
    names = [f"<{split}-{i}>" for i in range(images)]
    rows = [(f"{n}/{k}", n, f"Caption {k} of {n}.", None, split, "t") for n in names for k in range(captions)]
    pairs = pd.DataFrame(rows, columns=list(tables.PAIRS.columns))
    return pairs, {name: name.encode() for name in names}


def test_the_threshold_lies_between_what_fits_and_what_does_not():
    found = calibrate(Named(), *known(40), seed=1)
    assert found.threshold == pytest.approx(0.61)
    assert (found.images, found.precision, found.recall, found.balanced_accuracy) == (40, 1.0, 1.0, 1.0)


def test_each_image_stands_once_with_its_own_caption_and_once_with_anothers_and_test_is_not_looked_at():
    judge, parts = Named(), [known(n, split=split) for n, split in ((40, "val"), (9, "test"), (9, "train"))]
    pairs, images = (
        pd.concat([part[0] for part in parts]),
        {k: v for part in parts for k, v in part[1].items()},
    )
    calibrate(judge, pairs, images, seed=1)
    own = [p.decode() in c for p, c in judge.seen]
    assert own == [True] * 40 + [False] * 40
    assert {p for p, _ in judge.seen[:40]} == {p for p, _ in judge.seen[40:]} == set(known(40)[1].values())
    assert sorted(c for _, c in judge.seen[:40]) == sorted(c for _, c in judge.seen[40:])


def test_a_caption_that_another_image_has_too_is_no_wrong_one():
    pairs, images = known(80, captions=1)
    judge = Named()
    calibrate(judge, pairs.assign(caption=["A dog.", "A cat."] * 40), images, seed=1)
    assert len(judge.seen) == 160
    assert len(set(judge.seen)) == 160, "no picture with a caption of its own among the shuffled ones"
    with pytest.raises(DataError, match="on 0 images"):
        calibrate(judge, pairs.assign(caption="A dog."), images, seed=1)


def test_the_order_of_rows_changes_nothing_and_the_seed_draws():
    pairs, images = known(60)
    drawn = []
    for rows, seed in ((pairs, 1), (pairs.sample(frac=1, random_state=0), 1), (pairs, 2)):
        judge = Named()
        calibrate(judge, rows, images, seed=seed)
        drawn.append(judge.seen)
    assert drawn[0] == drawn[1] != drawn[2]


def test_too_few_images_are_refused_with_the_cure():
    with pytest.raises(DataError, match=rf"{LEAST - 1} images of the val split: {LEAST} .*min_faithful"):
        calibrate(Named(), *known(LEAST - 1), seed=1)
    pairs, images = known(LEAST)
    check_enough(pairs)
    for few in (known(LEAST - 1)[0], pairs.assign(split="train"), pairs.head(0)):
        with pytest.raises(DataError, match="cannot be calibrated on"):
            check_enough(few)
    with pytest.raises(DataError, match="held_out"):
        calibrate(Named(), pairs, dict(list(images.items())[:3]), seed=1)
    with pytest.raises(DataError, match="cannot be calibrated on 0 images"):
        calibrate(Named(), pairs.head(0), {}, seed=1)


def test_what_is_reached_is_counted_on_pairs_that_overlap():
    fitting, shuffled = np.array([0.2, 0.5, 0.6, 0.7, 0.8]), np.array([0.1, 0.2, 0.3, 0.4, 0.65])
    found = best_threshold(fitting, shuffled)
    assert found.threshold == pytest.approx(0.45)
    assert found.recall == 0.8
    assert found.precision == 0.8
    assert found.balanced_accuracy == 0.8


def test_a_judge_that_cannot_tell_reaches_one_half_and_says_so():
    found = best_threshold(np.full(50, 0.6), np.full(50, 0.6))
    assert (found.precision, found.recall, found.balanced_accuracy) == (0.5, 1.0, 0.5)


def test_real_judges_are_calibrated_on_the_world(world, files, clip_folder):
    source, _ = world
    pairs = source.pairs.assign(split=SPLIT)
    exact = calibrate(ReadingJudge(further_objects=False), pairs, files, seed=1)
    assert exact.threshold == 0.5
    assert exact.recall == 1.0
    assert exact.precision > 0.9
    model = calibrate(clip_judge(checkpoint=str(clip_folder), device="cpu"), pairs, files, seed=1)
    assert model.images == exact.images == 110
    assert 0.5 <= model.balanced_accuracy < 0.8
