import json
from pathlib import Path

import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored, wins
from released import VALSE, released

from caramel.benchmarks.readers.valse import BENCHMARK
from caramel.errors import DataError

# Piece (name of its file), phenomenon, folder of its images, names of the images.
PIECES = [
    ("existence", "existence", "visual7w", ["v7w_2401335.jpg", "v7w_2401445.jpg"]),
    ("plurals", "plurals", "val2017", ["000000291619.jpg", "000000455716.jpg"]),
    ("counting-hard", "counting", "visual7w", ["v7w_2401335.jpg", "v7w_713258.jpg"]),
    ("counting-small-quant", "counting", "visual7w", ["v7w_150543.jpg"]),
    ("counting-adversarial", "counting", "visual7w", ["v7w_286095.jpg"]),
    ("relations", "relations", "val2017", ["000000462576.jpg", "000000294162.jpg"]),
    ("action-replacement", "actions", "swig", ["exercising_255.jpg", "preaching_116.jpg"]),
    ("actant-swap", "actions", "swig", ["exercising_255.jpg", "displaying_251.jpg"]),
    ("coreference-standard", "coreference", "train2014", ["COCO_train2014_000000254009.jpg"]),
    ("coreference-hard", "coreference", "VisualDialog_val2018", ["VisualDialog_val2018_000000385006.jpg"]),
    ("foil-it", "foil-it", "val2014", ["COCO_val2014_000000165831.jpg", "COCO_val2014_000000074369.jpg"]),
]


def foil(image: str, number: int, votes: int = 3) -> dict[str, object]:
    return {
        "dataset": "any",
        "original_split": "test",
        "linguistic_phenomena": "as it may be",
        "image_file": image,
        "caption": f"There are exactly {number} dogs.",
        "classes": "1",
        "classes_foil": "2",
        "mturk": {"foil": 3 - votes, "caption": votes, "other": 0},
        "foil": f"There are exactly {number + 1} dogs.",
    }


def write(folder: Path, pieces: list[str] | None = None) -> tuple[Path, Path]:
    data, images = folder / "data", folder / "images"
    data.mkdir()
    for number, (piece, _, source, names) in enumerate(PIECES):
        rows = {}
        for n in range(8):
            name = names[n % len(names)]
            draw(images / source / name, sum(name.encode()))
            rows[f"item_test_{n}"] = foil(name, n + 10 * number, votes=n % 4)
        rows["same"] = foil(names[0], 1) | {"foil": "There are exactly 1 dogs."}
        if pieces is None or piece in pieces:
            (data / f"{piece}.json").write_text(json.dumps(rows, indent=4))
    return data, images


