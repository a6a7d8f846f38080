"""Build the section on people: their agreement on the decisions that chose the images, and the human baseline."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.annotation.agreement.decision_files import BASELINE_FILE
from caramel.annotation.agreement.human_row import QUERIES, compute_baseline_metrics, list_foreign_items
from caramel.registry import BENCHMARKS
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import StageSkipped, get_number, get_value, read_json
from caramel.report.sections.model_rows import FORM
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table

MODEL = "people"
METRICS_FILE = "filter_images/metrics.json"


def has_people(data: Path, annotations: Path | None) -> bool:
    """Return whether people decided on images or answered a baseline; arguments as in ``build_people_blocks``."""
    try:
        agreement = read_json(data / METRICS_FILE).get("people")
    except StageSkipped:
        return False
    return bool(agreement) or bool(annotations and (annotations / BASELINE_FILE).is_file())


def build_people_blocks(data: Path, annotations: Path | None) -> list[Block]:
    """Return the tables on people; none if people decided nothing and answered no baseline.

    Args:
        data: folder of the stages' outputs.
        annotations: folder of the human baseline; None: there is none.
    """
    blocks: list[Block] = []
    agreement = read_json(data / METRICS_FILE).get("people")
    if agreement:
        blocks.append(_build_agreement_table(agreement, data / METRICS_FILE))
    if annotations and (annotations / BASELINE_FILE).is_file():
        blocks.append(_build_baseline_block(data, annotations / BASELINE_FILE))
    return blocks


def _build_agreement_table(agreement: dict[str, object], path: Path) -> TableBlock:
    """Return one row per task: items, answers, agreement."""
    rows = []
    for task in agreement:
        alpha, low, high, items, outdated, undecided, annotators, answers, pairable = (
            get_number(agreement, task, key, where=path)
            for key in (
                "krippendorff_alpha",
                "ci_low",
                "ci_high",
                "items",
                "outdated",
                "undecided",
                "annotators",
                "answers",
                "pairable",
            )
        )
        interval = "" if pd.isna(low) else f"[{low:.2f}, {high:.2f}]"
        rows.append(
            [
                Cell(task),
                Cell(str(get_value(agreement, task, "guideline", where=path))),
                *(
                    Cell(format_count(number))
                    for number in (items, outdated, undecided, annotators, answers, pairable)
                ),
                Cell(MISSING if pd.isna(alpha) else f"{alpha:.2f}", interval),
            ]
        )
    head = (
        "Task",
        "Guideline",
        "Items",
        "outdated",
        "undecided",
        "people",
        "answers",
        "answered twice",
        "alpha",
    )
    note = (
        "Decisions of people that chose the images. Alpha: Krippendorff's, over items with at least two answers; brackets: "
        "95 % bootstrap interval over items. Outdated decisions are on other images or captions than those of this run, or "
        "on none of them; only this column counts them. An undecided item counts as no image, or as ambiguous."
    )
    return TableBlock("Agreement of people", head, rows, note=note, labels=2)


def _build_baseline_block(data: Path, path: Path) -> Block:
    """Return the human baseline, one row per subset; a note if it is of another benchmark, as after a change of profile."""
    answers = read_table(ANNOTATIONS, path)
    instances = read_table(INSTANCES, data / "assemble/instances.parquet")
    images = read_table(IMAGES, data / "assemble/images.parquet", ["image_id", "sha256"])
    if foreign := list_foreign_items(answers, instances, images):
        return NoteBlock(
            f"The human baseline in {path} is not shown: {len(foreign)} of its {answers['item_id'].nunique()} items are not "
            f"among the {len(instances)} instances of this run, or have other captions or images there. Set annotation.data_dir to a folder of answers to these."
        )
    metrics = compute_baseline_metrics(
        answers,
        instances,
        images,
        model=MODEL,
        benchmark=BENCHMARKS[FORM],
        where=repr(str(path)),
    )
    rows = [
        [
            Cell(str(subset)),
            *(
                Cell(format_percent(row["value"]), format_interval(row["ci_low"], row["ci_high"]))
                for row in part.to_dict("records")
            ),
            Cell(format_count(part["n"].iloc[0])),
            Cell(format_count(part["unscored"].iloc[0])),
        ]
        for subset, part in metrics.groupby("subset", sort=False)
    ]
    head = ("Subset", *QUERIES, "Answers", "skipped")
    note = "Per cent of answers. Brackets: 95 % interval over people and images, so that it holds for other people."
    return TableBlock("Human baseline", head, rows, note=note)
