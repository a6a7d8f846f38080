"""Where a benchmark lies."""

from pathlib import Path

from caramel.evaluation.benchmark_source import Source, source_of


def test_images_lie_in_a_folder_of_the_benchmark_or_in_one_for_all(tmp_path: Path) -> None:
    data, images = tmp_path / "data", tmp_path / "images"
    (data / "mmvp").mkdir(parents=True)
    (images / "mmvp").mkdir(parents=True)
    assert source_of("mmvp", data, images) == Source("mmvp", str(data / "mmvp"), str(images / "mmvp"))
    assert source_of("valse", data, images) == Source("valse", str(data), str(images))
    assert source_of("mmvp", data, None).images == str(data / "mmvp")
    assert source_of("mmvp", data, data).images == str(data)  # one folder for captions and images
