"""A model with a bag-of-words text tower, trained on the world's instances themselves, does not pass its ceiling."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from caramel.benchmarks.ceilings.ceilings import compute_ceilings
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES, count_words
from caramel.benchmarks.metrics import compute_outcomes


class BagTower(torch.nn.Module):
    """Scores a text by a layer over its word counts, and an image by a free vector: all that it could memorise."""

    def __init__(self, bags: list[tuple[str, ...]], images: int) -> None:
        super().__init__()
        words = sorted({word for bag in bags for word in bag})
        index = {word: position for position, word in enumerate(words)}
        self.counts = torch.zeros(len(bags), len(words))
        for row, bag in enumerate(bags):
            for word in bag:
                self.counts[row, index[word]] += 1
        torch.manual_seed(0)
        self.text = torch.nn.Sequential(
            torch.nn.Linear(len(words), 64), torch.nn.GELU(), torch.nn.Linear(64, 32)
        )
        self.image = torch.nn.Embedding(images, 32)

    def forward(self, texts: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return (self.text(self.counts)[texts] * self.image(images)).sum(dim=1)


def test_a_trained_bag_of_words_tower_comes_near_its_ceiling_and_does_not_pass_it(world: Any) -> None:
    source, written = world
    rows = written.negatives.merge(source.pairs[["pair_id", "image_id", "caption"]], on="pair_id")
    texts = [count_words(text) for text in pd.concat([rows["caption"], rows["negative_caption"]])]
    bags = list(dict.fromkeys(texts))
    codes = torch.tensor([bags.index(bag) for bag in texts])
    true, false = codes[: len(rows)], codes[len(rows) :]
    images = torch.tensor(pd.factorize(rows["image_id"])[0])
    tower = BagTower(bags, int(images.max()) + 1)
    optimizer = torch.optim.Adam(tower.parameters(), lr=0.02)
    for _ in range(150):
        loss = torch.nn.functional.softplus(tower(false, images) - tower(true, images)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = pd.DataFrame(
            {"s_c0_i0": tower(true, images).numpy(), "s_c1_i0": tower(false, images).numpy()}
        )
    hits = compute_outcomes(scores, ["accuracy"]).hits["accuracy"].to_numpy()

    subsets = {name: (rows["subtype"] == name).to_numpy() for name in rows["subtype"].unique()}
    subsets |= {"all": np.ones(len(rows), bool)}
    ceilings = compute_ceilings(
        rows.assign(image=rows["image_id"], negative_image=None, caption2=None),
        ["accuracy"],
        subsets,
        {},
        {"bag_of_words": MODEL_CLASSES["bag_of_words"]},
    ).set_index("subset")["ceiling"]
    assert ceilings["swap_obj"] < 1
    for name, mask in subsets.items():
        assert hits[mask].mean() <= ceilings[name] + 1e-12, name
    assert hits.mean() > ceilings["all"] - 0.02
