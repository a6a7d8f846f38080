import json
from pathlib import Path

import pandas as pd
import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored, wins

from caramel.benchmarks.metrics import Outcomes
from caramel.benchmarks.readers.vl_checklist import BENCHMARK, CORPORA, LAYOUT
from caramel.errors import DataError
from caramel.evaluation.results.summary import compute_metrics
from caramel.utils.resampling import Bootstrap

# File, folder of its images, the authors' name of its result, aspect.
FILES = [
    ("Attribute/vg/size.json", "vg", "Attribute_size_vg", "attribute_size"),
    ("Attribute/vaw/size.json", "vg", "Attribute_size_vaw", "attribute_size"),
    (
        "Object/Location/hake_location/hake_obj_margin.json",
        "hake",
        "Object_Location_margin_hake",
        "object_margin",
    ),
    (
        "Object/Size/swig_size/swig_tool/swig_tool_small.json",
        "swig",
        "Object_Size_small_swig_tool",
        "object_small",
    ),
    ("Object/Location/vg_location/vg_subj_mid.json", "vg", "Object_Location_mid_vg_subj", "object_mid"),
    ("Relation/swig_action.json", "swig", "Relation_action_swig", "relation_action"),
    ("Relation/vg/spatial.json", "vg", "Relation_spatial_vg", "relation_spatial"),
]
IMAGES = {
    "vg": ["VG_100K_2/2408124.jpg", "VG_100K/26.jpg"],
    "hake": ["openimages/0030feaa83a02c0d.jpg", "vcoco/val2014/1.jpg"],
    "swig": ["dialing_8.jpg", "pressing_212.jpg"],
}


def write(folder: Path) -> tuple[Path, Path]:
    """Write a small release and its images."""
    data, images = folder / "data", folder / "images"
    for number, (file, source, name, _) in enumerate(FILES):
        rows = []
        for n in range(6):
            image = IMAGES[source][n % 2]
            draw(images / source / image, len(image) * 31 + n % 2)
            positive = [f"huge train {n} {name}", f"other phrase {n}"]
            rows.append([image, {"POS": positive, "NEG": [f"little train {n} {name}"]}])
        rows.append([IMAGES[source][0], {"POS": ["little zebra"], "NEG": ["little zebra"]}])  # as there are
        rows.append(rows[0])
        path = data / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows[: len(rows) - number % 2]))
    return data, images


