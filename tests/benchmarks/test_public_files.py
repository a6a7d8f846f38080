from pathlib import Path

import pytest

from caramel.benchmarks.public_files import locate_images
from caramel.errors import DataError

FOLDERS = ("VG_100K", "VG_100K_2")


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_images_are_found_in_each_of_the_folders(tmp_path: Path) -> None:
    first, second = (write(tmp_path / f / f"{f}.jpg", f) for f in FOLDERS)
    third = write(tmp_path / "third.jpg", "3")
    names = ["VG_100K_2.jpg", "third.jpg", "VG_100K.jpg"]
    assert locate_images(tmp_path, names, FOLDERS) == [second, third, first]


def test_a_missing_image_is_sought_where_the_first_of_the_others_lies(tmp_path: Path) -> None:
    names = [f"{n:012}.jpg" for n in range(40)]
    write(tmp_path / "val2017" / names[-1], "1")
    folder = tmp_path / "val2017"
    assert locate_images(tmp_path, names, ("val2014", "val2017")) == [folder / name for name in names]
    assert locate_images(tmp_path, names, ("val2014",)) == [tmp_path / name for name in names]


def test_one_name_in_two_folders_is_an_error_unless_both_are_one_image(tmp_path: Path) -> None:
    for folder in FOLDERS:
        write(tmp_path / folder / "1.jpg", "equal")
        write(tmp_path / folder / "2.jpg", folder)
    (tmp_path / "VG_100K_2/3.jpg").symlink_to(write(tmp_path / "VG_100K/3.jpg", "3"))
    assert locate_images(tmp_path, ["1.jpg", "3.jpg"], FOLDERS)[0] == tmp_path / "VG_100K/1.jpg"
    with pytest.raises(
        DataError, match=r"1 images have the same name.*\n.*'2\.jpg': .*VG_100K/2.*VG_100K_2/2"
    ):
        locate_images(tmp_path, ["1.jpg", "2.jpg"], FOLDERS)
