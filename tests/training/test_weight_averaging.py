"""Averages of weights are their formulas."""

import pytest
import torch

from caramel.training.weight_averaging import (
    copy_frozen_model,
    ema_decay_at,
    interpolate_weights,
    select_alpha,
    update_ema_,
)


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def test_an_average_follows_by_its_decay_and_takes_over_what_is_no_weight() -> None:
    average, live = copy_frozen_model(model(0)), model(1)
    live(torch.randn(8, 3))
    start = average[0].weight.clone()
    update_ema_(average, live.state_dict(), 0.75)
    assert torch.allclose(average[0].weight, 0.75 * start + 0.25 * live[0].weight)
    assert torch.equal(average[1].running_mean, live[1].running_mean)
    assert int(average[1].num_batches_tracked) == 1
    assert not any(p.requires_grad for p in average.parameters())
    update_ema_(average, live.state_dict(), 0.0)
    assert torch.equal(average[0].weight, live[0].weight)


def test_the_decay_is_small_at_first() -> None:
    assert [ema_decay_at(0.9, step) for step in (0, 8, 10**6)] == [0.1, 0.5, 0.9]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_mixture_lies_between_its_ends(alpha: float) -> None:
    before, after = model(0).state_dict(), model(1).state_dict()
    found = interpolate_weights(before, after, alpha)
    assert set(found) == set(after)
    for name, value in found.items():
        expected = (1 - alpha) * before[name] + alpha * after[name]
        assert torch.allclose(value.float(), expected.float())
        if alpha in (0.0, 1.0):
            assert torch.equal(value, (before, after)[int(alpha)][name])


def test_the_best_mixture_is_kept_and_of_equal_ones_that_nearest_to_the_start() -> None:
    before, live = {n: v.clone() for n, v in model(0).state_dict().items()}, model(1)
    after = {n: v.clone() for n, v in live.state_dict().items()}
    scores = iter([0.2, 0.7, 0.7, 0.4])
    curve = select_alpha(
        live, before, [0.0, 0.25, 0.5, 1.0], lambda: {"group": next(scores), "loss": 9.0}, "group"
    )
    assert [(point.alpha, point.value) for point in curve if point.metric == "group"] == [
        (0.0, 0.2),
        (0.25, 0.7),
        (0.5, 0.7),
        (1.0, 0.4),
    ]
    assert {point.alpha for point in curve if point.selected} == {0.25}
    assert len(curve) == 8
    assert torch.equal(live[0].weight, torch.lerp(before["0.weight"], after["0.weight"], 0.25))
