"""Stage ``refine``: format the captions, drop duplicates, and leave nothing to two blind scorers."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.scores import SCORED, write_scores
from caramel.config.schema import Config
from caramel.refine import adversarial as refinement
from caramel.runtime.stage_runner import run
from caramel.schemas import tables

INPUTS, OUT = Path("data/negatives"), Path("data/refine")


def refine(config: Config) -> None:
    """Refine the captions; score what is left afresh, with other folds than the grid's."""
    found = refinement.refine(
        tables.read(tables.PAIRS, "data/scenes/pairs.parquet"),
        tables.read(tables.NEGATIVES, INPUTS / "negatives.parquet"),
        tables.read(tables.PARAPHRASES, INPUTS / "paraphrases.parquet"),
        tables.read(tables.SCORES, "data/scores/scores.parquet", only=("scorer", config.refine.scorers)),
        **config.refine.model_dump(),
        folds=config.scores.folds,
    )
    for name in ("pairs", "negatives", "paraphrases", "rejects"):
        tables.write(tables.TABLES[name], getattr(found, name), OUT / f"{name}.parquet")
    pairs, negatives = found.pairs, found.negatives[SCORED]
    del found
    settings = config.scores.model_dump() | {"seed": config.refine.seed + 1}
    write_scores(pairs, negatives, OUT, **settings)


if __name__ == "__main__":
    run(refine)
