import math
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from caramel.errors import ConfigError, DataError, ResourceError
from caramel.training.loop.loop import (
    Training,
    best_step,
    build_param_groups,
    cosine_lr,
    run_training,
    should_stop_early,
)


class Killed(Exception):
    """Stands for a killed process."""


def training(model: torch.nn.Module, kill_at: int | None = None, factor: float = 1.0) -> Training:
    def loss(step: int) -> torch.Tensor:
        if step == kill_at and factor == 1.0:
            raise Killed
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(16, 4, generator=generator)
        found = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        return found * factor if step == kill_at else found

    optimizer = torch.optim.AdamW(build_param_groups([model], 0.1), lr=0.01)
    return Training(
        {"model": model},
        optimizer,
        lambda step: step,
        loss,
        steps=30,
        warmup_steps=5,
        checkpoint_every=10,
        seed=[1],
    )


def fresh() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)]
    return torch.nn.Sequential(*layers)


def test_dropout_depends_on_seed_and_step_alone(tmp_path) -> None:
    curves = []
    for number, seed in enumerate((1, 1, 2)):
        run = training(fresh())
        run.seed = [seed]
        torch.manual_seed(number)  # what this process drew before
        curves.append(run_training(run, scratch=tmp_path / str(number), title="t"))
    assert curves[0] == curves[1] != curves[2]


@pytest.mark.parametrize("kill_at", [3, 10, 17, 29])
def test_a_killed_run_resumes_to_the_same_weights_and_curve(tmp_path, kill_at: int) -> None:
    whole = fresh()
    curve = run_training(training(whole), scratch=tmp_path / "whole", title="t")
    with pytest.raises(Killed):
        run_training(training(fresh(), kill_at), scratch=tmp_path / "killed", title="t")
    resumed = fresh()
    again = run_training(training(resumed), scratch=tmp_path / "killed", title="t")
    assert again == curve
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_step_that_is_kept_is_the_earliest_of_the_best_and_else_the_last() -> None:
    curve = [(10, "loss", 9.0), (10, "group", 0.2), (20, "loss", 1.0), (20, "group", 0.5)]
    curve += [(30, "loss", 0.5), (30, "group", 0.5), (40, "loss", 0.1), (40, "group", 0.4)]
    assert best_step(curve, "group") == 20
    assert best_step(curve, "") == best_step(curve, "accuracy") == 40


