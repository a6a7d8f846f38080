"""Build the page's opening: an instance of each subtype, and one that fine-tuning gets right and the base wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import compute_outcomes
from caramel.evaluation.results.summary import BASE, align_runs, build_subset_masks, parse_variant
from caramel.report.blocks import (
    Block,
    Cell,
    NoteBlock,
    SheetBlock,
    SheetRow,
    TableBlock,
    Thumbnail,
    format_count,
    make_thumbnail,
)
from caramel.report.inputs import StageSkipped, read_images, read_json
from caramel.report.sections.model_rows import FORM
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.utils.arrays import Floats

SCORES = (("s_c0_i0", "s_c0_i1"), ("s_c1_i0", "s_c1_i1"))  # captions down, images across


def build_benchmark_section(data: Path) -> list[Block]:
    """Return the first instance, by id, of each subtype: two images, each above its caption."""
    rows = _read_instances(data)
    first = rows.sort_values("instance_id").drop_duplicates("subtype").set_index("subtype", drop=False)
    chosen = first.loc[[name for name in SUBTYPES if name in first.index]]
    return [
        _build_sheet(
            data,
            chosen,
            "Left: the positive image. Right: the negative image, of which the hard negative is true.",
        )
    ]


def _read_instances(data: Path) -> pd.DataFrame:
    """Return the test instances with both images.

    Raises:
        StageSkipped: there is none.
    """
    rows = read_table(INSTANCES, data / "assemble/instances.parquet")
    if rows.empty:
        read_json(data / "filter_images/metrics.json")  # raises with the reason if the stage was skipped
    rows = rows[(rows["split"] == "test") & rows["negative_image_id"].notna()]
    if rows.empty:
        raise StageSkipped("no instance of the test split has two images")
    return rows


def _build_sheet(data: Path, instances: pd.DataFrame, note: str) -> SheetBlock:
    """Return instances as cards: both images, each above its caption."""
    sides = (("image_id", "caption"), ("negative_image_id", "negative_caption"))
    names = [str(name) for image, _ in sides for name in instances[image]]
    files = read_images(data / "assemble/images.parquet", names)
    rows = [
        SheetRow(
            str(row["subtype"]),
            "",
            [
                Thumbnail(make_thumbnail(files[row[image]], row[image]), str(row[caption]), name=row[image])
                for image, caption in sides
            ],
        )
        for row in instances.to_dict("records")
    ]
    return SheetBlock("", rows, layout="cards", note=note)


def build_example_section(data: Path, primary_comparison: Mapping[str, str]) -> list[Block]:
    """Return an instance of the claim that, by Group, the base gets wrong and most runs of the variant get right.

    It is the one that most runs get right; among equals, the first by id.

    Raises:
        StageSkipped: nothing was evaluated, or not these models.
    """
    read_json(data / "evaluate/metrics.json")  # raises with the reason if the stage was skipped
    variant = primary_comparison["variant"]
    runs = _read_runs(data, variant)
    hits = pd.DataFrame({name: _compute_hits(run) for name, run in runs.items()})
    masks = build_subset_masks(runs[BASE])
    if primary_comparison["subset"] not in masks:
        raise StageSkipped(f"no instance is in {primary_comparison['subset']}, the subset of the claim")
    hits = hits[masks[primary_comparison["subset"]]].dropna()
    if hits.empty:
        raise StageSkipped("no instance was scored in both directions")
    base, right = hits[BASE], hits.drop(columns=BASE).mean(axis=1)
    gained, lost = right[(base == 0) & (right > 0.5)], right[(base == 1) & (right < 0.5)]
    text = (
        f"By Group, base is wrong and most runs of {variant} ({len(runs) - 1}) are right on {format_count(len(gained))} of "
        f"{format_count(len(hits))} test instances of the claim; the reverse holds on {format_count(len(lost))}."
    )
    if gained.empty:
        return [NoteBlock(f"{text} So there is no example to show.")]
    name = gained[gained == gained.max()].index.min()
    run = next(run for run in runs if run != BASE and hits[run][name] == 1)
    rule = "Shown: the one of the first group that most runs get right; among equals, the first by id."
    instance = _read_instances(data).set_index("instance_id", drop=False).loc[[name]]
    scores = {model: _select_scores(runs[model], name) for model in (BASE, run)}
    return [NoteBlock(f"{text} {rule}"), _build_sheet(data, instance, ""), _format_scores(scores)]


def _read_runs(data: Path, variant: str) -> dict[str, pd.DataFrame]:
    """Return similarities by instance of the base and of each run of a variant, the base first.

    Raises:
        StageSkipped: one of the two was not scored.
    """
    rows = read_table(SIMILARITIES, data / "evaluate/similarities.parquet", only=("benchmark", [FORM]))
    by_model = {str(name): of.reset_index(drop=True) for name, of in rows.groupby("model", sort=False)}
    names = [name for name in by_model if name != BASE and parse_variant(name) == variant]
    if BASE not in by_model or not names:
        raise StageSkipped(f"base and {variant} were not scored on the same instances")
    runs = align_runs([by_model[name] for name in (BASE, *names)])
    return {name: run.set_index("instance_id") for name, run in zip((BASE, *names), runs, strict=True)}


def _compute_hits(run: pd.DataFrame) -> pd.Series:
    return compute_outcomes(run, ["group"]).hits["group"]


def _select_scores(run: pd.DataFrame, name: str) -> Floats:
    """Return the similarities of both captions (rows) and both images (columns) of an instance, (2, 2)."""
    row = run.loc[[name]]
    return np.array([[float(row[column].iloc[0]) for column in columns] for columns in SCORES])


def _format_scores(scores: Mapping[str, Floats]) -> TableBlock:
    """Return each model's similarities of an instance; bold marks the largest value of its row and column."""
    lines = []
    for index, caption in enumerate(("left caption", "right caption")):
        cells = [Cell(caption)]
        for of in scores.values():
            leads = [of[index, i] > max(of[index, 1 - i], of[1 - index, i]) for i in (0, 1)]
            cells += [
                Cell(f"{of[index, i]:.3f}".replace("-", "−"), mark="best" if leads[i] else "") for i in (0, 1)
            ]
        lines.append(cells)
    head = ("", *(f"{model}: {side} image" for model in scores for side in ("left", "right")))
    note = (
        "Cosine similarity of each caption with each image. Bold: greater than with the other image and than for the other "
        "caption. Group is right if each caption is bold at its own image."
    )
    return TableBlock("", head, lines, note=note)
