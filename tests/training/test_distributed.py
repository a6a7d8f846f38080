"""Processes that train together give what one gives, also where one of them is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from training_rows import training_rows
from training_settings import train

from caramel.errors import ConfigError, ResourceError
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training import distributed as module
from caramel.training.data.examples import load_examples
from caramel.training.distributed import ALONE, DistContext, launch
from caramel.training.objective import add_logit_bias

HOW = {
    "seed": 1, "steps": 4, "batch_size": 24, "lr": 0.003, "warmup_steps": 2, "weight_decay": 0.1, "checkpoint_every": 2,
}  # fmt: skip
LORA = {"rank": 2, "alpha": 2.0, "targets": ["*.attn.in_proj_weight"]}
# What is trained, besides each method as it is.
FURTHER = {
    "in parts": ("degla", {"micro_batch_size": 3}),
    "lora": ("fsc_clip", {"trainable": "lora", "lora": LORA}),
    "cs_clip": ("cs_clip", {"batch_size": 28}),  # seven texts a row: as many rows for each process
}
PLANS = {**{name: (name, {}) for name in METHODS}, **FURTHER}
KILLED = "trohn_img"


def learn(plan: str, group: DistContext, folder: str, given: dict[str, Any], **changes: Any) -> list[float]:
    """Train by a plan into a folder; write the weights that this process ends with, and return the losses."""
    name, how = PLANS[plan]
    method, clip = METHODS[name], load_checkpoint(given["clip"])
    clip = add_logit_bias(clip) if method.bias else clip
    examples = load_examples(clip, given["rows"], given["files"], method=method)
    place = Path(folder, plan)
    curve = train(clip, examples, [], **{**HOW, **how}, scratch=place, group=group, **changes)
    torch.save(clip.model.state_dict(), place / f"weights-{group.rank}.pt")
    return [value for _, metric, value in curve if metric == "loss"]


def all_plans(group: DistContext, tell: Any, *, folder: str, given: dict[str, Any]) -> dict[str, list[float]]:
    """Train by all plans, and by one once more, in which the first process stops at step 4, once."""
    torch.set_num_threads(1)
    found = {plan: learn(plan, group, folder, given) for plan in PLANS}

    def stop(points: Any) -> None:
        if points[0][0] == 4 and not Path(folder, "stopped").exists():
            Path(folder, "stopped").touch()
            tell(points)
            time.sleep(300)

    found["killed"] = learn(KILLED, group, f"{folder}/again", given, on_points=stop)
    return found


@pytest.fixture(scope="module")
def given(world: Any, files: Any, clip_folder: Path) -> dict[str, Any]:
    rows = training_rows(world, list(files), 24)
    return {"clip": str(clip_folder), "rows": rows, "files": dict(files)}


def weights(folder: Path, rank: int) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / f"weights-{rank}.pt")
    return found


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(value, other[name]) for name, value in one.items())


def test_two_processes_train_as_one_does_also_where_one_is_killed(
    given: Any, tmp_path: Path, capfd: Any
) -> None:
    heard: list[tuple[str, int]] = []

    def kill(points: Any) -> None:
        members = {child.name: child for child in multiprocessing.active_children()}
        for member in members.values():
            heard.extend(
                c.laddr for c in psutil.Process(member.pid).net_connections() if c.status == "LISTEN"
            )
        os.kill(members["training 1"].pid, signal.SIGKILL)

    both = launch(all_plans, {"folder": str(tmp_path / "two"), "given": given}, 2, kill)
    assert (
        "'training 1' ended: killed by SIGKILL. The training continues from its last"
        in capfd.readouterr().err
    )
    assert heard
    assert {address for address, _ in heard} == {"127.0.0.1"}
    for plan in PLANS:
        alone = learn(plan, ALONE, str(tmp_path / "one"), given)
        assert both[plan] == pytest.approx(alone, rel=1e-4), plan
        first, second = (weights(tmp_path / "two" / plan, rank) for rank in (0, 1))
        assert equal(first, second), plan
        ours = weights(tmp_path / "one" / plan, 0)
        assert all(
            torch.allclose(first[n], v, atol=1e-4) for n, v in ours.items() if v.is_floating_point()
        ), plan
    assert both["killed"] == both[KILLED]
    assert equal(weights(tmp_path / "two" / "again" / KILLED, 0), weights(tmp_path / "two" / KILLED, 0))


class Member:
    """Stands for a process that has said something, or has ended."""

    def __init__(self, *said: tuple[str, Any], code: int | None = None) -> None:
        self.said, send = multiprocessing.Pipe(duplex=False)
        for message in said:
            send.send(message)
        self._open = None if code is not None else send
        if code is not None:
            send.close()
        self._sentinel, self._running = multiprocessing.Pipe(duplex=False)
        if code is not None:
            self._running.close()
        join = SimpleNamespace(join=lambda: None, name="training 1", exitcode=code, sentinel=self._sentinel)
        self.process, self.ended = join, False

    def stop_process(self) -> None:
        self.ended = True


@pytest.mark.parametrize(
    "error", [ConfigError("the second does not like it"), ValueError("nor is it a fault of the user's")]
)
def test_what_one_process_raises_is_raised_while_the_others_wait(error: Exception, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "DYING", 0.01)
    members = iter([Member(("points", [(1, "loss", 2.0)])), Member(("error", error))])
    started: list[Member] = []
    monkeypatch.setattr(module, "_WorkerProcess", lambda *args: started.append(next(members)) or started[-1])
    with pytest.raises(type(error), match=str(error)):
        launch(print, {}, 2, lambda points: None)
    assert [member.ended for member in started] == [True, True]


def test_a_process_that_keeps_dying_is_named_with_what_to_lower(monkeypatch: Any, capfd: Any) -> None:
    """The first one says that it lost the connection, which is not why."""
    started: list[Member] = []

    def start(work: Any, settings: Any, group: DistContext, meeting: str) -> Member:
        lost = Member(("error", RuntimeError("Connection closed by peer")))
        started.append(Member(code=-9) if group.rank else lost)
        return started[-1]

    monkeypatch.setattr(module, "_WorkerProcess", start)
    said = r"(?s)'training 1' ended: killed by SIGKILL.*attempt 4, .*finetune.nproc \(2\)"
    with pytest.raises(ResourceError, match=said):
        launch(print, {}, 2, print)
    assert [member.ended for member in started] == [True] * 8


def test_each_process_has_its_share_and_of_several_gpus_its_own(monkeypatch: Any) -> None:
    shares = [DistContext(rank, 3).get_local_rows(6) for rank in range(3)]
    assert shares == [slice(0, 2), slice(2, 4), slice(4, 6)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [DistContext(rank, 3).select_device("cuda") for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert (ALONE.select_device("cuda"), DistContext(1, 2).select_device("cpu")) == ("cuda", "cpu")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"group": DistContext(0, 2)}, r"finetune.nproc = 2: .*'visual.norm'.*its share.*Set 1"),
        ({"micro_batch_size": 3}, r"finetune.micro_batch_size = 3: .*'visual.norm'.*a part.*Set null"),
    ],
)
def test_a_model_that_normalises_over_a_batch_is_neither_shared_nor_encoded_in_parts(
    how: dict[str, Any], message: str, given: Any, tmp_path: Path
) -> None:
    clip = load_checkpoint(given["clip"])
    clip.model.visual.add_module("norm", torch.nn.BatchNorm1d(4))
    examples = load_examples(clip, given["rows"], given["files"], method=METHODS["infonce"])
    with pytest.raises(ConfigError, match=message):
        train(clip, examples, [], **{**HOW, **how}, scratch=tmp_path)


def count_ranks(group: DistContext, tell: Any) -> float:
    """Return the sum of all ranks, which every process adds its own to."""
    total = [torch.tensor([float(group.rank)])]
    group.all_reduce_gradients(total)
    return float(total[0])


def test_processes_meet_in_a_temporary_folder_of_any_name_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a?b%41#c;d"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert launch(count_ranks, {}, 2, lambda points: None) == 1.0
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
