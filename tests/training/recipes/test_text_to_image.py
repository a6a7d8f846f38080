import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from caramel.training.recipes.text_to_image import draw_hidden_mask, flow_matching_loss


def patches(hidden, patch):
    return hidden[:, 0, ::patch, ::patch]


@given(st.integers(0, 10**9), st.sampled_from([(48, 24), (48, 12), (24, 24)]))
def test_whole_patches_are_hidden_and_one_at_least(seed: int, sides: tuple[int, int]) -> None:
    size, patch = sides
    hidden = draw_hidden_mask(np.random.default_rng(seed), 16, size, patch, 0.9, 0)
    assert hidden.shape == (16, 1, size, size)
    found = patches(hidden, patch)
    assert (found.repeat(patch, 1).repeat(patch, 2) == hidden[:, 0]).all()
    assert found.any(axis=(1, 2)).all()


def test_all_is_hidden_of_the_pictures_of_which_nothing_is_shown() -> None:
    assert draw_hidden_mask(np.random.default_rng(0), 16, 48, 24, 0.0, 0).all()
    some = patches(draw_hidden_mask(np.random.default_rng(0), 4000, 48, 24, 1.0, 0), 24).sum((1, 2))
    assert np.abs(np.bincount(some, minlength=5)[1:] / 4000 - 0.25).max() < 0.03


def test_the_border_is_never_hidden() -> None:
    hidden = draw_hidden_mask(np.random.default_rng(0), 4, 24, 12, 0.0, 2)
    assert hidden[:, :, 2:-2, 2:-2].all()
    assert hidden.sum() == 4 * 20 * 20


def test_the_loss_counts_what_is_hidden_alone_and_shows_the_rest_without_noise() -> None:
    clean = torch.rand(3, 3, 4, 4)
    hidden = torch.zeros(3, 1, 4, 4, dtype=torch.bool)
    hidden[:, :, :2] = True
    shown = []

    def transformer(noisy, **unused):
        shown.append(noisy)
        return (clean + torch.where(hidden, 2.0, 100.0),)

    def text_encoder(ids, attention_mask):
        return (torch.zeros(3, 1, 1),)

    ids = torch.ones(3, 1, dtype=torch.long)
    loss = flow_matching_loss(transformer, text_encoder, clean, ids, ids, hidden, np.random.default_rng(0))
    assert torch.isclose(loss, torch.tensor(4.0))
    seen = (~hidden).expand_as(clean)
    assert (shown[0][seen] == clean[seen]).all()
    assert not (shown[0][~seen] == clean[~seen]).any()
