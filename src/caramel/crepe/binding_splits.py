"""Split the instances of a benchmark by the compounds that a training corpus holds, as BindSplit does.

A caption's compounds are its nouns with their attributes, and its pairs of nouns with the relation between them, as
in CREPE (Ma et al. 2023, 3.1). A compound is seen if the corpus contains it; ``corpus_index`` counts that. Of an
instance only what differs counts: the compounds of the positive that the negative lacks, and the reverse.

A parser finds the compounds, so the splits are a proxy: what it misses or misreads, it splits wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from caramel.benchmarks.content import TEXTS_HASH, hash_texts
from caramel.crepe.corpus_index import NAME, count_seen_items
from caramel.errors import DataError
from caramel.interfaces.benchmark import Comparisons, Task
from caramel.interfaces.scene_graph import Compound, SceneGraph
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value
from caramel.registry import GRAPH_PARSERS

SPLITS_NAME = "binding.csv"  # beside the index
SEEN, UNSEEN, NONE = STATES = "seen", "unseen", "none"  # none: the parser found no compound that differs
COLUMNS = (
    "benchmark",
    "instance_id",
    TEXTS_HASH,
    "positive",
    "negative",
    "positive_unseen",
    "negative_unseen",
)
COMPOUND_LENGTHS = {"all": (2, 3), "attributes": (2,), "relations": (3,)}  # words of the compounds that count
_BETWEEN = "\x1f"  # as in an index


class CaptionPair(NamedTuple):
    """The caption of an instance and its hard negative."""

    benchmark: str
    instance_id: str
    texts_hash: str
    positive: str
    negative: str


class BindingSplit(NamedTuple):
    """Whether the corpus holds what differs between the captions of an instance: each one of ``STATES``."""

    texts_hash: str
    positive: str
    negative: str


def list_caption_pairs(task: Task, benchmark: str) -> list[CaptionPair]:
    """Return the instances of a benchmark that have a caption and a hard negative.

    Raises:
        DataError: there are none, as in a benchmark that ranks candidates.
    """
    pairs = []
    if isinstance(task, Comparisons):
        names = ("instance_id", "caption", "negative_caption")
        rows = zip(hash_texts(task), *(task.rows[name] for name in names), strict=True)
        pairs = [
            CaptionPair(benchmark, name, hashed, positive, negative)
            for hashed, name, positive, negative in rows
            if positive is not None and negative is not None
        ]
    if not pairs:
        raise DataError(
            f"Benchmark {benchmark!r} has no instance with a caption and a hard negative, so nothing can be split. "
            f"Benchmarks that rank candidates have no single negative."
        )
    return pairs


def parse_pairs(pairs: Iterable[CaptionPair], parser: str) -> dict[str, SceneGraph]:
    """Return text -> scene graph for all captions.

    Args:
        pairs: the instances.
        parser: NAME:TARGET of ``GRAPH_PARSERS``; one that needs no list of words.

    Raises:
        BackendError: the parser is unknown or cannot be loaded.
        DataError: it finds no word in any caption, as a parser that only looks for listed words.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.positive, pair.negative)))
    name, _, target = parser.partition(":")
    graphs = GRAPH_PARSERS[name].load(target, frozenset())(texts)
    if not any(graph.nodes for graph in graphs):
        raise DataError(
            f"Parser {parser!r} finds no word in {len(texts):,} captions, such as {format_value(texts[0])}. Give "
            f"--caption-parser spacy:MODEL or seq2seq:FOLDER; `phrases` only looks for words that are listed."
        )
    return dict(zip(texts, graphs, strict=True))


def compute_binding_splits(
    pairs: Sequence[CaptionPair],
    graphs: Mapping[str, SceneGraph],
    index: Path,
    *,
    compounds: str = "all",
) -> pd.DataFrame:
    """Return the split of each instance, with the unseen compounds of each side; the columns are ``COLUMNS``.

    Args:
        pairs: the instances.
        graphs: text -> scene graph.
        index: folder of the index of the corpus.
        compounds: which compounds count, one of ``COMPOUND_LENGTHS``.

    Raises:
        DataError: the index was built without searching for a word of the graphs.
    """
    known = count_seen_items(index / NAME, graphs.values()).keys()
    lengths = COMPOUND_LENGTHS[compounds]
    rows = []
    for pair in pairs:
        positive, negative = (
            frozenset(c for c in graphs[text].list_compounds() if len(c) in lengths)
            for text in (pair.positive, pair.negative)
        )
        distinct = positive - negative, negative - positive
        unseen = [sorted(c for c in side if _BETWEEN.join(c) not in known) for side in distinct]
        states = [_name_state(side, missing) for side, missing in zip(distinct, unseen, strict=True)]
        listed = ["; ".join(map(" ".join, missing)) for missing in unseen]
        rows.append((*pair[:3], *states, *listed))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def read_binding_splits(index: Path, benchmark: str) -> dict[str, BindingSplit]:
    """Return instance -> split of a benchmark, from the folder of an index.

    Raises:
        DataError: the file is missing or broken, or has no instance of the benchmark.
    """
    path = index / SPLITS_NAME
    splits = {}
    if path.is_file():
        for where, row in iter_csv_rows(path, COLUMNS):
            for side in ("positive", "negative"):
                if row[side] not in STATES:
                    raise DataError(
                        f"{where}: {side} is {format_value(row[side])}, not one of {', '.join(STATES)}."
                    )
            if row["benchmark"] == benchmark:
                splits[row["instance_id"]] = BindingSplit(row[TEXTS_HASH], row["positive"], row["negative"])
    if not splits:
        raise DataError(
            f"{str(index)!r} holds no splits of benchmark {benchmark!r}. Write them with\n"
            f"  caramel crepe index CORPUS --benchmark {benchmark} --data FOLDER --caption-parser spacy:MODEL "
            f"--out {index}"
        )
    return splits


def _name_state(distinct: frozenset[Compound], unseen: Sequence[Compound]) -> str:
    if not distinct:
        return NONE
    return UNSEEN if unseen else SEEN
