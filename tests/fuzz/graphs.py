"""A small Visual Genome, WordNet and corpus, and the index of it."""

from __future__ import annotations

from pathlib import Path

import small_visual_genome
from corpus import DATA

from caramel.crepe.corpus_index import build_index
from caramel.interfaces.scene_graph import Atom

SET = "--graphs data/vg --words wordnet:data/dict --out out"
NOUNS, COLOURS = ("dog", "cat", "wolf", "dogs"), ("black", "red", "white")


def corpus_and_graphs() -> None:
    """Write pictures of animals whose regions say "a red dog", the thesaurus and captions."""
    items, said = [], {}
    for i, noun in enumerate(NOUNS, 1):
        things = [(noun, [COLOURS[i % 3], "snowy"]), ("animal", ["red"]), ("gnu", [])]
        items.append(small_visual_genome.item(i, things, [(0, "on top of", 1), (1, "run", 2)]))
        said[i] = [small_visual_genome.region(items[-1], f"a {COLOURS[i % 3]} {noun}", [0])]
    small_visual_genome.write(DATA / "vg", items, said)
    small_visual_genome.wordnet(DATA / "dict")
    (DATA / "corpus.csv").write_text("caption\na red dog\na black cat\n", encoding="utf-8")


def annotated_captions() -> None:
    """Write captions with annotated graphs."""
    DATA.mkdir(parents=True, exist_ok=True)
    rows = 'caption,scene_graph\na red dog,"( dog , is , red )"\na cat on a dog,"( cat , on , dog )"\n'
    (DATA / "annotated.csv").write_text(rows, encoding="utf-8")


def indexed() -> None:
    """Write the same, and the index of the corpus."""
    corpus_and_graphs()
    atoms: list[Atom] = [
        *(("obj", word) for word in (*NOUNS, "animal", "gnu")),
        *(("att", word) for word in (*COLOURS, "snowy")),
        *(("rel", word) for word in ("on top of", "run")),
    ]
    build_index(DATA / "corpus.csv", atoms, column="caption", folder=Path(DATA / "index"))
