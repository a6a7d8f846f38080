"""Options of commands that score models: device, precision, batch size, executor and embedding cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import FOLDER, collect_options
from caramel.errors import ConfigError, redact_secrets
from caramel.interfaces.settings import Compute, Execution
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    from caramel.evaluation.benchmark_source import BenchmarkSource
    from caramel.evaluation.evaluate import Evaluation

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


def score_models(
    models: Sequence[str],
    sources: Sequence[BenchmarkSource],
    *,
    compute: ComputeOptions,
    bootstrap: Bootstrap,
    limit: int | None,
) -> Evaluation:
    """Score models on benchmarks; see ``run_evaluation``, whose arguments and errors these are."""
    from caramel.evaluation.evaluate import run_evaluation, select_executor

    executor: Any = select_executor() if compute.executor == "auto" else compute.executor
    return run_evaluation(
        models,
        sources,
        compute=Compute(compute.device, compute.precision),
        batch_size=compute.batch_size,
        bootstrap=bootstrap,
        execution=Execution(executor, Path(TRIALS), 1.0),
        store=compute.store,
        limit=limit,
    )


def add_missing_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--missing``: what a missing image means."""
    return click.option(
        "--missing",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        show_default=True,
        help="If an image is missing: fail with an error, or skip, which leaves its instances without a score.",
    )(command)


def check_model_addresses(models: Sequence[str]) -> None:
    """Check the models' addresses before anything is written: runs and tables would store a password or key in them.

    Raises:
        ConfigError: an address contains a password or key.
        BackendError: the text after # is not a setting; it could be a key.
    """
    from caramel.models.chat.settings import parse_settings, split_wording

    for model in models:
        if (redacted := redact_secrets(model)) != model:
            raise ConfigError(
                f"Model {redacted!r}: its address contains a password or key, which runs and tables would store. Remove it "
                f"from the address, and set CARAMEL_CHAT_KEY."
            )
        address, _, fragment = split_wording(model)[0].partition("#")
        if "://" in address:
            parse_settings(fragment)
