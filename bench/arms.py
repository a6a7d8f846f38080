"""Shared parts of the tables of training arms: Group of an encoder on instances, and rows saved as they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pandas as pd

from caramel.benchmarks.metrics import compute_outcomes

BATCH = 256


def score_group(
    encoder: Any, captions: Sequence[Iterable[str]], images: Sequence[Iterable[bytes]]
) -> pd.Series[float]:
    """Return Group of each instance, 0 or 100.

    Args:
        encoder: of ``load_encoder``.
        captions: the positive captions of all instances, and the negative ones.
        images: encoded files, in the form of ``captions``.
    """
    texts = [encoder.encode_texts(list(side), BATCH) for side in captions]
    pictures = [encoder.encode_images(list(side), BATCH) for side in images]
    scores = {f"s_c{c}_i{i}": (texts[c] * pictures[i]).sum(1) for c in (0, 1) for i in (0, 1)}
    return 100 * compute_outcomes(pd.DataFrame(scores), ["group"]).hits["group"]


def write_rows(rows: Iterable[Mapping[str, Any]], out: Path) -> None:
    """Print each row of a table as it comes, save the rows so far as CSV, and print the table."""
    out.parent.mkdir(parents=True, exist_ok=True)
    written_rows: list[Mapping[str, Any]] = []
    for row in rows:
        written_rows.append(row)
        click.echo(row)
        pd.DataFrame(written_rows).to_csv(out, index=False)
    click.echo(pd.DataFrame(written_rows).to_string(index=False))
