"""Build the sections on how models stand: above the ceilings of blind models, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from caramel.benchmarks.ceilings.ceilings import compute_ceilings, compute_skill
from caramel.evaluation.results.rank_sets import compute_rank_sets
from caramel.evaluation.results.run_hits import RunHits, compute_run_hits
from caramel.evaluation.results.summary import build_subset_masks
from caramel.report.blocks import MISSING, Block, Cell, TableBlock, format_percent
from caramel.report.inputs import StageSkipped
from caramel.report.sections.ceiling_section import format_ceilings_note, mark_bound
from caramel.report.sections.model_rows import FORM, MAIN, Row, build_row_index, read_variants
from caramel.report.table_lines import format_unranked_notes
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table

SUBSETS = tuple(dict.fromkeys(column.subset for column in MAIN))
CLASS = "bag_of_words"  # the class above whose ceilings the variants are shown
RANKS_SEED = 0
RANKS_NOTE = (
    "The ranks that each model may have: in each column, all models' sets hold their true ranks at once with a probability "
    "of 95 % or more (stepwise tests of all differences, paired and clustered on the image). Letters: two models "
    "share one exactly if their order is not shown. Hits are averaged over training seeds, so that the ranks are those of "
    "these trained models, not of their recipes."
)


def build_ceilings_section(data: Path) -> list[Block]:
    """Return the ceilings of each class on the assembled instances, and the models' skill above one of them."""
    runs = _read_hits(data)
    instances = read_table(INSTANCES, data / f"assemble/{FORM}.parquet").set_index("instance_id")
    rows = instances.loc[runs.rows["instance_id"]].rename(
        columns={"image_id": "image", "negative_image_id": "negative_image"}
    )
    masks = {name: mask for name, mask in build_subset_masks(runs.rows).items() if name in SUBSETS}
    ceilings = compute_ceilings(rows.reset_index(drop=True), runs.metrics, masks, {})
    values = ceilings.set_index(["model_class", "subset", "metric"])["ceiling"].to_dict()

    def list_ceilings(name: str) -> list[float]:
        return [values.get((name, column.subset, column.metric), np.nan) for column in MAIN]

    exact = ceilings.set_index(["model_class", "subset", "metric"])["exact"].to_dict()
    lines = [
        [
            Cell(f"ceiling {name}"),
            *(
                Cell(mark_bound(format_percent(value), exact.get((name, column.subset, column.metric), True)))
                for value, column in zip(list_ceilings(name), MAIN, strict=True)
            ),
        ]
        for name in dict.fromkeys(ceilings["model_class"])
    ]
    variants = read_variants(data)
    means = build_row_index(variants, "variant", "subset", "metric")
    for variant in dict.fromkeys(variants["variant"].astype(str)):
        scores = np.array([means[variant, column.subset, column.metric]["mean"] for column in MAIN], float)
        skill = compute_skill(scores, np.array(list_ceilings(CLASS)))
        lines.append([Cell(variant, f"skill above {CLASS}"), *_format_shares(skill.tolist())])
    return [
        TableBlock(
            "", ("", *(column.title for column in MAIN)), lines, note=format_ceilings_note(exact.values())
        )
    ]


def build_ranks_section(data: Path) -> list[Block]:
    """Return the rank sets of the base and its variants."""
    runs = _read_hits(data)
    variants = dict.fromkeys(read_variants(data)["variant"].astype(str))
    hits = {name: of.mean(axis=0) for name, of in runs.group_by_variant().items() if name in variants}
    if len(hits) < 2:
        raise StageSkipped("there is one model, so there is nothing to rank")
    ranks = compute_rank_sets(hits, runs.rows, runs.metrics, lambda subset: False, RANKS_SEED)
    by_key = {(row["model"], row["subset"], row["metric"]): row for row in ranks.to_dict("records")}
    lines = [
        [
            Cell(name),
            *(_build_rank_cell(by_key.get((name, column.subset, column.metric))) for column in MAIN),
        ]
        for name in hits
    ]
    columns = [(column.subset, column.metric) for column in MAIN]
    note = " ".join([RANKS_NOTE, *format_unranked_notes(ranks, hits, columns)])
    return [TableBlock("", ("Model", *(column.title for column in MAIN)), lines, note=note)]


def _read_hits(data: Path) -> RunHits:
    """Return the hits of all models on the assembled instances.

    Raises:
        StageSkipped: nothing was evaluated.
    """
    read_variants(data)
    similarities = read_table(SIMILARITIES, data / "evaluate/similarities.parquet")
    return compute_run_hits(similarities, FORM, list(dict.fromkeys(column.metric for column in MAIN)))


def _format_shares(values: Sequence[float]) -> list[Cell]:
    return [Cell(format_percent(value)) for value in values]


def _build_rank_cell(row: Row | None) -> Cell:
    if row is None:
        return Cell(MISSING)
    best, worst = row["rank_best"], row["rank_worst"]
    return Cell(f"{best}" if best == worst else f"{best}–{worst}", row["ties"])
