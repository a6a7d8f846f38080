"""Stage ``validate_captions``: stop the pipeline if captions break a quality rule."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.scores import read_by_scorer
from caramel.config.schema import Config
from caramel.gates import gates
from caramel.gates.suite_summaries import write_summaries
from caramel.refine.adversarial import select_unbalanced
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.stored import StoredTable
from caramel.sources.images.calibration import check_enough

INPUTS = Path("data/refine")
SUMMARY = Path("data/validate_captions/summary.json")


def validate_captions(config: Config) -> None:
    """Run the suites on pairs, negatives, paraphrases and blind accuracy, and write their summaries."""
    pairs, negatives, paraphrases = (
        StoredTable(table, INPUTS / f"{table.name}.parquet") for table in (PAIRS, NEGATIVES, PARAPHRASES)
    )
    if config.filter_images.faithfulness_threshold is None and config.filter_images.calibrate_on == "val":
        check_enough(pairs[["image_id", "split"]])
    summaries = gates.validate_captions(
        pairs,
        negatives,
        paraphrases,
        read_by_scorer(INPUTS / "scores.parquet"),
        select_unbalanced(
            read_table(NEGATIVES, "data/negatives/negatives.parquet", ["negative_id", "pair_id", "type"]),
            read_table(REJECTS, INPUTS / "rejects.parquet"),
        ),
        thresholds=gates.CaptionThresholds(**config.validate_captions.model_dump()),
        folds=config.scores.folds,
        seed=config.scores.seed,
        folder=Path("expectations"),
        docs_folder=Path("work/data_docs"),
    )
    write_summaries(summaries, SUMMARY)


if __name__ == "__main__":
    run_stage(validate_captions)