@pytest.mark.parametrize("kill_at", [None, 5, 15, 25])
def test_the_weights_of_the_best_step_are_kept_also_where_the_run_was_killed(tmp_path, kill_at) -> None:
    """Step 20 is measured best; its weights are those of a run that ended there."""
    values = {10: 0.3, 20: 0.6, 30: 0.6}
    shorter = fresh()
    training_to_20 = training(shorter)
    training_to_20.on_points = lambda points: points[0][0] == 20 and best.update(state(shorter))
    best: dict[str, torch.Tensor] = {}
    run_training(training_to_20, scratch=tmp_path / "seen", title="t")

    def measured(model: torch.nn.Module, killed: int | None) -> Training:
        run = training(model, killed)
        run.measure = lambda: {"group": values[10 * (len(run.curve) // 2) + 10]}
        run.select = "group"
        return run

    if kill_at is not None:
        with pytest.raises(Killed):
            run_training(measured(fresh(), kill_at), scratch=tmp_path / "killed", title="t")
    model = fresh()
    curve = run_training(measured(model, None), scratch=tmp_path / "killed", title="t")
    assert best_step(curve, "group") == 20
    assert all(torch.equal(value, best[key]) for key, value in state(model).items())
    again = fresh()
    run_training(measured(again, None), scratch=tmp_path / "killed", title="t")  # nothing is left to do
    assert all(torch.equal(value, best[key]) for key, value in state(again).items())


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the weights."""
    return {key: value.clone() for key, value in model.state_dict().items()}


def steps(folder: Path) -> list[str]:
    """Return the steps of the checkpoints in a folder."""
    return sorted(path.name.split(".")[0] for path in folder.glob("*.pt"))


def damages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("broken", [1, 2])
def test_a_broken_checkpoint_is_said_and_the_run_goes_on_from_the_one_before_it(
    tmp_path, capsys, broken: int
) -> None:
    whole = fresh()
    curve = run_training(training(whole), scratch=tmp_path / "whole", title="t")
    assert steps(tmp_path / "whole") == ["step-00000020", "step-00000030"]
    with pytest.raises(Killed):
        run_training(training(fresh(), 25), scratch=tmp_path / "killed", title="t")
    newest = sorted((tmp_path / "killed").glob("*.pt"))[-broken:]
    for path in newest:
        damages(path)
    (tmp_path / "killed" / ".step-00000030.pt.0123").write_text("half")
    resumed = fresh()
    capsys.readouterr()
    assert run_training(training(resumed), scratch=tmp_path / "killed", title="t") == curve
    said = capsys.readouterr().err
    assert said.count("computed again") == broken
    assert all(str(path) in said for path in newest)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    assert sorted(p.suffix for p in (tmp_path / "killed").iterdir()) == [".pt", ".pt"]


def test_memory_does_not_grow_with_the_steps(tmp_path) -> None:
    """A loss may be a number at the end of a large buffer; the buffers of earlier steps are let go."""
    buffers: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    class AtTheEndOfABuffer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:
            buffer = np.zeros(1000, np.float32)
            buffer[-1] = float(x)
            buffers.append(weakref.ref(buffer))
            alive.append(sum(b() is not None for b in buffers))
            return torch.from_numpy(buffer)[-1]

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
            return gradient

    run = training(fresh())
    loss = run.loss
    run.loss = lambda step: AtTheEndOfABuffer.apply(loss(step))
    run_training(run, scratch=tmp_path, title="t")
    assert len(alive) == run.steps
    assert max(alive) <= 2  # this step's, and that of the step before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_training_stops_at_the_first_loss_that_is_not_finite_and_names_the_checkpoint_before(
    tmp_path, value: float
) -> None:
    with pytest.raises(ConfigError, match=r"'t' stopped at step 18: its loss is not finite") as stopped:
        run_training(training(fresh(), 17, value), scratch=tmp_path, title="t")
    (kept,) = tmp_path.glob("*.pt")
    assert kept.name.startswith("step-00000010")
    assert str(kept) in str(stopped.value)


def test_a_gradient_or_weight_that_is_not_finite_stops_it_too(tmp_path) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * math.inf

    run = training(fresh())
    loss = run.loss
    run.loss = lambda step: Broken.apply(loss(step)) if step == 29 else loss(step)
    with pytest.raises(ConfigError, match="step 30: its gradient is not finite"):
        run_training(run, scratch=tmp_path / "gradient", title="t")
    run = training(fresh())

    def spoil(step: int) -> None:
        if step == 29:
            run.modules["model"][0].bias.data[0] = math.nan

    run.after_step = spoil
    with pytest.raises(ConfigError, match=r"step 30: its weight model.0.bias is not finite"):
        run_training(run, scratch=tmp_path / "weight", title="t")
    assert steps(tmp_path / "weight") == ["step-00000010", "step-00000020"]
    run = training(fresh())
    for group in run.optimizer.param_groups:
        group["lr"] = math.inf
    with pytest.raises(ConfigError, match="there is no checkpoint before this step"):
        run_training(run, scratch=tmp_path / "rate", title="t")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
        RuntimeError("can't allocate memory"),
    ],
)
def test_a_step_that_does_not_fit_into_memory_says_what_to_lower(tmp_path, error) -> None:
    run = training(fresh())
    loss = run.loss

    def full(step: int) -> torch.Tensor:
        if step == 12:
            raise error
        return loss(step)

    run.loss = full
    with pytest.raises(
        ResourceError, match=r"Training 't' does not fit into the memory of 'cpu'.* Lower `batch_size`"
    ):
        run_training(run, scratch=tmp_path, title="t")
    assert steps(tmp_path) == ["step-00000010"]
    run.loss = lambda step: (_ for _ in ()).throw(RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes"):
        run_training(run, scratch=tmp_path, title="t")


def test_the_share_of_time_that_is_waited_for_batches_is_told_and_is_no_part_of_the_curve(
    tmp_path, monkeypatch
) -> None:
    clock, told = [0.0], []
    monkeypatch.setattr("caramel.training.loop.loop.time.perf_counter", lambda: clock[0])
    run = training(fresh())
    loss = run.loss

    def passes(seconds: float, made):
        clock[0] += seconds
        return made

    run.batch = lambda step: passes(3.0 if step < 10 else 1.0, step)
    run.loss = lambda step: passes(1.0, loss(step))
    run.measure = lambda: passes(100.0, {"group": 0.5})
    run.on_points = told.extend
    curve = run_training(run, scratch=tmp_path, title="t")
    assert [point for point in told if point in curve] == curve
    assert [point for point in told if point not in curve] == [
        (10, "waiting_share", 30 / 40),
        (20, "waiting_share", 40 / 60),
        (30, "waiting_share", 50 / 80),
    ]


def test_training_lowers_the_loss(tmp_path) -> None:
    curve = run_training(training(fresh()), scratch=tmp_path, title="t")
    losses = [value for _, name, value in curve if name == "loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_the_rate_warms_up_linearly_and_falls_to_zero() -> None:
    rates = [cosine_lr(s, peak=1.0, warmup_steps=10, steps=100) for s in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 0.001


def test_gains_biases_and_scales_are_not_decayed() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)])
    decayed, free = build_param_groups([model], 0.1)
    assert [p.ndim for p in decayed["params"]] == [2]
    assert all(p.ndim < 2 for p in free["params"])
    assert free["weight_decay"] == 0.0


def test_patience_ends_where_so_many_measurements_in_a_row_were_not_better() -> None:
    curve = [(step, "group", value) for step, value in enumerate((0.1, 0.3, 0.2, 0.3))]
    assert [should_stop_early(curve[:n], "group", 2) for n in range(5)] == [False, False, False, False, True]
    assert not should_stop_early(curve, "group", 3)
    assert not should_stop_early(curve, "group", None)
    assert not should_stop_early(curve, "accuracy", 1)


@pytest.mark.parametrize("kill_at", [None, 15])
def test_a_training_that_ran_out_of_patience_ends_there_also_if_it_was_killed(tmp_path, kill_at) -> None:
    def run(kill: int | None) -> Training:
        found = training(fresh(), kill)
        values = {1: 0.5, 2: 0.4, 3: 0.9}
        found.measure = lambda: {"group": values[len(found.curve) // 2 + 1]}
        found.select, found.patience = "group", 1
        return found

    if kill_at is not None:
        with pytest.raises(Killed):
            run_training(run(kill_at), scratch=tmp_path, title="t")
    curve = run_training(run(None), scratch=tmp_path, title="t")
    assert [step for step, name, _ in curve if name == "group"] == [10, 20]
    assert run_training(run(None), scratch=tmp_path, title="t") == curve


def test_a_training_that_stops_names_the_rows_of_the_batch(tmp_path) -> None:
    run = training(fresh(), 17, math.nan)
    run.rows = lambda step: [f"row {step}.{place}" for place in range(9)]
    with pytest.raises(
        ConfigError, match=r"(?s)Rows of the batch:.*row 17\.0.*row 17\.4\n.*4 more\nLower `lr`"
    ):
        run_training(run, scratch=tmp_path, title="t")


def test_a_checkpoint_of_another_width_is_refused_by_its_name(tmp_path) -> None:
    run_training(training(fresh()), scratch=tmp_path, title="t")
    other = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1))
    with pytest.raises(DataError, match=r"step-00000030.*another model.*size mismatch.*Remove"):
        run_training(training(other), scratch=tmp_path, title="t")


@pytest.mark.parametrize(("longest", "cut"), [(0.5, True), (1000.0, False), (None, False)])
def test_a_gradient_is_cut_to_its_longest_and_not_where_there_is_none(tmp_path, longest, cut: bool) -> None:
    norms: list[float] = []
    model = fresh()
    run = training(model)
    run.grad_clip_norm, run.steps = longest, 1
    run.after_step = lambda step: norms.append(
        float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]))
    )
    run_training(run, scratch=tmp_path, title="t")
    assert (norms[0] == pytest.approx(0.5, rel=1e-4)) == cut
    assert cut or norms[0] > 0.5
