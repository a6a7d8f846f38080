"""The audit as one HTML page that stands alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.set_statistics import compute_set_statistics
from caramel.errors import DataError
from caramel.interfaces.parser import Parser
from caramel.io.files import write_csv, write_text
from caramel.report.blocks import Section, count, percent
from caramel.report.inputs import number, value
from caramel.report.rendering import render, shorten
from caramel.report.sections import audit_sections as parts
from caramel.report.sections.audit_sections import BEST, WHERE, ranked
from caramel.report.sections.statistics_section import statistics_blocks
from caramel.report.sections.task_sections import tasks_section
from caramel.utils.stats import LEAST_GUESS_P, format_p

PAGE, STATISTICS = "audit.html", "statistics.csv"  # written by ``write_page``
PAIR_COLUMNS = ("pair_id", "scorer", "gap")
ROW_COLUMNS = ("pair_id", "image_id", "subtype", "caption", "caption2", "negative_caption")
AGAIN = "Run `caramel audit` again: it writes all three files."


def write_page(
    folder: Path,
    *,
    beside: Mapping[str, float] | None = None,
    beside_name: str = "",
    parser: Parser | None = None,
) -> Path:
    """Write ``audit.html`` and ``statistics.csv`` beside the audit's own files; return the page's path.

    Other arguments as in ``audit_page``.

    Raises:
        DataError: one of the three files is missing or broken.
    """
    folder = Path(folder)
    try:
        audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{str(folder / 'audit.json')!r} cannot be read: {error}. {AGAIN}") from error
    pairs = _table(folder / "pairs.parquet", PAIR_COLUMNS)
    rows = _table(folder / "rows.parquet", ROW_COLUMNS)
    found = compute_set_statistics(rows, parser)
    page = audit_page(audit, pairs, rows, found, beside=beside, beside_name=beside_name, parser=parser)
    write_csv(folder / STATISTICS, found.map(shorten))
    path = folder / PAGE
    write_text(path, page)
    return path


def _table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    try:
        found = pd.read_parquet(path.absolute())  # a:b/c would be taken for a URL
    except (OSError, ValueError) as error:  # pyarrow's errors are of these two kinds
        raise DataError(f"{str(path)!r} cannot be read: {error}. {AGAIN}") from error
    lacking = [c for c in columns if c not in found.columns]
    if lacking:
        raise DataError(f"{str(path)!r} lacks the columns {lacking}; it has {list(found.columns)}. {AGAIN}")
    return found


def audit_page(
    audit: Mapping[str, Any],
    pairs: pd.DataFrame,
    rows: pd.DataFrame,
    statistics: pd.DataFrame,
    *,
    beside: Mapping[str, float] | None = None,
    beside_name: str = "",
    parser: Parser | None = None,
) -> str:
    """Return the page.

    Args:
        audit: what ``audit.json`` holds; see ``audit.output.as_json``.
        pairs: one row per pair and scorer: pair_id, scorer and gap.
        rows: audit rows, for the texts of examples.
        statistics: of these; see ``set_statistics``.
        beside: subtype, or ``all``, -> accuracy in [0, 1] of a model that does see the images.
        beside_name: of that model.
        parser: for the syntactic part of the similarity; without it there is the lexical part alone.

    Raises:
        DataError: the audit lacks a figure; or the parser has no parse for a text.
    """
    by_pair = rows.drop_duplicates("pair_id").set_index("pair_id")
    sections = [
        Section(
            "scorers",
            "Blind accuracy",
            "How often scorers that never see an image pick the true caption.",
            parts.scorers_section(audit, beside, beside_name),
        ),
        Section(
            "tasks",
            "Tasks and attackers",
            "What is asked of a row, where attackers learned, and which hole is the largest.",
            tasks_section(audit),
        ),
        Section("gaps", "Gaps", "By how much they prefer it.", parts.gaps_section(audit, pairs)),
        Section(
            "giveaways",
            "What gives it away",
            "Properties and words that tell the true caption from its negative, in all rows.",
            parts.giveaways_section(audit, by_pair),
        ),
        Section(
            "defects", "Defects", "Rows that are broken as they stand.", parts.defects_section(audit, by_pair)
        ),
    ]
    lead = "Counts, lengths, parts of speech and topics of the texts, all of which are in statistics.csv by subtype."
    sections.append(Section("statistics", "Statistics", lead, statistics_blocks(statistics)))
    if audit.get("image_shortcuts"):
        lead = "What the two images of a row give away without any caption."
        sections.append(Section("images", "Images", lead, parts.images_section(audit["image_shortcuts"])))
    if audit.get("leakage"):
        lead = "Texts that stand in the training corpus."
        sections.append(Section("leakage", "Leakage", lead, parts.leakage_section(audit["leakage"])))
    if rows["caption2"].notna().any():
        lead = "How close paraphrase and negative are to the caption, and to each other."
        sections.append(Section("similarity", "Similarity", lead, parts.similarity_section(rows, parser)))
    return render(
        "audit.html",
        sections=sections,
        cards=_cards(audit),
        name=value(audit, "name", where=WHERE),
        about=_about(audit),
    )


def _cards(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headline figures: (value, label)."""
    overall = value(audit, BEST, "overall", where=WHERE)
    micro, low, high, macro, p = (
        number(overall, key, where=WHERE) for key in ("micro", "ci_low", "ci_high", "macro", "p_value")
    )
    single = ranked(audit)[0]
    alone = number(audit, "scorers", single, "overall", "micro", where=WHERE)
    faulty = number(audit, "rows_with_defects", where=WHERE)
    return [
        (
            f"{percent(micro)} %",
            f"best blind attacker (chance 50); 95 % interval {percent(low)}–{percent(high)}, p\u00a0{format_p(p, '.4f', least=LEAST_GUESS_P)}",
        ),
        (f"{percent(macro)} %", "the same, mean over the subtypes"),
        (f"{percent(alone)} %", f"best single scorer: {single}"),
        (count(faulty), f"rows with a defect, of {count(number(audit, 'rows', where=WHERE))}"),
    ]


def _about(audit: Mapping[str, Any]) -> str:
    """Return how the figures were made."""
    rows, attacked, groups, folds, seed = (
        number(audit, key, where=WHERE) for key in ("rows", "rows_attacked", "groups", "folds", "seed")
    )
    some = "" if attacked == rows else f" {count(attacked)} of them attacked,"
    by = value(audit, "grouped_by", where=WHERE)
    return (
        f"{count(rows)} rows,{some} {folds:.0f} folds of {count(groups)} groups by {by}, seed {seed:.0f}. "
        f"Accuracies are on rows that the scorer had not learned from."
    )
