"""Command ``audit``: test whether a model that sees no image can solve a data set."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from caramel.cli.options import (
    FOLDER,
    FORMAT_HELP,
    CrossValidationOptions,
    add_acceptance_option,
    add_cross_validation_options,
    build_listing_command,
    collect_options,
)
from caramel.cli.output import add_json_option, echo, print_json
from caramel.errors import DataError
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.io.output_paths import remove_file

REFERENCE_MODEL = "CLIP ViT-B/32"  # its published accuracy is printed beside the audit's
TOPICS = "topics.csv"  # the file in --out
RELEASED = {"sugarcrepe": 7511, "sugarcrepe_pp": 4757}  # rows of the releases with published figures


@dataclass(frozen=True)
class AttackOptions:
    """The blind attackers, and their training data besides the data set."""

    scorers: tuple[str, ...]
    encoder: str | None
    corpus: Path | None
    learn_from: tuple[Path, ...]


@dataclass(frozen=True)
class TrainingCorpusOptions:
    """The training corpus in which the audit looks up texts."""

    training: Path | None
    training_column: str


@dataclass(frozen=True)
class ThresholdOptions:
    """Thresholds that an audit must meet for exit code 0."""

    max_accuracy: float | None
    acceptance: Any
    max_defects: int | None


def _list_scorer_help() -> list[str]:
    from caramel.blind.scorer_specs import format_scorers_help

    return format_scorers_help()


@click.command("audit", cls=build_listing_command(_list_scorer_help))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--name", help="Name of the data set on the page and in the tables.  [default: the name of PATH]"
)
@click.option("--format", "format_name", help=FORMAT_HELP)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    help="Blind scorer, repeatable; the list is below.  [default: all that need no model, and --encoder]",
)
@click.option(
    "--encoder",
    envvar="CARAMEL_ENCODER",
    show_envvar=True,
    help="Local transformers text encoder, such as all-MiniLM-L6-v2. The default scorers then also probe it and fine-tune "
    "it, which takes minutes without a GPU.",
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text file with one caption per line. N-gram models are trained on it instead of the data set's other folds.",
)
@click.option(
    "--learn-from",
    "learn_from",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Data set that attackers are also trained on, repeatable, in any format: another benchmark, or the input or the "
    "rejects of a refinement. Rows that are also in PATH are left out.",
)
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the images. If rows have a negative image, the audit also tests what the images alone reveal.",
)
@click.option(
    "--training",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Captions of a training corpus (.txt, .csv, .jsonl, .parquet). The audit lists the texts that occur in it.",
)
@click.option(
    "--training-column",
    default="caption",
    show_default=True,
    help="Column of --training that holds the captions.",
)
@click.option(
    "--parser",
    help="Source of trees for syntactic similarity: world, given:FILE with bracketed constituency trees, or dependency:MODEL, "
    "dependency trees of a spaCy model.",
)
@click.option(
    "--topics",
    type=click.IntRange(1, 50),
    help="Also write topics.csv: this number of topics of each subtype's captions.  [default: none]",
)
@click.option(
    "--max-accuracy",
    type=click.FloatRange(0.5, 1),
    help="Exit with code 1 unless the best blind attacker's accuracy is shown to be at most this, on captions and on "
    "paraphrases, for all training data.",
)
@add_acceptance_option
@click.option(
    "--max-defects", type=click.IntRange(0), help="Exit with code 1 if more rows than this have a defect."
)
@add_json_option
@add_cross_validation_options(seed=3)
@collect_options(AttackOptions, "attack")
@collect_options(TrainingCorpusOptions, "training_corpus")
@collect_options(ThresholdOptions, "thresholds")
def audit_path(
    path: Path,
    out: Path,
    name: str | None,
    format_name: str | None,
    images: Path | None,
    parser: str | None,
    topics: int | None,
    attack: AttackOptions,
    training_corpus: TrainingCorpusOptions,
    thresholds: ThresholdOptions,
    cross_validation: CrossValidationOptions,
) -> None:
    """Test whether a model without images solves a data set.

    PATH is a data set in a known format (SugarCrepe, SugarCrepe++, BiVLC, CREPE, Winoground, …, caramel's
    tables), or a table with named columns. Scorers are trained and evaluated on different images. The best blind
    attacker combines all scorers. If rows have a paraphrase, it also attacks the tasks with three texts.

    Writes audit.json, audit.html, statistics.csv, gaps.csv, rows.parquet, pairs.parquet, badge.svg and badge.md to --out. Exits
    with code 1 if a given threshold is not met, so that the command can run as a test.

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
    from caramel.audit.topics import find_topics
    from caramel.blind.scorer_specs import list_default_scorers
    from caramel.blind.text.text_tasks import Source
    from caramel.registry import BENCHMARKS, SCORERS
    from caramel.report.audit_page import PAGE, STATISTICS, list_parsed_texts, write_page
    from caramel.report.audit_text import format_audit

    corpus, training = attack.corpus, training_corpus.training
    inputs = [path, *attack.learn_from, *(p for p in (corpus, training) if p)]
    forbid_overwriting_inputs([out / name for name in (*output.FILES, PAGE, STATISTICS, TOPICS)], inputs)
    parse = None if parser is None else parsers.cache_parses(parsers.load_parser(parser))
    data_set = read_rows(path, images=images, name=format_name)
    for note in data_set.notes:
        echo(note, err=True)
    if parse is not None:
        parse(list_parsed_texts(data_set.rows))  # an error about a text comes before any work
    found_topics = (
        None if topics is None else find_topics(data_set.rows, topics=topics, seed=cross_validation.seed)
    )
    scorers = attack.scorers or list_default_scorers(attack.encoder)
    result = audit_data_set(
        data_set,
        scorers=scorers,
        folds=cross_validation.folds,
        seed=cross_validation.seed,
        name=name or Path(os.path.realpath(path)).stem,
        corpus=None if corpus is None else _read_lines(corpus),
        sources=[
            Source(Path(os.path.realpath(other)).stem, read_rows(other).rows) for other in attack.learn_from
        ],
        training=training,
        training_column=training_corpus.training_column,
    )
    beside = (
        read_published_accuracy(data_set.format)
        if RELEASED.get(data_set.format) == len(data_set.rows)
        else None
    )
    beside_name = f"{REFERENCE_MODEL}, sees images (published)"
    echo(format_audit(result, beside=beside, beside_name=beside_name))
    limit = output.TOLERATED if thresholds.max_accuracy is None else thresholds.max_accuracy
    plugins = SCORERS.select_plugins(spec.partition(":")[0] for spec in scorers)
    plugins += BENCHMARKS.select_plugins([data_set.format])
    output.write_audit(result, out, limit=limit, plugins=plugins)
    if found_topics is None:
        remove_file(out / TOPICS)
    else:
        write_csv(out / TOPICS, found_topics)
    write_page(out, beside=beside, beside_name=beside_name, parser=parse)
    worst, judged = judge_accuracy(result, limit)[0]
    is_undecided = thresholds.max_accuracy is not None and judged.state == "undecided"
    rule = " Accepted as not refuted." if is_undecided and thresholds.acceptance == "not_refuted" else ""
    echo(
        f"\n{output.format_badge(result, limit)}\nBest blind attacker{format_attack_scope(worst)}: {judged}.{rule}\nWritten to {out}."
    )
    messages = list_broken_thresholds(
        result,
        max_accuracy=thresholds.max_accuracy,
        max_defects=thresholds.max_defects,
        acceptance=thresholds.acceptance,
    )
    for message in messages:
        echo(f"Threshold broken: {message}", err=True)
    audited = output.audit_to_dict(result, plugins)
    print_json({"out": out, "passed": not messages, "broken_thresholds": messages, "audit": audited})
    if messages:
        sys.exit(1)


def read_published_accuracy(benchmark: str) -> dict[str, float]:
    """Return the published accuracy in [0, 1] of ``REFERENCE_MODEL`` on a benchmark, by subset."""
    from caramel.report.published_rows import read_published_rows

    rows = read_published_rows()
    matches = rows[
        (rows["model"] == REFERENCE_MODEL) & (rows["benchmark"] == benchmark) & (rows["metric"] == "accuracy")
    ]
    return {s: float(v) / 100 for s, v in zip(matches["subset"], matches["value"], strict=True)}


def _read_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} cannot be read as UTF-8 text: {error}.") from error
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise DataError(f"{str(path)!r} has no line of text, so there is nothing to train on.")
    return texts
