"""Write the release of a pinned version: a folder that can be uploaded as it is.

Everything is written to a staging folder inside the output folder and moved into place at the end, so an
interrupted run leaves nothing that looks complete. Equal pins, answers, lock files and versions of caramel give
equal bytes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from filelock import FileLock, Timeout

from caramel.errors import ConfigError, DataError, ResourceError, format_items
from caramel.io.files import compute_file_hash, create_empty_folder, forbid_overwriting_inputs
from caramel.io.image_store import ImageStore
from caramel.io.output_paths import measure_fresh_mode
from caramel.release.pin_file import get_pin_path, read_pin
from caramel.release.publishing.captions_alone import (
    CAPTIONS,
    build_captions,
    load_caption_instances,
    write_caption_formats,
)
from caramel.release.publishing.card import ReleasedTable, ReleaseFacts, write_card
from caramel.release.publishing.changelog import write_changes
from caramel.release.publishing.citation import format_bibtex, write_citations
from caramel.release.publishing.contents import VersionContents, list_image_ids
from caramel.release.publishing.croissant import write_croissant
from caramel.release.publishing.datasheet import format_answer, list_unanswered, write_datasheet
from caramel.release.publishing.datasheet_answers import build_answers
from caramel.release.publishing.image_parquet import write_with_images
from caramel.release.publishing.metadata import About, list_open_points, read_about, strip_source_settings
from caramel.release.publishing.public_formats import write_formats
from caramel.release.publishing.questions import QUESTIONS
from caramel.release.publishing.webdataset import write_webdataset
from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import METRICS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.training import TRAINING

STAGING = ".caramel-release"  # in the output folder; removed at the end
SUMS = "SHA256SUMS"
OPTIONS = "options.json"  # what the release was built with, and its open points
RELEASED = {  # name in the release -> contract and path of the table
    "instances": (INSTANCES, "data/assemble/instances.parquet"),
    "instances_source": (INSTANCES, "data/assemble/instances_source.parquet"),
    "training": (TRAINING, "data/assemble/training.parquet"),
}
COPIED = ("data/evaluate/metrics.parquet",)  # copied unchanged: small tables beside the data


class ReleaseResult(NamedTuple):
    """Paths of the released files, and the points that are still open."""

    files: list[str]
    bytes: int
    open: list[str]


def build_release(
    name: str,
    root: Path,
    *,
    out: Path,
    about: Path | None = None,
    strict: bool = False,
    since: str | None = None,
    add: Callable[[pd.DataFrame, Path], None] | None = None,
) -> ReleaseResult:
    """Write the release of a pinned version to a folder; docs/release.md describes the files.

    Args:
        name: of the pin.
        root: the project's folder, or one that ``caramel get`` filled.
        out: the output folder; it must be new or empty.
        about: file with the authors' metadata; None: the project's ``release.yaml``, if it has one.
        strict: whether a missing or contradictory point is an error.
        since: an earlier pin of the project to compare with in the list of changes; None: no such list.
        add: writes further files, given the instances of the test split and the folder of the release so far.

    Raises:
        ConfigError: the folder is not empty, is a link, or is the project; or the metadata has the wrong form.
        ContractError: a table breaks its contract.
        DataError: there is no such pin, it is broken, its data is not available, or with ``strict`` a point
            is open.
    """
    about_path = about or (root / "release.yaml")
    metadata = read_about(about_path) if about or about_path.exists() else About()
    contents = VersionContents(name, root)
    if since is not None:
        read_pin(since, root)  # fails early, before hours of work
    frames = {
        key: rows
        for key, (table, path) in RELEASED.items()
        if (rows := contents.load_table(table, path)) is not None
    }
    facts, frames = _collect_facts(frames, contents, metadata)
    sources = facts.sources
    answers = build_answers(facts, contents)
    lacks = [*list_open_points(metadata, sources), *list_unanswered(metadata, answers)]
    if strict and lacks:
        raise DataError(
            f"Version {name!r} is not ready for release; {len(lacks)} points are open:\n{format_items(lacks, 100)}\n"
            f"Add them to {str(about_path)!r}; docs/release.md has all fields."
        )
    with open_staging(out, contents.root) as folder:
        if facts.captions_alone and facts.instances is not None:
            write_with_images(
                CAPTIONS,
                frames["captions"],
                contents.open_images(facts.images),
                len,
                folder / "data" / "captions",
            )
            write_caption_formats(facts.instances, folder / "formats")
        else:
            _write_data(frames, contents.open_images(facts.images), facts.images, folder)
        _copy_pinned(contents, folder)
        if since is not None:
            write_changes(since, name, root, folder)
        tested = facts.instances[facts.instances["split"] == "test"] if facts.instances is not None else None
        if add is not None and tested is not None and len(tested):
            add(tested, folder)
        write_croissant(  # of the files written above
            facts,
            {q.number: text for q in QUESTIONS if (text := format_answer(q, metadata, answers))},
            format_bibtex(facts),
            contents.root,
            folder,
        )
        write_datasheet(metadata, answers, facts.title, folder)
        write_citations(facts, folder)
        write_card(facts, lacks, folder)
        write_options(hash_options(root, about, since=since, audit=add is not None), lacks, folder)
        files = write_sums(folder)
        total = sum((folder / file).stat().st_size for file in files)
    return ReleaseResult(files, total, lacks)


def _collect_facts(
    frames: dict[str, pd.DataFrame], contents: VersionContents, metadata: About
) -> tuple[ReleaseFacts, dict[str, pd.DataFrame]]:
    """Return the facts of a release and its tables: those with images, or captions alone if these have no rows."""
    if not any(map(len, frames.values())) and (loaded := load_caption_instances(contents)) is not None:
        instances, sources = loaded
        captions = build_captions(instances)
        parts = [_build_part("captions", CAPTIONS, captions)]
        facts = ReleaseFacts(contents.pinned, metadata, parts, sources, instances, build_frame(IMAGES, []))
        return facts, {"captions": captions}
    frames = {
        key: rows for key, rows in frames.items() if len(rows)
    } or frames  # a benchmark without a training set
    index = _select_images(frames, contents)
    source = frames.get("instances_source")
    if source is not None and "instances" in frames and source.equals(frames["instances"]):
        del frames["instances_source"]
    sources = sorted({strip_source_settings(source) for source in index["source"]})
    parts = [_build_part(key, RELEASED[key][0], rows) for key, rows in frames.items()]
    return ReleaseFacts(contents.pinned, metadata, parts, sources, frames.get("instances"), index), frames


def _select_images(frames: Mapping[str, pd.DataFrame], contents: VersionContents) -> pd.DataFrame:
    """Return the rows of the index of images that the tables use."""
    index = contents.load_image_index()
    if not frames:
        raise DataError(
            f"Version {contents.pinned.name!r} has none of the tables {', '.join(p for _, p in RELEASED.values())}."
        )
    names = {image for rows in frames.values() for image in list_image_ids(rows)}
    index = index[index["image_id"].isin(names)]
    if lacking := sorted(names - set(index["image_id"])):
        raise DataError(
            f"{len(lacking)} images used by rows are missing from the table of images:\n{format_items(lacking)}"
        )
    return index


def hash_options(root: Path, about: Path | None, **options: Any) -> dict[str, Any]:
    """Return the options of a release for ``options.json``, with the SHA-256 of the authors' metadata, None without it."""
    path = about or (root / "release.yaml")
    return {"about": compute_file_hash(path) if path.is_file() else None, **options}


