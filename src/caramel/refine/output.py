"""Write the files of refined rows: SugarCrepe's JSON, Parquet, rejects, and the trade-off curve."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from caramel.io.files import write_atomically, write_csv, write_text
from caramel.io.output_paths import remove_file
from caramel.io.portable_names import is_portable_start
from caramel.refine.tradeoff import METHODS, NONE
from caramel.schemas.io import write_table
from caramel.schemas.rejects import REJECTS

REFINED, REJECTS_FILE, CURVE, PLOT, REPORT = (
    "refined.parquet",
    "rejects.parquet",
    "curve.csv",
    "curve.png",
    "refine.json",
)
SELECTION = "selection.json"


def list_output_files(out: Path, subtypes: Iterable[object]) -> list[Path]:
    """Return all files that refinement writes into ``out``, for rows of these subtypes."""
    return [
        *(_build_path(name, out) for name in subtypes),
        *(out / n for n in (REFINED, REJECTS_FILE, CURVE, PLOT, REPORT, SELECTION)),
    ]


def write_refined(rows: pd.DataFrame, rejects: pd.DataFrame, out: Path, subtypes: Iterable[str]) -> None:
    """Write refined audit rows into the folder ``out``.

    - ``<subtype>.json`` is in the format of SugarCrepe, or of SugarCrepe++ if all of the subtype's rows have
      paraphrases. Rows are numbered from 0.
    - ``refined.parquet`` has the rows with their ``pair_id``.
    - ``rejects.parquet`` has the other rows with the reasons.

    In the name of a JSON file, characters that a file name cannot hold are percent-encoded. The first character is
    also percent-encoded if the name is that of a report (``refine``, ``selection``), is hidden, looks like an option,
    or is a device name of Windows.

    Args:
        rows: audit rows that are kept.
        rejects: table ``rejects``.
        out: folder to write into.
        subtypes: subtypes of the rows before refinement.
    """
    for gone in set(subtypes) - set(rows["subtype"]):
        remove_file(_build_path(gone, out))  # written by an earlier run
    for subtype, part in rows.groupby("subtype", sort=True):
        _write_json(_build_records(part), _build_path(subtype, out))
    texts = rows.drop(columns=["image", "negative_image"], errors="ignore")  # paths on this machine
    write_atomically(out / REFINED, lambda path: texts.to_parquet(path, index=False))
    write_table(REJECTS, rejects, out / REJECTS_FILE)


def write_selection(report: dict[str, Any], out: Path) -> None:
    """Write ``selection.json``: settings of the selection, and the number of rows left out for each reason."""
    _write_json(report, out / SELECTION)


def _build_path(subtype: object, out: Path) -> Path:
    name = quote(str(subtype), safe=" +") or "%"
    taken = f"{name}.json".lower() in (REPORT, SELECTION)  # some file systems ignore case
    free = not taken and is_portable_start(name)
    return out / f"{name if free else f'%{ord(name[0]):02X}{name[1:]}'}.json"


def _build_records(rows: pd.DataFrame) -> Any:
    """Return the rows of a subtype as the JSON value of its file."""
    fields = rows.rename(columns={"image_id": "filename"})[
        ["filename", "caption", "caption2", "negative_caption"]
    ]
    if fields["caption2"].notna().all():
        return [{"id": i, **row} for i, row in enumerate(fields.to_dict("records"))]
    plain = fields.drop(columns="caption2").to_dict("records")
    return {str(i): row for i, row in enumerate(plain)}


def _write_json(value: Any, path: Path) -> None:
    text = json.dumps(value, indent=4, ensure_ascii=False) + "\n"
    write_text(path, text)


def write_curve(curve: pd.DataFrame, out: Path) -> None:
    """Write the trade-off curve as ``curve.csv`` and ``curve.png``."""
    write_csv(out / CURVE, curve)
    write_atomically(out / PLOT, lambda path: _draw_curve(curve, path))


def write_report(report: dict[str, Any], out: Path) -> None:
    """Write settings and figures as ``refine.json``."""
    _write_json(report, out / REPORT)


def _draw_curve(curve: pd.DataFrame, path: Path) -> None:
    """Draw accuracy, with its interval, against rows kept, one line per method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for method in (NONE, *METHODS):
        part = curve[(curve["method"] == method) & curve["accuracy"].notna()].sort_values("rows")
        if len(part):
            bars = [part["accuracy"] - part["ci_low"], part["ci_high"] - part["accuracy"]]
            axes.errorbar(part["rows"], part["accuracy"], bars, marker="o", capsize=2, label=method)
    axes.axhline(0.5, color="0.6", linewidth=1, zorder=0)
    axes.set(xlabel="rows kept", ylabel="accuracy of the blind attacker (chance 0.5)")
    axes.set_xlim(left=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    figure.savefig(path, format="png", dpi=150)
