"""Scene graphs out of Visual Genome's release, read one image at a time.

    image_data.json      [{image_id, width, height, …}]
    scene_graphs.json    [{image_id, objects: [{object_id, names, x, y, w, h, attributes}], relationships:
                         [{subject_id, predicate, object_id}]}]
    region_graphs.json   [{image_id, regions: [{region_id, x, y, width, height, phrase, objects: [{object_id, name}],
                         relationships}]}]

An image or a region that is of no use is a reject: the release has empty graphs, and names images and objects that it
does not describe.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from caramel.crepe.caption_template import named
from caramel.crepe.json_stream import json_items
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, Edge, Node, SceneGraph
from caramel.io.validators import brief, list_field, number_field, optional_text, text_field

OnReject = Callable[[Reject], object]  # is called with each reject
FILES = ("image_data.json", "scene_graphs.json", "region_graphs.json")
UNKNOWN = "image_data.json does not name the image"
TWICE = "the image stands twice in the file"
EMPTY = "the graph has no object"
BROKEN = "the graph is not as it should be"
NO_SCENE = "scene_graphs.json has no graph of the region's image"
BARE = "no object of the region is in the image's graph"


class Region(NamedTuple):
    """A described part of a picture: its box, what was written of it, and what of the graph it names."""

    box: Box
    phrase: str
    graph: SceneGraph


class Picture(NamedTuple):
    """A picture, its graph, and its regions, where they are asked for."""

    image_id: str
    width: int
    height: int
    graph: SceneGraph
    regions: tuple[Region, ...] = ()


def pictures(folder: Path, reject: OnReject, *, regions: bool) -> Iterator[Picture]:
    """Yield the pictures of the release; what is of no use goes to ``reject``.

    They come in the order of ``scene_graphs.json``, and those at the end that ``region_graphs.json`` has later, or not.

    Args:
        folder: with the files; ``region_graphs.json`` is read for regions alone.
        reject: is called with each.
        regions: whether regions are wanted. The two files are read side by side; what one has before the other is
            held until the other comes to it, which is little where both are sorted, as they are released.

    Raises:
        DataError: a file is missing, or no JSON list.
    """
    sizes = _sizes(folder / FILES[0])
    waiting = _by_image(folder / FILES[2], "regions") if regions else None
    early: dict[str, tuple[str, Any]] = {}
    late: dict[
        str, tuple[Picture, dict[int, int]]
    ] = {}  # what region_graphs.json, if it is sorted, does not have
    last = 0  # image that was read of it
    seen: set[str] = set()
    for where, item in json_items(folder / FILES[1]):
        try:
            image = number_field(item, "image_id", where)
            name = str(image)
            if name in seen:
                reject(Reject(where, TWICE, name))
                continue
            seen.add(name)
            if name not in sizes:
                reject(Reject(where, UNKNOWN, name))
                continue
            graph, places = _graph(item, where)
        except DataError as error:
            reject(Reject(where, BROKEN, str(error)))
            continue
        if not graph.nodes:
            reject(Reject(where, EMPTY, name))
            continue
        shown = Picture(name, *sizes[name], graph)
        while waiting and name not in early and last <= image and (other := next(waiting, None)):
            last = int(other[0])
            early.setdefault(other[0], other[1:])
        if waiting is None:
            yield shown
        elif name in early:
            yield _described(shown, early.pop(name), places, reject)
        else:
            late[name] = shown, places
    for name, *regional in itertools.chain(((n, *found) for n, found in early.items()), waiting or ()):
        if name in late:
            yield _described(late[name][0], (regional[0], regional[1]), late.pop(name)[1], reject)
        elif name not in seen:
            reject(Reject(regional[0], NO_SCENE, name))
    yield from (shown for shown, _ in late.values())


def _described(
    shown: Picture, regional: tuple[str, Any], places: Mapping[int, int], reject: OnReject
) -> Picture:
    return shown._replace(regions=tuple(_regions(*regional, shown.graph, places, reject)))


def _sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Return image -> (width, height) in pixels."""
    return {
        str(number_field(item, "image_id", where)): (
            number_field(item, "width", where),
            number_field(item, "height", where),
        )
        for where, item in json_items(path)
    }


def _by_image(path: Path, field: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (image, where, list of a field) of the items."""
    for where, item in json_items(path):
        yield str(number_field(item, "image_id", where)), where, list_field(item, field, where)


def _graph(item: Any, where: str) -> tuple[SceneGraph, dict[int, int]]:
    """Return the graph of an item, and object_id -> node; a relation of an object that is not there is left out.

    Raises:
        DataError: an object stands twice, or something is not of its type.
    """
    nodes: list[Node] = []
    places: dict[int, int] = {}
    for thing in list_field(item, "objects", where):
        number = number_field(thing, "object_id", where)
        if number in places:
            raise DataError(f"{where}: object {number} stands twice.")
        names = list_field(thing, "names", where)
        name = _word(text_field({"names": names[0] if names else ""}, "names", where))
        words = [] if thing.get("attributes") is None else list_field(thing, "attributes", where)
        said = [optional_text({"": word}, "", where) or "" for word in words]
        x, y, w, h = (number_field(thing, field, where) for field in ("x", "y", "w", "h"))
        places[number] = len(nodes)
        attributes = dict.fromkeys(word for text in said if (word := _word(text)))
        nodes.append(Node(name, tuple(attributes), (x, y, w, h)))
    return SceneGraph(tuple(nodes), _edges(item, places, where)), places


def _edges(item: Any, places: Mapping[int, int], where: str) -> tuple[Edge, ...]:
    """Return the relations between known objects, each once."""
    found: dict[Edge, None] = {}
    for relation in list_field(item, "relationships", where):
        ends = [number_field(relation, field, where) for field in ("subject_id", "object_id")]
        name = _word(optional_text(relation, "predicate", where) or "")
        if name and ends[0] != ends[1] and all(end in places for end in ends):
            found[Edge(places[ends[0]], name, places[ends[1]])] = None
    return tuple(found)


def _regions(
    where: str, items: Any, whole: SceneGraph, places: Mapping[int, int], reject: OnReject
) -> Iterator[Region]:
    """Yield the regions of an image: their objects, the attributes of these that the phrase says, and their relations."""
    for number, item in enumerate(items):
        spot = f"{where}, region {number}"
        try:
            phrase = " ".join(unicodedata.normalize("NFC", text_field(item, "phrase", spot)).split())
            x, y, w, h = (number_field(item, field, spot) for field in ("x", "y", "width", "height"))
            ids = dict.fromkeys(
                number_field(thing, "object_id", spot) for thing in list_field(item, "objects", spot)
            )
            known = {i: k for k, i in enumerate(i for i in ids if i in places)}
            nodes = [whole.nodes[places[i]] for i in known]
            said = tuple(
                Node(n.name, tuple(a for a in n.attributes if named(phrase, a)), n.box) for n in nodes
            )
            graph = SceneGraph(said, _edges(item, known, spot))
        except DataError as error:
            reject(Reject(spot, BROKEN, str(error)))
            continue
        if graph.nodes:
            yield Region((x, y, w, h), phrase, graph)
        else:
            reject(Reject(spot, BARE, brief(phrase)))


def _word(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text.lower()).split())
