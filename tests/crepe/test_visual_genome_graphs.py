"""Scene graphs come out of Visual Genome's files one image at a time; what is of no use is named."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_visual_genome import item, region, write, write_graphs

from caramel.crepe import json_stream, visual_genome_graphs
from caramel.crepe.json_stream import iter_json_items
from caramel.crepe.visual_genome_graphs import (
    BARE,
    BROKEN,
    EMPTY,
    NO_SCENE,
    TWICE,
    UNKNOWN,
    ImageGraph,
    iter_image_graphs,
)
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph

DOG = item(1, [("Dog", ["Brown ", "wet"]), ("grass", ["green"])], [(0, "ON", 1)])


def read(folder: Path, *, regions: bool = False) -> tuple[list[ImageGraph], list[Reject]]:
    rejects: list[Reject] = []
    return list(iter_image_graphs(folder, rejects.append, regions=regions)), rejects


def test_objects_attributes_relations_and_boxes_are_read_in_lower_case(tmp_path: Path) -> None:
    found, rejects = read(write(tmp_path, [DOG], {}))
    nodes = (Node("dog", ("brown", "wet"), (0, 10, 300, 300)), Node("grass", ("green",), (150, 10, 300, 300)))
    assert found == [ImageGraph("1", 800, 800, SceneGraph(nodes, (Edge(0, "on", 1),)))]
    assert rejects == []


def test_a_region_has_the_attributes_that_its_phrase_says_whatever_the_order_of_the_files(
    tmp_path: Path,
) -> None:
    cat = item(2, [("cat", ["black"])], [])
    regions = {2: [region(cat, "a black cat", [0])], 1: [region(DOG, "A wet  dog on grass.", [0, 1], [0])]}
    found, rejects = read(write(tmp_path, [DOG, cat], regions), regions=True)
    regions_of = {picture.image_id: picture.regions for picture in found}
    (wet,), (black,) = regions_of["1"], regions_of["2"]
    assert wet.phrase == "A wet dog on grass."
    assert wet.graph.list_compounds() == {("wet", "dog"), ("dog", "on", "grass")}
    assert black.graph.list_compounds() == {("black", "cat")}
    assert rejects == []


def test_an_accent_that_is_a_character_of_its_own_makes_no_other_word(tmp_path: Path) -> None:
    cup = item(1, [("cup", ["rose\u0301"])], [])
    regions = {1: [region(cup, "a ros\u00e9 cup", [0])]}
    ((picture,), rejects) = read(write(tmp_path, [cup], regions), regions=True)
    assert picture.regions[0].graph.list_compounds() == {("ros\u00e9", "cup")}
    assert rejects == []


def test_an_attribute_is_said_whatever_sign_stands_behind_it(tmp_path: Path) -> None:
    dog = item(1, [("dog", ["black", "wet", "old"])], [])
    found, _ = read(write(tmp_path, [dog], {1: [region(dog, "A black, wet dog", [0])]}), regions=True)
    assert found[0].regions[0].graph.nodes[0].attributes == ("black", "wet")


def test_of_sorted_files_one_is_not_read_on_for_an_image_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dogs = [item(number, [("dog", ["wet"])], []) for number in range(1, 9)]
    said = {number: [region(dog, "a wet dog", [0])] for number, dog in enumerate(dogs, 1) if number != 2}
    said[9] = said[8]
    read_on: list[str] = []

    def noted(path: Path) -> Iterator[tuple[str, Any]]:
        for where, one in iter_json_items(path):
            read_on.append(f"{path.stem} {one['image_id']}")
            yield where, one

    monkeypatch.setattr(visual_genome_graphs, "iter_json_items", noted)
    rejects: list[Reject] = []
    found = iter_image_graphs(write(tmp_path, dogs, said), rejects.append, regions=True)
    assert [next(found).image_id for _ in range(2)] == ["1", "3"]
    assert read_on[-1] == "scene_graphs 3"
    assert {picture.image_id: len(picture.regions) for picture in found} == {
        **dict.fromkeys("45678", 1),
        "2": 0,
    }
    assert [(reject.reason, reject.text) for reject in rejects] == [(NO_SCENE, "9")]


Change = Callable[[list[Any], dict[int, list[Any]]], None]


def _no_number(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["image_id"] = "2"


def _object_twice(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["objects"] *= 2


def _no_name(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["objects"][0]["names"] = []


def _attributes_of_text(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["objects"][0]["attributes"] = "red"


def _attributes_of_a_number(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["objects"][0]["attributes"] = 5


def _emptied(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs[1]["objects"] = []


def _image_twice(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    graphs.append(graphs[0])


def _bare_region(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    regions[1] = [{**region(DOG, "a dog", [0]), "objects": []}]


def _broken_region(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    regions[1] = [{**region(DOG, "a dog", [0]), "phrase": None}]


def _region_of_no_image(graphs: list[Any], regions: dict[int, list[Any]]) -> None:
    regions[9] = [region(DOG, "a dog", [0])]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_no_number, BROKEN),
        (_object_twice, BROKEN),
        (_no_name, BROKEN),
        (_attributes_of_text, BROKEN),
        (_attributes_of_a_number, BROKEN),
        (_emptied, EMPTY),
        (_image_twice, TWICE),
        (_bare_region, BARE),
        (_broken_region, BROKEN),
        (_region_of_no_image, NO_SCENE),
    ],
)
def test_what_is_of_no_use_is_one_reject_and_the_rest_stays(
    change: Change, reason: str, tmp_path: Path
) -> None:
    graphs, regions = [DOG, item(2, [("cat", ["black"])], [])], dict[int, list[Any]]()
    folder = write(tmp_path, graphs, regions)
    change(graphs, regions)
    write_graphs(folder, graphs, regions)
    found, rejects = read(folder, regions=True)
    assert [reject.reason for reject in rejects] == [reason]
    assert found[0].image_id == "1"


def test_an_image_without_a_size_is_a_reject(tmp_path: Path) -> None:
    write(tmp_path, [DOG, item(2, [("cat", [])], [])], {})
    (tmp_path / "image_data.json").write_text(json.dumps([{"image_id": 1, "width": 9, "height": 9}]))
    found, rejects = read(tmp_path)
    assert ([p.image_id for p in found], [r.reason for r in rejects]) == (["1"], [UNKNOWN])


@pytest.mark.parametrize(
    "text", ["", "{}", "[1, 2", "[1 2]", '[{"a": 1}, {"a"', "[1,]", "\xff[]", "nonsense"]
)
def test_a_file_that_is_no_list_or_is_cut_off_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "scene_graphs.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"scene_graphs\.json"):
        list(iter_json_items(path))
    with pytest.raises(DataError, match="No such file"):
        list(iter_json_items(tmp_path / "gone.json"))


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_items_are_the_same_however_the_file_is_cut(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    values = [12, "é\n", {"a": [1.5, None]}, [], True, 7]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1), encoding="utf-8")
    assert [value for _, value in iter_json_items(path)] == values
    path.write_text(" [ ] ")
    assert list(iter_json_items(path)) == []


def test_numbers_texts_and_repeated_keys_are_read_as_pythons_json_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    text = '\ufeff[1, 1.0, 1e3, 12345678901234567890123, {"a": 1, "b": 2, "a": 3}, "\\u00e9", "\\ud83d"]'
    path.write_text(text, encoding="utf-8")
    values = [value for _, value in iter_json_items(path)]
    assert values == [1, 1.0, 1000.0, 12345678901234567890123, {"a": 3, "b": 2}, "\u00e9", "\ud83d"]
    assert [type(value) for value in values[:4]] == [int, float, float, int]


def test_half_a_surrogate_pair_is_a_reject(tmp_path: Path) -> None:
    dogs = [DOG, item(2, [("a \ud83d dog", [])], [])]
    found, rejects = read(write(tmp_path, dogs, {}))
    assert ([p.image_id for p in found], [r.reason for r in rejects]) == (["1"], [BROKEN])
    assert "surrogate" in rejects[0].text


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_an_error_that_costs_no_memory(opening: str, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[1, " + opening * 100_000)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"list\.json', item 1: .*recursion"):
        list(iter_json_items(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * path.stat().st_size


def test_an_item_that_does_not_end_is_an_error_before_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 1_000)
    monkeypatch.setattr(json_stream, "LONGEST", 10_000)
    path = tmp_path / "list.json"
    path.write_text('["' + "x" * 30_000_000)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"list\.json', item 0: not valid JSON"):
        list(iter_json_items(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_long_file_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"text": "x" * 1_000}] * 30_000))
    tracemalloc.start()
    count = sum(1 for _ in iter_json_items(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 30_000
    assert peak < path.stat().st_size / 4
