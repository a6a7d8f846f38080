"""SugarCrepe with errata and the results of models on it, CREPE's sets, and what must hold of errata that are taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import crepe_sets
import explored
from annotated import annotated
from corpus import DATA, ROWS, caption, errata, negative
from harness import Seen
from independent import Unreadable, rows_of

from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import write_table

ERRATA = "data/errata.jsonl"


def results() -> None:
    """Write ``data``, SugarCrepe with errata, and the results of two models: ``results/a``, ``results/b``."""
    errata()
    for k, name in enumerate("ab"):
        gaps = [((n + k) % 3 - 1) / 2 for n in range(ROWS)]
        explored.write_results(Path("results", name), DATA, {name: gaps})


def crepe_sets_of_people() -> None:
    """Write CREPE's sets in ``data`` and their images in ``vg``."""
    crepe_sets.write_sets(DATA, Path("vg"))


def crepe_results() -> None:
    """Write results on CREPE's sets, frequencies of atoms, and models' accuracies on ImageNet."""
    crepe_sets.write_results(DATA)
    crepe_sets.write_counts(DATA / "frequencies_in_x.csv")
    rows = [f"{model},{60 + n}" for n, model in enumerate(crepe_sets.MODELS)]
    (DATA / "imagenet.csv").write_text("\n".join(["model,accuracy", *rows]) + "\n")


def crepe_answers() -> None:
    """Write answers of two people to statements of both sets."""
    cells = [f"crepe_productivity/{t}/n{n}" for t in ("atom", "swap") for n in (4, 12)]
    names = [f"{cell}-{n}/{text}" for cell in [*cells, "crepe_systematicity/x/sc/comp"] for n in range(3) for text in ("caption", "0")]  # fmt: skip
    said = {
        one: {name: "yes" if (n + k) % 3 else "no" for n, name in enumerate(names)}
        for k, one in enumerate("ab")
    }
    write_table(ANNOTATIONS, annotated(said, "true"), DATA / "answers.parquet")


def errata_fit_the_texts(seen: Seen) -> Iterator[str]:
    """Errata are taken only if each of the benchmark's is of a text that the published instance has."""
    data = seen.files.get(ERRATA)
    if seen.code or data is None:
        return
    try:
        rows = rows_of(ERRATA, data)
    except Unreadable as error:
        yield f"took errata although {error}"
        return
    texts = {f"{('swap_obj', 'add_att')[n >= 3]}-{n}": {"caption": caption(n), "negative_caption": negative(n)} for n in range(ROWS)}  # fmt: skip
    for row in rows:
        if row["benchmark"] == "sugarcrepe" and texts[row["instance"]][row["field"]] != row["from"]:
            yield "took an erratum of a text that the instance does not have"
