"""Walks through pictures make as many drafts as are wanted, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caramel.crepe.caption_template import write_template_caption
from caramel.crepe.crops import CropRules
from caramel.crepe.example_files import WEIGHED
from caramel.crepe.productivity import sample_drafts, write_productivity_files
from caramel.crepe.subgraph_sampling import sample_subgraph
from caramel.crepe.visual_genome_graphs import ImageGraph
from caramel.crepe.world_graphs import PIXELS, WorldThesaurus, build_graph, sample_grid_scene
from caramel.interfaces.scene_graph import Node, SceneGraph

ANY = CropRules(area=0, share=0, narrow=0.01, overlap=2)


@pytest.mark.parametrize("certainty", [0.4, 0.6])
def test_a_swap_that_follows_from_its_caption_is_left_out_and_no_other_type_is_asked_about(
    certainty: float, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []

    def entailed(rows: Sequence[tuple[str, ...]]) -> list[float]:
        asked.extend(rows)
        return [certainty] * len(rows)

    shown = [ImageGraph("1", PIXELS, PIXELS, build_graph(sample_grid_scene(np.random.default_rng(1), 4)))]
    made: dict[str, Any] = {"seed": 0, "reject": lambda reject: None}
    found = sample_drafts(shown, complexities=[9], tries=2, most=2, rules=ANY, **made)
    counts = write_productivity_files(found, WorldThesaurus(), tmp_path, entailed=entailed, **made)
    assert (counts["swap", 9] > 0, counts["atom", 9] > 0) == (certainty < 0.5, True)
    assert {premise for premise, _ in asked} == {
        write_template_caption(draft.graph).text for draft in found[9]
    }
    assert len(set(asked)) == len(asked) <= 2 * WEIGHED


def test_no_complexity_has_more_captions_than_are_wanted() -> None:
    shown = [
        ImageGraph(str(i), PIXELS, PIXELS, build_graph(sample_grid_scene(np.random.default_rng(i), 4)))
        for i in range(3)
    ]
    found = sample_drafts(
        shown, complexities=[4, 6], tries=7, most=10, rules=ANY, seed=0, reject=lambda reject: None
    )
    assert {n: len(made) for n, made in found.items()} == {4: 10, 6: 10}


def test_walks_may_have_two_objects_of_one_name_where_that_is_wanted() -> None:
    graph = SceneGraph(tuple(Node(name) for name in ("window", "window", "window")))
    rng = np.random.default_rng(0)
    assert sample_subgraph(graph, 3, rng) is None
    subgraph = sample_subgraph(graph, 3, rng, repeat_names=True)
    assert subgraph is not None
    assert write_template_caption(subgraph).text == "window and another window and another window"
