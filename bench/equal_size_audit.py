"""Is a small set easier to solve blind than SugarCrepe? `python bench/equal_size_audit.py PROJECT sugarcrepe/`.

The accuracy of a blind attacker grows with the rows that it learns from. So the negatives of a project (``data/``
of `dvc repro`) are compared with random rows of SugarCrepe, as many of each subtype, drawn several times. Each set
is attacked by `caramel audit` with the scorers that need no model. Prints a line per set.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

from caramel.audit.dataset import audit_data_set
from caramel.audit.files.inputs import read_rows
from caramel.blind.scorer_specs import list_default_scorers
from caramel.blind.text.attack import BEST
from caramel.runtime.environment import be_quiet
from caramel.sources.sugarcrepe_files import read_captions

COLUMNS = ["image_id", "subtype", "caption", "negative_caption"]


def read_negatives(project: Path) -> pd.DataFrame:
    """Return the negatives of a project with their captions."""
    negatives = pd.read_parquet(project / "data" / "negatives" / "negatives.parquet")
    pairs = pd.read_parquet(project / "data" / "scenes" / "pairs.parquet")
    rows: pd.DataFrame = negatives.merge(pairs[["pair_id", "image_id", "caption"]], on="pair_id")[COLUMNS]
    return rows


def draw_equal_rows(rows: pd.DataFrame, counts: pd.Series[int], seed: int) -> pd.DataFrame:
    """Return random rows, as many of each subtype as counted."""
    rng = np.random.default_rng(seed)
    parts = [rows[rows["subtype"] == name] for name in counts.index]
    drawn = [part.iloc[rng.permutation(len(part))[:count]] for part, count in zip(parts, counts, strict=True)]
    table: pd.DataFrame = pd.concat(drawn)[COLUMNS]
    return table


def attack(rows: pd.DataFrame) -> dict[str, float]:
    """Return the accuracy of the best blind attacker in per cent, of all rows and by subtype."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        rows.to_csv(path, index=False)
        result = audit_data_set(
            read_rows(path), scorers=list_default_scorers(None), folds=5, seed=3, name="rows", corpus=None, sources=[], training=None
        )  # fmt: skip
    figures = result.attack.figures[BEST]
    by_subtype = {name: 100 * figures["by_subtype"][name]["accuracy"] for name in rows["subtype"].unique()}
    return {"all": 100 * figures["overall"]["micro"], **by_subtype}


@click.command(epilog="Example: python bench/equal_size_audit.py . sugarcrepe/ --samples 20")
@click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--samples", default=20, show_default=True, type=click.IntRange(1), help="Samples of SugarCrepe."
)
def main(project: Path, files: Path, samples: int) -> None:
    """Attack the negatives of a project and equally large samples of SugarCrepe."""
    be_quiet()
    own, released = read_negatives(project), read_captions(files)
    counts = own["subtype"].value_counts()
    draws = tqdm(range(samples), desc="samples", disable=None)
    drawn = pd.DataFrame([attack(draw_equal_rows(released, counts, seed)) for seed in draws])
    table = pd.DataFrame({"rows": {"all": len(own), **counts}, "own": attack(own)})
    for name, share in (("lowest", 0.0), ("median", 0.5), ("highest", 1.0)):
        table[f"SugarCrepe, {name}"] = drawn.quantile(share)
    click.echo(
        f"Best blind attacker in per cent, {samples} samples of SugarCrepe\n{table.round(1).to_string()}"
    )


if __name__ == "__main__":
    main()
