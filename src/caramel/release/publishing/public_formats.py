"""Write instances in the formats of SugarCrepe, SugarCrepe++, BiVLC and CREPE, with their image files.

The files are ``formats/SPLIT/sugarcrepe/replace_obj.json`` …, ``sugarcrepe_pp/``, ``bivlc/test.jsonl``,
``crepe_systematicity/``, and ``images.tar`` with the images. Rows carry an extra ``instance_id``, which
readers of these formats ignore. CREPE's rows have none, because each is a caption with all its negatives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.benchmarks.readers.crepe_systematicity import NEGATIVES, SPLITS
from caramel.benchmarks.visual_genome import FOLDERS
from caramel.crepe.example_files import Example, write_examples
from caramel.io.image_store import ImageStore
from caramel.release.publishing.contents import list_image_ids
from caramel.release.publishing.webdataset import write_images
from caramel.schemas.columns import SUBTYPES
from caramel.sources.world.compounds import Compound, list_meaning_compounds
from caramel.sources.world.grammar import parse_caption

Items = tuple[frozenset[str], frozenset[Compound]]  # atoms and compounds


def write_formats(
    rows: pd.DataFrame,
    trained: Iterable[str],
    pictures: ImageStore,
    sizes: Mapping[str, tuple[int, int]],
    folder: Path,
) -> list[Path]:
    """Write instances split by split; return the files.

    A format takes only rows with the columns that it needs:

    - SugarCrepe++: a paraphrase;
    - BiVLC: a negative image;
    - CREPE's systematicity: one replaced atom, and a caption whose overlap with the training captions is known.

    Args:
        rows: table ``instances``.
        trained: the training captions.
        pictures: its images.
        sizes: image_id -> width and height.
        folder: output folder.

    Raises:
        DataError: an image is missing, or does not match the index.
    """
    written: list[Path] = []
    splits = assign_crepe_splits(dict.fromkeys(rows["caption"]), trained)
    for split in dict.fromkeys(rows["split"]):
        of_split = rows[rows["split"] == split]
        split_folder = folder / str(split)
        split_folder.mkdir(parents=True)
        crepe = of_split[(of_split["type"] == "replace") & of_split["caption"].isin(splits)]
        numbers = {name: str(n) for n, name in enumerate(dict.fromkeys(crepe["image_id"]))}
        also = {
            name: f"{FOLDERS[0]}/{n}.jpg" for name, n in numbers.items()
        }  # the names that CREPE's readers expect
        files = write_images(list_image_ids(of_split), pictures, split_folder / "images.tar", also)
        written.append(split_folder / "images.tar")
        written += _write_crepe(crepe, splits, numbers, sizes, split_folder / "crepe_systematicity")
        written += write_split_files(of_split, files, split_folder)
    return written


def write_split_files(rows: pd.DataFrame, files: dict[str, str], folder: Path) -> list[Path]:
    """Write the instances of a split in the formats of SugarCrepe, SugarCrepe++ and BiVLC; return the files.

    Args:
        rows: table ``instances``.
        files: image_id -> file name in the formats.
        folder: output folder.
    """
    instances = [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]
    written = []
    for name, content in _iter_files(instances, files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
        written.append(folder / name)
    return written


def _iter_files(rows: Sequence[dict[str, Any]], files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield path and content of each file."""
    for subtype in SUBTYPES:
        of = [row for row in rows if row["subtype"] == subtype]
        if of:
            rows_by_number = {str(n): _build_sugarcrepe_row(row, files) for n, row in enumerate(of)}
            yield f"sugarcrepe/{subtype}.json", _format_json(rows_by_number)
        paraphrased = [row for row in of if isinstance(row["caption2"], str)]
        if paraphrased:
            listed = [
                {"id": n, **_build_sugarcrepe_row(row, files), "caption2": row["caption2"]}
                for n, row in enumerate(paraphrased)
            ]
            yield f"sugarcrepe_pp/{subtype}.json", _format_json(listed)
    lines = [_build_bivlc_row(row, files) for row in rows if isinstance(row["negative_image_id"], str)]
    if lines:
        yield "bivlc/test.jsonl", "".join(f"{json.dumps(row)}\n" for row in lines)


def assign_crepe_splits(captions: Iterable[str], trained: Iterable[str]) -> dict[str, str]:
    """Return caption -> split of CREPE (Ma et al. 2023, 3.2) for captions of the embedded world with a compound.

    - ``sc``: training captions contain all its compounds;
    - ``uc``: they contain all its atoms but lack a compound;
    - ``ua``: they lack an atom.

    If no training caption is of the world, nothing is returned.
    """
    known = [items for text in trained if (items := _read_items(text))]
    if not known:
        return {}
    atoms = {atom for members, _ in known for atom in members}
    compounds = {compound for _, members in known for compound in members}
    items_by_caption = {
        caption: items for caption in captions if (items := _read_items(caption)) and items[1]
    }
    return {
        caption: "ua" if members[0] - atoms else "uc" if members[1] - compounds else "sc"
        for caption, members in items_by_caption.items()
    }


def _read_items(caption: str) -> Items | None:
    """Return atoms and compounds of a caption of the embedded world, for any wording of a relation.

    None for others.
    """
    reading = parse_caption(caption)
    if reading is None:
        return None
    compounds = list_meaning_compounds(reading.whole, exactly=False)
    atoms = {word for m in reading.whole.mentions for word in (m.noun, m.colour, m.size, m.position) if word}
    return frozenset(atoms | {word for compound in compounds for word in compound}), compounds


def _write_crepe(
    rows: pd.DataFrame,
    splits: Mapping[str, str],
    numbers: Mapping[str, str],
    sizes: Mapping[str, tuple[int, int]],
    folder: Path,
) -> list[Path]:
    """Write a file for each of CREPE's splits, with a row for each image and caption; return the files.

    CREPE's second column, negatives of two compounds, is left empty.
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
        write_examples(written[-1], examples)
    return written


def _build_sugarcrepe_row(row: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    texts = {name: row[name] for name in ("caption", "negative_caption", "instance_id")}
    return {"filename": files[row["image_id"]], **texts}


def _build_bivlc_row(row: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    change_type, _, part = row["subtype"].partition("_")
    return {
        "image": files[row["image_id"]],
        "caption": row["caption"],
        "negative_caption": row["negative_caption"],
        "negative_image": files[row["negative_image_id"]],
        "type": change_type,
        "subtype": part,
        "instance_id": row["instance_id"],
    }


def _format_json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
