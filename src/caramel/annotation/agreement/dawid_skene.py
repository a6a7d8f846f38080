"""Estimate the true answers and each annotator's errors together (Dawid & Skene 1979).

An annotator who is often alone against the others counts less than one who is not, without any item whose answer is
known. The estimate needs enough overlap: with one answer per item it is that answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from caramel.utils.arrays import Floats, Ints

ITERATIONS = 1000  # at most; tens are usual
TOLERANCE = 1e-7  # largest change of a probability at which the iteration ends
LEAST = 1e-10  # least probability of an answer, so that its logarithm exists


class Estimate(NamedTuple):
    """Result of the estimate.

    Attributes:
        posterior: (n, k) probability of each answer being the true one; rows sum to 1.
        prior: (k,) share of each true answer.
        errors: (m, k, k) probability that annotator a gives answer j where answer i is true; rows sum to 1.
    """

    posterior: Floats
    prior: Floats
    errors: Floats


def estimate_true_answers(codes: Ints, categories: int) -> Estimate:
    """Return the maximum-likelihood estimate by EM, from the share of votes of each answer.

    Args:
        codes: (n, m) code of each annotator's answer; −1: none. Each item has an answer.
        categories: number k of answers.
    """
    given = (codes[:, :, None] == np.arange(categories)).astype(float)  # (n, m, k)
    votes = given.sum(axis=1)
    posterior = votes / votes.sum(axis=1, keepdims=True)
    for _ in range(ITERATIONS):
        prior = posterior.mean(axis=0)
        errors = np.einsum("ni,nmj->mij", posterior, given)
        errors = np.maximum(errors, LEAST) / np.maximum(errors, LEAST).sum(axis=2, keepdims=True)
        log_joint = np.log(np.maximum(prior, LEAST)) + np.einsum("nmj,mij->ni", given, np.log(errors))
        updated = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        updated /= updated.sum(axis=1, keepdims=True)
        change = float(np.abs(updated - posterior).max(initial=0.0))
        posterior = updated
        if change < TOLERANCE:
            break
    return Estimate(posterior, posterior.mean(axis=0), errors)
