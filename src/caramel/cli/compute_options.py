"""Options of commands that score models: device, precision, batch size, executor and embedding cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from caramel.cli.options import FOLDER, collect_options

STORE, TRIALS = "work/embeddings", "work/eval"


@dataclass(frozen=True)
class ComputeOptions:
    """Where and how models are run."""

    device: str
    batch_size: int | None
    precision: str
    executor: str
    store: Path


class _BatchSize(click.ParamType):  # type: ignore[type-arg]
    """A positive integer, or ``auto``."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "auto":
            return None
        return int(click.IntRange(1).convert(value, param, ctx))


def add_compute_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of ``ComputeOptions``; the command gets them as ``compute``."""
    command = collect_options(ComputeOptions, "compute")(command)
    for option in (
        click.option(
            "--executor",
            type=click.Choice(["auto", "inline", "ray"]),
            default="auto",
            show_default=True,
            help="How work is run; auto uses Ray if there are several GPUs or RAY_ADDRESS is set.",
        ),
        click.option(
            "--store",
            default=STORE,
            show_default=True,
            type=FOLDER,
            help="Folder of the embedding cache.",
        ),
        click.option(
            "--precision",
            default="fp32",
            show_default=True,
            type=click.Choice(["fp32", "bf16", "fp16"]),
            help="Precision of forward passes.",
        ),
        click.option(
            "--batch-size",
            default="auto",
            show_default=True,
            type=_BatchSize(),
            help="Items per forward pass; auto takes the largest size that fits and still pays off.",
        ),
        click.option(
            "--device", default="auto", show_default=True, help="Device to run on: auto, cpu, cuda or cuda:N."
        ),
    ):
        command = option(command)
    return command


def add_missing_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--missing``: what a missing image means."""
    return click.option(
        "--missing",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        show_default=True,
        help="If an image is missing: fail with an error, or skip, which leaves its instances without a score.",
    )(command)