def oracle(data: Path, images: Path, score: Score) -> list[Verdict]:
    """ITC: the first true phrase scores above the first false one, file by file."""
    verdicts = []
    for file in sorted((path for path, *_ in FILES), key=list(CORPORA).index):
        source, name, aspect = next(rest for path, *rest in FILES if path == file)
        for image, phrases in json.loads((data / file).read_text()):
            path = images / source / image
            hit, tie = wins(score(path, phrases["POS"][0]), score(path, phrases["NEG"][0]))
            verdicts.append(Verdict(hit, tie, (aspect.split("_")[0], aspect, name)))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_and_metric_is_that_of_the_authors_code(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images = write(tmp_path)
    rows = scored(BENCHMARK, BENCHMARK.load_rows(data, images), spec, tmp_path / "store", monkeypatch)
    expected = oracle(data, images, score_of(spec))
    assert sum(verdict.tie for verdict in expected) >= (0 if spec == "patchy:3" else len(FILES))
    agrees(BENCHMARK, rows, {"accuracy": expected})


def test_an_aspect_is_the_mean_over_sources_of_the_means_over_files_as_in_the_authors_chart() -> None:
    """``radar.py``: hake has one file of an aspect of objects, swig four, vg two."""
    accuracy = {"hake": [1.0], "swig": [0.5, 0.0, 0.5, 0.0], "vg": [0.75, 0.25]}
    files = {
        "hake": ["hake"],
        "swig": [f"swig_{role}" for role in ("agent", "destination", "item", "tool")],
        "vg": ["vg_obj", "vg_subj"],
    }
    rows, hits = [], []
    for source, names in files.items():
        for name, share in zip(names, accuracy[source], strict=True):
            for n in range(4 if source != "swig" else 8):  # files of other sizes count alike
                subsets = ["object", "object_large", f"Object_Size_large_{name}"]
                rows.append({"image_id": f"{name}{n}", "subsets": subsets})
                hits.append(float(n < share * (4 if source != "swig" else 8)))
    outcome = Outcomes(pd.DataFrame({"accuracy": hits}), pd.DataFrame({"accuracy": [False] * len(hits)}))
    frame = compute_metrics(
        pd.DataFrame(rows), outcome, BENCHMARK.macro, Bootstrap(10, 0), mean_members=BENCHMARK.means
    )
    found = frame.set_index("subset")
    assert found.loc["mean/object_large", "value"] == pytest.approx((1.0 + 0.25 + 0.5) / 3)
    assert found.loc["mean/object_large/swig", "value"] == pytest.approx(0.25)
    assert found.loc["mean/object_large", "n"] == len(rows)
    assert "mean/object_small" not in found.index
    assert len([name for name in BENCHMARK.means if name.count("/") == 1]) == 13


def test_the_first_thousand_rows_of_a_file_are_scored(tmp_path: Path) -> None:
    path = tmp_path / "Relation/vg/action.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([["a.jpg", {"POS": [f"x {n}"], "NEG": ["y"]}] for n in range(1003)]))
    rows = BENCHMARK.load_rows(tmp_path, tmp_path).rows
    assert rows["caption"].tolist() == [f"x {n}" for n in range(1000)]


def test_the_release_has_56_files_and_13_aspects() -> None:
    assert len(CORPORA) == 56
    assert len({corpus.aspect for corpus in CORPORA.values()}) == 13
    assert {file for file, *_ in FILES} <= set(CORPORA)


def test_an_image_is_one_cluster_in_all_files_of_its_source(tmp_path: Path) -> None:
    task = BENCHMARK.load_rows(*write(tmp_path))
    assert len(task.images) == 6
    assert task.rows["instance_id"].is_unique
    assert task.rows.groupby("image_id")["image"].nunique().eq(1).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "a.jpg"}, r"row 1 must be \[image"),
        (["a.jpg"], r"row 1 must be \[image"),
        (["a.jpg", ["POS", "NEG"]], r"row 1 must be \[image"),
        (["a.jpg", {"POS": ["x"]}], "row 1: field 'NEG' must be a list of phrases, not None"),
        (["a.jpg", {"POS": [], "NEG": ["y"]}], r"row 1: field 'POS' must be a list of phrases, not \[\]"),
        (["a.jpg", {"POS": "x", "NEG": ["y"]}], "row 1: field 'POS' must be a list of phrases, not 'x'"),
        (["a.jpg", {"POS": ["x"], "NEG": [3]}], "row 1: field 'NEG' must be text"),
        ([7, {"POS": ["x"], "NEG": ["y"]}], "row 1: field 'image' must be text"),
    ],
)
def test_a_broken_row_is_named(row: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "Relation/vg/action.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([["a.jpg", {"POS": ["x"], "NEG": ["y"]}], row]))
    with pytest.raises(DataError, match=message) as stopped:
        BENCHMARK.load_rows(tmp_path, tmp_path)
    assert str(path) in str(stopped.value)


def test_a_folder_without_files_says_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Attribute/vg/color\.json") as stopped:
        BENCHMARK.load_rows(tmp_path, tmp_path)
    assert LAYOUT in str(stopped.value)


def test_files_without_rows_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "Relation").mkdir()
    (tmp_path / "Relation/swig_action.json").write_text("[]")
    with pytest.raises(DataError, match="has no rows"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_images_of_visual_genome_may_lie_where_other_benchmarks_have_them(tmp_path: Path) -> None:
    data, images = write(tmp_path)
    for folder in ("VG_100K", "VG_100K_2"):
        (images / "vg" / folder).rename(images / folder)
    found = {Path(image.path) for image in BENCHMARK.load_rows(data, images).images}
    assert {images / "VG_100K_2/2408124.jpg", images / "VG_100K/26.jpg"} <= found
    assert images / "swig/dialing_8.jpg" in found
    assert all(path.is_file() for path in found)
