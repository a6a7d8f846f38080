import pytest
import torch

from caramel.training.loop import Training, learning_rate, train, weight_decay_groups


class Killed(Exception):
    """Stands for a killed process."""


def training(model: torch.nn.Module, kill_at: int | None = None) -> Training:
    def loss(step: int) -> torch.Tensor:
        if step == kill_at:
            raise Killed
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(16, 4, generator=generator)
        return ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()

    optimizer = torch.optim.AdamW(weight_decay_groups([model], 0.1), lr=0.01)
    return Training({"model": model}, optimizer, loss, steps=30, warmup=5, checkpoint_every=10)


def fresh() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


@pytest.mark.parametrize("kill_at", [3, 10, 17, 29])
def test_a_killed_run_resumes_to_the_same_weights_and_curve(tmp_path, kill_at: int) -> None:
    whole = fresh()
    curve = train(training(whole), scratch=tmp_path / "whole", title="t")
    with pytest.raises(Killed):
        train(training(fresh(), kill_at), scratch=tmp_path / "killed", title="t")
    resumed = fresh()
    again = train(training(resumed), scratch=tmp_path / "killed", title="t")
    assert again == curve
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_lowers_the_loss(tmp_path) -> None:
    curve = train(training(fresh()), scratch=tmp_path, title="t")
    losses = [value for _, name, value in curve if name == "loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_the_rate_warms_up_linearly_and_falls_to_zero() -> None:
    rates = [learning_rate(s, peak=1.0, warmup=10, steps=100) for s in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 0.001


def test_gains_biases_and_scales_are_not_decayed() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)])
    decayed, free = weight_decay_groups([model], 0.1)
    assert [p.ndim for p in decayed["params"]] == [2]
    assert all(p.ndim < 2 for p in free["params"])
    assert free["weight_decay"] == 0.0
