import numpy as np
import pytest

from caramel.annotation.agreement.dawid_skene import estimate_true_answers


def simulate(accuracies: list[float], items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, items)
    columns = [np.where(rng.random(items) < a, truth, rng.integers(0, 3, items)) for a in accuracies]
    return truth, np.stack(columns, axis=1)


def test_the_estimate_is_that_of_em_one_answer_at_a_time() -> None:
    _, codes = simulate([0.9, 0.8, 0.6, 0.4], 80, 1)
    codes[::7, 1] = -1
    n, m, k = len(codes), 4, 3
    posterior = [
        [sum(answer == c for answer in row) / sum(answer >= 0 for answer in row) for c in range(k)]
        for row in codes
    ]
    for _ in range(400):
        prior = [sum(p[c] for p in posterior) / n for c in range(k)]
        errors = np.zeros((m, k, k))
        for i in range(n):
            for a in range(m):
                if codes[i, a] >= 0:
                    errors[a, :, codes[i, a]] += posterior[i]
        errors /= errors.sum(axis=2, keepdims=True)
        for i in range(n):
            joint = np.array(prior)
            for a in range(m):
                if codes[i, a] >= 0:
                    joint = joint * errors[a, :, codes[i, a]]
            posterior[i] = (joint / joint.sum()).tolist()
    assert np.abs(estimate_true_answers(codes, 3).posterior - np.array(posterior)).max() < 1e-5


def test_bad_annotators_count_less_than_in_a_vote_and_their_errors_are_found() -> None:
    accuracies = [0.95, 0.9, 0.2, 0.2, 0.2]
    truth, codes = simulate(accuracies, 400, 2)
    estimate = estimate_true_answers(codes, 3)
    votes = (codes[:, :, None] == np.arange(3)).sum(axis=1)
    assert (estimate.posterior.argmax(axis=1) == truth).mean() > (votes.argmax(axis=1) == truth).mean() + 0.05
    right = np.einsum("mii,i->m", estimate.errors, estimate.prior)
    expected = [a + (1 - a) / 3 for a in accuracies]
    assert np.abs(right - expected).max() < 0.1
    assert estimate.posterior.sum(axis=1) == pytest.approx(1)


def test_one_answer_per_item_is_the_decision() -> None:
    estimate = estimate_true_answers(np.array([[0], [1], [1]]), 2)
    assert estimate.posterior.argmax(axis=1).tolist() == [0, 1, 1]
