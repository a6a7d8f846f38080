"""Split the claim: its parts by subtype, its value in the benchmark's other form, and on seen and unseen compounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.evaluation.results.paired_tests import ALPHA
from caramel.evaluation.results.separability import SEPARABILITY_COLUMNS
from caramel.evaluation.results.standardisation import INTERACTION, STANDARDISED_COLUMNS
from caramel.report.blocks import (
    Block,
    Cell,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
    format_signed,
)
from caramel.report.inputs import StageSkipped, read_csv
from caramel.report.sections.model_rows import (
    BETWEEN_FORMS,
    FORM,
    SOURCE_FORM,
    build_row_index,
    read_differences,
    read_variants,
)
from caramel.schemas.columns import SUBTYPES
from caramel.utils.stats import format_p, holm_correction

FORM_TITLES = {
    FORM: "Drawn positives",
    SOURCE_FORM: "Positives of the source",
    BETWEEN_FORMS: "Drawn − source",
}
METRIC_TITLES = {"accuracy": "Accuracy", "i2t": "I2T", "t2i": "T2I", "group": "Group"}


def select_comparison(
    data: Path, primary_comparison: Mapping[str, str], subset: str, benchmark: str
) -> dict[str, float]:
    """Return the comparison of the claim's two models on a subset, as variant minus the other.

    Raises:
        StageSkipped: nothing was evaluated, or not this comparison.
    """
    comparison = _find_comparison(read_differences(data, benchmark), {**primary_comparison, "subset": subset})
    if math.isnan(comparison["difference"]) or math.isnan(comparison["p"]):
        raise StageSkipped(
            f"{primary_comparison['variant']} was not compared with {primary_comparison['against']} by {primary_comparison['metric']} on {subset}"
        )
    return comparison


def _find_comparison(rows: pd.DataFrame, primary_comparison: Mapping[str, str]) -> dict[str, float]:
    """Return difference (variant minus the other), ci_low, ci_high, p and p_least.

    NaN if the two were not compared.
    """
    those = rows[
        (rows["metric"] == primary_comparison["metric"]) & (rows["subset"] == primary_comparison["subset"])
    ]
    for row in those.to_dict("records"):
        if {row["a"], row["b"]} == {primary_comparison["variant"], primary_comparison["against"]}:
            return _align_difference(row, primary_comparison["variant"])
    return dict.fromkeys(("difference", "ci_low", "ci_high", "p", "p_least"), math.nan)


def _align_difference(row: Mapping[Any, Any], variant: str) -> dict[str, float]:
    """Return the difference with ``variant`` first."""
    sign = 1 if row["a"] == variant else -1
    low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
    p = {name: row[name] for name in ("p", "p_least")}
    return {"difference": sign * row["difference"], "ci_low": low, "ci_high": high, **p}


def has_parts(primary_comparison: Mapping[str, str]) -> bool:
    """Return whether the claim can be split by subtype; seen and unseen compounds cannot."""
    return primary_comparison["subset"] in ("all", "without_add")


def compute_parts(data: Path, primary_comparison: Mapping[str, str]) -> pd.DataFrame:
    """Return the claim by subtype: one row for each subtype of the claim's subset.

    Columns:

    - subtype, n;
    - floor, ceiling, differ: numbers of instances; see ``separability``;
    - values of base and variant in [0, 1], and the difference with its interval;
    - ``part``, ``part_low``, ``part_high``: the subtype's contribution, its share of the instances times its
      difference.

    The parts add up to the claim if every instance has a subtype and all models scored it.

    Raises:
        StageSkipped: nothing was evaluated, or not this comparison; or the claim is on seen or unseen
            compounds, which no table has by subtype.
    """
    if not has_parts(primary_comparison):
        raise StageSkipped(
            f"models are compared by subtype only on all compounds, not on {primary_comparison['subset']} ones"
        )
    metric = primary_comparison["metric"]
    separable = read_csv(data / "evaluate/separability.csv", SEPARABILITY_COLUMNS)
    separable = separable[(separable["benchmark"] == FORM) & (separable["metric"] == metric)].set_index(
        "subset"
    )
    differences = read_differences(data, FORM)
    values = build_row_index(read_variants(data), "variant", "subset", "metric")
    subtypes = [s for s in SUBTYPES if s in separable.index and separable["n"][s] > 0]
    if primary_comparison["subset"] == "without_add":
        subtypes = [s for s in subtypes if not s.startswith("add")]
    total = sum(int(separable["n"][s]) for s in subtypes)
    rows = []
    for subtype in subtypes:
        comparison = _find_comparison(differences, {**primary_comparison, "subset": subtype})
        share = int(separable["n"][subtype]) / total
        named = {"difference": "part", "ci_low": "part_low", "ci_high": "part_high"}
        rows.append(
            {
                "subtype": subtype,
                **{name: int(separable[name][subtype]) for name in ("n", "floor", "ceiling", "differ")},
                "value_against": values[primary_comparison["against"], subtype, metric]["mean"],
                "value_variant": values[primary_comparison["variant"], subtype, metric]["mean"],
                **comparison,
                **{name: share * comparison[key] for key, name in named.items()},
            }
        )
    if not rows:
        raise StageSkipped("no instance has a subtype")
    return pd.DataFrame(rows)


def build_parts_block(data: Path, primary_comparison: Mapping[str, str]) -> TableBlock:
    """Return the claim by subtype as a table."""
    rows = compute_parts(data, primary_comparison)
    lines = [
        [
            Cell(str(row["subtype"])),
            Cell(format_count(row["n"])),
            *(Cell(format_percent(row[name] / row["n"])) for name in ("floor", "ceiling")),
            Cell(format_count(row["differ"])),
            *(Cell(format_percent(row[name])) for name in ("value_against", "value_variant")),
            Cell(
                format_signed(row["difference"]),
                format_interval(row["ci_low"], row["ci_high"], difference=True),
            ),
            Cell(
                format_signed(row["part"]),
                format_interval(row["part_low"], row["part_high"], difference=True),
            ),
        ]
        for row in rows.to_dict("records")
    ]
    sums = rows[["n", "floor", "ceiling", "differ", "part"]].sum()
    shares = (Cell(format_percent(sums[name] / sums["n"])) for name in ("floor", "ceiling"))
    blank = (Cell("") for _ in range(3))
    lines.append(
        [
            Cell("sum"),
            Cell(format_count(sums["n"])),
            *shares,
            Cell(format_count(sums["differ"])),
            *blank,
            Cell(format_signed(sums["part"])),
        ]
    )
    head = (
        "Subtype", "Instances", "At the floor", "At the ceiling", "Runs differ",
        primary_comparison["against"], primary_comparison["variant"], "Difference", "Part of the claim",
    )  # fmt: skip
    over = " over all types but add" if primary_comparison["subset"] == "without_add" else ""
    note = (
        f"{METRIC_TITLES[primary_comparison['metric']]} in per cent, differences in points; brackets: 95 % intervals, not corrected. At the "
        "floor: no run of any model on this page is correct; at the ceiling: every run is. Such instances separate no two models. "
        f"Part of the claim: the subtype's share of the instances times its difference; the parts add up to the claim{over}."
    )
    return TableBlock("The claim by subtype", head, lines, note=note)


def build_forms_block(data: Path, primary_comparison: Mapping[str, str]) -> TableBlock:
    """Return the claim's variant against every other model, in both forms of the benchmark, with the difference of the forms."""
    columns = {form: read_differences(data, form) for form in FORM_TITLES}
    columns = {form: rows for form, rows in columns.items() if not rows.empty}
    variant = primary_comparison["variant"]
    others = [name for name in dict.fromkeys(read_variants(data)["variant"]) if name != variant]
    comparisons = {
        (other, form): _find_comparison(rows, {**primary_comparison, "against": other})
        for other in others
        for form, rows in columns.items()
    }
    corrected = dict(
        zip(
            comparisons,
            holm_correction(np.array([row["p"] for row in comparisons.values()], float)),
            strict=True,
        )
    )
    tests = sum(not math.isnan(row["p"]) for row in comparisons.values())
    lines = [
        [
            Cell(f"{variant} − {other}"),
            *(
                cell
                for f in columns
                for cell in _build_form_cells(comparisons[other, f], corrected[other, f])
            ),
        ]
        for other in others
    ]
    head = ("Difference", *(text for form in columns for text in (FORM_TITLES[form], "p")))
    note = (
        f"{METRIC_TITLES[primary_comparison['metric']]} on {primary_comparison['subset']}, points; brackets: 95 % intervals; p after Holm's correction over "
        f"the {tests} tests of this table. "
        "Drawn: the generator made both images of an instance. Of the source: the positive image is the one that the "
        "caption was written for, so pixels alone can separate the two images. Drawn − source: how much larger the difference is "
        "with both images drawn, paired by instance, which is the interaction of form and training."
    )
    return TableBlock("In both forms", head, lines, note=note)


