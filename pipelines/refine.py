"""Stage ``refine``: format the captions, drop duplicates, and balance the rows against blind scorers."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.scores import SCORED, write_scores
from caramel.config.schema import Config
from caramel.refine import adversarial as refinement
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.scores import SCORES

INPUTS, OUT = Path("data/negatives"), Path("data/refine")


def refine(config: Config) -> None:
    """Refine the captions, and score the remaining rows again, with other folds than those of the grid."""
    refined = refinement.refine_tables(
        read_table(PAIRS, "data/scenes/pairs.parquet"),
        read_table(NEGATIVES, INPUTS / "negatives.parquet"),
        read_table(PARAPHRASES, INPUTS / "paraphrases.parquet"),
        (
            read_table(SCORES, "data/scores/scores.parquet", only=("scorer", [scorer]))
            for scorer in config.refine.scorers
        ),
        **config.refine.model_dump(),
        folds=config.scores.folds,
    )
    for table in (PAIRS, NEGATIVES, PARAPHRASES, REJECTS):
        write_table(table, getattr(refined, table.name), OUT / f"{table.name}.parquet")
    pairs, negatives = refined.pairs, refined.negatives[SCORED]
    del refined
    settings = config.scores.model_dump() | {"seed": config.refine.seed + 1}
    write_scores(pairs, negatives, OUT, **settings)


if __name__ == "__main__":
    run_stage(refine)
