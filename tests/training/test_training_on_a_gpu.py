"""What only a GPU shows of training: run by whoever has one."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from training_rows import training_rows

from caramel.errors import ResourceError
from caramel.evaluation.adapters import get_device, use_eval_mode
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.examples import load_examples
from caramel.training.loop import contrastive
from caramel.training.loop.contrastive import train_clip
from caramel.training.objective import add_logit_bias

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
HOW = {
    "seed": 1,
    "steps": 30,
    "batch_size": 16,
    "lr": 0.003,
    "warmup_steps": 2,
    "weight_decay": 0.1,
    "checkpoint_every": 10,
}


class Killed(Exception):
    """Stands for a killed process."""


@pytest.fixture
def rows(world, files) -> pd.DataFrame:
    return training_rows(world, list(files), 40)


def trained(clip_folder, rows, files, scratch, precision, method, kill_at=None, **changes):
    """Return the weights after training on the GPU; killed at a step, and started again, where one is given."""
    while True:
        clip = load_checkpoint(clip_folder)
        clip = add_logit_bias(clip) if METHODS[method].bias else clip
        examples = load_examples(clip, rows, files, method=METHODS[method])
        rows_of = contrastive.draw_step_rows

        def killed(*args, at=kill_at, draw=rows_of):
            if args[-1] == at:
                raise Killed
            return draw(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contrastive, "draw_step_rows", killed)
            try:
                how = {
                    **HOW,
                    "device": "cuda",
                    "precision": precision,
                    "num_workers": 0,
                    "scratch": scratch,
                    "title": "t",
                    **changes,
                }
                curve = train_clip(clip, examples, [examples], **how)
            except Killed:
                kill_at = None
                continue
        return curve, {name: value.cpu() for name, value in clip.model.state_dict().items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_training_on_a_gpu_repeats_bit_for_bit_killed_or_not(
    method, precision, rows, files, clip_folder, tmp_path
) -> None:
    runs = [
        trained(clip_folder, rows, files, tmp_path / str(n), precision, method, kill_at)
        for n, kill_at in enumerate((None, None, 17))
    ]
    for curve, weights in runs[1:]:
        assert curve == runs[0][0]
        for name, value in weights.items():
            assert torch.equal(value, runs[0][1][name]), name


def test_a_training_on_a_gpu_learns_as_one_on_the_processor(rows, files, clip_folder, tmp_path) -> None:
    here = trained(clip_folder, rows, files, tmp_path / "0", "fp32", "infonce", steps=10, device="cpu")[0]
    there = trained(clip_folder, rows, files, tmp_path / "1", "fp32", "infonce", steps=10)[0]
    assert there[0] == pytest.approx(here[0], rel=1e-3)


def test_a_batch_far_too_large_for_the_gpu_says_what_to_lower(rows, files, clip_folder, tmp_path) -> None:
    many = pd.concat([rows] * 200, ignore_index=True)
    torch.cuda.empty_cache()
    used = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction((2**27 + used) / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(
            ResourceError, match=r"'t' does not fit into the memory of 'cuda:0'.* Lower `batch_size`"
        ):
            trained(clip_folder, many, files, tmp_path, "fp32", "infonce", batch=len(many))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def test_a_model_on_a_gpu_keeps_its_mode_and_the_random_state_while_it_is_scored(clip_folder) -> None:
    model = load_checkpoint(clip_folder, "cuda").model.train()
    state = torch.cuda.get_rng_state()
    assert get_device(model) == "cuda:0"
    with use_eval_mode(model):
        torch.rand(3, device="cuda")
        assert not model.training
    assert model.training
    assert torch.equal(torch.cuda.get_rng_state(), state)
