import pytest
import torch
from torch.nn.functional import normalize

from caramel.training.losses import contrastive_loss


def by_hand(images, texts, scale, negatives=()):
    """The definition, one row at a time."""
    total = 0.0
    for i in range(len(images)):
        columns = [float(images[i] @ t) * scale for t in [*texts, *negatives]]
        total -= columns[i] - float(torch.logsumexp(torch.tensor(columns), 0))
        rows = [float(texts[i] @ image) * scale for image in images]
        total -= rows[i] - float(torch.logsumexp(torch.tensor(rows), 0))
    return total / (2 * len(images))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("negatives", [0, 5])
def test_the_loss_is_its_definition(count: int, negatives: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images, texts, extra = (
        normalize(torch.randn(n, 8, generator=generator), dim=1) for n in (count, count, max(1, negatives))
    )
    found = contrastive_loss(images, texts, torch.tensor(7.0), extra if negatives else None)
    expected = by_hand(images, texts, 7.0, extra if negatives else ())
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_negative_texts_do_not_enter_the_text_to_image_direction() -> None:
    vectors = normalize(torch.eye(3, 8), dim=1)
    plain = contrastive_loss(vectors, vectors, torch.tensor(5.0))
    far = contrastive_loss(vectors, vectors, torch.tensor(5.0), -vectors)
    near = contrastive_loss(vectors, vectors, torch.tensor(5.0), vectors)
    assert plain < far < near
