"""The official library takes the description of a release, and reads our rows by it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import mlcroissant
import pandas as pd
import pytest
import rdflib
import released_projects
from PIL import Image

from caramel.io.files import compute_file_hash
from caramel.release.publishing.build import build_release
from caramel.release.publishing.croissant import FILE, format_version


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = released_projects.made(tmp_path_factory.mktemp("project"))

    def add(rows: pd.DataFrame, folder: Path) -> None:
        (folder / "audit").mkdir()
        (folder / "audit" / "audit.json").write_text("{}", encoding="utf-8")

    build_release("v1", project, out=project / "release", strict=True, since="v1", add=add)
    return project / "release"


@pytest.fixture(scope="module")
def described(released: Path) -> Any:
    return mlcroissant.Dataset(str(released / FILE))


def rows(described: Any, name: str) -> list[dict[str, Any]]:
    """Return the records of a set by plain names of their fields, text as text."""

    def value(cell: Any) -> Any:
        if isinstance(cell, list):
            return [value(one) for one in cell]
        return cell.decode() if isinstance(cell, bytes) else cell

    return [
        {key.rpartition("/")[2]: value(cell) for key, cell in record.items()}
        for record in described.records(name)
    ]


def test_it_is_valid_and_nothing_is_found_lacking(described: Any) -> None:
    issues = described.metadata.ctx.issues
    assert not issues.errors
    assert not issues.warnings
    assert described.metadata.name == released_projects.ABOUT["title"]
    assert [author.name for author in described.metadata.creators] == ["Ada L & L"]
    assert described.metadata.license == ["https://spdx.org/licenses/CC-BY-4.0.html"]


@pytest.mark.parametrize("name", ["instances", "training", "metrics"])
def test_its_records_are_the_rows_of_our_tables(name: str, described: Any) -> None:
    pinned: pd.DataFrame = getattr(released_projects, name)()
    found = rows(described, name)
    assert len(found) == len(pinned)
    by_key = {tuple(str(row[key]) for key in list(pinned)[:4]): row for row in found}
    for right in pinned.astype(object).where(pinned.notna(), None).to_dict("records"):
        row = by_key[tuple(str(right[key]) for key in list(pinned)[:4])]
        for column, value in right.items():
            assert row[str(column)] == value, column


def test_its_pictures_are_those_of_the_instances(described: Any, released: Path) -> None:
    table = pd.concat(map(pd.read_parquet, sorted((released / "data" / "instances").glob("*.parquet"))))
    held = dict(zip(table["instance_id"], table["image"], strict=True))
    for row in rows(described, "instances"):
        right = Image.open(io.BytesIO(held[row["instance_id"]]["bytes"]))
        assert row["image"].tobytes() == right.tobytes()
    assert sum(row["negative_image"] is None for row in rows(described, "instances")) == 1
    assert [len(row["negative_images"]) for row in rows(described, "training")] == [2, 1, 0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("2.03.4", "2.3.4"),
        ("camera-ready", "0.0.0"),
        ("v1.2-rc", "0.0.0"),
    ],
)
def test_its_version_is_that_of_the_pin(name: str, said: str) -> None:
    assert format_version(name, "ab" * 32) == f"{said}+abababababab"


def test_splits_files_and_responsible_use_are_in_it(described: Any, released: Path) -> None:
    assert [row["name"] for row in rows(described, "splits")] == ["test", "val", "train"]
    text = (released / FILE).read_text(encoding="utf-8")
    raw = json.loads(text)
    listed = {one["contentUrl"]: one["sha256"] for one in raw["distribution"] if "contentUrl" in one}
    assert {"formats/test/images.tar", "webdataset/train-00000.tar", "pin.json"} <= set(listed)
    assert {"audit/audit.json", "changes.json"} <= set(listed), "what is made later is in it, too"
    assert all(compute_file_hash(released / path) == digest for path, digest in listed.items())
    assert "Answer <i>16</i>." in raw["rai:dataSocialImpact"]
    assert "refine: surplus: 2" in raw["rai:dataPreprocessingProtocol"][0]
    assert "<" not in text, "a page that holds it is not ended by what it says"


def test_a_reader_of_version_1_0_reads_the_same_rows(described: Any, released: Path, tmp_path: Path) -> None:
    raw = json.loads((released / FILE).read_text(encoding="utf-8"))
    one, two = "http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/1.0"
    assert raw["conformsTo"][:2] == [one, two]
    raw["conformsTo"] = two
    older = released / "older.json"
    older.write_text(json.dumps(raw), encoding="utf-8")
    try:
        old = mlcroissant.Dataset(str(older))
        assert not old.metadata.ctx.issues.errors
        assert rows(old, "metrics") == rows(described, "metrics")
    finally:
        older.unlink()


def test_it_says_what_its_licence_permits_and_demands(released: Path) -> None:
    raw = json.loads((released / FILE).read_text(encoding="utf-8"))
    offer = raw["usageInfo"]
    assert offer["@type"] == ["CreativeWork", "odrl:Offer"]
    actions = {action["@id"] for action in offer["odrl:permission"]["odrl:action"]}
    assert actions == {"odrl:use", "odrl:distribute", "odrl:derive"}
    assert offer["odrl:permission"]["odrl:duty"]["odrl:action"] == [{"@id": "odrl:attribute"}]
    assert "odrl:prohibition" not in offer


def test_it_names_the_stages_that_made_it(released: Path) -> None:
    raw = json.loads((released / FILE).read_text(encoding="utf-8"))
    assert raw["@context"]["prov"] == "http://www.w3.org/ns/prov#"
    (stage,) = raw["prov:wasGeneratedBy"]
    assert (stage["@type"], stage["@id"]) == ("prov:Activity", "stage/all")
    assert "data/assemble" in {entity["prov:label"] for entity in stage["prov:generated"]}
    assert "commit" in raw["prov:wasAttributedTo"]["prov:label"]


def test_its_provenance_is_rdf_that_a_query_finds(released: Path) -> None:
    graph = rdflib.Graph().parse(released / FILE, format="json-ld")
    found = graph.query(
        """PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX odrl: <http://www.w3.org/ns/odrl/2/>
        SELECT ?label ?duty WHERE {?set prov:wasGeneratedBy/prov:generated/prov:label ?label .
        ?set <https://schema.org/usageInfo>/odrl:permission/odrl:duty/odrl:action ?duty}"""
    )
    assert ("data/assemble", "http://www.w3.org/ns/odrl/2/attribute") in {(str(a), str(b)) for a, b in found}