def oracle(data: Path, images: Path, score: Score) -> list[Verdict]:
    """acc_r: the caption of a valid foil scores above the foil, piece by piece."""
    verdicts = []
    for piece, phenomenon, source, _ in PIECES:
        for row in json.loads((data / f"{piece}.json").read_text()).values():
            if row["mturk"]["caption"] >= 2:
                path = images / source / row["image_file"]
                hit, tie = wins(score(path, row["caption"]), score(path, row["foil"]))
                subsets = (piece,) if piece == phenomenon else (phenomenon, piece)
                verdicts.append(Verdict(hit, tie, subsets))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_and_metric_is_that_of_the_authors_code(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images = write(tmp_path)
    rows = scored(BENCHMARK, BENCHMARK.load_rows(data, images), spec, tmp_path / "store", monkeypatch)
    assert len(rows) == len(PIECES) * 5
    agrees(BENCHMARK, rows, {"accuracy": oracle(data, images, score_of(spec))})


def test_the_mean_is_over_the_pieces_and_not_over_the_phenomena() -> None:
    assert [piece for piece, *_ in PIECES if BENCHMARK.macro(piece)] == [piece for piece, *_ in PIECES]
    assert not any(BENCHMARK.macro(name) for name in ("counting", "actions", "coreference", "all"))


def test_some_pieces_alone_are_read(tmp_path: Path) -> None:
    task = BENCHMARK.load_rows(*write(tmp_path, ["actant-swap", "foil-it"]))
    assert {name for subsets in task.rows["subsets"] for name in subsets} == {
        "actions",
        "actant-swap",
        "foil-it",
    }
    assert task.rows["instance_id"].is_unique
    assert all(Path(image.path).is_file() for image in task.images)


def test_images_may_lie_all_in_one_folder(tmp_path: Path) -> None:
    data, images = write(tmp_path, ["existence", "relations"])
    for path in [*images.rglob("*.jpg")]:
        path.rename(images / path.name)
    assert all(Path(image.path).is_file() for image in BENCHMARK.load_rows(data, images).images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mturk": None}, "row 'b': field 'mturk' must hold the number of votes"),
        ({"mturk": {"foil": 0}}, "row 'b': field 'mturk' must hold the number of votes"),
        ({"mturk": {"caption": "3"}}, "row 'b': field 'mturk' must hold the number of votes"),
        ({"caption": ""}, "row 'b': field 'caption' must be text"),
        ({"foil": ["x"]}, "row 'b': field 'foil' must be text"),
        ({"image_file": 3}, "row 'b': field 'image_file' must be text"),
    ],
)
def test_a_broken_row_is_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    rows = {"a": foil("v7w_1.jpg", 1), "b": foil("v7w_1.jpg", 2) | change}
    (tmp_path / "existence.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=message):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_a_row_without_votes_is_named(tmp_path: Path) -> None:
    row = foil("v7w_1.jpg", 1)
    del row["mturk"]
    (tmp_path / "existence.json").write_text(json.dumps([row]))
    with pytest.raises(DataError, match="row 0: field 'mturk'"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_no_file_and_no_valid_foil_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds none of existence\.json"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    (tmp_path / "plurals.json").write_text(json.dumps({"a": foil("000000000139.jpg", 1, votes=1)}))
    with pytest.raises(DataError, match="has no valid foil"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


# Valid foils of each piece, as table 1 of the paper counts them.
COUNTED = {
    "existence": 505,
    "plurals": 851,
    "counting-hard": 868,
    "counting-small-quant": 900,
    "counting-adversarial": 691,
    "relations": 535,
    "action-replacement": 648,
    "actant-swap": 949,
    "coreference-standard": 708,
    "coreference-hard": 104,
    "foil-it": 943,
}


def test_the_released_pieces_have_the_valid_foils_that_the_paper_counts(tmp_path: Path) -> None:
    """Of 8,782 rows in all 7,702 are valid; eight of the eleven pieces are at hand."""
    assert sum(COUNTED.values()) == 7702
    data = released(VALSE, "data")
    task = BENCHMARK.load_rows(data, tmp_path)
    pieces = task.rows["subsets"].map(lambda names: names[-1]).value_counts().to_dict()
    assert pieces == {piece: n for piece, n in COUNTED.items() if (data / f"{piece}.json").is_file()}
    assert sum(pieces.values()) == 5798
    assert sum(len(json.loads((data / f"{piece}.json").read_text())) for piece in pieces) == 6599
    for piece in pieces:
        rows = json.loads((data / f"{piece}.json").read_text())
        valid = [(row["caption"], row["foil"]) for row in rows.values() if row["mturk"]["caption"] >= 2]
        own = task.rows[[names[-1] == piece for names in task.rows["subsets"]]]
        assert [*zip(own["caption"], own["negative_caption"], strict=True)] == valid


# What a released row names as its source -> folder of the images. Of VisDial's training split 283 of 916 rows are on COCO's
# validation images.
FOLDERS = {
    "visual7w": "visual7w",
    "coco_2017": "val2017",
    "SWiG": "swig",
    "VisDial_v1.0": "train2014",
    "FOIL dataset": "val2014",
}


def test_the_images_of_the_released_rows_are_found_where_their_source_has_them(tmp_path: Path) -> None:
    data = released(VALSE, "data")
    images = set()
    for path in data.glob("*.json"):
        for row in json.loads(path.read_text()).values():
            assert sum(row["mturk"].values()) == 3
            of_val = row["image_file"].startswith("COCO_val2014_")
            images.add(tmp_path / ("val2014" if of_val else FOLDERS[row["dataset"]]) / row["image_file"])
    for path in images:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    task = BENCHMARK.load_rows(data, tmp_path)
    assert task.images
    assert {Path(image.path) for image in task.images} <= images
