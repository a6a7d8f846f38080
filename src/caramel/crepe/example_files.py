"""What a set is made of, and how it is written: CREPE's released CSV files (see ``benchmarks.crepe_files``)."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from caramel.benchmarks.crepe_files import BOX, COLUMNS
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box
from caramel.io.files import write_atomically
from caramel.io.output_paths import remove_file

PlausibilityScorer = Callable[[Sequence[str]], Sequence[float]]
EntailmentScorer = Callable[
    [Sequence[tuple[str, ...]]], Sequence[float]
]  # (caption, text) -> how surely it follows, in [0, 1]
WEIGHED = 40  # negatives of a caption that are given to a model of what is sensible, or of what follows
FOLLOWS = 0.5  # from which on a text counts as one that follows from its caption


@dataclass(frozen=True)
class Example:
    """A part of a picture, its caption, and its hard negatives by column of the file."""

    image_id: str
    box: Box
    caption: str
    negatives: Mapping[str, Sequence[str]]


def select_negatives(
    texts: Iterable[str],
    caption: str,
    number: int,
    rng: np.random.Generator,
    plausible: PlausibilityScorer | None = None,
    entailed: EntailmentScorer | None = None,
) -> list[str]:
    """Return so many different texts, fewer where there are fewer: drawn, or the most sensible of those that are drawn.

    Args:
        texts: hard negatives of a caption.
        caption: which is none of them.
        number: of texts that are wanted.
        rng: of the draw.
        plausible: scores by how sensible texts are, the higher the more.
        entailed: says of texts whether they follow from the caption; those that do are left out.
    """
    different = sorted(set(texts) - {caption})
    drawn = [different[i] for i in rng.permutation(len(different)).tolist()]
    if entailed is not None and drawn:
        drawn = drawn[:WEIGHED]
        sure = entailed([(caption, text) for text in drawn])
        drawn = [text for text, follows in zip(drawn, sure, strict=True) if follows < FOLLOWS]
    if plausible is None or len(drawn) <= number:
        return drawn[:number]
    drawn = drawn[:WEIGHED]
    scores = plausible(drawn)
    return [text for _, text in sorted(zip(scores, drawn, strict=True), key=lambda row: -row[0])][:number]


def write_examples(path: Path, examples: Iterable[Example]) -> int:
    """Write a file of examples, which have the same columns of negatives, and return how many there were.

    None: no file, and that of an earlier run is gone.
    """
    rows = iter(examples)
    first = list(islice(rows, 1))
    if not first:
        remove_file(path)
        return 0
    count = 0

    def write_rows(temporary: Path) -> None:
        nonlocal count
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*COLUMNS, *first[0].negatives])
            writer.writeheader()
            for row in _iter_rows([*first, *rows]):
                writer.writerow(row)
                count += 1

    write_atomically(path, write_rows)
    return count


@contextmanager
def open_rejects(path: Path) -> Iterator[tuple[Callable[[Reject], None], Counter[str]]]:
    """Give what writes a reject as a row of a CSV file (place, reason, text) and counts it, and the counts by reason."""
    counts: Counter[str] = Counter()
    with TemporaryFile("w+", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Reject._fields)

        def record_reject(row: Reject) -> None:
            counts[row.reason] += 1
            writer.writerow(row)

        def copy_rows(temporary: Path) -> None:
            file.seek(0)
            with temporary.open("w", newline="", encoding="utf-8") as whole:
                shutil.copyfileobj(file, whole)

        try:
            yield record_reject, counts
        finally:  # an error may be that all are rejects
            write_atomically(path, copy_rows)


def _iter_rows(examples: Iterable[Example]) -> Iterator[dict[str, object]]:
    for one in examples:
        sides = dict(zip(BOX, (round(side) for side in one.box), strict=True))
        negatives = {column: str(list(texts)) for column, texts in one.negatives.items()}
        yield {"image_id": one.image_id, **sides, "caption": one.caption, **negatives}
