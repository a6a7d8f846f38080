"""Stage ``refine``: format the captions, drop duplicates, and balance the rows against blind scorers."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.scores import write_scores
from caramel.config.schema import Config
from caramel.refine.stored_tables import refine_stored_tables
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.stored import StoredTable

INPUTS, OUT = Path("data/negatives"), Path("data/refine")


def refine(config: Config) -> None:
    """Refine the captions, and score the remaining rows again, with other folds than those of the grid."""
    refine_stored_tables(
        Path("data/scenes/pairs.parquet"),
        INPUTS / "negatives.parquet",
        INPUTS / "paraphrases.parquet",
        Path("data/scores/scores.parquet"),
        OUT,
        **config.refine.model_dump(),
        folds=config.scores.folds,
    )
    settings = config.scores.model_dump() | {"seed": config.refine.seed + 1}
    write_scores(
        read_table(PAIRS, OUT / "pairs.parquet", ["pair_id", "image_id", "caption"]),
        StoredTable(NEGATIVES, OUT / "negatives.parquet"),
        OUT,
        **settings,
    )


if __name__ == "__main__":
    run_stage(refine)
