"""Sections on images: the generator's settings, yield and judges, contact sheets."""

from __future__ import annotations

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
    Thumb,
    count,
    percent,
    thumbnail,
)
from caramel.report.inputs import Skipped, number, read_images, read_json, value
from caramel.report.plots import yield_figure
from caramel.schemas.candidates import CHOICES
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS


def settings_section(data: Path) -> list[Block]:
    """Return the grid of generator settings that was tried, and the choice."""
    path = data / "synthesize/settings.json"
    raw = read_json(path)
    grid, chosen = value(raw, "grid", where=path), value(raw, "chosen", where=path)
    if not isinstance(grid, list):
        raise DataError(f"{path}: 'grid' must be a list.")
    rows = []
    for entry in grid:
        guidance, steps = number(entry, "guidance", where=path), number(entry, "steps", where=path)
        fit, n = number(entry, "fit", where=path), number(entry, "n", where=path)
        is_chosen = (guidance, steps) == tuple(number(chosen, k, where=path) for k in ("guidance", "steps"))
        rows.append(
            [
                Cell(f"{guidance:g}"),
                Cell(f"{steps:g}"),
                Cell(count(n)),
                Cell(f"{fit:.3f}", mark="best" if is_chosen else ""),
            ]
        )
    head = ("Guidance", "steps", "pictures", "mean fit")
    note = (
        "Fit: the deciding judge's, in [0, 1]; of the exact reading, the share of pictures that are true of their "
        "caption. Marked: the setting that drew the candidates."
    )
    return [TableBlock("Settings tried on held-out captions", head, rows, note=note)]


def yield_section(data: Path) -> list[Block]:
    """Return how many candidates were faithful and negatives kept, and how the judges agree."""
    path = data / "filter_images/metrics.json"
    raw = read_json(path)
    blocks: list[Block] = [_funnel(raw, path)]
    by_subtype = value(raw, "candidates", "by_subtype", where=path)
    shares = {s: number(by_subtype, s, "faithful", where=path) for s in SUBTYPES if s in by_subtype}
    if shares:
        blocks.append(
            FigureBlock(
                "yield",
                yield_figure(pd.Series(shares).fillna(0.0)),
                "First candidates that the deciding judge finds faithful to the negative caption, by subtype.",
                "Bars of the share of faithful first candidates by subtype.",
            )
        )
    if value(raw, "threshold", "calibration", where=path):
        blocks.append(_calibration(raw, path))
    if raw.get("second_judge"):
        blocks.append(_judges(raw, path))
    return blocks