def _build_form_cells(comparison: Mapping[str, float], corrected: float) -> tuple[Cell, Cell]:
    """Return difference and corrected p of a comparison in one form."""
    between = format_interval(comparison["ci_low"], comparison["ci_high"], difference=True)
    p = format_p(corrected, ".2g", least=comparison["p_least"], uncorrected=comparison["p"])
    return Cell(format_signed(comparison["difference"]), between), Cell(p)


def build_compounds_blocks(data: Path) -> list[Block]:
    """Return metrics on seen and unseen compounds at equal weights of the subtypes, and the tests of their difference."""
    rows = read_csv(data / "evaluate/compounds.csv", STANDARDISED_COLUMNS)
    rows = rows[rows["benchmark"] == FORM].fillna({"b": ""})
    if rows.empty:
        return []
    note = (
        "Seen and unseen compounds have different shares of the subtypes, and subtypes differ far more. Here each subtype has the same weight in both. "
        "Per cent, differences in points; brackets: 95 % intervals over images and training seeds. Seen − unseen: the interaction of "
        f"training and compounds, with an uncorrected p. {_count_significant(rows)}"
    )
    head = ("Group", "Seen", "Unseen", "Seen − unseen", "p")
    return [TableBlock("Seen and unseen compounds", head, _build_compound_lines(rows), note=note)]


def _count_significant(rows: pd.DataFrame) -> str:
    tested = rows[(rows["compounds"] == INTERACTION) & (rows["b"] != "")]
    below = int((tested["p"] < ALPHA).sum())
    return f"Of the {len(tested)} interactions of two models in all four metrics {below} have p < 0.05."


def _build_compound_lines(rows: pd.DataFrame) -> list[list[Cell]]:
    """Return the Group of each model and each pair, one line each."""
    lines = []
    of_group = rows[rows["metric"] == "group"]
    for (a, b), of in of_group.groupby(["a", "b"], sort=False):
        by_compounds = of.set_index("compounds")
        text = format_signed if b else format_percent
        cells = [
            Cell(
                (format_signed if name == INTERACTION else text)(value),
                format_interval(low, high, difference=bool(b) or name == INTERACTION),
            )
            for name, value, low, high in zip(
                by_compounds.index,
                by_compounds["value"],
                by_compounds["ci_low"],
                by_compounds["ci_high"],
                strict=True,
            )
        ]
        lines.append(
            [Cell(f"{a} − {b}" if b else str(a)), *cells, Cell(f"{by_compounds['p'][INTERACTION]:.2g}")]
        )
    return lines
