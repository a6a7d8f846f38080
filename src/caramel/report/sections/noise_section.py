"""Section on a language model that wrote captions of the world: how often it erred, and which check noticed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.captions.noise import CHECK_COLUMNS, ERRORS, NOISE_COLUMNS
from caramel.report.blocks import MISSING, Block, Cell, TableBlock, count, percent
from caramel.report.inputs import Skipped, read_csv

NOISE_NOTE = (
    "Counts of drafts; small: per cent of them. Malformed: no sentence of the world. Wrong: another change than the subtype's, "
    "or a paraphrase that does not say the same. True: the negative is true of the scene. False: the paraphrase is not. Yield: "
    "texts that were kept and right, per request; steps that several subtypes share are counted in “all” alone. "
    "Data: data/negatives/noise.csv."
)
CHECK_NOTE = (
    "Precision: of the drafts that a check refuses, how many have a fault at all. Recall: of the drafts with a fault, how many "
    "it refuses; of those whose fault is truth, how many. A check is on the drafts that it judges: the validator (meaning) is "
    "asked of what passes the others. Data: data/negatives/checks.csv."
)


def noise_section(data: Path) -> list[Block]:
    """Return the noise table, and what each check is worth."""
    folder = data / "negatives"
    if not (folder / "noise.csv").exists():
        raise Skipped("no language model wrote captions of scenes that are known")
    noise = read_csv(folder / "noise.csv", NOISE_COLUMNS)
    head = ("Subtype", "texts", "requests", "drafts", *("malformed", "wrong", "true", "false"), "right")
    rows = [_noise_row(row) for _, row in noise.iterrows()]
    checks = read_csv(folder / "checks.csv", CHECK_COLUMNS)
    titles = ("Texts", "Check", "judged", "refused", "precision", "recall", "recall, truth")
    found = [
        [Cell(str(row["part"])), Cell(str(row["check"]))]
        + [Cell(count(float(row[name]))) for name in ("judged", "refused")]
        + [Cell(_share(float(row[name]))) for name in CHECK_COLUMNS[4:]]
        for _, row in checks.iterrows()
    ]
    return [
        TableBlock("How often it erred", (*head, "kept", "kept and right", "yield"), rows, note=NOISE_NOTE),
        TableBlock("What the checks are worth", titles, found, labels=2, note=CHECK_NOTE),
    ]


def _noise_row(row: pd.Series) -> list[Cell]:
    drafts, kept, requests = (float(row[name]) for name in ("drafts", "kept", "requests"))
    shares = [
        Cell(count(float(row[name])), _share(float(row[name]) / drafts if drafts else float("nan")))
        for name in (*ERRORS, "right")
    ]
    right = float(row["kept_right"])
    return [
        Cell(str(row["subtype"])),
        *(Cell(count(float(row[name]))) for name in ("texts", "requests", "drafts")),
        *shares,
        Cell(count(kept)),
        Cell(count(right), _share(right / kept if kept else float("nan"))),
        Cell(f"{right / requests:.2f}" if requests else MISSING),
    ]


def _share(value: float) -> str:
    return MISSING if pd.isna(value) else percent(value)
