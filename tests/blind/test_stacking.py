"""The gaps of nested cross-validation are those of each scorer called anew on the rows of each part."""

import numpy as np
import pandas as pd
import pytest

from caramel.blind.scorer_specs import list_scorers, load_scorer
from caramel.blind.stacking import build_pairs, compute_gaps
from caramel.blind.text.odd_one_out import ODD, build_triple, score_triples
from caramel.blind.text.surface import length
from caramel.utils.resampling import CrossValidation

LEARNED = [
    spec.name for spec in list_scorers() if spec.missing is None and not hasattr(spec.load(""), "measure")
]
FOLDS, SEED = 3, 1


def compare_texts(positives, negatives, cv):
    """A scorer that is only a function: the share of the call's texts that come first in the alphabet."""
    order = {text: i for i, text in enumerate(sorted({*positives, *negatives}))}
    first, second = (np.array([order[text] / len(order) for text in side]) for side in (positives, negatives))
    return first, second


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    words = ["dog", "cat", "Hütte", "a", "the", "on", "under", "two-legged", "isn't"]
    caption, paraphrase, negative = (
        [" ".join(rng.choice(words, rng.integers(7))) for _ in range(80)] for _ in range(3)
    )
    rows = pd.DataFrame(
        {
            "pair_id": [f"p{i}" for i in range(80)],
            "subtype": "swap_obj",
            "group": [f"g{i}" for i in rng.integers(30, size=80)],
            "train_only": False,
            "caption": caption,
            "caption2": paraphrase,
            "negative_caption": negative,
        }
    )
    return build_pairs(rows, ["caption", "caption2"])


@pytest.mark.parametrize("name", [*LEARNED, ODD, "function"])
def test_texts_that_are_read_once_give_the_gaps_of_each_part_alone(pairs, name):
    scorer = {ODD: score_triples, "function": compare_texts}.get(name) or load_scorer(name, both=True)

    def call_scorer(part, folds):
        columns = [part[column].tolist() for column in ("caption", "negative_caption", "third")]
        sides = columns[:2]
        if name == ODD:
            sides = [
                [build_triple(*texts) for texts in zip(*order, strict=True)]
                for order in (columns, [columns[1], columns[0], columns[2]])
            ]
        positive, negative = scorer(*sides, CrossValidation(part["group"].tolist(), folds, SEED))
        return positive - negative

    gaps = compute_gaps(pairs, {"length": length, name: scorer}, folds=FOLDS, seed=SEED)
    assert gaps.names == [name, "length"]
    assert np.array_equal(gaps.outer[:, 0], call_scorer(pairs, FOLDS))
    assert np.array_equal(gaps.outer[:, 0], gaps.alone[name])
    assert len(gaps.parts) == FOLDS
    for fold, inner in zip(gaps.parts, gaps.inner, strict=True):
        assert np.array_equal(inner[:, 0], call_scorer(pairs[fold.train], FOLDS - 1))
        assert np.array_equal(inner[:, 1], gaps.outer[fold.train, 1])


def test_the_gaps_of_a_rule_are_as_measured_and_alone_they_have_its_direction(pairs):
    longer = pairs.assign(negative_caption=pairs["caption"], caption=pairs["caption"] + " and more")
    gaps = compute_gaps(longer, {"length": length}, folds=FOLDS, seed=SEED)
    assert (gaps.outer < 0).all()
    assert gaps.alone["length"] == pytest.approx(-gaps.outer[:, 0])
