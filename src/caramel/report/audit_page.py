"""Render the audit as one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.set_statistics import SIDES, compute_set_statistics, sample_rows
from caramel.errors import DataError
from caramel.interfaces.parser import Parser
from caramel.io.files import write_csv, write_text
from caramel.report.blocks import Section, format_count, format_percent
from caramel.report.inputs import get_number, get_value
from caramel.report.rendering import format_markup, render_page, shorten_value
from caramel.report.sections import audit_sections as parts
from caramel.report.sections.audit_sections import BEST, WHERE, rank_scorers
from caramel.report.sections.ceiling_section import CEILINGS_LEAD, build_ceilings_blocks
from caramel.report.sections.statistics_section import STATISTICS_LEAD, build_statistics_blocks
from caramel.report.sections.task_sections import build_tasks_section
from caramel.utils.stats import LEAST_GUESS_P, format_p

PAGE, STATISTICS = "audit.html", "statistics.csv"  # written by ``write_page``
PAIR_COLUMNS = ("pair_id", "scorer", "gap")
ROW_COLUMNS = ("pair_id", "image_id", "subtype", "caption", "caption2", "negative_caption")
AGAIN = "Rerun `caramel audit`, which writes all three files."


def write_page(
    folder: Path,
    *,
    beside: Mapping[str, float] | None = None,
    beside_name: str = "",
    parser: Parser | None = None,
) -> Path:
    """Write ``audit.html`` and ``statistics.csv`` beside the audit's own files; return the page's path.

    Other arguments as in ``render_audit_page``.

    Raises:
        DataError: one of the three files is missing or broken.
    """
    folder = Path(folder)
    try:
        audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{str(folder / 'audit.json')!r} cannot be read: {error}. {AGAIN}") from error
    pairs = _read_table(folder / "pairs.parquet", PAIR_COLUMNS)
    rows = _read_table(folder / "rows.parquet", ROW_COLUMNS)
    statistics = compute_set_statistics(rows, parser)
    page = render_audit_page(
        audit, pairs, rows, statistics, beside=beside, beside_name=beside_name, parser=parser
    )
    write_csv(folder / STATISTICS, statistics.map(shorten_value))
    path = folder / PAGE
    write_text(path, page)
    return path


def list_parsed_texts(rows: pd.DataFrame) -> list[str]:
    """Return the texts of audit rows for which ``write_page`` calls its parser."""
    parsed = pd.concat([sample_rows(rows), rows[rows["caption2"].notna()]])
    return sorted({text for side in SIDES for text in parsed[side].dropna()})


def _read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path.absolute())  # pyarrow would take the relative path a:b/c for a URL
    except (OSError, ValueError) as error:  # pyarrow raises these two
        raise DataError(f"{str(path)!r} cannot be read: {error}. {AGAIN}") from error
    lacking = [c for c in columns if c not in table.columns]
    if lacking:
        raise DataError(f"{str(path)!r} lacks the columns {lacking}; it has {list(table.columns)}. {AGAIN}")
    return table


def render_audit_page(
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
        audit: content of ``audit.json``; see ``audit.output``.
        pairs: one row per pair and scorer: pair_id, scorer and gap.
        rows: audit rows, for the texts of examples.
        statistics: of these rows; see ``set_statistics``.
        beside: subtype, or ``all``, -> accuracy in [0, 1] of a model that sees the images.
        beside_name: name of that model.
        parser: for the syntactic part of the similarity; without it only the lexical part is shown.

    Raises:
        DataError: the audit lacks a value, or the parser has no parse for a text.
    """
    by_pair = rows.drop_duplicates("pair_id").set_index("pair_id")
    sections = [
        Section(
            "scorers",
            "Blind accuracy",
            "How often text-only scorers pick the true caption.",
            parts.build_scorers_section(audit, beside, beside_name),
        ),
        Section(
            "tasks",
            "Tasks and attackers",
            "The tasks, the attackers' training data, and the largest holes.",
            build_tasks_section(audit),
        ),
        Section("gaps", "Gaps", "How strongly they prefer it.", parts.build_gaps_section(audit, pairs)),
        Section(
            "giveaways",
            "Artifacts",
            "Properties and words that reveal the true caption, over all rows.",
            parts.build_artifacts_section(audit, by_pair),
        ),
        Section(
            "defects",
            "Defects",
            "Rows with errors of their own.",
            parts.build_defects_section(audit, by_pair),
        ),
        *_list_ceiling_sections(audit),
        Section("statistics", "Statistics", STATISTICS_LEAD, build_statistics_blocks(statistics)),
    ]
    if audit.get("image_shortcuts"):
        lead = "How often attackers find the true image without any caption."
        sections.append(
            Section("images", "Images", lead, parts.build_images_section(audit["image_shortcuts"]))
        )
    if audit.get("leakage"):
        lead = "Texts that are in the training corpus."
        sections.append(Section("leakage", "Leakage", lead, parts.build_leakage_section(audit["leakage"])))
    if rows["caption2"].notna().any():
        lead = "Similarity of paraphrase and negative to the caption, and to each other."
        sections.append(
            Section("similarity", "Similarity", lead, parts.build_similarity_section(rows, parser))
        )
    name = get_value(audit, "name", where=WHERE)
    return render_page(
        title=f"caramel audit: {name}",
        heading="Can it be solved blind?",
        lead=format_markup("Audit of <code>{}</code>: {}", name, _format_about(audit)),
        sections=sections,
        cards=_build_cards(audit),
    )


def _list_ceiling_sections(audit: Mapping[str, Any]) -> list[Section]:
    """Return the section on ceilings; none for an audit of an earlier version, which has none."""
    records = audit.get("ceilings")
    if not records:
        return []
    return [Section("ceilings", "Ceilings", CEILINGS_LEAD, build_ceilings_blocks(records))]


def _build_cards(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headline figures: (value, label)."""
    overall = get_value(audit, BEST, "overall", where=WHERE)
    micro, low, high, macro, p = (
        get_number(overall, key, where=WHERE) for key in ("micro", "ci_low", "ci_high", "macro", "p_value")
    )
    single = rank_scorers(audit)[0]
    alone = get_number(audit, "scorers", single, "overall", "micro", where=WHERE)
    faulty = get_number(audit, "rows_with_defects", where=WHERE)
    return [
        (
            f"{format_percent(micro)} %",
            f"best blind attacker (chance 50); 95 % interval {format_percent(low)}–{format_percent(high)}, p\u00a0{format_p(p, '.4f', least=LEAST_GUESS_P)}",
        ),
        (f"{format_percent(macro)} %", "the same, mean over the subtypes"),
        (f"{format_percent(alone)} %", f"best single scorer: {single}"),
        (
            format_count(faulty),
            f"rows with a defect, of {format_count(get_number(audit, 'rows', where=WHERE))}",
        ),
    ]


def _format_about(audit: Mapping[str, Any]) -> str:
    """Return a description of rows, folds and seed."""
    rows, attacked, groups, folds, seed = (
        get_number(audit, key, where=WHERE) for key in ("rows", "rows_attacked", "groups", "folds", "seed")
    )
    some = "" if attacked == rows else f" {format_count(attacked)} of them attacked,"
    by = get_value(audit, "grouped_by", where=WHERE)
    return (
        f"{format_count(rows)} rows,{some} {folds:.0f} folds of {format_count(groups)} groups by {by}, seed {seed:.0f}. "
        f"Accuracies are on held-out rows."
    )
