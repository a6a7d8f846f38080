"""No benchmark's files can name an image outside of the folders that the user gave."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_releases import RELEASES, write_release

from caramel.audit.files.formats import FORMAT_SIGNATURES
from caramel.audit.files.inputs import read_rows
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.evaluation.benchmark_source import BenchmarkSource, read_task
from caramel.interfaces.benchmark import Benchmark, ImageFile
from caramel.registry import BENCHMARKS

LAST_PART = ("cola", "whatsup_a", "whatsup_b")  # of a path or a link, the last part alone names the image
IN_A_TABLE = {"instances", "instances_source", "vismin", "natural_bench_questions"}
IN_A_TABLE |= {"held_out_retrieval", "world_classes"}
OPENED: list[str] = []
HOOKS: list[bool] = []


@contextmanager
def opened() -> Iterator[list[str]]:
    """Give the list of all files that are opened meanwhile."""
    if not HOOKS:  # a hook cannot be taken away again
        HOOKS.append(False)
        sys.addaudithook(
            lambda event, of: OPENED.append(str(of[0])) if HOOKS[0] and event == "open" else None
        )
    OPENED.clear()
    HOOKS[0] = True
    try:
        yield OPENED
    finally:
        HOOKS[0] = False


def test_every_benchmark_is_tried() -> None:
    # These have their images in a table.
    assert set(BENCHMARKS) - set(RELEASES) == IN_A_TABLE


@pytest.mark.parametrize("name", RELEASES)
def test_a_small_release_is_read(name: str, tmp_path: Path) -> None:
    data = write_release(tmp_path, name)
    assert len(BENCHMARKS[name].load_rows(data, tmp_path / "images").rows) > 0


@pytest.mark.parametrize(
    "planted", ["../secret.png", "{root}/secret.png", "x/../../secret.png", "a\0.png", "..\\s.png"]
)
@pytest.mark.parametrize("name", RELEASES)
def test_an_image_outside_of_the_folder_is_refused_and_not_opened(
    name: str, planted: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"a private picture")
    images = tmp_path / "images"
    (images / "x").mkdir(parents=True)
    data = write_release(tmp_path / "data", name, planted.format(root=tmp_path))
    with opened() as files:
        if name in LAST_PART and "\0" not in planted and "\\" not in planted:
            task = read_task(BenchmarkSource(name, str(data), str(images)))
            assert str(images / "secret.png") in {os.path.normpath(image.path) for image in task.images}
            with pytest.raises(DataError, match="missing"):
                check_images(task.images, name)
        else:
            with pytest.raises(DataError):
                read_task(BenchmarkSource(name, str(data), str(images)))
            if name in FORMAT_SIGNATURES:
                with pytest.raises(DataError):
                    read_rows(data, images=images)
    assert str(secret) not in map(os.path.normpath, files)


@pytest.mark.parametrize("path", ["{root}/secret.png", "{images}/../secret.png", "secret.png"])
def test_a_reader_that_forgets_to_check_names_is_stopped(path: str, tmp_path: Path) -> None:
    images = tmp_path / "images"
    image = ImageFile(path.format(root=tmp_path, images=images))
    careless = Benchmark("careless", "", lambda data, images: build_comparisons([], [image]), (), "")
    with pytest.raises(DataError, match=r"names 1 images outside of .* They are not read"):
        careless.load_rows(tmp_path / "data", images)


def test_a_link_in_the_folder_of_the_images_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.png").touch()
    data = write_release(tmp_path / "data", "sugarcrepe")
    (tmp_path / "images").symlink_to(tmp_path / "elsewhere")
    task = BENCHMARKS["sugarcrepe"].load_rows(data, tmp_path / "images")
    assert [image.path for image in task.images] == [str(tmp_path / "images" / "1.png")]


def test_relative_folders_are_folders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_release(tmp_path, "sugarcrepe")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert len(BENCHMARKS["sugarcrepe"].load_rows(Path(".."), Path()).images) == 1
    assert len(BENCHMARKS["sugarcrepe"].load_rows(Path(".."), Path("..")).images) == 1
