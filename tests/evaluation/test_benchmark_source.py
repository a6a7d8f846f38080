"""Where a benchmark lies."""

from pathlib import Path

from caramel.evaluation.benchmark_source import BenchmarkSource, locate_benchmark


def test_images_lie_in_a_folder_of_the_benchmark_or_in_one_for_all(tmp_path: Path) -> None:
    data, images = tmp_path / "data", tmp_path / "images"
    (data / "mmvp").mkdir(parents=True)
    (images / "mmvp").mkdir(parents=True)
    assert locate_benchmark("mmvp", data, images) == BenchmarkSource(
        "mmvp", str(data / "mmvp"), str(images / "mmvp")
    )
    assert locate_benchmark("valse", data, images) == BenchmarkSource("valse", str(data), str(images))
    assert locate_benchmark("mmvp", data, None).images == str(data / "mmvp")
    assert locate_benchmark("mmvp", data, data).images == str(data)  # one folder for captions and images
