"""A version without images is released as captions, and read back as what was pinned."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import mlcroissant
import pandas as pd
import pytest
import released_projects

from caramel.errors import DataError
from caramel.release.publishing.build import build_release
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.sugarcrepe_files import read_captions

ABOUT = {**released_projects.ABOUT, "sources": {"captions": {"licence": "CC-BY-4.0"}}, "people": True}
TEXTS = {  # instance -> caption, paraphrase, negative, split
    "line-1:replace_obj": ("A cat on a bed.", "On a bed is a cat.", "A dog on a bed.", "test"),
    "line-2:swap_att": (released_projects.NASTY, None, "A red\u2028car.", "test"),
    "line-3:add_obj": ("A cup.", "There is a cup.", "A cup and a fork.", "train"),
}


def make(root: Path) -> Path:
    """Write a project whose version v1 has captions alone."""
    data = root / "data"
    pairs = [
        (name.partition(":")[0], name.partition(":")[0], t[0], None, t[3], "captions")
        for name, t in TEXTS.items()
    ]
    negatives = [
        (name, pair, subtype.partition("_")[0], subtype, TEXTS[name][2], "lexicon", 1, 1, None)
        for name in TEXTS
        for pair, _, subtype in [name.partition(":")]
    ]
    paraphrases = [(name.partition(":")[0], t[1], "lexicon", 1) for name, t in TEXTS.items() if t[1]]
    write_table(PAIRS, build_frame(PAIRS, pairs), data / "refine" / "pairs.parquet")
    write_table(NEGATIVES, build_frame(NEGATIVES, negatives), data / "refine" / "negatives.parquet")
    write_table(PARAPHRASES, build_frame(PARAPHRASES, paraphrases), data / "refine" / "paraphrases.parquet")
    write_table(REJECTS, build_frame(REJECTS, []), data / "refine" / "rejects.parquet")
    write_table(IMAGES, build_frame(IMAGES, []), data / "assemble" / "images.parquet")
    write_table(INSTANCES, build_frame(INSTANCES, []), data / "assemble" / "instances.parquet")
    released_projects.pinned(root, "v1")
    (root / "release.yaml").write_text(json.dumps(ABOUT), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = make(tmp_path_factory.mktemp("project"))

    def add(rows: pd.DataFrame, folder: Path) -> None:
        assert list(rows["instance_id"]) == [name for name, texts in TEXTS.items() if texts[3] == "test"]
        (folder / "audit").mkdir()
        (folder / "audit" / "audit.json").write_text("{}", encoding="utf-8")

    build_release("v1", project, out=project / "release", strict=True, add=add)
    return project / "release"


def test_the_library_datasets_loads_the_captions_as_they_were_pinned(released: Path, tmp_path: Path) -> None:
    loaded = datasets.load_dataset(str(released), "captions", cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in loaded.items()} == {"test": 2, "train": 1}
    for split, rows in loaded.items():
        for row in rows:
            texts = (row["caption"], row["caption2"], row["negative_caption"], split)
            assert texts == TEXTS[row["instance_id"]]
            assert row["image_name"] == row["instance_id"].partition(":")[0]


def test_the_files_of_sugarcrepe_are_read_back_by_our_reader(released: Path) -> None:
    formats = released / "formats" / "test"
    rows = read_captions(formats / "sugarcrepe").set_index("subtype")
    assert rows.loc["replace_obj", ["caption", "negative_caption", "image_id"]].tolist() == [
        *("A cat on a bed.", "A dog on a bed."),
        "line-1",
    ]
    assert rows.loc["swap_att", "caption"] == released_projects.NASTY
    paraphrased = read_captions(formats / "sugarcrepe_pp")
    assert paraphrased["caption2"].tolist() == ["On a bed is a cat."]


def test_croissant_describes_the_captions_and_no_image(released: Path) -> None:
    records = list(mlcroissant.Dataset(str(released / "croissant.json")).records("captions"))
    assert sorted(record["captions/instance_id"].decode() for record in records) == sorted(TEXTS)
    description = (released / "croissant.json").read_text(encoding="utf-8")
    assert "ImageObject" not in description


def test_no_file_claims_that_there_are_images(released: Path) -> None:
    files = {path.relative_to(released).as_posix() for path in released.rglob("*")}
    assert not [name for name in files if name.endswith(".tar") or "bivlc" in name or "webdataset" in name]
    card = (released / "README.md").read_text(encoding="utf-8")
    assert "captions with hard negatives" in card
    assert "Images and captions" not in card
    sheet = (released / "DATASHEET.md").read_text(encoding="utf-8")
    assert "The images that the captions describe are not part of it" in sheet
    assert "0 images" not in sheet + card


def test_a_version_with_neither_instances_nor_captions_cannot_be_released(tmp_path: Path) -> None:
    write_table(REJECTS, build_frame(REJECTS, []), tmp_path / "data" / "refine" / "rejects.parquet")
    released_projects.pinned(tmp_path, "v1")
    with pytest.raises(DataError, match="there is nothing to release"):
        build_release("v1", tmp_path, out=tmp_path / "out")
