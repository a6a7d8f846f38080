"""Read the images that captions name from a user's folder, check that they are the named ones, and pass them on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from caramel.errors import DataError, format_items
from caramel.interfaces.source import SaveImage
from caramel.io.image_codec import check_image
from caramel.io.readers import iter_lines
from caramel.io.suggestions import NearNames
from caramel.io.validators import LONGEST_NAME, format_value, is_inside_folder

SUMS = "SHA256SUMS"
Size = tuple[int, int]


def save_images(
    folder: Path,
    named_by: Mapping[str, str],
    splits: Mapping[str, str],
    put: SaveImage,
    *,
    sizes: Mapping[str, Size] | None = None,
) -> None:
    """Pass the images to ``put``; each one is decoded once to prove that it can be.

    Args:
        folder: folder of the images; they are in it or in its ``images/``. A file ``SHA256SUMS`` in either is
            optional (``sha256sum * > SHA256SUMS``).
        named_by: name of an image -> the row that names it, for messages; "" if its name says enough.
        splits: name of an image -> its split.
        put: called with each image, in the order of ``named_by``.
        sizes: width and height in pixels of those images whose size is known, in either order, since some
            programs ignore the orientation that a photograph states.

    Raises:
        DataError: images are missing, do not decode, have another size or hash than is known of them, have two names,
            or are not in a file of sums that is there. One message lists all of them.
    """
    broken, near_names, sums = [], NearNames(), _read_sums(folder)
    names: dict[Path, str] = {}
    for name, row in named_by.items():
        image = _read_image(folder, name, near_names, (sizes or {}).get(name), sums, names)
        if isinstance(image, str):
            broken.append(f"{format_value(name)}{f' ({row})' if row else ''}: {image}")
        else:
            data, width, height = image
            put(name, data, name, width=width, height=height, source="files", split=splits[name])
    if broken:
        raise DataError(
            f"{len(broken)} of {len(named_by)} images in {str(folder)!r} cannot be used:\n{format_items(broken)}\n"
            f"Replace these files, or take their rows out of the captions."
        )


def _read_image(
    folder: Path,
    name: str,
    near_names: NearNames,
    size: Size | None,
    sums: Mapping[Path, str] | None,
    names: dict[Path, str],
) -> tuple[bytes, int, int] | str:
    """Return the file's bytes, width and height in pixels, or a description of the problem.

    Args:
        names: the first name of each file; a new file's name is added.
    """
    if not is_inside_folder(name):
        return f"must name a file inside the folder, at most {LONGEST_NAME} bytes long"
    try:
        path = next((p for p in (folder / name, folder / "images" / name) if p.is_file()), None)
        if path is None:
            return near_names.explain_missing(folder / name)
        if (first := names.setdefault(path, name)) != name:
            return f"the same file as {first!r}: under two names it could be in two splits; use one name in all rows"
        data = path.read_bytes()
        if sums is not None and (digest := _find_sum(folder, path, sums)) is None:
            return f"not in {SUMS}, which lists the other images"
        if sums is not None and hashlib.sha256(data).hexdigest() != digest:
            return f"another file than the one that {SUMS} names (its SHA-256 differs)"
        width, height = check_image(data, name)
    except DataError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"cannot be read ({error})"
    if size is not None and {width, height} != set(size):
        return f"another image than the named one: {width} x {height} pixels, not {size[0]} x {size[1]}"
    return data, width, height


def _find_sum(folder: Path, path: Path, sums: Mapping[Path, str]) -> str | None:
    """Return the SHA-256 of a file; its own first, then one of its name in the other folder: files are moved."""
    bare = path.relative_to(folder).as_posix().removeprefix("images/")
    named = (path, folder / bare, folder / "images" / bare, folder / "images" / "images" / bare)
    return next((sums[other] for other in named if other in sums), None)


def _read_sums(folder: Path) -> dict[Path, str] | None:
    """Return path -> SHA-256 of the files of sums in the folder and in its ``images/``; None if there is no such file.

    Raises:
        DataError: a line is not a sum and a name.
    """
    paths = [path for path in (folder / SUMS, folder / "images" / SUMS) if path.is_file()]
    sums: dict[Path, str] = {}
    for path in paths:
        for number, line in enumerate(iter_lines(path), start=1):
            if not line.strip():
                continue
            digest, _, name = line.strip().partition(" ")
            if len(digest) != 64 or not set(digest) <= set("0123456789abcdef") or not name.strip():
                raise DataError(
                    f"{str(path)!r}, line {number}: {format_value(line)} is not a SHA-256 and a file name. "
                    f"Write the file with `sha256sum`, or remove it."
                )
            sums[path.parent / name.strip().removeprefix("*")] = digest
    return sums if paths else None
