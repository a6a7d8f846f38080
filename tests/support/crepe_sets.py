"""Small files of CREPE's sets with their images, results on the sets, and frequencies of their atoms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from caramel.crepe.example_files import Example, write_examples
from caramel.crepe.results.frequencies import list_typed_items, write_frequencies
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame, write_table

ROWS, SIDE = 6, 40
MODELS = ("a", "b", "c")
BENCHMARKS = ("crepe_systematicity", "crepe_productivity", "crepe_retrieval", "zero_shot")


def write_sets(folder: Path, images: Path) -> None:
    """Write files of both sets: captions say true, and hard negatives false; regions are squares of one colour."""
    images.mkdir()
    rng = np.random.default_rng(0)
    for n in range(ROWS):
        pixels = rng.integers(0, 255, (80, 120, 3), dtype=np.uint8)
        pixels[10 : 10 + SIDE, 20 : 20 + SIDE] = 40 * n
        Image.fromarray(pixels).save(images / f"{n}.jpg", quality=95)

    def list_examples(name: str, columns: Mapping[str, int]) -> list[Example]:
        return [
            Example(
                str(n),
                (20, 10, SIDE, SIDE),
                f"{name} {n} true",
                {column: [f"{name} {n} {column} false {k}" for k in range(count)] for column, count in columns.items()},
            )
            for n in range(ROWS)
        ]  # fmt: skip

    for split in ("seen", "unseen"):
        write_examples(
            folder / f"crepe_systematicity/syst_vg_hard_negs_{split}_compounds_in_my-data.csv",
            list_examples(split, {"valid_hard_negs_atom": 4, "valid_hard_negs_comp": 6}),
        )
    for negative_type in ("atom", "swap"):
        for atoms in (4, 12):
            write_examples(
                folder / f"crepe_productivity/prod_vg_hard_negs_{negative_type}_complexity_{atoms}.csv",
                list_examples(f"with {atoms} atoms", {"hard_negs": 5}),
            )


def write_results(folder: Path, benchmarks: tuple[str, ...] = BENCHMARKS) -> Path:
    """Write table ``metrics`` of three models with random recalls."""
    subsets = {
        "crepe_systematicity": [f"x/{s}/{t}" for s in ("sc", "uc") for t in ("atom", "comp", "both")],
        "crepe_productivity": [
            f"{t}/n{n}" for t in ("atom", "swap", "negate", "all_types") for n in range(4, 13)
        ],
        "crepe_retrieval": [f"i2t/n4{fold}" for fold in ("", "/fold0", "/fold1")],
        "zero_shot": ["all"],
    }
    rng = np.random.default_rng(0)
    rows = [
        (model, benchmark, subset, "recall@1", value := float(rng.random()), value, value, 10, 0, 0)
        for model in MODELS
        for benchmark in benchmarks
        for subset in subsets[benchmark]
    ]
    folder.mkdir(exist_ok=True)
    write_table(METRICS, build_frame(METRICS, rows), folder / "metrics.parquet")
    return folder


def write_counts(path: Path) -> Path:
    """Write a file of frequencies with two seen compounds and an unseen one."""
    red_dog = SceneGraph((Node("dog", ("red",)),))
    related = SceneGraph((Node("dog"), Node("cat")), (Edge(0, "on", 1),))
    known = {("obj", "dog"): 5, ("att", "red"): 2, ("red", "dog"): 1, ("obj", "cat"): 3, ("rel", "on"): 9}
    counts = {
        split: Counter(item for graph in graphs for item in list_typed_items(graph))
        for split, graphs in {"sc": [red_dog, red_dog], "uc": [related], "ua": []}.items()
    }
    write_frequencies(path, counts, known)
    return path
