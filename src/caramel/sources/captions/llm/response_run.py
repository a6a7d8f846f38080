"""Log the requests to a language model as an MLflow run: prompts and their versions, requests, tokens."""

from __future__ import annotations

from pathlib import Path

from caramel.runtime.mlflow import tracking
from caramel.schemas.io import hash_content, read_table
from caramel.schemas.llm import REPLIES


def log_replies(path: Path) -> None:
    """Log a table of responses, written by stage ``negatives``, as one run; the table's bytes are the run's key."""
    import mlflow

    rows = read_table(REPLIES, path, ["model", "prompt", "input_tokens", "output_tokens", "finish_reason"])
    params = dict(prompt.split("@") for prompt in rows["prompt"].unique())
    params |= {"models": " ".join(rows["model"].unique())}
    counts = rows["prompt"].str.split("@").str[0].value_counts()
    with tracking.run(
        "replies",
        key=hash_content(path),
        params=params,
        data=["data/scenes"],
        tags={"stage": "negatives"},
    ):
        mlflow.log_metrics({f"requests/{name}": float(number) for name, number in counts.items()})
        counted = [name for name in ("input_tokens", "output_tokens") if rows[name].notna().any()]
        mlflow.log_metrics({name: float(rows[name].sum()) for name in counted})
        mlflow.log_metric("failed", float((rows["finish_reason"] == "failed").sum()))
