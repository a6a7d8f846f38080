"""Stage ``select_negatives``: the best negatives by blind scorers; these are drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

from caramel.config.schema import Config
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.rejects import REJECTS

REFINED, OUT = Path("data/refine"), Path("data/select_negatives")


def select_negatives(config: Config) -> None:
    """Write data/select_negatives/{negatives,rejects}.parquet; without settings, all negatives as they are."""
    section = config.select_negatives
    OUT.mkdir(parents=True, exist_ok=True)
    if section is None:
        shutil.copyfile(REFINED / "negatives.parquet", OUT / "negatives.parquet")
        write_table(REJECTS, build_frame(REJECTS, []), OUT / "rejects.parquet")
        return
    from caramel.refine.best_negatives import select_best_negatives

    select_best_negatives(
        REFINED / "negatives.parquet",
        REFINED / "pairs.parquet",
        OUT,
        **section.model_dump(),
        folds=config.scores.folds,
        executor=config.run.executor,
        folder=Path("work/select_negatives"),
    )


if __name__ == "__main__":
    run_stage(select_negatives)
