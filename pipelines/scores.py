"""Stage ``scores``: what blind text scorers make of the captions as they were written."""

from __future__ import annotations

import json
from pathlib import Path

from caramel import tables
from caramel.blind.scores import blind_accuracy, score_pairs
from caramel.config import Config
from caramel.running.stages import run

OUT = Path("data/scores")


def scores(config: Config) -> None:
    """Score every negative against its positive; write the scores and the blind accuracies."""
    pairs = tables.read(tables.PAIRS, "data/scenes/pairs.parquet")
    negatives = tables.read(tables.NEGATIVES, "data/negatives/negatives.parquet")
    found = score_pairs(pairs, negatives, **config.scores.model_dump())
    tables.write(tables.SCORES, found, OUT / "scores.parquet")
    accuracies = blind_accuracy(found, negatives, pairs=pairs, folds=config.scores.folds)
    (OUT / "blind.json").write_text(json.dumps(accuracies, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(scores)
