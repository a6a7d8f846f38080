"""Fixtures of the tests of image-only attackers."""

from collections.abc import Iterator

import pytest

from caramel.blind.image import network


@pytest.fixture(scope="module")
def brief_network() -> Iterator[None]:
    """Train a narrow network for a moment: what it learns has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "STEPS", 2)
        patch.setattr(network, "EPOCHS", 1)
        patch.setattr(network, "CHANNELS", 2)
        yield
