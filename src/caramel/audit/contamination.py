"""Find texts of a data set that a training corpus also contains, exactly or nearly.

Near duplicates are found by ``minhash``. The corpus is read in blocks, so that memory depends on the texts
and not on the length of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.io.readers import iter_csv_rows, iter_json_lines, iter_lines, iter_parquet_rows
from caramel.io.validators import read_optional_text
from caramel.utils.minhash import (
    Index,
    build_shingles,
    choose_bands,
    compute_band_keys,
    compute_jaccard,
    compute_signatures,
    hash_functions,
)
from caramel.utils.text import extract_words

COLUMNS = ("text", "kind", "similarity", "row", "corpus_text", "matches")
BLOCK = 20_000  # rows of the corpus that are compared at a time
THRESHOLD = 0.8  # minimum similarity of near duplicates
PERMUTATIONS = 128  # length of the signatures


def find_contamination(
    texts: Sequence[str],
    corpus: Iterable[str] | Path,
    *,
    column: str = "caption",
    seed: int,
) -> pd.DataFrame:
    """Return a row for each text that the corpus contains.

    The columns are:

    - ``text``: index in ``texts``.
    - ``kind``: ``exact`` if both texts have the same words in the same order (case, space and punctuation do
      not count), else ``near``.
    - ``similarity``: Jaccard similarity of the sets of word bigrams, at least ``THRESHOLD``.
    - ``row``: index of the best match in the corpus, from 0; the first row among equals. An exact match
      precedes a near one.
    - ``corpus_text``: text of this row.
    - ``matches``: number of rows of the corpus that reach the threshold.

    All exact duplicates are found. Of near duplicates at the threshold 99 % are found, and more above it.
    Texts without words have no duplicates.

    Args:
        texts: texts to look for.
        corpus: texts, or a file of texts: .txt (one per line), .csv, .jsonl or .parquet.
        column: column of the texts in a file that is not .txt.
        seed: random seed for the hash functions.

    Raises:
        DataError: the file is missing, broken or of an unknown format, or lacks the column, or the column has
            no text.
    """
    keys = [" ".join(extract_words(text)) for text in texts]
    distinct = sorted({key for key in keys if key})
    rows = _read_texts(corpus, column) if isinstance(corpus, Path) else iter(corpus)
    best_matches = _find_best_matches(distinct, rows, seed) if distinct else {}
    matched = [
        (
            index,
            best_matches[key].match_type,
            best_matches[key].similarity,
            best_matches[key].row,
            best_matches[key].text,
            best_matches[key].matches,
        )
        for index, key in enumerate(keys)
        if key in best_matches
    ]
    return pd.DataFrame(matched, columns=list(COLUMNS))


@dataclass
class _Match:
    """The best row of the corpus for one text so far, and the number of matching rows."""

    match_type: str
    similarity: float
    row: int
    text: str
    matches: int = 0


def _find_best_matches(distinct: Sequence[str], rows: Iterator[str | None], seed: int) -> dict[str, _Match]:
    """Return the best match of each text that has a match."""
    ours = build_shingles([key.split() for key in distinct])
    size, count = choose_bands(THRESHOLD, PERMUTATIONS)
    functions = hash_functions(size * count, seed)
    index = Index(compute_band_keys(compute_signatures(ours, functions), size))
    best_matches: dict[str, _Match] = {}
    first = 0
    while block := list(islice(rows, BLOCK)):
        theirs = [" ".join(extract_words(text)) if text else "" for text in block]
        positions = [position for position, key in enumerate(theirs) if key]
        if positions:
            other = build_shingles([theirs[position].split() for position in positions])
            table = compute_band_keys(compute_signatures(other, functions), size)
            for text_ids, corpus_ids in index.iter_pairs(table):
                similarity = compute_jaccard(ours, other, text_ids, corpus_ids)
                near = np.flatnonzero(similarity >= THRESHOLD)
                for at in near.tolist():
                    key, position = distinct[text_ids[at]], positions[corpus_ids[at]]
                    match_type = "exact" if key == theirs[position] else "near"
                    match = _Match(match_type, float(similarity[at]), first + position, str(block[position]))
                    best_matches[key] = _select_better(best_matches.get(key), match)
        first += len(block)
    return best_matches


def _select_better(old: _Match | None, new: _Match) -> _Match:
    """Return the better match, with both matches counted.

    An exact match is better than a near one; then the higher similarity is better, then the earlier row.
    """

    def rank_match(match: _Match) -> tuple[bool, float, int]:
        return match.match_type == "exact", match.similarity, -match.row

    best = new if old is None or rank_match(new) > rank_match(old) else old
    best.matches = (old.matches if old else 0) + 1
    return best


def _read_texts(path: Path, column: str) -> Iterator[str | None]:
    """Return the texts of a file; None for a row without text."""
    if path.suffix not in SUFFIXES or not path.is_file():
        what = "does not exist" if not path.is_file() else "has an unknown format"
        raise DataError(f"The corpus {str(path)!r} {what}. Known formats: {', '.join(SUFFIXES)}.")
    if path.suffix == ".txt":
        return _check_some(path, None, (line.strip() for line in iter_lines(path)))
    rows = iter_json_lines(path) if path.suffix == ".jsonl" else COLUMNAR[path.suffix](path, [column])
    return _check_some(path, column, (read_optional_text(row, column, where) for where, row in rows))


def _check_some(path: Path, column: str | None, texts: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the texts, and raise a DataError at their end if all were empty; a file of lines has no column."""
    is_empty = True
    for text in texts:
        is_empty = is_empty and not (text and text.strip())
        yield text
    if is_empty:
        raise DataError(
            f"The corpus {str(path)!r} holds no text in column {column!r}. Name the column that holds the texts."
            if column is not None
            else f"The corpus {str(path)!r} holds no text. Give a file with one text per line."
        )


COLUMNAR = {".csv": iter_csv_rows, ".parquet": iter_parquet_rows}
SUFFIXES = (".txt", ".jsonl", *COLUMNAR)
