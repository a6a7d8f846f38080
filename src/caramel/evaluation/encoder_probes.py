"""What the frozen encoders of a run give away: linear probes of positions, and detectors of synthetic items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from caramel.evaluation.position_probe import probe_positions
from caramel.evaluation.results.summary import BASE
from caramel.evaluation.synthetic_probe import evaluate_detectors
from caramel.interfaces.settings import Execution
from caramel.utils.resampling import Bootstrap


def probe_encoders(
    folders: Mapping[str, str],
    assembled: Path,
    scenes: Path,
    *,
    split: str,
    device: str,
    batch_size: int,
    bootstrap: Bootstrap,
    execution: Execution,
) -> dict[str, pd.DataFrame]:
    """Return tables ``probes`` (of all models) and ``detectors`` (of the base).

    Both read encoders, and no result of a model on a benchmark.

    Args:
        folders: checkpoint folder by name of the model; the base is one of them.
        assembled: folder of stage ``assemble``.
        scenes: folder of the source's pairs and images.
        split: split of the evaluated instances and pairs.
        device: auto, cpu or cuda.
        batch_size: items per forward pass.
        bootstrap: settings of the detectors' intervals.
        execution: how shards are encoded; its folder holds results and the embedding store.
    """
    probes = probe_positions(
        folders, scenes, split=split, device=device, batch_size=batch_size, execution=execution
    )
    detectors = evaluate_detectors(
        folders[BASE],
        assembled,
        scenes,
        split=split,
        device=device,
        batch_size=batch_size,
        bootstrap=bootstrap,
        folder=execution.folder,
        gpus=execution.gpus,
    )
    return {"probes": probes, "detectors": detectors}
