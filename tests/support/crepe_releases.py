"""Small inputs of CREPE's graph in the published forms: Visual Genome's JSON, and a corpus like CC12M's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_visual_genome import item, region, write

NOUNS = ("dog", "cat", "cow", "horse", "sheep", "zebra")
COLOURS = ("red", "blue", "green", "black")


def build_pictures() -> list[Any]:
    """Return six pictures of animals, each wet and of a colour, on a bench before a chair."""
    return [
        item(
            i,
            [
                (noun, [COLOURS[i % 4], "wet"]),
                ("bench", ["wooden", "old", "large"]),
                ("chair", ["round"]),
            ],
            [(0, "on top of", 1), (1, "behind", 2)],
        )
        for i, noun in enumerate(NOUNS, 1)
    ]


def write_crepe_inputs(folder: Path) -> tuple[Path, Path]:
    """Write ``visual_genome`` and ``corpus.tsv`` into a folder, and a corpus without captions; return the first two."""
    items, said = build_pictures(), {}
    for i, noun in enumerate(NOUNS, 1):
        said[i] = [
            region(items[i - 1], f"a {COLOURS[i % 4]} {noun}", [0]),
            region(items[i - 1], f"the wet {noun} on top of a wooden bench", [0, 1], [0]),
        ]
    graphs, corpus = write(folder / "visual_genome", items, said), folder / "corpus.tsv"
    captions = ["a blue dog", "a cat that is green", "a green cow", "a black cat on top of a bench"]
    corpus.write_text("".join(f"https://example.org/{i}.jpg\t{text}\n" for i, text in enumerate(captions)))
    (folder / "empty.tsv").write_text("https://example.org/1.jpg\t\n")
    return graphs, corpus
