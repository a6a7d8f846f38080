import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from caramel.annotation.agreement.coefficients import compute_agreement, compute_pairwise_agreement
from caramel.utils.resampling import Bootstrap

BOOTSTRAP = Bootstrap(200, 0)
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
).T
# The worked example of Fleiss' kappa with ten subjects, fourteen raters and five categories: kappa is 0.210.
FLEISS = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)


def draw(seed: int, missing: float = 0.0, m: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 40)
    codes = np.where(rng.random((40, m)) < 0.6, truth[:, None], rng.integers(0, 3, (40, m)))
    return np.where(rng.random(codes.shape) < missing, -1, codes)


def value(codes: np.ndarray, coefficient: str) -> float:
    return compute_agreement(codes, coefficient, bootstrap=BOOTSTRAP).value


def test_published_examples_are_met() -> None:
    assert value(KRIPPENDORFF - 1, "krippendorff") == pytest.approx(0.743, abs=5e-4)
    raters = np.array([np.repeat(np.arange(5), counts) for counts in FLEISS])
    assert value(raters, "fleiss") == pytest.approx(0.210, abs=5e-4)


@pytest.mark.parametrize("seed", range(5))
def test_cohens_kappa_is_that_of_scikit_learn_on_the_common_items(seed: int) -> None:
    codes = draw(seed, missing=0.2, m=2)
    both = (codes >= 0).all(axis=1)
    expected = cohen_kappa_score(codes[both, 0], codes[both, 1])
    assert value(codes, "cohen") == pytest.approx(expected)
    ((_, agreement),) = compute_pairwise_agreement(codes, bootstrap=BOOTSTRAP).items()
    assert agreement.items == both.sum()


@pytest.mark.parametrize("seed", range(5))
def test_alpha_equals_its_definition_one_pair_of_answers_at_a_time(seed: int) -> None:
    codes = draw(seed, missing=0.3)
    disagreeing, answers = 0.0, []
    for row in codes:
        given = [code for code in row.tolist() if code >= 0]
        if len(given) >= 2:
            answers += given
            disagreeing += sum(a != b for a, b in itertools.permutations(given, 2)) / (len(given) - 1)
    n = len(answers)
    expected = sum(a != b for a, b in itertools.permutations(answers, 2)) / (n * (n - 1))
    assert value(codes, "krippendorff") == pytest.approx(1 - disagreeing / n / expected)


def test_kappa_with_several_others_pools_the_pairs() -> None:
    codes = draw(1, missing=0.2)
    pairs = [(row[0], other) for row in codes for other in row[1:] if row[0] >= 0 and other >= 0]
    assert value(codes, "cohen") == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))


def test_an_interval_holds_its_value_does_not_exceed_one_and_depends_on_the_seed_alone() -> None:
    for coefficient in ("cohen", "fleiss", "krippendorff"):
        first = compute_agreement(draw(2), coefficient, bootstrap=BOOTSTRAP)
        assert first.low < first.value < first.high <= 1
        assert first == compute_agreement(draw(2), coefficient, bootstrap=BOOTSTRAP)


def test_perfect_agreement_on_few_items_is_not_certain() -> None:
    codes = np.tile(np.arange(10)[:, None] % 2, 2)
    agreement = compute_agreement(codes, "krippendorff", bootstrap=BOOTSTRAP)
    assert (agreement.value, agreement.high) == (1.0, 1.0)
    assert 0.3 < agreement.low < 0.7  # disagreement on none of ten items is below 28 %


@pytest.mark.parametrize(
    ("codes", "items"),
    [
        ([[1, 1]] * 20, 20),  # one answer alone: agreement by chance is certain
        ([[0, -1], [1, -1]], 0),  # an annotator alone
        ([[-1, -1]], 0),
    ],
)
def test_where_no_agreement_is_defined_it_is_unknown(codes: list[list[int]], items: int) -> None:
    for coefficient in ("cohen", "fleiss", "krippendorff"):
        agreement = compute_agreement(np.array(codes), coefficient, bootstrap=BOOTSTRAP)
        assert all(math.isnan(number) for number in agreement[:3])
        assert agreement.items == items


def test_one_item_has_a_value_and_no_interval() -> None:
    agreement = compute_agreement(np.array([[0, 1]]), "krippendorff", bootstrap=BOOTSTRAP)
    assert agreement.value == 0.0
    assert math.isnan(agreement.low)
