"""Build the section on a language model's captions of the world: its error rates, and which check noticed the errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from caramel.report.blocks import MISSING, Block, Cell, TableBlock, format_count, format_percent
from caramel.report.inputs import StageSkipped, read_csv
from caramel.sources.captions.error_rates import CHECK_COLUMNS, ERRORS, NOISE_COLUMNS, PARAPHRASE
from caramel.sources.captions.failures import FAILURE_COLUMNS
from caramel.sources.captions.llm.checks import CLASSES
from caramel.sources.captions.llm.corrections import CORRECTION_COLUMNS
from caramel.sources.captions.llm.validator_quality import VALIDATOR_COLUMNS

NOISE_NOTE = (
    "Counts of drafts; small: per cent of them. Malformed: not a sentence of the world. Wrong: not the change of the subtype, "
    "or a paraphrase with another meaning. True: the negative is true of the scene. False: the paraphrase is not. Yield: "
    "texts that were kept and right, per request; steps shared by several subtypes count only in “all”. "
    "Data: data/negatives/noise.csv."
)
CHECK_NOTE = (
    "Precision: share of a check's refused drafts that have any fault. Recall: share of the drafts with a fault that it "
    "refuses; also for the fault truth alone. Each check is measured on the drafts that it judges; the validator (meaning) "
    "judges only drafts that pass the others. Data: data/negatives/checks.csv."
)
VALIDATOR_NOTE = (
    "The validator judged these texts before anything else was requested. Sensitivity: share of the faulty texts (a "
    "negative that follows from its caption, a paraphrase that does not) that it refuses. Specificity: share of the sound "
    "texts that it accepts. Both with Wilson intervals of 95 %. p: Fisher's exact test, one-sided, that it refuses faulty "
    "texts more often than sound ones. The texts are copies, synonyms and edits by word lists, easier than a model's own "
    "drafts: the shares are upper bounds. Data: data/negatives/validator.csv, gold_items.csv."
)
FAILURE_NOTE = (
    "Counts of refused drafts by reason; small: texts that never passed, by the reason of their last draft or because no "
    "draft came. For paraphrases, the first five are the failure classes of SugarCrepe++ (C.5). A text may fail several "
    "times. Data: data/negatives/failures.csv."
)

CORRECTION_NOTE = (
    "Paraphrases that failed and were sent back with what was wrong; small: per cent of the corrected drafts. Each "
    "correction is an attempt and a request that the caps of the budget count. Data: data/negatives/corrections.csv."
)


def build_failure_section(data: Path) -> list[Block]:
    """Return why texts failed, by the requested text."""
    path = data / "negatives" / "failures.csv"
    if not path.exists():
        raise StageSkipped("no language model wrote captions")
    rows = read_csv(path, FAILURE_COLUMNS)
    paraphrases = rows["part"] == PARAPHRASE
    blocks: list[Block] = [
        _build_failure_table("Why negatives failed", rows[~paraphrases]),
        _build_failure_table("Why paraphrases failed", rows[paraphrases], CLASSES),
    ]
    corrections = data / "negatives" / "corrections.csv"
    if corrections.exists():
        blocks.append(_build_correction_table(read_csv(corrections, CORRECTION_COLUMNS)))
    return blocks


def _build_correction_table(rows: pd.DataFrame) -> TableBlock:
    """Return how many failed paraphrases were sent back, by what was wrong, and how many of the answers passed."""
    lines = [
        [
            Cell(str(row["reason"])),
            Cell(format_count(float(row["corrections"]))),
            Cell(
                format_count(float(row["accepted"])),
                _format_share(float(row["accepted"]) / float(row["corrections"])),
            ),
        ]
        for _, row in rows.iterrows()
    ]
    head = ("What was wrong", "corrections", "accepted")
    return TableBlock("Corrections of paraphrases", head, lines, note=CORRECTION_NOTE)


def _build_failure_table(title: str, rows: pd.DataFrame, first: Sequence[str] = ()) -> TableBlock:
    """Return the table of reasons and parts, with given reasons first."""
    named = zip(rows["reason"], rows["part"], rows["drafts"], rows["rejects"], strict=True)
    counted = {
        (reason, part): Cell(format_count(float(drafts)), format_count(float(lost)))
        for reason, part, drafts, lost in named
    }
    parts = dict.fromkeys(part for _, part in counted)
    reasons = dict.fromkeys([*first, *(reason for reason, _ in counted)])
    lines = [
        [Cell(reason), *(counted.get((reason, part), Cell(MISSING)) for part in parts)] for reason in reasons
    ]
    return TableBlock(title, ("Reason", *parts), lines, note=FAILURE_NOTE)


def build_validator_section(data: Path) -> list[Block]:
    """Return the validator's sensitivity and specificity on texts with known answers."""
    path = data / "negatives" / "validator.csv"
    if not path.exists():
        raise StageSkipped("no validator judged texts with known answers")
    rows = read_csv(path, VALIDATOR_COLUMNS)
    lines = [
        [
            Cell(str(row["part"])),
            *(
                cell
                for name, number in (("sensitivity", "faulty"), ("specificity", "sound"))
                for cell in (Cell(format_count(float(row[number]))), _build_share_cell(row, name))
            ),
            Cell(format_count(float(row["unanswered"]))),
            Cell(f"{float(row['p']):.2g}"),
        ]
        for _, row in rows.iterrows()
    ]
    head = ("Texts", "faulty", "sensitivity", "sound", "specificity", "no answer", "p")
    return [TableBlock("Worth of the validator", head, lines, note=VALIDATOR_NOTE)]


