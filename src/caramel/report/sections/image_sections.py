"""Build the sections on images: generator settings, yield and judges, contact sheets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import DataError
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    FigureBlock,
    SheetBlock,
    SheetRow,
    TableBlock,
    Thumbnail,
    format_count,
    format_percent,
    make_thumbnail,
)
from caramel.report.inputs import StageSkipped, get_number, get_value, read_images, read_json
from caramel.report.plots import plot_yield
from caramel.schemas.candidates import CHOICES
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS


def build_settings_section(data: Path) -> list[Block]:
    """Return the grid of generator settings that was tried, and the chosen one."""
    path = data / "synthesize/settings.json"
    raw = read_json(path)
    grid, chosen = get_value(raw, "grid", where=path), get_value(raw, "chosen", where=path)
    if not isinstance(grid, list):
        raise DataError(f"{path}: 'grid' must be a list.")
    rows = []
    for entry in grid:
        guidance, steps = get_number(entry, "guidance", where=path), get_number(entry, "steps", where=path)
        fit, n = get_number(entry, "fit", where=path), get_number(entry, "n", where=path)
        is_chosen = (guidance, steps) == tuple(
            get_number(chosen, k, where=path) for k in ("guidance", "steps")
        )
        rows.append(
            [
                Cell(f"{guidance:g}"),
                Cell(f"{steps:g}"),
                Cell(format_count(n)),
                Cell(f"{fit:.3f}", mark="best" if is_chosen else ""),
            ]
        )
    head = ("Guidance", "steps", "images", "mean fit")
    note = (
        "Fit: the deciding judge's score, in [0, 1]; for the exact reader, the share of images that match their "
        "caption. Marked: the setting that generated the candidates."
    )
    return [TableBlock("Settings tried on held-out captions", head, rows, note=note)]


def build_yield_section(data: Path) -> list[Block]:
    """Return how many candidates were faithful, how many negatives were kept, and how far the judges agree."""
    path = data / "filter_images/metrics.json"
    raw = read_json(path)
    blocks: list[Block] = [_build_funnel(raw, path)]
    by_subtype = get_value(raw, "candidates", "by_subtype", where=path)
    shares = {s: get_number(by_subtype, s, "faithful", where=path) for s in SUBTYPES if s in by_subtype}
    if any(not math.isnan(share) for share in shares.values()):  # with judge none, no share is known
        blocks.append(
            FigureBlock(
                "yield",
                plot_yield(pd.Series(shares).fillna(0.0)),
                "Share of first candidates that the deciding judge finds faithful to the negative caption, by subtype.",
                "Bars of the share of faithful first candidates by subtype.",
            )
        )
    if get_value(raw, "threshold", "calibration", where=path):
        blocks.append(_build_calibration(raw, path))
    if raw.get("second_judge"):
        blocks.append(_build_judges_table(raw, path))
    return blocks


def _build_funnel(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return the steps from candidates to kept negatives."""
    rows = [
        [
            Cell("Candidates drawn"),
            Cell(format_count(get_number(raw, "candidates", "drawn", where=path))),
            Cell(""),
        ]
    ]
    rows.append(
        [
            Cell("First candidates that are faithful"),
            Cell(""),
            _build_share_cell(raw, path, "candidates", "faithful"),
        ]
    )
    negatives, n_kept = (get_number(raw, "negatives", k, where=path) for k in ("n", "kept"))
    rows.append([Cell("Negative captions"), Cell(format_count(negatives)), Cell("")])
    for key, label in (
        ("with_faithful", "… with a faithful candidate"),
        ("ambiguous", "… with faithful candidates that also match the positive caption"),
    ):
        rows.append([Cell(label), Cell(""), _build_share_cell(raw, path, "negatives", key)])
    share = format_percent(n_kept / negatives) if negatives else MISSING
    rows.append([Cell("… kept with an image"), Cell(format_count(n_kept)), Cell(share)])
    least, level = (
        get_number(raw, "threshold", k, where=path) for k in ("faithfulness_threshold", "faithful_from")
    )
    note = f"Faithful: the deciding judge's score, in [0, 1], is at least {level:g}."
    if least != level:
        note += f" Candidates are kept from a score of {least:g}."
    return TableBlock("Yield", ("", "number", "%"), rows, note=note)


