"""Write which rows of stored tables are kept, and the others as table ``rejects``, one row group at a time.

What is decided on needs some columns of all rows. The other columns are never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.blind.scores import SCORED
from caramel.refine.adversarial import STAGE, Reasons, refine_tables
from caramel.schemas.contracts import Table
from caramel.schemas.io import iter_table, read_table, write_table_parts
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.scores import SCORES


class DecidedTable(NamedTuple):
    """A stored table of n rows, and what becomes of them.

    Attributes:
        table: the contract.
        path: its file.
        reasons: why a row is rejected; "" if it is kept. (n,).
        name: column with the ``id`` of a rejected row.
        text: column with the ``text`` of a rejected row.
        texts: (n,) values that replace those of the column ``text``; None: they stay.
        ending: ends each ``id``.
    """

    table: Table
    path: Path
    reasons: Reasons
    name: str
    text: str
    texts: pd.Series[str] | None = None
    ending: str = ""

    def iter_kept(self) -> Iterator[pd.DataFrame]:
        """Yield the kept rows, in the table's order."""
        for rows, reason in self._iter_rows():
            yield rows[reason == ""]

    def iter_rejects(self, stage: str) -> Iterator[pd.DataFrame]:
        """Yield the other rows as table ``rejects``."""
        for rows, reason in self._iter_rows():
            bad = reason != ""
            dropped = rows[bad]
            yield pd.DataFrame(
                {
                    "id": dropped[self.name] + self.ending,
                    "stage": stage,
                    "reason": reason[bad],
                    "text": dropped[self.text],
                }
            )

    def _iter_rows(self) -> Iterator[tuple[pd.DataFrame, Reasons]]:
        """Yield the rows of each row group with their reasons."""
        start = 0
        for rows in iter_table(self.table, self.path):
            here = slice(start, start + len(rows))
            if self.texts is not None:
                rows = rows.assign(**{self.text: self.texts.array[here]})
            yield rows, self.reasons[here]
            start += len(rows)
        assert start == len(self.reasons)


def write_decided_tables(tables: Sequence[DecidedTable], out: Path, *, stage: str) -> None:
    """Write the kept rows of each table to ``out``/NAME.parquet, and the others of all to ``out``/rejects.parquet."""
    for one in tables:
        write_table_parts(one.table, one.iter_kept(), out / f"{one.table.name}.parquet")
    rejects = (part for one in tables for part in one.iter_rejects(stage))
    write_table_parts(REJECTS, rejects, out / "rejects.parquet")


def refine_stored_tables(
    pairs: Path, negatives: Path, paraphrases: Path, scores: Path, out: Path, **settings: Any
) -> None:
    """Write what ``refine_tables`` keeps and rejects of the tables in these files; see ``write_decided_tables``.

    Args:
        out: folder of the new tables; not a folder of the given ones.
        settings: of ``refine_tables``. Errors are those of ``refine_tables`` and ``read_table``.
    """
    refinement = refine_tables(
        read_table(PAIRS, pairs, ["pair_id", "image_id", "caption"]),
        read_table(NEGATIVES, negatives, SCORED),
        read_table(PARAPHRASES, paraphrases, ["pair_id", "caption2"]),
        iter_table(SCORES, scores),
        **settings,
    )
    captions, negative_captions, captions2 = refinement.texts
    of_pairs, of_negatives, of_paraphrases = refinement.reasons
    decided = [
        DecidedTable(PAIRS, pairs, of_pairs, "pair_id", "caption", captions),
        DecidedTable(
            NEGATIVES, negatives, of_negatives, "negative_id", "negative_caption", negative_captions
        ),
        DecidedTable(
            PARAPHRASES, paraphrases, of_paraphrases, "pair_id", "caption2", captions2, ":paraphrase"
        ),
    ]
    write_decided_tables(decided, out, stage=STAGE)
