"""Command ``annotate calibrate``: measure a model judge of images against people's decisions."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import SEED
from caramel.cli.output import echo
from caramel.errors import count_of


@click.command("calibrate")
@click.argument("decisions", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--choices",
    default=Path("data/filter_images/choices.parquet"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Table of judged candidates.",
)
@click.option(
    "--candidates",
    default=Path("data/synthesize"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the candidates.",
)
@click.option(
    "--judge",
    default="first",
    show_default=True,
    type=click.Choice(["first", "second"]),
    help="Which judge's scores of the negative caption: that of filter_images.judge or of second_judge.",
)
@click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed of the folds.")
def calibrate_judge(decisions: Path, choices: Path, candidates: Path, judge: str, seed: int) -> None:
    """Measure a model judge of images against people.

    DECISIONS is a table of `caramel annotate decide` with task `choose`. Printed are the threshold for
    filter_images.faithfulness_threshold, and precision and recall under cross-validation: those of the same judge with
    filter_images.calibrate_on set to decisions.

    \b
    Example:
      caramel annotate calibrate inputs/annotations/images/decisions.parquet --judge second
    """
    from caramel.annotation.agreement.decision_files import require_current_candidates
    from caramel.errors import DataError
    from caramel.schemas.candidates import CANDIDATES, CHOICES
    from caramel.schemas.decisions import DECISIONS
    from caramel.schemas.images import IMAGES
    from caramel.schemas.io import read_table
    from caramel.sources.images.people_calibration import calibrate_on_decisions

    column = {"first": "faithful", "second": "judge_negative"}[judge]
    scores = read_table(CHOICES, choices, ["negative_id", "candidate", "image_id", column]).rename(
        columns={column: "score"}
    )
    if not scores["score"].notna().any():
        raise DataError(
            f"{str(choices)!r} has no scores of the {judge} judge. Set filter_images.{judge}_judge."
        )
    of_choose = read_table(DECISIONS, decisions, only=("task", {"choose"}))
    require_current_candidates(
        of_choose,
        read_table(CANDIDATES, candidates / "candidates.parquet"),
        read_table(IMAGES, candidates / "images.parquet"),
    )
    quality = calibrate_on_decisions(scores, of_choose, seed=seed)
    precision_low, precision_high = quality.precision_interval
    recall_low, recall_high = quality.recall_interval
    echo(f"{count_of(quality.chosen, 'image')} that people chose, {quality.refused} that they refused.")
    echo(f"threshold    {quality.threshold:.4f}")
    echo(f"precision    {quality.precision:.3f} [{precision_low:.3f}, {precision_high:.3f}]")
    echo(f"recall       {quality.recall:.3f} [{recall_low:.3f}, {recall_high:.3f}]")
    echo(f"specificity  {quality.specificity:.3f}")
