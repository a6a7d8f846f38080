"""Read scene graphs from Visual Genome's release, one image at a time.

    image_data.json      [{image_id, width, height, …}]
    scene_graphs.json    [{image_id, objects: [{object_id, names, x, y, w, h, attributes}], relationships:
                         [{subject_id, predicate, object_id}]}]
    region_graphs.json   [{image_id, regions: [{region_id, x, y, width, height, phrase, objects: [{object_id, name}],
                         relationships}]}]

An image or a region that cannot be used is a reject: the release has empty graphs, and refers to images and
objects that it does not describe.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from caramel.crepe.caption_template import find_word_spans
from caramel.crepe.json_stream import iter_json_items
from caramel.crepe.spelling import Corrector
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, Edge, Node, SceneGraph
from caramel.io.validators import (
    format_value,
    read_list_field,
    read_number_field,
    read_optional_text,
    read_text_field,
)

OnReject = Callable[[Reject], object]  # called with each reject
FILES = ("image_data.json", "scene_graphs.json", "region_graphs.json")
UNKNOWN = "image_data.json does not name the image"
TWICE = "the image stands twice in the file"
EMPTY = "the graph has no object"
BROKEN = "the graph is not as it should be"
NO_SCENE = "scene_graphs.json has no graph of the region's image"
BARE = "no object of the region is in the image's graph"


class Region(NamedTuple):
    """A described part of an image: its box, its description, and the part of the graph that it refers to."""

    box: Box
    phrase: str
    graph: SceneGraph


class ImageGraph(NamedTuple):
    """An image, its graph, and its regions if they were requested."""

    image_id: str
    width: int
    height: int
    graph: SceneGraph
    regions: tuple[Region, ...] = ()


def iter_image_graphs(
    folder: Path, reject: OnReject, *, regions: bool, correct: Corrector = str
) -> Iterator[ImageGraph]:
    """Yield the images of the release; images and regions that cannot be used go to ``reject``.

    Images are yielded in the order of ``scene_graphs.json``. Images that ``region_graphs.json`` has later, or
    not at all, are yielded at the end.

    Args:
        folder: folder with the files; ``region_graphs.json`` is read for regions alone.
        reject: called with each reject.
        regions: whether to read regions. The two files are read in parallel. What one file has before the
            other is held in memory, which is little if both are sorted, as they are in the release.
        correct: corrects the spelling of descriptions and of the graphs' words.

    Raises:
        DataError: a file is missing, or is not a JSON list.
    """
    sizes = _read_sizes(folder / FILES[0])
    waiting = _iter_by_image(folder / FILES[2], "regions") if regions else None
    early: dict[str, tuple[str, Any]] = {}
    late: dict[
        str, tuple[ImageGraph, dict[int, int]]
    ] = {}  # images that region_graphs.json lacks, if it is sorted
    last = 0  # last image read from region_graphs.json
    seen_ids: set[str] = set()
    for where, item in iter_json_items(folder / FILES[1]):
        try:
            image = read_number_field(item, "image_id", where)
            name = str(image)
            if name in seen_ids:
                reject(Reject(where, TWICE, name))
                continue
            seen_ids.add(name)
            if name not in sizes:
                reject(Reject(where, UNKNOWN, name))
                continue
            graph, node_indices = _parse_graph(item, where, correct)
        except DataError as error:
            reject(Reject(where, BROKEN, str(error)))
            continue
        if not graph.nodes:
            reject(Reject(where, EMPTY, name))
            continue
        image_graph = ImageGraph(name, *sizes[name], graph)
        while waiting and name not in early and last <= image and (other := next(waiting, None)):
            last = int(other[0])
            early.setdefault(other[0], other[1:])
        if waiting is None:
            yield image_graph
        elif name in early:
            yield _add_regions(image_graph, early.pop(name), node_indices, reject, correct)
        else:
            late[name] = image_graph, node_indices
    for name, *regional in itertools.chain(((n, *entry) for n, entry in early.items()), waiting or ()):
        if name in late:
            regions_of_image = (regional[0], regional[1])
            yield _add_regions(late[name][0], regions_of_image, late.pop(name)[1], reject, correct)
        elif name not in seen_ids:
            reject(Reject(regional[0], NO_SCENE, name))
    yield from (image_graph for image_graph, _ in late.values())


def _add_regions(
    image_graph: ImageGraph,
    regional: tuple[str, Any],
    node_indices: Mapping[int, int],
    reject: OnReject,
    correct: Corrector,
) -> ImageGraph:
    regions = _iter_regions(*regional, image_graph.graph, node_indices, reject, correct)
    return image_graph._replace(regions=tuple(regions))


def _read_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Return image -> (width, height) in pixels."""
    return {
        str(read_number_field(item, "image_id", where)): (
            read_number_field(item, "width", where),
            read_number_field(item, "height", where),
        )
        for where, item in iter_json_items(path)
    }


