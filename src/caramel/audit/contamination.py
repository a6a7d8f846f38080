"""Texts of a data set that stand in a training corpus as well, word for word or nearly so.

Near duplicates are found by ``minhash``. The corpus is read in blocks, so that memory depends on the texts and not
on its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.io.readers import csv_rows, json_lines, parquet_rows, text_lines
from caramel.io.validators import optional_text
from caramel.utils.minhash import Index, band_keys, bands, hash_functions, jaccard, shingles, signatures
from caramel.utils.text import words_only

COLUMNS = ("text", "kind", "similarity", "row", "corpus_text", "matches")
BLOCK = 20_000  # rows of the corpus that are looked at together
THRESHOLD = 0.8  # least similarity of near duplicates
PERMUTATIONS = 128  # length of the signatures


def leakage(
    texts: Sequence[str],
    corpus: Iterable[str] | Path,
    *,
    column: str = "caption",
    seed: int,
) -> pd.DataFrame:
    """Return the texts that the corpus holds: text, kind, similarity, row, corpus_text, matches.

    ``text`` is the place in ``texts``, and ``row`` that of the most similar row of the corpus (the first of
    them), from 0; ``corpus_text`` is its text. ``kind`` is ``exact`` where both have the same words in the
    same order (case, space and punctuation do not count), else ``near``; ``similarity`` is the Jaccard
    similarity of the sets of word pairs, at least ``THRESHOLD``; ``matches`` counts the rows of the corpus
    that reach it. Exact duplicates are all found; of near ones at the threshold 99 % are, and more above it.
    Texts without words have no duplicates.

    Args:
        texts: to look for.
        corpus: texts, or a file of them: .txt (one per line), .csv, .jsonl or .parquet.
        column: of the texts in a file that is not .txt.
        seed: of the hash functions.

    Raises:
        DataError: the file is missing, broken, of no known format, or lacks the column or texts in it.
    """
    keys = [" ".join(words_only(text)) for text in texts]
    distinct = sorted({key for key in keys if key})
    rows = _rows(corpus, column) if isinstance(corpus, Path) else iter(corpus)
    found = _best(distinct, rows, seed) if distinct else {}
    matched = [
        (place, found[key].kind, found[key].similarity, found[key].row, found[key].text, found[key].matches)
        for place, key in enumerate(keys)
        if key in found
    ]
    return pd.DataFrame(matched, columns=list(COLUMNS))


@dataclass
class _Match:
    """The best row of the corpus for one text so far, and how many there are."""

    kind: str
    similarity: float
    row: int
    text: str
    matches: int = 0


def _best(distinct: Sequence[str], rows: Iterator[str | None], seed: int) -> dict[str, _Match]:
    """Return the best match of each text that has one."""
    ours = shingles([key.split() for key in distinct])
    size, count = bands(THRESHOLD, PERMUTATIONS)
    functions = hash_functions(size * count, seed)
    index = Index(band_keys(signatures(ours, functions), size))
    found: dict[str, _Match] = {}
    first = 0
    while block := list(islice(rows, BLOCK)):
        theirs = [" ".join(words_only(text)) if text else "" for text in block]
        places = [place for place, key in enumerate(theirs) if key]
        if places:
            other = shingles([theirs[place].split() for place in places])
            table = band_keys(signatures(other, functions), size)
            for mine, its in index.pairs(table):
                similarity = jaccard(ours, other, mine, its)
                near = np.flatnonzero(similarity >= THRESHOLD)
                for at in near.tolist():
                    key, place = distinct[mine[at]], places[its[at]]
                    kind = "exact" if key == theirs[place] else "near"
                    match = _Match(kind, float(similarity[at]), first + place, str(block[place]))
                    found[key] = _better(found.get(key), match)
        first += len(block)
    return found


def _better(old: _Match | None, new: _Match) -> _Match:
    """Return the better match, an exact one before the most similar before the first, counting both."""

    def rank(match: _Match) -> tuple[bool, float, int]:
        return match.kind == "exact", match.similarity, -match.row

    best = new if old is None or rank(new) > rank(old) else old
    best.matches = (old.matches if old else 0) + 1
    return best


def _rows(path: Path, column: str) -> Iterator[str | None]:
    """Return the texts of a file, None where a row has none."""
    if path.suffix not in SUFFIXES or not path.is_file():
        what = "is not there" if not path.is_file() else "is of no known format"
        raise DataError(f"The corpus {str(path)!r} {what}. Known formats: {', '.join(SUFFIXES)}.")
    if path.suffix == ".txt":
        return (line.strip() for line in text_lines(path))
    rows = json_lines(path) if path.suffix == ".jsonl" else COLUMNAR[path.suffix](path, [column])
    return _check_some(path, column, (optional_text(row, column, where) for where, row in rows))


def _check_some(path: Path, column: str, texts: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the texts; a DataError at their end if there was none: nothing would stand in such a corpus."""
    is_empty = True
    for text in texts:
        is_empty = is_empty and not (text and text.strip())
        yield text
    if is_empty:
        raise DataError(
            f"The corpus {str(path)!r} holds no text in column {column!r}. Name the column that does."
        )


COLUMNAR = {".csv": csv_rows, ".parquet": parquet_rows}
SUFFIXES = (".txt", ".jsonl", *COLUMNAR)