def _funnel(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return the way from candidates to kept negatives."""
    rows = [[Cell("Candidates drawn"), Cell(count(number(raw, "candidates", "drawn", where=path))), Cell("")]]
    rows.append(
        [Cell("First candidates that are faithful"), Cell(""), _share(raw, path, "candidates", "faithful")]
    )
    negatives, kept = (number(raw, "negatives", k, where=path) for k in ("n", "kept"))
    rows.append([Cell("Negative captions"), Cell(count(negatives)), Cell("")])
    for key, label in (
        ("with_faithful", "… with a faithful candidate"),
        ("ambiguous", "… with faithful candidates of which the positive caption is true as well"),
    ):
        rows.append([Cell(label), Cell(""), _share(raw, path, "negatives", key)])
    share = percent(kept / negatives) if negatives else MISSING
    rows.append([Cell("… kept with an image"), Cell(count(kept)), Cell(share)])
    least, level = (number(raw, "threshold", k, where=path) for k in ("min_faithful", "faithful_from"))
    note = f"Faithful: the deciding judge's score, in [0, 1], is at least {level:g}."
    if least != level:
        note += f" Kept is from {least:g} on."
    return TableBlock("Yield", ("", "number", "%"), rows, note=note)


def _calibration(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return how the threshold of the deciding judge was found, and what it reaches."""
    keys = ("threshold", "calibration")
    shares = [_share(raw, path, *keys, k) for k in ("precision", "recall", "balanced_accuracy")]
    least = Cell(f"{number(raw, *keys, 'threshold', where=path):g}")
    images = Cell(count(number(raw, *keys, "images", where=path)))
    head = ("least score", "images", "precision, %", "recall, %", "balanced accuracy, %")
    note = (
        "Chosen for the best balanced accuracy on images of the val split, each with a caption of its own and with that "
        "pair's hard negative. What it reaches is of images that had no part in choosing it (cross-fitted)."
    )
    return TableBlock("Threshold of the deciding judge", head, [[least, images, *shares]], note=note)


def _share(raw: dict[str, Any], path: Path, *keys: str) -> Cell:
    return Cell(percent(number(raw, *keys, where=path)))


def _judges(raw: dict[str, Any], path: Path) -> TableBlock:
    """Return the second judge measured against the deciding one."""
    name = Cell(str(value(raw, "second_judge", "name", where=path)))
    n = Cell(count(number(raw, "second_judge", "n", where=path)))
    keys = ("passed", "passed_of_unfaithful", "precision", "recall", "agreement")
    shares = [_share(raw, path, "second_judge", k) for k in keys]
    head = (
        "Judge", "first candidates", "pass, %", "pass of the unfaithful, %", "precision, %", "recall, %", "agreement, %"
    )  # fmt: skip
    least = number(raw, "second_judge", "accepted_from", where=path)
    note = f"A candidate passes from a score of {least:g} on, and is accepted where its negative caption beats the positive, too. "
    if value(raw, "second_judge", "calibration", where=path):
        reached = percent(number(raw, "second_judge", "calibration", "balanced_accuracy", where=path))
        note += (
            "That score was calibrated on images of the val split, each with a caption of its own and with that pair's hard "
            f"negative, between which it tells with a balanced accuracy of {reached} (cross-fitted)."
        )
    else:
        note += "That score was not calibrated."
    return TableBlock(
        "Second judge, measured against the deciding one", head, [[name, n, *shares]], note=note
    )


def scenes_sheet(data: Path, examples: int) -> list[Block]:
    """Return some pictures of the source with their captions."""
    images = read_table(IMAGES, data / "scenes/images.parquet", ["image_id"])
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet", ["image_id", "caption", "split"])
    pairs = pairs[(pairs["split"] == "test") & pairs["image_id"].isin(images["image_id"])]
    if pairs.empty:
        raise Skipped("the source has no images for its test captions")
    chosen = pairs.iloc[_spread(len(pairs), examples)]
    files = read_images(data / "scenes/images.parquet", chosen["image_id"].tolist())
    rows = [
        SheetRow("", str(caption), [_thumb(files[str(image_id)], "", name=str(image_id))])
        for image_id, caption in zip(chosen["image_id"], chosen["caption"], strict=True)
    ]
    return [SheetBlock("", rows, layout="cards")]


def candidates_sheet(data: Path, examples: int) -> list[Block]:
    """Return some negative captions with all their candidates and the judge's verdicts."""
    choices = read_table(CHOICES, data / "filter_images/choices.parquet")
    if choices.empty:
        read_json(data / "filter_images/metrics.json")  # says why, if the stage was skipped
        raise Skipped("no candidate was drawn")
    names = choices["negative_id"].unique()
    path = data / "negatives/negatives.parquet"
    negatives = read_table(NEGATIVES, path, only=("negative_id", names.tolist()))
    captions = negatives.set_index("negative_id").loc[names]
    chosen = _by_subtype(captions.reset_index(), examples // 3)
    shown = choices[choices["negative_id"].isin(chosen["negative_id"])]
    files = read_images(data / "synthesize/images.parquet", shown["image_id"].tolist())
    rows = []
    for negative in chosen.itertuples():
        mine = shown[shown["negative_id"] == negative.negative_id].sort_values("candidate")
        thumbs = [_judged(row, files) for row in mine.to_dict("records")]
        rows.append(SheetRow(str(negative.subtype), str(negative.negative_caption), thumbs))
    note = "Under each picture: the deciding judge's score of the negative caption, and its verdict."
    return [SheetBlock("", rows, note=note)]


def _judged(choice: dict[Any, Any], files: dict[str, bytes]) -> Thumb:
    """Return a candidate with its verdict."""
    score = f"{choice['faithful']:.2f}"
    if isinstance(choice["chosen_by"], str):
        text, mark = f"{score} chosen", "good"
    elif choice["ambiguous"]:
        text, mark = f"{score} ambiguous", "muted"
    else:
        text, mark = score, ""
    return _thumb(files[choice["image_id"]], text, mark, choice["image_id"])


def instances_sheet(data: Path, examples: int) -> list[Block]:
    """Return some instances: both images, each with its caption."""
    instances = read_table(INSTANCES, data / "assemble/instances.parquet")
    if instances.empty:
        read_json(data / "filter_images/metrics.json")  # says why, if the stage was skipped
        raise Skipped("no instance was assembled")
    test = instances[(instances["split"] == "test") & instances["negative_image_id"].notna()]
    if test.empty:
        raise Skipped("no instance of the test split has a negative image")
    chosen = _by_subtype(test, examples // 2)
    ids = [*chosen["image_id"], *chosen["negative_image_id"]]
    files = read_images(data / "assemble/images.parquet", ids)
    rows = [
        SheetRow(
            str(row.subtype),
            "",
            [
                _thumb(files[str(row.image_id)], str(row.caption), name=str(row.image_id)),
                _thumb(
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


def _by_subtype(rows: pd.DataFrame, wanted: int) -> pd.DataFrame:
    """Return about ``wanted`` rows, the same number of each subtype, spread over the table."""
    each = max(1, wanted // rows["subtype"].nunique())
    parts = [rows[rows["subtype"] == s] for s in SUBTYPES]
    return pd.concat([part.iloc[_spread(len(part), each)] for part in parts])


def _spread(length: int, wanted: int) -> list[int]:
    """Return at most ``wanted`` places spread evenly over a list."""
    wanted = min(wanted, length)
    return [(2 * i + 1) * length // (2 * wanted) for i in range(wanted)]


def _thumb(image: bytes, text: str, mark: Any = "", name: str = "") -> Thumb:
    return Thumb(thumbnail(image, name), text, mark, name)