def _iter_by_image(path: Path, field: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (image, where, list in a field) of the items."""
    for where, item in iter_json_items(path):
        yield str(read_number_field(item, "image_id", where)), where, read_list_field(item, field, where)


def _parse_graph(item: Any, where: str, correct: Corrector) -> tuple[SceneGraph, dict[int, int]]:
    """Return the graph of an item, and object_id -> node; relations of unknown objects are left out.

    Raises:
        DataError: an object_id is duplicate, or a value has the wrong type.
    """
    nodes: list[Node] = []
    node_indices: dict[int, int] = {}
    for entry in read_list_field(item, "objects", where):
        number = read_number_field(entry, "object_id", where)
        if number in node_indices:
            raise DataError(f"{where}: duplicate object {number}.")
        names = read_list_field(entry, "names", where)
        text = read_text_field({"names": names[0] if names else ""}, "names", where)
        name = correct(_normalise_word(text))
        words = [] if entry.get("attributes") is None else read_list_field(entry, "attributes", where)
        texts = [read_optional_text({"": word}, "", where) or "" for word in words]
        x, y, w, h = (read_number_field(entry, field, where) for field in ("x", "y", "w", "h"))
        node_indices[number] = len(nodes)
        attributes = dict.fromkeys(word for text in texts if (word := correct(_normalise_word(text))))
        nodes.append(Node(name, tuple(attributes), (x, y, w, h)))
    return SceneGraph(tuple(nodes), _parse_edges(item, node_indices, where, correct)), node_indices


def _parse_edges(
    item: Any, node_indices: Mapping[int, int], where: str, correct: Corrector
) -> tuple[Edge, ...]:
    """Return the relations between known objects, without duplicates."""
    edges: dict[Edge, None] = {}
    for relation in read_list_field(item, "relationships", where):
        ends = [read_number_field(relation, field, where) for field in ("subject_id", "object_id")]
        name = correct(_normalise_word(read_optional_text(relation, "predicate", where) or ""))
        if name and ends[0] != ends[1] and all(end in node_indices for end in ends):
            edges[Edge(node_indices[ends[0]], name, node_indices[ends[1]])] = None
    return tuple(edges)


def _iter_regions(
    where: str,
    items: Any,
    whole: SceneGraph,
    node_indices: Mapping[int, int],
    reject: OnReject,
    correct: Corrector,
) -> Iterator[Region]:
    """Yield the regions of an image: their objects, the attributes of these in the phrase, and their relations."""
    for number, item in enumerate(items):
        spot = f"{where}, region {number}"
        try:
            phrase = correct(normalise_phrase(read_text_field(item, "phrase", spot)))
            x, y, w, h = (read_number_field(item, field, spot) for field in ("x", "y", "width", "height"))
            ids = dict.fromkeys(
                read_number_field(entry, "object_id", spot)
                for entry in read_list_field(item, "objects", spot)
            )
            known = {i: k for k, i in enumerate(i for i in ids if i in node_indices)}
            nodes = [whole.nodes[node_indices[i]] for i in known]
            region_nodes = tuple(
                Node(n.name, tuple(a for a in n.attributes if find_word_spans(phrase, a)), n.box)
                for n in nodes
            )
            graph = SceneGraph(region_nodes, _parse_edges(item, known, spot, correct))
        except DataError as error:
            reject(Reject(spot, BROKEN, str(error)))
            continue
        if graph.nodes:
            yield Region((x, y, w, h), phrase, graph)
        else:
            reject(Reject(spot, BARE, format_value(phrase)))


def iter_descriptions(folder: Path) -> Iterator[str]:
    """Yield the descriptions of all regions; what is no text is left out, as it is a reject when regions are read.

    Raises:
        DataError: ``region_graphs.json`` is missing, or is not a JSON list.
    """
    for _, _, items in _iter_by_image(folder / FILES[2], "regions"):
        for item in items:
            phrase = item.get("phrase") if isinstance(item, dict) else None
            if isinstance(phrase, str):
                yield normalise_phrase(phrase)


def normalise_phrase(text: str) -> str:
    """Return a text in one form of Unicode, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _normalise_word(text: str) -> str:
    return normalise_phrase(text.lower())
