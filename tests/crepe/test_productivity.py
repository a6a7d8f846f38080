"""Walks through pictures make as many drafts as are wanted, and no more."""

from __future__ import annotations

import numpy as np

from caramel.crepe.crops import CropRules
from caramel.crepe.productivity import drafts
from caramel.crepe.visual_genome_graphs import Picture
from caramel.crepe.world_graphs import PIXELS, graph_of, sample

ANY = CropRules(area=0, share=0, narrow=0.01, overlap=2)


def test_no_complexity_has_more_captions_than_are_wanted() -> None:
    shown = [Picture(str(i), PIXELS, PIXELS, graph_of(sample(np.random.default_rng(i), 4))) for i in range(3)]
    found = drafts(
        shown, complexities=[4, 6], tries=7, most=10, rules=ANY, seed=0, reject=lambda reject: None
    )
    assert {n: len(made) for n, made in found.items()} == {4: 10, 6: 10}
