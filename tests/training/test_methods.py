"""A training method is named: it says its negatives and its loss, and the README says of it what it says of itself."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from caramel import tables
from caramel.registry import METHODS
from caramel.training.finetune import MEASURED_BY
from caramel.training.losses import contrastive_loss

README = Path(__file__).parents[2] / "README.md"


def vectors(rows: int, seed: int) -> torch.Tensor:
    return normalize(torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_the_readme_describes_each_method_as_it_describes_itself() -> None:
    said = re.sub(r"\s+", " ", README.read_text(encoding="utf-8"))
    for name in METHODS:
        assert f"- `{name}`: {METHODS[name].help}" in said


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_the_positives_first_and_then_its_negatives(name: str) -> None:
    method, scale = METHODS[name], torch.tensor(7.0)
    texts = vectors(8 if "negative_caption" in method.negatives else 4, 1)
    images = vectors(8 if "negative_image_id" in method.negatives else 4, 2)
    extra = texts[4:] if len(texts) > len(images) else None
    expected = contrastive_loss(images, texts[: len(images)], scale, extra)
    assert torch.equal(method.loss(images, texts, scale), expected)


def test_what_all_are_measured_on_has_every_negative_that_any_method_trains_on() -> None:
    assert all(set(METHODS[name].negatives) <= set(METHODS[MEASURED_BY].negatives) for name in METHODS)
    assert set(METHODS[MEASURED_BY].negatives) <= set(tables.TRAINING.columns)
