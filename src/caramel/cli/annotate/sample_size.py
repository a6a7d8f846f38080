"""Command ``annotate sample-size``: how many items people must judge."""

from __future__ import annotations

import click

from caramel.cli.output import echo

SHARE = click.FloatRange(0, 1)


@click.command("sample-size")
@click.option(
    "--within",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Half the length of the interval.",
)
@click.option(
    "--kappa", type=float, help="Expected kappa of two annotators; gives the items that both answer."
)
@click.option(
    "--prevalence", default=0.5, show_default=True, type=SHARE, help="Expected share of yes, for kappa."
)
@click.option("--accuracy", type=float, help="Expected accuracy of a human baseline; gives its instances.")
@click.option(
    "--per-annotator",
    default=25,
    show_default=True,
    type=click.IntRange(1),
    help="Instances of each annotator, for a baseline.",
)
@click.option(
    "--correlation",
    default=0.02,
    show_default=True,
    type=SHARE,
    help="Correlation of the answers of one annotator being right, for a baseline.",
)
def print_sample_size(
    within: float,
    kappa: float | None,
    prevalence: float,
    accuracy: float | None,
    per_annotator: int,
    correlation: float,
) -> None:
    """Say how many items people must judge.

    Formulas: Donner & Eliasziw (1992) for kappa, Kish (1965) for a baseline; docs/agreement.md shows them.

    \b
    Example:
      caramel annotate sample-size --kappa 0.5 --prevalence 0.7 --within 0.1
      caramel annotate sample-size --accuracy 0.9 --within 0.03
    """
    from caramel.annotation.agreement.sample_size import (
        compute_baseline_sample_size,
        compute_kappa_sample_size,
    )
    from caramel.errors import ConfigError

    if kappa is None and accuracy is None:
        raise ConfigError("Give --kappa or --accuracy: what is expected of the annotators.")
    if kappa is not None:
        items = compute_kappa_sample_size(kappa, prevalence, within)
        echo(f"{items:,} items, each answered by both annotators, for kappa {kappa:g} ± {within:g}.")
    if accuracy is not None:
        instances = compute_baseline_sample_size(accuracy, within, per_annotator, correlation)
        people = -(-instances // per_annotator)
        echo(
            f"{instances:,} instances, {people:,} annotators with {per_annotator} each, for accuracy {accuracy:g} ± {within:g}."
        )
