"""Command ``probe``: metamorphic audit of models from images with captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.compute_options import ComputeOptions, add_compute_options, check_model_addresses
from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.errors import ConfigError, DataError
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    from caramel.interfaces.scene_graph import GraphParser

CASES, RATES = "cases.csv", "rates.csv"


@click.command("probe")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--captions",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of captions, .csv or .jsonl: filename, caption, and optionally true_detail, false_detail, paraphrase.",
)
@click.option("--images", required=True, type=FOLDER, help="Folder of the images.")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--parser",
    metavar="PARSER",
    help="Parser that finds the details in the captions: spacy:MODEL or seq2seq:FOLDER.  [default: a detail is a whole "
    "caption]",
)
@click.option("--limit", type=click.IntRange(1), help="Use only the first cases.")
@add_compute_options
@add_bootstrap_options
def probe_models(
    models: tuple[str, ...],
    captions: Path,
    images: Path,
    out: Path,
    parser: str | None,
    limit: int | None,
    compute: ComputeOptions,
    bootstrap: Bootstrap,
) -> None:
    """Check relations that a model's scores must keep.

    They are checked on any images with captions. A false detail that is appended to a caption must lower its score, a true one must not turn a choice round, and a
    paraphrase must not matter. Details come from the captions of the same and of other images, or from the file.
    docs/probe.md says how. Writes cases.csv (texts and scores) and rates.csv (with intervals) to --out.

    MODEL is a SPEC as of `caramel eval --model`.

    \b
    Example:
      caramel probe ViT-B-32-quickgelu:openai --captions coco.csv --images coco/val2017 --out probe/
      caramel probe ViT-B-32-quickgelu:openai --captions coco.csv --images coco/val2017 --parser spacy:en_core_web_sm --out probe/
    """
    import pandas as pd

    from caramel.evaluation.evaluate import select_executor
    from caramel.evaluation.metamorphic.cases import build_cases, read_caption_rows
    from caramel.evaluation.metamorphic.rates import check_model, compute_rates, score_cases
    from caramel.evaluation.preflight import find_duplicate_names
    from caramel.evaluation.scores.encoding import RunConfig
    from caramel.interfaces.settings import Compute
    from caramel.report.terminal import format_metrics

    check_model_addresses(models)
    if repeated := find_duplicate_names(models, []):
        raise ConfigError("\n".join(repeated))
    for model in models:
        check_model(model)
    forbid_overwriting_inputs([out / CASES, out / RATES], [captions, images])
    cases, reasons = build_cases(read_caption_rows(captions), parse=_load_parser(parser), seed=bootstrap.seed)
    for reason, count in reasons.items():
        echo(f"{count:10,}  captions without a case: {reason}")
    if not cases:
        raise DataError(
            f"{str(captions)!r} gives no case. Give several captions per image, or details of your own in the columns "
            f"true_detail and false_detail."
        )
    executor: Any = select_executor() if compute.executor == "auto" else compute.executor
    parts = [
        score_cases(
            cases[:limit],
            images,
            RunConfig(
                model,
                Compute(compute.device, compute.precision),
                compute.batch_size,
                str(compute.store),
                executor,
            ),
        )
        for model in models
    ]
    scored = pd.concat(parts, ignore_index=True)
    rates = compute_rates(scored, bootstrap)
    write_csv(out / CASES, scored)
    write_csv(out / RATES, rates)
    echo(format_metrics(rates))
    echo(f"\nWritten to {out}.")


def _load_parser(parser: str | None) -> GraphParser | None:
    """Return the parser of a spec."""
    if parser is None:
        return None
    from caramel.registry import GRAPH_PARSERS

    name, _, target = parser.partition(":")
    return GRAPH_PARSERS[name].load(target, frozenset())