def _build_share_cell(row: pd.Series, name: str) -> Cell:
    ends = (_format_share(float(row[f"{name}_{end}"])) for end in ("low", "high"))
    return Cell(_format_share(float(row[name])), " – ".join(ends))


def build_noise_section(data: Path) -> list[Block]:
    """Return the noise table, and the precision and recall of each check."""
    folder = data / "negatives"
    if not (folder / "noise.csv").exists():
        raise StageSkipped("no language model wrote captions of scenes that are known")
    noise = read_csv(folder / "noise.csv", NOISE_COLUMNS)
    head = ("Subtype", "texts", "requests", "drafts", *("malformed", "wrong", "true", "false"), "right")
    rows = [_build_noise_row(row) for _, row in noise.iterrows()]
    checks = read_csv(folder / "checks.csv", CHECK_COLUMNS)
    titles = ("Texts", "Check", "judged", "refused", "precision", "recall", "recall, truth")
    lines = [
        [Cell(str(row["part"])), Cell(str(row["check"]))]
        + [Cell(format_count(float(row[name]))) for name in ("judged", "refused")]
        + [Cell(_format_share(float(row[name]))) for name in CHECK_COLUMNS[4:]]
        for _, row in checks.iterrows()
    ]
    return [
        TableBlock("Error rates", (*head, "kept", "kept and right", "yield"), rows, note=NOISE_NOTE),
        TableBlock("Precision and recall of the checks", titles, lines, labels=2, note=CHECK_NOTE),
    ]


def _build_noise_row(row: pd.Series) -> list[Cell]:
    drafts, n_kept, requests = (float(row[name]) for name in ("drafts", "kept", "requests"))
    shares = [
        Cell(
            format_count(float(row[name])),
            _format_share(float(row[name]) / drafts if drafts else float("nan")),
        )
        for name in (*ERRORS, "right")
    ]
    right = float(row["kept_right"])
    return [
        Cell(str(row["subtype"])),
        *(Cell(format_count(float(row[name]))) for name in ("texts", "requests", "drafts")),
        *shares,
        Cell(format_count(n_kept)),
        Cell(format_count(right), _format_share(right / n_kept if n_kept else float("nan"))),
        Cell(f"{right / requests:.2f}" if requests else MISSING),
    ]


def _format_share(value: float) -> str:
    return MISSING if pd.isna(value) else format_percent(value)
