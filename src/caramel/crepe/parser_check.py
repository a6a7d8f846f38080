"""Compare the graphs of a parser with annotated graphs (Ma et al. 2023, table 3): precision and recall.

A row is a caption with its graph in the form of FACTUAL (Li et al. 2023), whose captions are descriptions of Visual
Genome's regions: "( man , on , horse ) , ( horse , is , brown )". Items are compared as sets within a caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from caramel.crepe.parsers.sequence_parser import read_graph
from caramel.errors import DataError
from caramel.interfaces.scene_graph import SceneGraph
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value, read_text_field
from caramel.registry import GRAPH_PARSERS

ITEM_TYPES = ("object", "attribute", "relation", "attribute of object", "triplet")


class AnnotatedCaption(NamedTuple):
    """A caption and the graph that people wrote for it."""

    text: str
    graph: SceneGraph


def read_annotated_captions(path: Path) -> list[AnnotatedCaption]:
    """Return the rows of a CSV file with columns ``caption`` and ``scene_graph``.

    Raises:
        DataError: the file is invalid or has no row, or a graph has no object.
    """
    rows: list[AnnotatedCaption] = []
    for where, row in iter_csv_rows(path, ("caption", "scene_graph")):
        text = read_text_field(row, "caption", where)
        graph = read_graph(row["scene_graph"])
        if not graph.nodes:
            raise DataError(
                f"{where}: scene_graph has no object: {format_value(row['scene_graph'])}. Write it as in "
                f'"( man , on , horse ) , ( horse , is , brown )".'
            )
        rows.append(AnnotatedCaption(text, graph))
    if not rows:
        raise DataError(f"{str(path)!r} has no rows: give a CSV file with columns caption and scene_graph.")
    return rows


def list_items(graph: SceneGraph) -> dict[str, frozenset[tuple[str, ...]]]:
    """Return item type -> distinct items of a graph."""
    atoms, compounds = graph.list_atoms(), graph.list_compounds()
    words = {
        atom_type: frozenset((word,) for known, word in atoms if known == atom_type)
        for atom_type in ("obj", "att", "rel")
    }
    by_length = [frozenset(items for items in compounds if len(items) == number) for number in (2, 3)]
    return dict(zip(ITEM_TYPES, [*words.values(), *by_length], strict=True))


def compare_graphs(rows: Sequence[AnnotatedCaption], graphs: Sequence[SceneGraph]) -> pd.DataFrame:
    """Return a row for each caption and item type: caption, item, n_annotated, n_parsed, n_common."""
    counts = []
    for row, graph in zip(rows, graphs, strict=True):
        parsed = list_items(graph)
        for item, annotated in list_items(row.graph).items():
            common = len(annotated & parsed[item])
            counts.append((row.text, item, len(annotated), len(parsed[item]), common))
    return pd.DataFrame(counts, columns=["caption", "item", "n_annotated", "n_parsed", "n_common"])


def compute_precision_recall(counts: pd.DataFrame) -> pd.DataFrame:
    """Return precision and recall by item type, in [0, 1], over all captions; NaN where nothing was parsed or annotated."""
    sums = counts.groupby("item", sort=False)[["n_annotated", "n_parsed", "n_common"]].sum()
    return sums.assign(
        precision=sums["n_common"] / sums["n_parsed"], recall=sums["n_common"] / sums["n_annotated"]
    )


def check_parser(rows: Sequence[AnnotatedCaption], parser: str) -> pd.DataFrame:
    """Return the counts of ``compare_graphs`` for a parser, NAME:TARGET.

    The parser knows the annotated words, as it knows those of a test set in an index of a corpus.

    Raises:
        BackendError: there is no such parser, or its model is missing or invalid.
    """
    name, _, target = parser.partition(":")
    atoms = frozenset(atom for row in rows for atom in row.graph.list_atoms())
    parse = GRAPH_PARSERS[name].load(target, atoms)
    return compare_graphs(rows, parse([row.text for row in rows]))
