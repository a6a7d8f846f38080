"""Build examples of CREPE-style sets and write them as CREPE's released CSV files.

See ``benchmarks.crepe_files`` for the format.
"""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal

import numpy as np

from caramel.benchmarks.crepe_files import COLUMNS
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box
from caramel.io.files import write_atomically
from caramel.io.output_paths import remove_file

PlausibilityScorer = Callable[[Sequence[str]], Sequence[float]]
EntailmentScorer = Callable[
    [Sequence[tuple[str, ...]]], Sequence[float]
]  # (caption, text) -> probability that the text follows, in [0, 1]
# "place": an atom is drawn, then a word for it. "pool": each negative has the same chance, so an atom with many
# words is replaced more often; the figures of the world were measured with it.
Sampling = Literal["place", "pool"]
WEIGHED = 40  # most swaps of a caption that a model scores
FOLLOWS = 0.5  # probability from which on a text counts as entailed by its caption


@dataclass(frozen=True)
class Example:
    """A crop of an image, its caption, and its hard negatives by column of the file."""

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
    """Return ``number`` different texts, or fewer if there are fewer.

    They are random ones, or the most plausible of a random sample.

    Args:
        texts: hard negatives of a caption.
        caption: the caption, which is not one of them.
        number: number of texts to select.
        rng: random generator.
        plausible: returns scores of texts; a higher score is more plausible.
        entailed: returns whether texts follow from the caption; those that do are left out.
    """
    different = sorted(set(texts) - {caption})
    drawn = [different[i] for i in rng.permutation(len(different)).tolist()]
    if entailed is not None and drawn:
        drawn = drawn[:WEIGHED]
        sure = entailed([(caption, text) for text in drawn])
        drawn = [text for text, follows in zip(drawn, sure, strict=True) if follows < FOLLOWS]
    if plausible is None or len(drawn) <= number:
        return drawn[:number]
    return _rank_texts(drawn[:WEIGHED], plausible)[:number]


def take_negatives(
    drawn: Iterable[str],
    caption: str,
    number: int,
    plausible: PlausibilityScorer | None = None,
) -> list[str]:
    """Return the first ``number`` different texts of those drawn, or the most plausible of all.

    Without a scorer no more texts are drawn than that, so a lazy iterator costs little.
    """
    wanted = number if plausible is None else None
    texts = list(islice(_iter_different(drawn, caption), wanted))
    if plausible is None or len(texts) <= number:
        return texts[:number]
    return _rank_texts(texts, plausible)[:number]


def _iter_different(drawn: Iterable[str], caption: str) -> Iterator[str]:
    """Yield the texts that are neither the caption nor drawn before."""
    known = {caption}
    for text in drawn:
        if text not in known:
            known.add(text)
            yield text


def _rank_texts(texts: Sequence[str], plausible: PlausibilityScorer) -> list[str]:
    return [text for _, text in sorted(zip(plausible(texts), texts, strict=True), key=lambda row: -row[0])]


class ExampleSpool:
    """Examples of one file, which wait on the disk until all are known; they have the same columns of negatives."""

    def __init__(self, file: IO[str]) -> None:
        """Use an empty temporary file."""
        self._file, self._writer, self.count = file, csv.writer(file), 0

    def add_example(self, example: Example) -> None:
        """Add an example."""
        sides = [round(side) for side in example.box]
        if not self.count:
            self._writer.writerow([*COLUMNS, *example.negatives])
        negatives = [str(list(texts)) for texts in example.negatives.values()]
        self._writer.writerow([example.image_id, *sides, example.caption, *negatives])
        self.count += 1

    def write(self, path: Path) -> int:
        """Write the file, and return the number of examples; without any, the file of an earlier run is removed."""
        if not self.count:
            remove_file(path)
        else:
            write_atomically(path, self._copy_rows)
        return self.count

    def _copy_rows(self, temporary: Path) -> None:
        _copy_text(self._file, temporary)


@contextmanager
def open_spools(names: Iterable[str]) -> Iterator[dict[str, ExampleSpool]]:
    """Yield an empty spool for each name; what is not written to a file by the end is gone."""
    with ExitStack() as files:
        yield {
            name: ExampleSpool(files.enter_context(TemporaryFile("w+", newline="", encoding="utf-8")))
            for name in names
        }


def write_examples(path: Path, examples: Iterable[Example]) -> int:
    """Write a file of examples, which have the same columns of negatives, and return how many there are.

    If there are none, no file is written, and the file of an earlier run is removed.
    """
    with open_spools([path.name]) as spools:
        for example in examples:
            spools[path.name].add_example(example)
        return spools[path.name].write(path)


def _copy_text(file: IO[str], target: Path) -> None:
    file.seek(0)
    with target.open("w", newline="", encoding="utf-8") as whole:
        shutil.copyfileobj(file, whole)


@contextmanager
def open_rejects(path: Path) -> Iterator[tuple[Callable[[Reject], None], Counter[str]]]:
    """Yield a function that writes and counts a reject as a row of a CSV file, and the counts by reason.

    The columns are place, reason and text.
    """
    counts: Counter[str] = Counter()
    with TemporaryFile("w+", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Reject._fields)

        def record_reject(row: Reject) -> None:
            counts[row.reason] += 1
            writer.writerow(row)

        try:
            yield record_reject, counts
        finally:  # the rejects explain an error such as "no examples are left"
            write_atomically(path, lambda temporary: _copy_text(file, temporary))
