import json
from pathlib import Path
from typing import Any

import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored, wins

from caramel.benchmarks.readers.spec import BENCHMARK, PARTS
from caramel.errors import DataError

SIZES = dict(zip(PARTS, (3, 3, 9, 4, 2, 9), strict=True))  # candidates of a query
TO_TEXT, TO_IMAGE = "image2text.json", "text2image.json"


def write(folder: Path, cases: int = 4) -> Path:
    """Write cases of all subsets: images and texts that belong to each other, each a query among the others."""
    for seed, (part, size) in enumerate(SIZES.items()):
        to_text, to_image = [], []
        for case in range(cases):
            texts = [f"{part} {case}: a dog, number {k}" for k in range(size)]
            names = [f"images/{case}_{k}.jpg" for k in range(size)]
            if case == 1:
                texts[1] = texts[0]  # a tie for any model
            for k, name in enumerate(names):
                draw(folder / part / name, 1000 * seed + 10 * case + (0 if case == 2 else k))  # equal images
            to_text += [{"query": name, "keys": texts, "label": k} for k, name in enumerate(names)]
            to_image += [{"query": text, "keys": names, "label": k} for k, text in enumerate(texts)]
        for name, rows in ((TO_TEXT, to_text), (TO_IMAGE, to_image)):
            (folder / part / name).write_text(json.dumps(rows))
    return folder


def oracle(release: Path, score: Score) -> list[Verdict]:
    """Of the candidates the one at ``label`` scores highest, alone."""
    verdicts = []
    for part in PARTS:
        for file, direction in ((TO_TEXT, "i2t"), (TO_IMAGE, "t2i")):
            for row in json.loads((release / part / file).read_text()):
                scores = [
                    score(release / part / (row["query"] if direction == "i2t" else key), text)
                    for key in row["keys"]
                    for text in [key if direction == "i2t" else row["query"]]
                ]
                first = scores.pop(row["label"])
                hit, tie = wins(first, *scores)
                decides = tie and not any(other > first for other in scores)
                verdicts.append(Verdict(hit, decides, (f"{direction}/{part}", direction)))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_is_that_of_the_authors_code(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = write(tmp_path / "spec")
    rows = scored(BENCHMARK, BENCHMARK.load_rows(release, release), spec, tmp_path / "store", monkeypatch)
    expected = oracle(release, score_of(spec))
    assert {True, False} <= {verdict.hit for verdict in expected}
    assert any(verdict.tie for verdict in expected)
    agrees(BENCHMARK, rows, {"recall@1": expected})


@pytest.mark.parametrize("place", ["spec", "spec/data", "images", "images/data"])
def test_the_images_are_found_beside_the_files_and_in_the_folder_of_images(
    place: str, tmp_path: Path
) -> None:
    write(tmp_path / place)
    if "images" in place:
        for part in PARTS:
            (tmp_path / "spec" / part).mkdir(parents=True)
            for name in (TO_TEXT, TO_IMAGE):
                (tmp_path / place / part / name).rename(tmp_path / "spec" / part / name)
    task = BENCHMARK.load_rows(tmp_path / "spec", tmp_path / "images")
    assert all(Path(image.path).is_file() for image in task.images)
    assert task.rows["image_id"].tolist()[:2] == [
        "absolute_size/images/0_0.jpg",
        "absolute_size/images/0_1.jpg",
    ]


def test_the_subsets_that_are_there_are_read(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "count" / TO_TEXT).unlink()
    task = BENCHMARK.load_rows(tmp_path, tmp_path)
    assert ["i2t/count", "i2t"] not in task.rows["subsets"].tolist()
    assert ["t2i/count", "t2i"] in task.rows["subsets"].tolist()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (TO_TEXT, {"query": None}, "field 'query' must be text"),
        (TO_TEXT, {"query": "../x.jpg"}, "field 'query' must name a file inside"),
        (TO_TEXT, {"keys": ["one"]}, "field 'keys' must list the options"),
        (TO_TEXT, {"keys": ["one", 2]}, "field 'keys' must be text"),
        (TO_TEXT, {"keys": "one"}, "field 'keys' must be a list"),
        (TO_TEXT, {"label": 2}, "field 'label' must be an index into its 2 'keys', not 2"),
        (TO_TEXT, {"label": -1}, "field 'label' must be an index into its 2 'keys', not -1"),
        (TO_TEXT, {"label": "0"}, "field 'label' must be a whole number"),
        (TO_IMAGE, {"keys": ["a.jpg", "../b.jpg"]}, "field 'keys' must name a file inside"),
        (TO_IMAGE, {"keys": ["a.jpg", "a.jpg"]}, "names an image twice"),
    ],
)
def test_a_broken_row_is_named(file: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "count").mkdir()
    row = {"query": "a.jpg", "keys": ["a.jpg", "b.jpg"], "label": 0, **change}
    (tmp_path / "count" / file).write_text(json.dumps([row]))
    with pytest.raises(DataError, match=rf"row 0.*{message}"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_a_missing_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of absolute_size/image2text\.json.*wjpoom/SPEC"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    (tmp_path / "count").mkdir()
    (tmp_path / "count" / TO_TEXT).write_text("[]")
    with pytest.raises(DataError, match="has no rows"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
