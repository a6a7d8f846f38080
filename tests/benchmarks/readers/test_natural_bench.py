from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, listed, pairs, with_nan, write_images, write_json

from caramel.benchmarks.readers.natural_bench import BENCHMARK, read_natural_bench
from caramel.errors import DataError

ITEMS = pairs(40, "JPEG")


def instances() -> list[Instance]:
    return [
        Instance(
            f"natural_bench-{n}",
            str(n),
            (),
            item.images[0],
            item.captions[0],
            item.captions[1],
            negative_image=item.images[1],
        )
        for n, item in enumerate(ITEMS)
    ]


def release(folder: Path) -> Path:
    rows = []
    for n, item in enumerate(ITEMS):
        names = [f"{n}_{k}.jpg" for k in (0, 1)]
        write_images(folder / "images", dict(zip(names, item.images, strict=True)))
        captions = {f"caption_{k}": item.captions[k] for k in (0, 1)}
        rows.append({"index": n, "image_0": names[0], "image_1": names[1], **captions})
    write_json(folder / "metadata.json", rows)
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "natural_bench/NaturalBench-Retrieval").parent
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    assert metrics.set_index(["subset", "metric"])["ties"]["all", "group"] >= 2


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data = release(tmp_path)
    (data / "images/0_0.jpg").unlink()
    (data / "images/39_1.jpg").write_bytes(b"no picture")
    message = listed(BENCHMARK, data, data)
    assert "2 of 80 images are missing or corrupt" in message
    assert "0_0.jpg: missing" in message
    assert "39_1.jpg: corrupt" in message


def test_the_questions_of_naturalbench_are_not_taken_for_it(tmp_path: Path) -> None:
    write_json(tmp_path / "metadata.json", [{"Index": 0, "Question_0": "Is it a dog?"}])
    with pytest.raises(DataError, match=r"row 0 has no field 'image_0'"):
        read_natural_bench(tmp_path, tmp_path)


def test_a_folder_without_the_file_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of metadata\.json.*BaiqiL/NaturalBench"):
        read_natural_bench(tmp_path, tmp_path)
