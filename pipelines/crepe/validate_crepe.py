"""Stage ``validate_crepe``: stop if CREPE's sets break a rule of quality."""

from pathlib import Path

from caramel.config.schema import Config
from caramel.gates.crepe_sets import validate_crepe_sets
from caramel.gates.suite_summaries import write_summaries
from caramel.runtime.stage_runner import run_stage

SETS = {"systematicity": Path("data/crepe_systematicity"), "productivity": Path("data/crepe_productivity")}


def validate_crepe(config: Config) -> None:
    """Run the suite on each set, and write the summaries."""
    summaries = validate_crepe_sets(
        SETS,
        min_examples=config.crepe.min_examples,
        folder=Path("expectations"),
        docs_folder=Path("work/data_docs"),
    )
    write_summaries(summaries, "data/validate_crepe/summary.json")


if __name__ == "__main__":
    run_stage(validate_crepe)
