"""A judge's threshold is chosen on labels: which captions fit which images."""

import numpy as np
import pandas as pd
import pytest
from annotated import decided
from stored_images import indexed

from caramel.errors import DataError
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES
from caramel.sources.images.calibration import LEAST, select_threshold
from caramel.sources.images.label_calibration import (
    build_labels_of_decisions,
    calibrate_on_labels,
    read_labels,
)


class Scripted:
    """A judge whose scores are the images themselves."""

    name = "scripted"

    def score_match(self, images, captions):
        return np.array([float(image) for image in images])


def labelled(fitting, unfitting):
    """Return labels and images of these scores, each image with a caption of its own."""
    rows, images = [], {}
    for fits, scores in ((True, fitting), (False, unfitting)):
        for number, score in enumerate(scores):
            name = f"{fits}-{number}"
            images[name] = str(score).encode()
            rows.append((name, f"Caption of {name}.", fits))
    return pd.DataFrame(rows, columns=["image_id", "caption", "fits"]), images


def test_the_threshold_lies_between_what_fits_and_what_does_not() -> None:
    found = calibrate_on_labels(Scripted(), *labelled([0.8] * 40, [0.4] * 70), seed=1)
    assert found.threshold == pytest.approx(0.6)
    assert (found.images, found.precision, found.recall, found.balanced_accuracy) == (110, 1.0, 1.0, 1.0)
    assert found.passed == pytest.approx(40 / 110, abs=1e-6)


def test_precision_and_yield_are_those_of_the_labels_own_shares() -> None:
    rng = np.random.default_rng(0)
    fitting, unfitting = rng.normal(0.6, 0.1, 2000), rng.normal(0.5, 0.1, 8000)
    found = calibrate_on_labels(Scripted(), *labelled(fitting, unfitting), seed=1)
    threshold = select_threshold(fitting, unfitting).threshold
    right, wrong = (fitting >= threshold).sum(), (unfitting >= threshold).sum()
    assert found.threshold == threshold
    assert found.precision == pytest.approx(right / (right + wrong), abs=0.02)
    assert found.recall == pytest.approx(right / 2000, abs=0.02)
    assert found.passed == pytest.approx((right + wrong) / 10000, abs=0.02)


def test_of_images_that_do_not_fit_a_caption_the_best_counts() -> None:
    labels, images = labelled([0.9] * 40, [0.4] * 40)
    more = labels[~labels["fits"]].assign(image_id=lambda rows: rows["image_id"] + "b")
    images |= dict.fromkeys(more["image_id"], b"0.7")
    found = calibrate_on_labels(Scripted(), pd.concat([labels, more]), images, seed=1)
    assert found.threshold == pytest.approx(0.8)
    assert found.images == 80


def test_a_choice_of_people_labels_the_chosen_image_and_none_labels_all() -> None:
    candidates = [
        {"negative_id": n, "candidate": c, "image_id": f"{n}#{c}", "seed": 1, "generator": "g", "prompt": "p"}
        for n in ("a", "b", "c", "d")
        for c in range(2)
    ]
    negatives = build_frame(
        NEGATIVES, [{"negative_id": n, "pair_id": n, "negative_caption": f"Caption {n}."} for n in "abcd"]
    )
    candidates = build_frame(CANDIDATES, candidates)
    decisions = decided("choose", {"a": "1", "b": "none", "c": None})
    labels = build_labels_of_decisions(decisions, candidates, negatives)
    assert labels.values.tolist() == [
        ["a#1", "Caption a.", True, "a"],
        ["b#0", "Caption b.", False, "b"],
        ["b#1", "Caption b.", False, "b"],
    ]
    with pytest.raises(DataError, match=r"do not exist, of 1 negatives:\n.*d"):
        build_labels_of_decisions(decided("choose", {"d": "7"}), candidates, negatives)


def test_a_file_of_labels_is_read_and_a_broken_one_says_what_is_wrong(tmp_path) -> None:
    with pytest.raises(DataError, match=r"labels.csv' is missing: .*image_id, caption, fits.*'val'"):
        read_labels(tmp_path, indexed([]))
    path = tmp_path / "labels.csv"
    path.write_text("image_id,caption,fits\na,A cat.,true\na,A dog.,False\n")
    assert read_labels(tmp_path, indexed([]))["fits"].tolist() == [True, False]
    for text, words in (
        ("a,A cat.,yes\n", "row 2|line 2|fits' must be true or false, not 'yes'"),
        ("a,A cat.,true\na,A cat.,false\n", "1 rows whose image and caption have a label already"),
        ("", "is empty"),
    ):
        path.write_text("image_id,caption,fits\n" + text)
        with pytest.raises(DataError, match=words):
            read_labels(tmp_path, indexed([]))


def test_a_label_of_a_candidate_that_was_drawn_again_is_an_error(tmp_path) -> None:
    images, path = indexed({"a#0": b"drawn", "a#1": b"again"}), tmp_path / "labels.csv"
    sha256 = dict(zip(images["image_id"], images["sha256"], strict=True))
    rows = f"photograph,A cat.,true,\na#0,A cat.,true,{sha256['a#0']}\n"
    path.write_text(f"image_id,caption,fits,sha256\n{rows}")
    assert read_labels(tmp_path, images)["image_id"].tolist() == ["photograph", "a#0"]
    for other in ("", sha256["a#0"]):
        path.write_text(f"image_id,caption,fits,sha256\n{rows}a#1,A cat.,true,{other}\n")
        with pytest.raises(
            DataError, match=r"1 candidates have another or no value of column 'sha256'.*\n.*a#1"
        ):
            read_labels(tmp_path, images)
    path.write_text("image_id,caption,fits\na#0,A cat.,true\n")
    with pytest.raises(DataError, match="1 candidates have another or no value"):
        read_labels(tmp_path, images)


def test_labels_of_other_images_and_too_few_labels_are_errors() -> None:
    labels, images = labelled([0.8] * 40, [0.4] * 40)
    with pytest.raises(DataError, match=r"1 images with a label do not exist:\n.*True-0"):
        calibrate_on_labels(Scripted(), labels, {n: d for n, d in images.items() if n != "True-0"}, seed=1)
    with pytest.raises(DataError, match=rf"on 40 images .* and {LEAST - 1} with one that does not"):
        calibrate_on_labels(Scripted(), *labelled([0.8] * 40, [0.4] * (LEAST - 1)), seed=1)
