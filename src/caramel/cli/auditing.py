"""Command that audits a data set: audit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from caramel.cli.options import FOLDER, SEED, acceptances, build_listing_command, folded
from caramel.cli.output import echo
from caramel.errors import DataError
from caramel.io.files import forbid_overwriting_inputs

BESIDE = "CLIP ViT-B/32"  # whose published accuracy stands beside the audit's
RELEASED = {"sugarcrepe": 7511, "sugarcrepe_pp": 4757}  # rows of the releases that those figures are of


def _list_scorer_help() -> list[str]:
    from caramel.blind.scorer_specs import format_scorers_help

    return format_scorers_help()


@click.command(cls=build_listing_command(_list_scorer_help))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option("--name", help="Name of the data set in what is written.  [default: that of PATH]")
@click.option("--format", "kind", help="Format, where a folder holds several.")
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    help="Blind scorer, repeatable; see below. All that need no model, and --encoder, if left out.",
)
@click.option(
    "--encoder",
    envvar="CARAMEL_ENCODER",
    show_envvar=True,
    help="Encoder of transformers that is at hand, as all-MiniLM-L6-v2: the default scorers then probe it and fine-tune it "
    "too, which takes minutes to hours without a GPU.",
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text file, one caption per line, that n-gram models learn from instead of the data set's other folds.",
)
@click.option(
    "--learn-from",
    "learn_from",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Data set that attackers learn from as well, repeatable, in any format: the pool or the rejects of a refinement "
    "(rows of PATH are left out), or another benchmark.",
)
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the images: where rows have a negative image, it is asked what the images give away.",
)
@click.option(
    "--training",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Captions of a training corpus (.txt, .csv, .jsonl, .parquet): which texts stand in it?",
)
@click.option(
    "--training-column", default="caption", show_default=True, help="Column of the captions in --training."
)
@click.option(
    "--parser",
    help="Constituency parses for the similarity of syntax: world, or given:FILE of bracketed trees.",
)
@click.option(
    "--max-accuracy",
    type=click.FloatRange(0.5, 1),
    help="Exit with code 1 unless the best blind attacker is shown to be right on at most this share, wherever it learned, "
    "of captions and of paraphrases.",
)
@acceptances
@click.option("--max-defects", type=click.IntRange(0), help="Exit with code 1 if more rows have a defect.")
@folded
@click.option("--seed", default=3, show_default=True, type=SEED, help="Of folds and draws.")
def audit(
    path: Path,
    out: Path,
    name: str | None,
    kind: str | None,
    scorers: tuple[str, ...],
    encoder: str | None,
    corpus: Path | None,
    learn_from: tuple[Path, ...],
    images: Path | None,
    training: Path | None,
    training_column: str,
    parser: str | None,
    max_accuracy: float | None,
    acceptance: Any,
    max_defects: int | None,
    folds: int,
    seed: int,
) -> None:
    """Audit any data set's texts: can blind models, that see no image, tell right from wrong?

    PATH is a data set in a format that is known (SugarCrepe, SugarCrepe++, BiVLC, CREPE, Winoground, …, our
    tables), or a table with named columns. Scorers are learned and judged on different images; the best blind
    attacker is all of them together. Where rows have a paraphrase, it attacks the tasks with three texts too.

    Writes audit.json, audit.html, statistics.csv, rows.parquet, pairs.parquet, badge.svg and badge.md to --out. Exits with code 1
    where a threshold that was given is broken, so that it can stand in a test.

    \b
    Scorers:
      LINES

    \b
    Example:
      caramel audit sugarcrepe/ --out audit/
      caramel audit sugarcrepe/ --out audit/ --learn-from sugarcrepe_unrefined/ --learn-from sugarcrepe_pp/
      caramel audit sugarcrepe/ --out audit/ --encoder all-MiniLM-L6-v2/
      caramel audit captions.csv --out audit/ --scorer length --scorer probe --max-accuracy 0.55
      caramel audit bivlc/ --out audit/ --images bivlc/ --training cc3m.csv
    """
    from caramel.audit import output
    from caramel.audit.audit import format_attack_scope, judge_accuracy, list_broken_thresholds
    from caramel.audit.dataset import audit_data_set
    from caramel.audit.files.inputs import read_rows
    from caramel.audit.similarity import parses as parsers
    from caramel.blind.scorer_specs import list_default_scorers
    from caramel.blind.text.text_tasks import Source
    from caramel.report.audit_page import PAGE, STATISTICS, write_page
    from caramel.report.audit_text import format_audit

    inputs = [path, *learn_from, *(p for p in (corpus, training) if p)]
    forbid_overwriting_inputs([out / name for name in (*output.FILES, PAGE, STATISTICS)], inputs)
    parse = None if parser is None else parsers.load_parser(parser)
    data_set = read_rows(path, images=images, name=kind)
    for note in data_set.notes:
        echo(note, err=True)
    result = audit_data_set(
        data_set,
        scorers=scorers or list_default_scorers(encoder),
        folds=folds,
        seed=seed,
        name=name or Path(os.path.realpath(path)).stem,
        corpus=None if corpus is None else _read_lines(corpus),
        sources=[Source(Path(os.path.realpath(other)).stem, read_rows(other).rows) for other in learn_from],
        training=training,
        training_column=training_column,
    )
    beside = (
        read_published_accuracy(data_set.format)
        if RELEASED.get(data_set.format) == len(data_set.rows)
        else None
    )
    beside_name = f"{BESIDE}, sees images (published)"
    echo(format_audit(result, beside=beside, beside_name=beside_name))
    limit = output.TOLERATED if max_accuracy is None else max_accuracy
    output.write_audit(result, out, limit=limit)
    write_page(out, beside=beside, beside_name=beside_name, parser=parse)
    worst, judged = judge_accuracy(result, limit)[0]
    named = max_accuracy is not None and judged.state == "undecided" and acceptance == "not_refuted"
    rule = " Accepted as not refuted." if named else ""
    echo(
        f"\n{output.format_badge(result, limit)}\nBest blind attacker{format_attack_scope(worst)}: {judged}.{rule}\nWritten to {out}."
    )
    messages = list_broken_thresholds(
        result, max_accuracy=max_accuracy, max_defects=max_defects, acceptance=acceptance
    )
    for message in messages:
        echo(f"Threshold broken: {message}", err=True)
    if messages:
        sys.exit(1)


def read_published_accuracy(benchmark: str) -> dict[str, float]:
    """Return the published accuracy in [0, 1] of ``BESIDE`` on a benchmark, by subset."""
    from caramel.report.paper_table import read_published_rows

    rows = read_published_rows()
    matches = rows[
        (rows["model"] == BESIDE) & (rows["benchmark"] == benchmark) & (rows["metric"] == "accuracy")
    ]
    return {s: float(v) / 100 for s, v in zip(matches["subset"], matches["value"], strict=True)}


def _read_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} cannot be read as UTF-8 text: {error}.") from error
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise DataError(f"{str(path)!r} holds no line of text: there is nothing to learn from.")
    return texts
