"""Train a small network on pixels to tell which of two images is the true one."""

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

SIDE = 48  # side of the input in pixels; the centre square of larger images is scaled down
NETWORK_CAP = 4_000  # maximum number of training pairs per fold
CHANNELS = 16
BATCH = 32  # pairs per step
STEPS, EPOCHS = 100, 6  # minimum numbers per training
RATE, DECAY = 4e-3, 0.05
SCORED = 1024  # images that are scored at a time
_drawing = threading.Lock()  # torch has one generator for all threads


def fit_predict_network(images: npt.NDArray[np.uint8], learned: Ints, scored: Ints, *, seed: int) -> Floats:
    """Return f of the scored images, (k,), with P(the first of two images is true) = σ(f(x₁) − f(x₂)).

    f scores each image by itself. So the order of a pair has no effect, and content that both images share
    cancels out. On a CPU, equal arguments give equal values with any number of cores, because one core is
    used.

    Args:
        images: (n, SIDE, SIDE, 3).
        learned: (2, m) indices of the true and of the negative image of each training pair.
        scored: (k,) indices of the images to score.
        seed: random seed for the weights and for the order of the pairs.
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
    """Limit torch to one thread in the calling thread.

    With layers this small, more threads lose four times as much time to waiting as they gain. The limit holds
    for the calling thread only, so several networks can train side by side.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _build_network() -> torch.nn.Module:
    """Return the network: three convolutions, then a linear layer on all positions and one on pooled channels."""
    from torch import nn

    class Reading(nn.Module):
        def __init__(self, width: int, positions: int) -> None:
            super().__init__()
            self.there = nn.Linear(width * positions, 1, bias=False)
            self.anywhere = nn.Linear(2 * width, 1, bias=False)
            for layer in (self.there, self.anywhere):
                nn.init.zeros_(layer.weight)  # an untrained network is at chance

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
    """Train the network on the pairs, in an order drawn from the generator."""
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
    """Return images (n, SIDE, SIDE, 3) as network inputs (n, 3, SIDE, SIDE), centred at 0 and scaled."""
    import torch

    values = (torch.from_numpy(images).float() - 127.5) / 64
    return values.permute(0, 3, 1, 2)
