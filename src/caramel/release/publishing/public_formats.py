"""Instances in the formats in which the field publishes: SugarCrepe, SugarCrepe++, BiVLC and CREPE, with the files of their images.

``formats/SPLIT/sugarcrepe/replace_obj.json`` …, ``sugarcrepe_pp/``, ``bivlc/test.jsonl``, ``crepe_systematicity/``, and
``images.tar`` with the files that they name. Rows have an ``instance_id`` of their own, which readers of these formats leave
out; CREPE's have none, since a row is a caption with all its negatives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.benchmarks.readers.crepe_systematicity import NEGATIVES, SPLITS
from caramel.benchmarks.visual_genome import FOLDERS
from caramel.crepe.example_files import Example, write
from caramel.io.image_store import Pictures
from caramel.release.publishing.contents import shown_images
from caramel.release.publishing.webdataset import write_images
from caramel.schemas.columns import SUBTYPES
from caramel.sources.world.compounds import Compound, compounds_of_meaning
from caramel.sources.world.grammar import read

Items = tuple[frozenset[str], frozenset[Compound]]  # atoms and compounds


def write_formats(
    rows: pd.DataFrame,
    trained: Iterable[str],
    pictures: Pictures,
    sizes: Mapping[str, tuple[int, int]],
    folder: Path,
) -> list[Path]:
    """Write instances split by split; return the files.

    A format takes the rows that have what it asks for: a paraphrase (SugarCrepe++), a negative image (BiVLC); one replaced
    atom, and a caption of which it is known what training captions have of it (CREPE's systematicity).

    Args:
        rows: table ``instances``.
        trained: the captions that are trained on.
        pictures: its images.
        sizes: image_id -> width and height.
        folder: to write to.

    Raises:
        DataError: an image is missing, or is not what the index says.
    """
    written: list[Path] = []
    splits = crepe_splits(dict.fromkeys(rows["caption"]), trained)
    for split in dict.fromkeys(rows["split"]):
        of_split = rows[rows["split"] == split]
        place = folder / str(split)
        place.mkdir(parents=True)
        crepe = of_split[(of_split["type"] == "replace") & of_split["caption"].isin(splits)]
        numbers = {name: str(n) for n, name in enumerate(dict.fromkeys(crepe["image_id"]))}
        also = {
            name: f"{FOLDERS[0]}/{n}.jpg" for name, n in numbers.items()
        }  # as CREPE's readers look for them
        files = write_images(shown_images(of_split), pictures, place / "images.tar", also)
        written.append(place / "images.tar")
        written += _write_crepe(crepe, splits, numbers, sizes, place / "crepe_systematicity")
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


def crepe_splits(captions: Iterable[str], trained: Iterable[str]) -> dict[str, str]:
    """Return caption -> split, as in CREPE (Ma et al. 2023, 3.2), of those of the embedded world that say a compound.

    ``sc``: training captions say all its compounds; ``uc``: all its atoms, and not some compound; ``ua``: not some atom.
    Where no training caption is of the world, nothing is known.
    """
    known = [items for text in trained if (items := _said(text))]
    if not known:
        return {}
    atoms = {atom for own, _ in known for atom in own}
    compounds = {compound for _, own in known for compound in own}
    said = {caption: items for caption in captions if (items := _said(caption)) and items[1]}
    return {
        caption: "ua" if own[0] - atoms else "uc" if own[1] - compounds else "sc"
        for caption, own in said.items()
    }


def _said(caption: str) -> Items | None:
    """Return what a caption of the embedded world says, in whatever words a relation is put; None of another caption."""
    found = read(caption)
    if found is None:
        return None
    compounds = compounds_of_meaning(found.whole, exactly=False)
    atoms = {word for m in found.whole.mentions for word in (m.noun, m.colour, m.size, m.position) if word}
    return frozenset(atoms | {word for compound in compounds for word in compound}), compounds


def _write_crepe(
    rows: pd.DataFrame,
    splits: Mapping[str, str],
    numbers: Mapping[str, str],
    sizes: Mapping[str, tuple[int, int]],
    folder: Path,
) -> list[Path]:
    """Write a file for each of CREPE's splits, a row for each picture and caption; return the files.

    Of the negatives of two compounds, which CREPE has in a second column, there are none.
    """
    written = []
    for split, of in rows.groupby(rows["caption"].map(splits)):
        examples = []
        for (image, caption), same in of.groupby(["image_id", "caption"], sort=False):
            negatives = {
                NEGATIVES["atom"]: list(dict.fromkeys(same["negative_caption"])),
                NEGATIVES["comp"]: [],
            }
            examples.append(Example(numbers[str(image)], (0, 0, *sizes[str(image)]), str(caption), negatives))
        written.append(folder / f"syst_vg_hard_negs_{SPLITS[str(split)]}_in_train.csv")
        write(written[-1], examples)
    return written


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