def write_options(options: Mapping[str, Any], lacks: Sequence[str], folder: Path) -> None:
    """Write ``options.json``: what ``hash_options`` returns, and the number of open points."""
    text = json.dumps({**options, "open": len(lacks)}, indent=1) + "\n"
    (folder / OPTIONS).write_text(text, encoding="utf-8")


def write_sums(folder: Path) -> list[str]:
    """Write the SHA-256 of every file of a folder to ``SHA256SUMS``; return all paths, this one last."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"{compute_file_hash(folder / file)}  {file}\n" for file in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    return [*files, SUMS]


def _build_part(key: str, table: Table, rows: pd.DataFrame) -> ReleasedTable:
    counts = rows["split"].value_counts(sort=False)
    return ReleasedTable(key, table, {str(split): int(count) for split, count in counts.items()})


def _write_data(
    frames: Mapping[str, pd.DataFrame], pictures: ImageStore, index: pd.DataFrame, folder: Path
) -> None:
    """Write the tables with their images, the public formats, and WebDataset."""
    size = dict(zip(index["image_id"], index["length"], strict=True)).__getitem__
    for key, rows in frames.items():
        write_with_images(RELEASED[key][0], rows, pictures, size, folder / "data" / key)
    if "instances" in frames:
        sides = zip(index["width"].tolist(), index["height"].tolist(), strict=True)
        sizes = dict(zip(index["image_id"], sides, strict=True))
        trained = frames["training"] if "training" in frames else build_frame(TRAINING, [])
        captions = [*trained["caption"], *trained["caption2"].dropna()]
        write_formats(frames["instances"], captions, pictures, sizes, folder / "formats")
    if "training" in frames:
        write_webdataset(frames["training"], pictures, folder / "webdataset")


def _copy_pinned(contents: VersionContents, folder: Path) -> None:
    """Copy the pin and the small tables unchanged."""
    name = contents.pinned.name
    shutil.copyfile(get_pin_path(name, contents.root), folder / "pin.json")
    for path in COPIED:
        if (rows := contents.load_table(METRICS, path)) is not None:
            write_table(METRICS, rows, folder / "tables" / Path(path).name)


@contextmanager
def open_staging(out: Path, root: Path) -> Iterator[Path]:
    """Give the staging folder of a release; move it into place at the end, remove it after an error."""
    if out.is_symlink():
        raise ConfigError(
            f"{str(out)!r} is a link. Give a real folder with --out: caramel does not write through links."
        )
    new = not out.exists()
    existing = [] if new else sorted(path.name for path in out.iterdir() if path.name != STAGING)
    if existing:
        raise ConfigError(
            f"{str(out)!r} is not empty: it holds {format_items(existing)}\nGive a new folder with --out: a release is complete, "
            f"and nothing is overwritten."
        )
    forbid_overwriting_inputs([out], [root / "data", root / "pins"])
    holder = out / STAGING
    if holder.is_symlink():
        raise ConfigError(f"{str(holder)!r} is a link. Remove it: caramel writes only inside {str(out)!r}.")
    holder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(holder / "lock", timeout=0):
            folder = create_empty_folder(
                (holder / "files").absolute()
            )  # pyarrow would take the relative path a:b/c for a URL
            try:
                yield folder
                _move_files(folder, out)
            finally:
                shutil.rmtree(holder)
                if new and not any(out.iterdir()):
                    out.rmdir()
    except Timeout as error:
        raise ResourceError(
            f"Another release is being written to {str(out)!r}. Wait for it, or give another --out."
        ) from error


def _move_files(folder: Path, out: Path) -> None:
    """Move all files of a folder into another one, the file that marks it as complete last."""
    mode = measure_fresh_mode(folder / ".mode")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        path.chmod(mode)  # some libraries write files that only one user can read
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "README.md"):
        os.replace(path, out / path.name)
