"""Count the atoms and compounds of the systematicity set, and how often its corpus has them (table 8, figure 12)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.scene_graph import SceneGraph
from caramel.io.files import write_atomically
from caramel.io.readers import iter_csv_rows

COLUMNS = ("split", "type", "words", "in_set", "in_corpus")
SEPARATOR = " | "  # between the words of a compound

Item = tuple[str, tuple[str, ...]]  # type, and the atom (type and word) or the words of the compound


def list_typed_items(graph: SceneGraph) -> list[Item]:
    """Return the atoms and compounds of a graph, each with its type."""
    atoms = [(atom_type, (atom_type, word)) for atom_type, word in graph.list_atoms()]
    return [*atoms, *(("compound", compound) for compound in graph.list_compounds())]


def write_frequencies(
    path: Path,
    counts_by_split: Mapping[str, Counter[Item]],
    corpus_counts: Mapping[tuple[str, ...], int],
) -> None:
    """Write a row for each atom and compound of each split.

    Args:
        path: the CSV file.
        counts_by_split: split -> number of its examples with each item (``list_typed_items``).
        corpus_counts: atom (type and word) or compound (its words) -> number of captions of the corpus with it.
    """
    rows = []
    for split, counts in counts_by_split.items():
        for (item_type, item), count in sorted(counts.items()):
            words = SEPARATOR.join(item if item_type == "compound" else item[1:])
            rows.append((split, item_type, words, count, corpus_counts.get(item, 0)))

    def write_rows(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])

    write_atomically(path, write_rows)


def read_frequencies(path: Path) -> pd.DataFrame:
    """Return the rows of a file of frequencies.

    Raises:
        DataError: the file is missing, lacks a column, or a count is no number.
    """
    rows = [{name: row[name] for name in COLUMNS} for _, row in iter_csv_rows(path, COLUMNS)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    try:
        return frame.astype({"in_set": int, "in_corpus": int})
    except ValueError as error:
        raise DataError(f"{str(path)!r} has a count that is no number: {error}.") from error


def summarise_frequencies(counts: pd.DataFrame) -> pd.DataFrame:
    """Return table 8: the numbers of different atoms and compounds of each split, and of those that the corpus has."""
    is_compound, is_seen = counts["type"] == "compound", counts["in_corpus"] > 0
    columns = {
        "atoms": ~is_compound,
        "atoms_seen": ~is_compound & is_seen,
        "compounds": is_compound,
        "compounds_seen": is_compound & is_seen,
    }
    return pd.DataFrame(columns).groupby(counts["split"], sort=False).sum().reset_index()
