"""Attack the images of a finished project's benchmark: `python bench/image_attack.py [PROJECT]`.

The image attackers see the two images of an instance and no caption. The joint attacker also sees the texts,
but not which image they belong to. Printed for each form of the benchmark are accuracy and metrics with 95 %
intervals, and the seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from caramel.blind.image.scores import compute_image_scores
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.scores import SCORES


@click.command()
@click.argument("project", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--folds", default=3, show_default=True, help="Folds of the cross-validation.")
@click.option("--seed", default=10, show_default=True, help="Random seed for folds, sampling and weights.")
@click.option("--split", default="test", show_default=True, help="Split of the instances to attack.")
def main(project: str, folds: int, seed: int, split: str) -> None:
    """Print the attackers' results on the benchmark of the finished PROJECT."""
    data = Path(project, "data")
    paths = sorted((data / "assemble").glob("instances*.parquet"))
    forms = {path.stem: read_table(INSTANCES, path) for path in paths}
    index = data / "assemble/images.parquet"
    images = ImageStore(index, read_table(IMAGES, index))
    texts = read_table(SCORES, data / "refine/scores.parquet")
    started = time.monotonic()
    attack_results = compute_image_scores(forms, images, texts, folds=folds, seed=seed, split=split).figures
    seconds = time.monotonic() - started
    for form, figures in attack_results["forms"].items():
        for attacker, by_subset in figures["pictures"].items():
            for subset, figure in by_subset.items():
                print(f"{form}, {attacker} on {subset}: {format_share(figure, 'accuracy')}")
        for attacker, by_metric in figures["joint"].items():
            for metric, by_subset in by_metric.items():
                for subset in ("all", "without_add"):
                    if subset in by_subset:
                        print(
                            f"{form}, texts × {attacker}, {metric} on {subset}: {format_share(by_subset[subset], 'value')}"
                        )
    instances = sum(len(rows) for rows in forms.values())
    print(f"{seconds:.1f} s for {instances} instances in {len(forms)} forms")


def format_share(figure: Mapping[str, Any], name: str) -> str:
    """Return a share with its interval, or a note that it is missing."""
    if not figure["n"]:
        return f"too few to attack ({figure['unscored']})"
    share, low, high = (100 * figure[key] for key in (name, "ci_low", "ci_high"))
    return f"{share:.1f} % [{low:.1f}, {high:.1f}] of {figure['n']}"


if __name__ == "__main__":
    main()
