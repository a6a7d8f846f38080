"""Coefficients and decisions equal those of statsmodels, krippendorff and crowd-kit, on random tables.

caramel computes them itself, since a thousand bootstrap resamples are then one matrix product (`coefficients.py`).
crowd-kit needs nltk, and is no requirement of the project: `pip install crowd-kit nltk` lets its test run.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caramel.annotation.agreement.coefficients import compute_agreement
from caramel.annotation.agreement.dawid_skene import estimate_true_answers
from caramel.utils.resampling import Bootstrap

BOOTSTRAP = Bootstrap(2, 0)
settings.register_profile("libraries", max_examples=100, deadline=None, derandomize=True)


@st.composite
def draw_codes(draw: st.DrawFn, missing: bool = False, annotators: int | None = None) -> np.ndarray:
    """Return codes (n, m) of up to 30 items, 5 annotators and 4 answers; −1 where there is none."""
    items = draw(st.integers(2, 30))
    columns = annotators or draw(st.integers(2, 5))
    answers = draw(st.integers(2, 4))
    return draw(arrays(np.int64, (items, columns), elements=st.integers(-1 if missing else 0, answers - 1)))


def value(codes: np.ndarray, coefficient: str) -> float:
    return compute_agreement(codes, coefficient, bootstrap=BOOTSTRAP).value


@settings(settings.get_profile("libraries"))
@given(codes=draw_codes())
def test_fleiss_kappa_is_that_of_statsmodels(codes: np.ndarray) -> None:
    rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is not installed")
    assume(len(np.unique(codes)) > 1)
    table, _ = rater.aggregate_raters(codes)
    assert value(codes, "fleiss") == pytest.approx(rater.fleiss_kappa(table), abs=1e-9)


@settings(settings.get_profile("libraries"))
@given(codes=draw_codes(annotators=2))
def test_cohens_kappa_is_that_of_statsmodels(codes: np.ndarray) -> None:
    rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is not installed")
    table = np.zeros((4, 4))
    np.add.at(table, (codes[:, 0], codes[:, 1]), 1)
    assume((table.sum(0) * table.sum(1)).sum() < len(codes) ** 2)  # agreement by chance is not certain
    assert value(codes, "cohen") == pytest.approx(rater.cohens_kappa(table, return_results=False), abs=1e-9)


@settings(settings.get_profile("libraries"))
@given(codes=draw_codes(missing=True))
def test_alpha_is_that_of_krippendorff_with_missing_answers(codes: np.ndarray) -> None:
    krippendorff = pytest.importorskip("krippendorff", reason="krippendorff is not installed")
    pairable = codes[(codes >= 0).sum(axis=1) >= 2]
    assume(len(np.unique(pairable[pairable >= 0])) > 1)
    expected = krippendorff.alpha(
        reliability_data=np.where(codes >= 0, codes, np.nan).T, level_of_measurement="nominal"
    )
    assert value(codes, "krippendorff") == pytest.approx(expected, abs=1e-9)


@settings(settings.get_profile("libraries"), max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), answers=st.integers(2, 4))
def test_dawid_and_skene_decide_as_crowd_kit_does(seed: int, answers: int) -> None:
    crowd_kit = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    rng = np.random.default_rng(seed)
    truth = rng.integers(answers, size=60)
    accuracy = np.array([0.95, 0.9, 0.85, 0.8, 0.8])
    right = rng.random((60, 5)) < accuracy
    codes = np.where(right, truth[:, None], rng.integers(answers, size=(60, 5)))
    items, annotators = np.nonzero(codes >= 0)
    frame = pd.DataFrame({"task": items, "worker": annotators, "label": codes[items, annotators]})
    model = crowd_kit.DawidSkene(n_iter=100, tol=-1.0).fit(frame)
    expected = model.probas_.reindex(columns=range(answers), fill_value=0.0).sort_index().to_numpy()
    assert estimate_true_answers(codes, answers).posterior == pytest.approx(expected, abs=1e-3)
