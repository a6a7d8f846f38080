"""Build the section on detectors: what classifiers of synthetic items reach on the models' metrics."""

from __future__ import annotations

from pathlib import Path

from caramel.evaluation.synthetic_probe_data import PLANTED
from caramel.report.blocks import MISSING, Block, Cell, NoteBlock, TableBlock, format_interval, format_percent
from caramel.report.inputs import read_json
from caramel.report.sections.attacker_sections import TITLES
from caramel.report.sections.model_rows import Row, build_row_index
from caramel.schemas.columns import TYPES
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import read_table

COLUMNS = (
    ("SugarCrepe", "accuracy"),
    ("I2T", "i2t"),
    ("T2I", "t2i"),
    ("Group", "group"),
    ("positive images", "image_natural"),
    ("negative images", "image_synthetic"),
    ("positive captions", "text_natural"),
    ("negative captions", "text_synthetic"),
)
NOTE = (
    "Per cent of instances; brackets: 95 % interval. One head on the base's frozen image encoder and one on its text encoder classify each "
    "item alone as a positive (natural) or a negative (synthetic). A query is answered only if its own class is known, "
    "with the more natural candidate. The last four columns: items of that source that are classified correctly (chance 50). A head at chance "
    "has Group 6.25 or less. A model's score beyond these rows is not an artifact that such a head can see. For attackers on pixels see "
    "Image bias. A planted shortcut: a copy of some instances whose negative captions all end alike and whose negative images all "
    "have a black half. If a head misses this shortcut, its failure to find one above means nothing."
)


def build_detectors_section(data: Path) -> list[Block]:
    """Return the table of detectors: each form of the benchmark on all instances, and by type."""
    read_json(data / "evaluate/metrics.json")  # raises with the reason if the stage was skipped
    rows = read_table(METRICS, data / "evaluate/detectors.parquet")
    if rows.empty:
        return [NoteBlock("No training pair has an image of its negative, so no detector was trained.")]
    rows_by_key = build_row_index(rows, "benchmark", "subset", "metric")
    lines = []
    for form, of in rows.groupby("benchmark", sort=False):
        for subset in ("all",) if form == PLANTED else ("all", "without_add", *TYPES):
            if subset in set(of["subset"]):
                cells = [_build_cell(rows_by_key[str(form), subset, metric]) for _, metric in COLUMNS]
                title = Cell(subset, TITLES.get(str(form), str(form)))
                control = Cell("a planted shortcut", "positive control")
                lines.append([control if form == PLANTED else title, *cells])
    half, none = Cell(format_percent(0.5), mark="muted"), Cell(MISSING, mark="muted")
    chance = [none if metric in ("i2t", "t2i", "group") else half for _, metric in COLUMNS]
    head = ("Instances", *(title for title, _ in COLUMNS))
    return [TableBlock("", head, [[Cell("chance", mark="muted"), *chance], *lines], note=NOTE)]


def _build_cell(row: Row) -> Cell:
    return Cell(format_percent(row["value"]), format_interval(row["ci_low"], row["ci_high"]))
