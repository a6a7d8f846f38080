"""Instances in the formats in which the field publishes: SugarCrepe, SugarCrepe++ and BiVLC, with the files of their images.

``formats/SPLIT/sugarcrepe/replace_obj.json`` …, ``sugarcrepe_pp/``, ``bivlc/test.jsonl``, and ``images.tar`` with the
files that they name. Rows have an ``instance_id`` of their own, which readers of these formats leave out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.release.publishing.contents import shown_images
from caramel.release.publishing.tars import write_images
from caramel.storage.image_store import Pictures
from caramel.tables import SUBTYPES


def write_formats(rows: pd.DataFrame, pictures: Pictures, folder: Path) -> list[Path]:
    """Write instances split by split; return the files.

    A format takes the rows that have what it asks for: a paraphrase (SugarCrepe++), a negative image (BiVLC).

    Raises:
        DataError: an image is missing, or is not what the index says.
    """
    written: list[Path] = []
    for split in dict.fromkeys(rows["split"]):
        of_split = rows[rows["split"] == split]
        place = folder / str(split)
        place.mkdir(parents=True)
        files = write_images(shown_images(of_split), pictures, place / "images.tar")
        written.append(place / "images.tar")
        instances = [{str(k): v for k, v in row.items()} for row in of_split.to_dict("records")]
        for name, content in _texts(instances, files):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(content, encoding="utf-8")
            written.append(place / name)
    return written


def _texts(rows: Sequence[dict[str, Any]], files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield path and content of each file."""
    for subtype in SUBTYPES:
        of = [row for row in rows if row["subtype"] == subtype]
        if of:
            found = {str(n): _crepe(row, files) for n, row in enumerate(of)}
            yield f"sugarcrepe/{subtype}.json", _json(found)
        paraphrased = [row for row in of if isinstance(row["caption2"], str)]
        if paraphrased:
            listed = [
                {"id": n, **_crepe(row, files), "caption2": row["caption2"]}
                for n, row in enumerate(paraphrased)
            ]
            yield f"sugarcrepe_pp/{subtype}.json", _json(listed)
    lines = [_bivlc(row, files) for row in rows if isinstance(row["negative_image_id"], str)]
    if lines:
        yield "bivlc/test.jsonl", "".join(f"{json.dumps(row)}\n" for row in lines)


def _crepe(row: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    texts = {name: row[name] for name in ("caption", "negative_caption", "instance_id")}
    return {"filename": files[row["image_id"]], **texts}


def _bivlc(row: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    kind, _, part = row["subtype"].partition("_")
    return {
        "image": files[row["image_id"]],
        "caption": row["caption"],
        "negative_caption": row["negative_caption"],
        "negative_image": files[row["negative_image_id"]],
        "type": kind,
        "subtype": part,
        "instance_id": row["instance_id"],
    }


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
