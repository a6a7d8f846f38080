"""Files of a tar never meet, whatever the images are called."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from released_projects import picture
from stored_images import stored

from caramel.io.image_store import ImageStore
from caramel.release.publishing.webdataset import build_file_name, write_images
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table


@pytest.mark.parametrize(
    "name",
    [
        "-rf",
        "--checkpoint-action=exec",
        "CON",
        "con.png",
        "Aux",
        "LPT1",
        "nul.",
        "a.",
        "a ",
        "a:b",
        "~",
        ".x",
        "",
        ".png",
        "../a",
    ],
)
def test_no_system_or_program_takes_an_image_s_file_for_something_else(name: str) -> None:
    file = build_file_name(name, "png")
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[0-9a-f]{12})?\.png", file)
    assert file.partition(".")[0].lower() not in {"con", "aux", "nul", "lpt1"}
    assert file != build_file_name(f"{name}_", "png")


def test_images_whose_names_differ_by_suffix_or_case_alone_are_unpacked_beside_each_other(
    tmp_path: Path,
) -> None:
    assert build_file_name("a", "png") == build_file_name("a.png", "png"), "both names are plain"
    index = tmp_path / "data" / "images.parquet"
    size = {"width": 6, "height": 6, "source": "x", "split": "test"}
    names = ["a", "a.png", "A", "b"]
    stored(index, [{"image_id": name, "data": picture(n + 1), **size} for n, name in enumerate(names)])
    pictures = ImageStore(index, read_table(IMAGES, index))
    files = write_images(names, pictures, tmp_path / "images.tar")
    assert (files["a"], files["b"]) == ("a.png", "b.png")
    assert len({file.lower() for file in files.values()}) == len(names)
    with tarfile.open(tmp_path / "images.tar") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert all((tmp_path / "out" / files[name]).read_bytes() == pictures[name] for name in names)
