"""Sample captions and hard negatives of CREPE's sets for people to verify (Ma et al. 2023, tables 4 and 7).

A statement is a caption or one of its hard negatives, with the region of its image. A cell is a set, a part (a number of
atoms, or a corpus and a split) and a type: ``caption``, or the type of hard negative.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from caramel.benchmarks.image_files import read_encoded_image
from caramel.benchmarks.present_images import exclude_missing, format_exclusion
from caramel.errors import ConfigError, DataError
from caramel.interfaces.benchmark import ImageFile, Rankings
from caramel.io.image_codec import decode_image
from caramel.io.image_shards import ShardWriter
from caramel.registry import BENCHMARKS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, write_table
from caramel.utils.hashing import compute_stable_keys

SETS = ("crepe_systematicity", "crepe_productivity")
REPEATED = ("both", "all_types")  # types of queries whose texts other queries have, too
CAPTION = "caption"
JPEG_QUALITY = 95
_STATEMENT = re.compile(r"(?P<set>crepe_\w+)/(?P<first>[^/]+)/(?P<rest>.+)-\d+/(?P<text>caption|\d+)")


class Cell(NamedTuple):
    """Where a statement comes from."""

    set: str
    part: str  # such as n7, or laion/uc
    type: str  # caption, or a type of hard negative


class Statement(NamedTuple):
    """A text that people judge beside a region of an image; its name tells the cell."""

    statement_id: str  # set/query/number of the negative, or set/query/caption
    text: str
    image: ImageFile


def parse_cell(statement_id: str) -> Cell | None:
    """Return the cell of a statement; None if the name is no statement's."""
    match = _STATEMENT.fullmatch(statement_id)
    if match is None:
        return None
    if match["set"] == "crepe_productivity":
        negative_type, part = match["first"], match["rest"]
    else:
        split, _, negative_type = match["rest"].rpartition("/")
        part = f"{match['first']}/{split}"
    return Cell(match["set"], part, CAPTION if match["text"] == CAPTION else negative_type)


def sample_statements(
    data: Path, images: Path, *, per_cell: int, seed: int
) -> tuple[list[Statement], list[str]]:
    """Return the statements of each cell, at most ``per_cell``, and a line on each set with missing images.

    The statements of a cell are of different queries: of each query one hard negative is drawn. A caption that several
    files have counts once.

    Args:
        data: folder with ``crepe_systematicity``, ``crepe_productivity`` or both.
        images: folder of the Visual Genome images. Queries without an image are left out.
        per_cell: statements of each cell.
        seed: seed of the draw.

    Raises:
        DataError: there is no set, or a file is broken.
    """
    folders = {name: data / name for name in SETS if (data / name).is_dir()}
    if not folders:
        raise DataError(
            f"{str(data)!r} has no folder {' or '.join(SETS)}. Build the sets with `caramel crepe`, or give their folder "
            "with --data."
        )
    drawn: dict[Cell, list[Statement]] = {}
    notes = []
    for name, folder in folders.items():
        task = exclude_missing(BENCHMARKS[name].load_rows(folder, images))
        assert isinstance(task, Rankings)
        if task.left_out is not None:
            notes.append(format_exclusion(task.left_out, name, len(task.rows)))
        for cell, statement in _iter_statements(name, task, seed):
            drawn.setdefault(cell, []).append(statement)
    return [one for rows in drawn.values() for one in _draw_some(rows, per_cell, seed)], notes


def _iter_statements(name: str, task: Rankings, seed: int) -> Iterator[tuple[Cell, Statement]]:
    """Yield one hard negative of each query, and each caption of a part once."""
    known: set[tuple[str, ImageFile, str]] = set()
    keys = compute_stable_keys((f"{name}/{query}" for query in task.rows["instance_id"]), seed)
    columns = (task.rows[column] for column in ("instance_id", "query", "pool"))
    for query, image_index, pool, key in zip(*columns, keys.tolist(), strict=True):
        caption, *negatives = (task.texts[i][0] for i in task.pools[pool].tolist())
        number, image = key % len(negatives), task.images[image_index]
        negative = Statement(f"{name}/{query}/{number}", negatives[number], image)
        cell = parse_cell(negative.statement_id)
        assert cell is not None, negative
        if cell.type in REPEATED:
            continue
        yield cell, negative
        if (cell.part, image, caption) not in known:
            known.add((cell.part, image, caption))
            yield cell._replace(type=CAPTION), Statement(f"{name}/{query}/{CAPTION}", caption, image)


def _draw_some(rows: Sequence[Statement], number: int, seed: int) -> list[Statement]:
    keys = compute_stable_keys([row.statement_id for row in rows], seed)
    return [rows[i] for i in sorted(keys.argsort()[:number].tolist())]


def write_crops(index: Path, statements: Sequence[Statement]) -> dict[ImageFile, str]:
    """Write the regions of statements as a table ``images`` with shards beside it; return their image_ids.

    Raises:
        ConfigError: the folder of the shards exists, and no earlier call wrote it.
        DataError: an image cannot be read.
        ResourceError: the volume is full.
    """
    folder = index.with_suffix("")
    if folder.exists() and not index.exists():
        raise ConfigError(f"{str(folder)!r} exists, and would be replaced. Give another path, or remove it.")
    names = {image: f"region-{n}" for n, image in enumerate(dict.fromkeys(one.image for one in statements))}
    with ShardWriter(folder) as shards:
        for image, name in names.items():
            crop = decode_image(read_encoded_image(image), str(image))
            buffer = io.BytesIO()
            crop.save(buffer, "JPEG", quality=JPEG_QUALITY)
            size = {"width": crop.width, "height": crop.height}
            shards.add_image(name, buffer.getvalue(), f"{name}.jpg", **size, source="crepe", split="test")
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), index)
    return names
