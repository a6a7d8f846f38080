"""Track the building of CREPE's sets in MLflow: one run per stage, with settings, counts and rejects by reason."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caramel.io.files import compute_file_hash
from caramel.runtime.mlflow import tracking

_INVALID_CHARACTER = re.compile(r"[^\w./ -]")  # in a name in MLflow


def log_set_run(
    stage: str,
    settings: Mapping[str, Any],
    out: Path,
    examples: Mapping[str, int],
    rejects: Mapping[str, int] | None = None,
) -> None:
    """Log what a stage wrote as one run; equal settings and files are the same run.

    Args:
        stage: name of the stage, and of the run.
        settings: section ``crepe`` of the params.
        out: folder that the stage wrote; its SHA-256 is logged as parameter ``files``.
        examples: file or split -> number of examples, logged as ``examples/…``.
        rejects: reason -> number of rejects, logged as ``rejects/…``.

    Raises:
        ConfigError, DataError, ResourceError: as ``tracking.plan_run``.
    """
    import mlflow

    params = {**settings, "files": compute_file_hash(out)}
    metrics = {f"examples/{name}": count for name, count in examples.items()}
    metrics |= {f"rejects/{reason}": count for reason, count in (rejects or {}).items()}
    key = hashlib.sha256(f"{stage} {sorted(params.items())}".encode()).hexdigest()
    with tracking.run(stage, key=key, params=params, tags={"stage": stage}):
        mlflow.log_metrics({_INVALID_CHARACTER.sub("", name): float(n) for name, n in metrics.items()})
