"""A small network on pixels that learns which of two pictures is the true one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from caramel.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    import torch

SIDE = 48  # pixels that it sees; the centre square of larger pictures is scaled down
NETWORK_CAP = 4_000  # pairs to learn from, per fold
CHANNELS = 16
BATCH = 32  # pairs of a step
STEPS, EPOCHS = 100, 6  # of a training, at least
RATE, DECAY = 4e-3, 0.05
SCORED = 1024  # pictures that are scored at a time
_drawing = threading.Lock()  # torch has one generator for all threads


def fit_predict_network(images: npt.NDArray[np.uint8], learned: Ints, scored: Ints, *, seed: int) -> Floats:
    """Return f of the pictures to be scored, (k,), where P(the first of two is true) = σ(f(x₁) − f(x₂)).

    Each picture has its value by itself, so that turning a pair round changes nothing, and what both of a pair
    show cancels out. On a processor equal arguments give equal values, on any number of cores: one is used.

    Args:
        images: (n, SIDE, SIDE, 3).
        learned: (2, m) places of the true and of the false picture of each pair to learn from.
        scored: (k,) places of the pictures to be scored.
        seed: of the weights, and of the order of the pairs.
    """
    import torch

    if not learned.size:
        return np.zeros(len(scored))
    rng = np.random.default_rng(seed)
    with _use_one_thread():
        with _drawing, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _build_network()
        _train_network(network, images, learned, rng)
        network.eval()
        with torch.inference_mode():
            parts = np.array_split(scored, -(-len(scored) // SCORED))
            values = torch.cat([network(_normalise_images(images[part])) for part in parts])
    return values.numpy().astype(np.float64)


@contextmanager
def _use_one_thread() -> Iterator[None]:
    """Let torch use one thread: layers this small lose more to waiting for the others than they gain, four times as much.

    That is of the thread that calls: several networks may learn side by side.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _build_network() -> torch.nn.Module:
    """Return the network: three convolutions, then a weight for each place and one for each kind of detail anywhere."""
    from torch import nn

    class Reading(nn.Module):
        def __init__(self, width: int, positions: int) -> None:
            super().__init__()
            self.there = nn.Linear(width * positions, 1, bias=False)
            self.anywhere = nn.Linear(2 * width, 1, bias=False)
            for layer in (self.there, self.anywhere):
                nn.init.zeros_(layer.weight)  # what has learned nothing cannot tell

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            pooled = torch.cat([features.mean((2, 3)), features.amax((2, 3))], dim=1)
            value: torch.Tensor = self.there(features.flatten(1)) + self.anywhere(pooled)
            return value[:, 0]

    import torch

    layers: list[nn.Module] = []
    for before, after in ((3, CHANNELS), (CHANNELS, 2 * CHANNELS), (2 * CHANNELS, 2 * CHANNELS)):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, Reading(2 * CHANNELS, (SIDE // 8) ** 2))


def _train_network(
    network: torch.nn.Module, images: npt.NDArray[np.uint8], learned: Ints, rng: np.random.Generator
) -> None:
    """Learn from the pairs, in an order that the generator draws."""
    import torch

    pairs = learned.shape[1]
    batches = -(-pairs // BATCH)
    epochs = max(EPOCHS, -(-STEPS // batches))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=batches * epochs + 1, pct_start=0.2
    )
    network.train()
    for _ in range(epochs):
        order = rng.permutation(pairs)
        for batch in np.array_split(order, batches):
            part = learned[:, batch]
            true, false = network(_normalise_images(images[part.ravel()])).reshape(2, -1)
            loss = torch.nn.functional.softplus(false - true).mean()  # of −log σ(f(true) − f(false))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()


def _normalise_images(images: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Return pictures (n, SIDE, SIDE, 3) as a network wants them: (n, 3, SIDE, SIDE), about 0 and of spread 1."""
    import torch

    values = (torch.from_numpy(images).float() - 127.5) / 64
    return values.permute(0, 3, 1, 2)