def _build_calibration(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return the calibrated threshold of the deciding judge and its accuracy."""
    keys = ("threshold", "calibration")
    shares = [_build_interval_cell(raw, path, *keys, k) for k in ("precision", "recall", "passed")]
    shares.append(_build_share_cell(raw, path, *keys, "balanced_accuracy"))
    least = Cell(f"{get_number(raw, *keys, 'threshold', where=path):g}")
    images = Cell(format_count(get_number(raw, *keys, "images", where=path)))
    head = ("least score", "images", "precision, %", "recall, %", "yield, %", "balanced accuracy, %")
    note = (
        "Chosen for the best balanced accuracy on pairs of an image and a caption that fits or does not: those of "
        "filter_images.calibrate_on, by default images of the val split, each with one of its captions and with that "
        "pair's hard negative. The results are cross-fitted: from images that had no part in the choice. "
        "Yield: the share of these pairs that pass. Intervals: 95 % (Wilson)."
    )
    return TableBlock("Threshold of the deciding judge", head, [[least, images, *shares]], note=note)


def _build_share_cell(raw: dict[str, Any], path: Path, *keys: str) -> Cell:
    return Cell(format_percent(get_number(raw, *keys, where=path)))


def _build_interval_cell(raw: dict[str, Any], path: Path, *keys: str) -> Cell:
    """Return a share with its interval; an earlier version measured no interval and no yield."""
    *of, name = keys
    calibration = get_value(raw, *of, where=path)
    if not calibration.get(f"{name}_interval"):
        return _build_share_cell(raw, path, *keys) if name in calibration else Cell(MISSING)
    low, high = (format_percent(float(end)) for end in calibration[f"{name}_interval"])
    return Cell(f"{format_percent(get_number(raw, *keys, where=path))} [{low}, {high}]")


def _build_judges_table(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return the second judge measured against the deciding one."""
    name = Cell(str(get_value(raw, "second_judge", "name", where=path)))
    n = Cell(format_count(get_number(raw, "second_judge", "n", where=path)))
    keys = ("passed", "passed_of_unfaithful", "precision", "recall", "agreement")
    shares = [_build_share_cell(raw, path, "second_judge", k) for k in keys]
    head = (
        "Judge", "first candidates", "pass, %", "pass of the unfaithful, %", "precision, %", "recall, %", "agreement, %"
    )  # fmt: skip
    least = get_number(raw, "second_judge", "accepted_from", where=path)
    note = f"A candidate passes from a score of {least:g}. It is accepted if its negative caption also beats the positive. "
    if get_value(raw, "second_judge", "calibration", where=path):
        reached = format_percent(
            get_number(raw, "second_judge", "calibration", "balanced_accuracy", where=path)
        )
        note += (
            "This score was calibrated on images of the val split, each with one of its captions and with that pair's hard "
            f"negative. Its balanced accuracy is {reached} (cross-fitted)."
        )
    else:
        note += "This score was not calibrated."
    return TableBlock(
        "Second judge, measured against the deciding one", head, [[name, n, *shares]], note=note
    )


def build_scenes_sheet(data: Path, examples: int) -> list[Block]:
    """Return some images of the source with their captions."""
    images = read_table(IMAGES, data / "scenes/images.parquet", ["image_id"])
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet", ["image_id", "caption", "split"])
    pairs = pairs[(pairs["split"] == "test") & pairs["image_id"].isin(images["image_id"])]
    if pairs.empty:
        raise StageSkipped("the source has no images for its test captions")
    chosen = pairs.iloc[_spread_indices(len(pairs), examples)]
    files = read_images(data / "scenes/images.parquet", chosen["image_id"].tolist())
    rows = [
        SheetRow("", str(caption), [_build_thumbnail(files[str(image_id)], "", name=str(image_id))])
        for image_id, caption in zip(chosen["image_id"], chosen["caption"], strict=True)
    ]
    return [SheetBlock("", rows, layout="cards")]


def build_candidates_sheet(data: Path, examples: int) -> list[Block]:
    """Return some negative captions with all their candidates and the judge's verdicts."""
    choices = read_table(CHOICES, data / "filter_images/choices.parquet")
    if choices.empty:
        read_json(data / "filter_images/metrics.json")  # raises with the reason if the stage was skipped
        raise StageSkipped("no candidate was drawn")
    names = choices["negative_id"].unique()
    path = data / "negatives/negatives.parquet"
    negatives = read_table(NEGATIVES, path, only=("negative_id", names.tolist()))
    captions = negatives.set_index("negative_id").loc[names]
    chosen = _select_by_subtype(captions.reset_index(), examples // 3)
    candidates = choices[choices["negative_id"].isin(chosen["negative_id"])]
    files = read_images(data / "synthesize/images.parquet", candidates["image_id"].tolist())
    rows = []
    for negative in chosen.itertuples():
        negative_rows = candidates[candidates["negative_id"] == negative.negative_id].sort_values("candidate")
        thumbs = [_build_judged_thumbnail(row, files) for row in negative_rows.to_dict("records")]
        rows.append(SheetRow(str(negative.subtype), str(negative.negative_caption), thumbs))
    note = "Under each image: the deciding judge's score of the negative caption, and its verdict."
    return [SheetBlock("", rows, note=note)]


def _build_judged_thumbnail(choice: dict[Any, Any], files: dict[str, bytes]) -> Thumbnail:
    """Return a candidate with its verdict."""
    score = f"{choice['faithful']:.2f}"
    if isinstance(choice["chosen_by"], str):
        text, mark = f"{score} chosen", "good"
    elif choice["ambiguous"]:
        text, mark = f"{score} ambiguous", "muted"
    else:
        text, mark = score, ""
    return _build_thumbnail(files[choice["image_id"]], text, mark, choice["image_id"])


def build_instances_sheet(data: Path, examples: int) -> list[Block]:
    """Return some instances: both images, each with its caption."""
    instances = read_table(INSTANCES, data / "assemble/instances.parquet")
    if instances.empty:
        read_json(data / "filter_images/metrics.json")  # raises with the reason if the stage was skipped
        raise StageSkipped("no instance was assembled")
    test = instances[(instances["split"] == "test") & instances["negative_image_id"].notna()]
    if test.empty:
        raise StageSkipped("no instance of the test split has a negative image")
    chosen = _select_by_subtype(test, examples // 2)
    ids = [*chosen["image_id"], *chosen["negative_image_id"]]
    files = read_images(data / "assemble/images.parquet", ids)
    rows = [
        SheetRow(
            str(row.subtype),
            "",
            [
                _build_thumbnail(files[str(row.image_id)], str(row.caption), name=str(row.image_id)),
                _build_thumbnail(
                    files[str(row.negative_image_id)],
                    str(row.negative_caption),
                    name=str(row.negative_image_id),
                ),
            ],
        )
        for row in chosen.itertuples()
    ]
    note = (
        "Left: the positive image and caption. Right: the negative image, of which the hard negative is true."
    )
    return [SheetBlock("", rows, layout="cards", note=note)]


def _select_by_subtype(rows: pd.DataFrame, wanted: int) -> pd.DataFrame:
    """Return about ``wanted`` rows, the same number of each subtype, spread over the table."""
    per_subtype = max(1, wanted // rows["subtype"].nunique())
    parts = [rows[rows["subtype"] == s] for s in SUBTYPES]
    return pd.concat([part.iloc[_spread_indices(len(part), per_subtype)] for part in parts])


def _spread_indices(length: int, wanted: int) -> list[int]:
    """Return at most ``wanted`` indices spread evenly over a list."""
    wanted = min(wanted, length)
    return [(2 * i + 1) * length // (2 * wanted) for i in range(wanted)]


def _build_thumbnail(image: bytes, text: str, mark: Any = "", name: str = "") -> Thumbnail:
    return Thumbnail(make_thumbnail(image, name), text, mark, name)
