"""Measure `caramel crepe` on scene graphs of many regions: processor time and peak memory of each command.

`python bench/crepe_scale.py OUT --regions 1000000` writes files in the form of Visual Genome's into OUT/vg, with images
of 20 objects, 20 relations and 20 regions of the word lists' words, and a corpus of captions. It runs `index`,
`systematicity` (with D_RAW) and `productivity` on them, each in a process of its own, and prints the seconds of processor
and the peak memory of each. `bench/corpus_index.py` measures the index of a large corpus, and Ray's workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from corpus_index import LISTS, RELATIONS, generate_captions

PER_IMAGE = 20  # objects, relations and regions
SIDE = 800  # pixels of an image
BOX = {"x": 0, "y": 0, "width": 400, "height": 400}
CAPTIONS = 50_000
WITH_RELATION, WITH_BOTH = 0.6, 0.25  # of regions; the others have an attribute
RUN = "import sys; from caramel.cli import main; main(sys.argv[1:])"


def generate_image(image_id: int, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an image's items of ``scene_graphs.json`` and ``region_graphs.json``."""
    adjectives, nouns = LISTS
    names = [nouns[i] for i in rng.permutation(len(nouns))[:PER_IMAGE].tolist()]
    looks = [adjectives[i] for i in rng.integers(len(adjectives), size=PER_IMAGE).tolist()]
    first = image_id * PER_IMAGE  # id of the first object
    objects = [
        {"object_id": first + n, "names": [name], "attributes": [look], "x": 10 * n, "y": 10, "w": 300, "h": 300}
        for n, (name, look) in enumerate(zip(names, looks, strict=True))
    ]  # fmt: skip
    relations = [
        {
            "relationship_id": first + n,
            "subject_id": first + n,
            "predicate": RELATIONS[predicate],
            "object_id": first + (n + 1) % PER_IMAGE,
        }
        for n, predicate in enumerate(rng.integers(len(RELATIONS), size=PER_IMAGE).tolist())
    ]
    regions = []
    for n, (relation, draw) in enumerate(zip(relations, rng.random(PER_IMAGE).tolist(), strict=True)):
        related = draw < WITH_RELATION + WITH_BOTH
        look = "" if draw < WITH_RELATION else f"{looks[n]} "
        rest = f" {relation['predicate']} the {names[(n + 1) % PER_IMAGE]}" if related else ""
        ends = [n, (n + 1) % PER_IMAGE] if related else [n]
        regions.append(
            {
                **BOX,
                "region_id": first + n,
                "phrase": f"the {look}{names[n]}{rest}",
                "objects": [{"object_id": first + end} for end in ends],
                "relationships": [relation] if related else [],
            }
        )
    graph = {"image_id": image_id, "objects": objects, "relationships": relations}
    return graph, {"image_id": image_id, "regions": regions}


def write_graphs(folder: Path, images: int) -> None:
    """Write the three files of the release, one image at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [{"image_id": i, "width": SIDE, "height": SIDE} for i in range(1, images + 1)]
    (folder / "image_data.json").write_text(json.dumps(sizes), encoding="utf-8")
    rng = np.random.default_rng(0)
    paths = [folder / name for name in ("scene_graphs.json", "region_graphs.json")]
    with paths[0].open("w", encoding="utf-8") as graphs, paths[1].open("w", encoding="utf-8") as regions:
        for image_id in range(1, images + 1):
            for file, item in zip((graphs, regions), generate_image(image_id, rng), strict=True):
                file.write(("[" if image_id == 1 else ", ") + json.dumps(item))
        for file in (graphs, regions):
            file.write("]")


def measure_command(arguments: Sequence[str]) -> str:
    """Run a command; return its seconds of processor and clock, and its peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "crepe", *arguments], stdout=subprocess.DEVNULL, text=True
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"`caramel crepe {' '.join(arguments)}` failed.")
    seconds = time.perf_counter() - start
    return (
        f"{usage.ru_utime + usage.ru_stime:.0f} s of processor, {seconds:.0f} s by the clock, "
        f"at most {usage.ru_maxrss // 1024:,} MiB"
    )


def iter_commands(out: Path) -> Iterator[list[str]]:
    """Yield the arguments of the commands."""
    graphs = ["--graphs", str(out / "vg")]
    index = str(out / "index")
    yield ["index", str(out / "corpus.txt"), *graphs, "--out", index]
    yield [
        *("systematicity", *graphs, "--index", index, "--name", "x", "--words", "lists"),
        *("--out", str(out / "systematicity"), "--raw", str(out / "raw")),
    ]
    yield ["productivity", *graphs, "--words", "lists", "--out", str(out / "productivity")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--regions", type=int, default=1_000_000)
    given = parser.parse_args()
    write_graphs(given.out / "vg", given.regions // PER_IMAGE)
    texts = generate_captions(CAPTIONS, 0)
    (given.out / "corpus.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for command in iter_commands(given.out):
        print(f"{given.regions:,} regions, {command[0]}: {measure_command(command)}", flush=True)
