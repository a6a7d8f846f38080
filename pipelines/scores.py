"""Stage ``scores``: score the captions with blind text scorers, before refinement."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.positive_control import compute_positive_control
from caramel.blind.scores import write_scores
from caramel.config.schema import Config
from caramel.io.files import write_json
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.stored import StoredTable

OUT = Path("data/scores")


def scores(config: Config) -> None:
    """Score every negative against its positive, and write scores, blind accuracies and the positive control."""
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet", ["pair_id", "image_id", "caption"])
    negatives = StoredTable(NEGATIVES, Path("data/negatives/negatives.parquet"))
    write_scores(pairs, negatives, OUT, **config.scores.model_dump())
    control = compute_positive_control(pairs, negatives, **config.scores.model_dump())
    write_json(OUT / "positive_control.json", control)


if __name__ == "__main__":
    run_stage(scores)
