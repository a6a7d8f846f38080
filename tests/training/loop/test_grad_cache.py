"""The gradient of a batch that is encoded in parts is that of the whole batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_rows import training_rows

from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.batch import assemble_batch
from caramel.training.data.examples import load_examples
from caramel.training.objective import Objective, add_logit_bias


def gradients(
    clip_folder, world, files, name: str, rows: int | None, **changes
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return a batch's loss and its gradient; the model has moved from where its teacher was."""
    method = replace(METHODS[name], **changes)
    clip = load_checkpoint(clip_folder)
    clip = add_logit_bias(clip) if method.bias else clip
    examples = load_examples(clip, training_rows(world, list(files), 10), files, method=method)
    clip.model.train()
    objective = Objective(clip, method, rows=rows)
    with torch.no_grad():
        for value in clip.model.parameters():
            value.add_(
                0.01 * torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel()))
            )
    loss = objective.compute_loss(assemble_batch(clip, examples, np.arange(10), 1, 0))
    if loss.requires_grad:
        loss.backward()
    return loss.item(), {n: p.grad for n, p in clip.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("name", METHODS)
def test_parts_have_the_gradient_of_the_whole(name: str, rows: int, clip_folder, world, files) -> None:
    loss, whole = gradients(clip_folder, world, files, name, None)
    again, parts = gradients(clip_folder, world, files, name, rows)
    assert again == pytest.approx(loss, rel=1e-5)
    assert set(parts) == set(whole)
    assert ("logit_scale" in parts) == (name != "sentence_transformers"), "its scale is fixed"
    for weight, value in whole.items():
        scale = float(value.abs().max())
        assert torch.allclose(parts[weight], value, atol=1e-4 * scale + 1e-7), weight


def test_the_mean_of_the_parts_losses_has_another_gradient(clip_folder, world, files) -> None:
    """So that the test above could fail."""
    clip = load_checkpoint(clip_folder)
    method = METHODS["trohn_text"]
    examples = load_examples(clip, training_rows(world, list(files), 10), files, method=method)
    batch = assemble_batch(clip, examples, np.arange(10), 1, 0)
    whole = Objective(clip, method).compute_loss(batch)
    halves = [
        Objective(clip, method).compute_loss(batch.slice_rows(rows)) for rows in (slice(0, 5), slice(5, 10))
    ]
    assert (sum(halves) / 2).item() < 0.9 * whole.item()


def test_what_is_drawn_is_drawn_again(clip_folder, world, files, monkeypatch) -> None:
    """With dropout, each part's second pass is its first, and the next batch draws on."""
    import torch.nn.functional as F

    from caramel.training import objective as module

    encode, seen = module.encode_batch, []

    def dropped(clip, method, batch):
        found = encode(clip, method, batch)
        kept = F.dropout(torch.ones_like(found.image_features))
        seen.append(kept.clone())
        return replace(found, image_features=found.image_features * kept)

    monkeypatch.setattr(module, "encode_batch", dropped)
    torch.manual_seed(0)
    gradients(clip_folder, world, files, "infonce", 4)
    assert len(seen) == 6
    for first, second in zip(seen[:3], seen[3:], strict=True):
        assert torch.equal(first, second)
    state = torch.get_rng_state()
    assert not torch.equal(seen[0], seen[1])
    torch.manual_seed(0)
    gradients(clip_folder, world, files, "infonce", 4)
    assert torch.equal(torch.get_rng_state(), state)
