"""Index the atoms and compounds of a training corpus: the definition of "seen" in CREPE (Ma et al. 2023, 3.2).

The corpus is read once and cut into shards. Each shard is parsed and counted separately, on all cores or on a
cluster. A finished shard is not processed again. The sorted counts of the shards are merged as a stream, so
memory depends on the size of a shard and not on the corpus.
"""

from __future__ import annotations

import heapq
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from caramel.errors import DataError
from caramel.interfaces.scene_graph import Atom, AtomType, Edge, Node, SceneGraph
from caramel.io.files import write_atomically
from caramel.io.readers import iter_csv_rows, iter_json_lines, iter_lines, iter_parquet_rows, open_parquet
from caramel.io.validators import format_value, read_optional_text
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.registry import GRAPH_PARSERS
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import map_shards

SHARD = 50_000  # captions per shard
PHRASES = "phrases"  # a parser that is fast enough for millions of captions
ROWS = 100_000  # rows of the index in memory at a time
OPEN = 256  # files that are merged at a time: systems allow 1,024 open files, some fewer
SCHEMA = pa.schema([("item", pa.string()), ("count", pa.int64())])
NAME, VOCABULARY = "index.parquet", "vocabulary.json"
# folders beside the index for the intermediate files of a run
FOLDERS = SHARDS, COUNTS = "captions", "counts"
MERGING = "merging-"  # prefix of the folder of sums, of a run that is merging or was killed then
SUFFIXES = (".txt", ".tsv", ".csv", ".jsonl", ".parquet")
_BETWEEN = "\x1f"  # separates the words of an item, which never contain it


def build_index(
    corpus: Path,
    atoms: Iterable[Atom],
    *,
    column: str,
    folder: Path,
    size: int = SHARD,
    parser: str = PHRASES,
) -> Path:
    """Write ``index.parquet``: each atom and compound of a corpus, and how many captions contain it, by name.

    Args:
        corpus: file of captions: .txt (one per line), .tsv, .csv, .jsonl or .parquet.
        atoms: words to search for: the words of the test set.
        column: name of the caption column; its number, from 1, in a .tsv without a header.
        folder: folder for the index, the shards of the corpus and their counts.
        size: captions per shard; several shards are parsed in parallel on all cores, or on the cluster at
            RAY_ADDRESS.
        parser: parser of the captions, NAME or NAME:TARGET of ``GRAPH_PARSERS``.

    Raises:
        BackendError: the parser is unknown or cannot be loaded.
        DataError: the corpus cannot be read, or has no captions.
    """
    known = sorted(set(atoms))
    shards = [LocalFile(str(path)) for path in _write_shards(corpus, column, folder / SHARDS, size)]
    if not shards:
        raise DataError(f"{str(corpus)!r} contains no captions in column {column!r}.")
    name, _, target = parser.partition(":")
    parser_spec = GRAPH_PARSERS[name]
    device = resolve_device("auto") if parser_spec.gpu else "cpu"
    vocabulary = folder / VOCABULARY
    write_atomically(vocabulary, lambda path: path.write_text(json.dumps(known), encoding="utf-8"))
    counted = map_shards(
        counts,
        shards,
        settings={
            "vocabulary": LocalFile(str(vocabulary)),
            "parser": _resolve_parser_spec(parser),
            "made_by": {"device": device, **parser_spec.versions(target)},
        },
        folder=folder / COUNTS,
        executor="ray" if len(shards) > 1 else "inline",
        title="corpus",
        gpus=get_gpus_per_worker(1.0, device) if parser_spec.gpu else 0.0,
    )
    out = folder / NAME
    write_atomically(out, lambda path: _merge_in_rounds(counted, path))
    return out


def counts(shard: str, *, vocabulary: str, parser: str, made_by: Mapping[str, str]) -> pa.Table:
    """Return (item, count) of the captions in a file, sorted by item; only items of words in the vocabulary.

    ``made_by``: device and versions of packages; it distinguishes counts that were computed differently.
    """
    known = _read_vocabulary(Path(vocabulary))
    name, _, target = parser.partition(":")
    parse = GRAPH_PARSERS[name].load(target, known)
    item_counts: Counter[str] = Counter()
    with open_parquet(Path(shard), ["caption"]) as file:  # read_table takes a folder such as "a:b" for a URL
        texts = file.read(["caption"])["caption"]
    if texts.type != pa.string() or texts.null_count:
        raise DataError(
            f"{shard!r} is not a shard of captions: column 'caption' has type {texts.type} and "
            f"{texts.null_count} empty cells; it must contain texts only. Remove its folder and rerun "
            f"`caramel crepe index`."
        )
    for graph in parse(texts.to_pylist()):
        item_counts.update(list_items(_filter_graph(graph, known)))
    names = sorted(item_counts)
    return pa.table(
        [pa.array(names, pa.string()), pa.array([item_counts[n] for n in names], pa.int64())], schema=SCHEMA
    )


def _filter_graph(graph: SceneGraph, known: frozenset[Atom]) -> SceneGraph:
    """Return the part of a graph that has known words alone."""
    node_indices = [i for i, node in enumerate(graph.nodes) if ("obj", node.name) in known]
    nodes = (
        Node(graph.nodes[i].name, tuple(w for w in graph.nodes[i].attributes if ("att", w) in known))
        for i in node_indices
    )
    edges = (
        Edge(node_indices.index(e.subject), e.name, node_indices.index(e.object))
        for e in graph.edges
        if ("rel", e.name) in known and e.subject in node_indices and e.object in node_indices
    )
    return SceneGraph(tuple(nodes), tuple(edges))


def _resolve_parser_spec(parser: str) -> str | LocalFile:
    """Return a parser's spec; a folder in it is identified by its content and copied to other machines."""
    name, _, target = parser.partition(":")
    return LocalFile(target, before=f"{name}:") if target and Path(target).exists() else parser


def _read_vocabulary(path: Path) -> frozenset[Atom]:
    try:
        return frozenset(
            (atom_type, word) for atom_type, word in json.loads(path.read_text(encoding="utf-8"))
        )
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{str(path)!r} is not a vocabulary of `caramel crepe index`: {error}.") from error


def list_items(graph: SceneGraph) -> list[str]:
    """Return the names of a graph's atoms and compounds, as they are written in an index."""
    return [_BETWEEN.join(item) for item in (*graph.list_atoms(), *graph.list_compounds())]


def count_seen_items(index: Path, graphs: Iterable[SceneGraph]) -> dict[str, int]:
    """Return in how many captions each item of some graphs occurs; items that are not in the index are left out.

    Raises:
        DataError: the index was built without searching for a word of the graphs.
    """
    items: set[str] = set()
    atoms: set[Atom] = set()
    for graph in graphs:
        items.update(list_items(graph))
        atoms |= graph.list_atoms()
    if unknown := sorted(atoms - _read_vocabulary(index.with_name(VOCABULARY))):
        atom_type, word = unknown[0]
        raise DataError(
            f"{str(index)!r} was built for other graphs: {word!r} ({atom_type}) and {len(unknown) - 1} more "
            f"words of these were not searched for. Run `caramel crepe index` with the same --graphs."
        )
    wanted = pa.array(sorted(items), pa.string())
    item_counts: dict[str, int] = {}
    with open_parquet(index, SCHEMA.names) as file:
        for batch in file.iter_batches(ROWS):
            rows = batch.filter(pc.is_in(batch["item"], wanted))
            item_counts.update(zip(rows["item"].to_pylist(), rows["count"].to_pylist(), strict=True))
    return item_counts


def split_item(item: str) -> tuple[str, ...]:
    """Return the atom (type and word) or the compound (its words) of an item's name."""
    return tuple(item.split(_BETWEEN))


def read_seen_atoms(index: Path) -> frozenset[Atom]:
    """Return the atoms that the corpus of an index contains."""
    atom_types = get_args(AtomType)
    atoms: set[Atom] = set()
    with open_parquet(index, SCHEMA.names) as file:
        for batch in file.iter_batches(ROWS):
            items = (item.split(_BETWEEN) for item in batch["item"].to_pylist())
            atoms |= {(parts[0], parts[1]) for parts in items if len(parts) == 2 and parts[0] in atom_types}
    return frozenset(atoms)


def assign_split(graph: SceneGraph, known: Mapping[str, int]) -> str:
    """Return ``sc`` if all compounds are known, ``uc`` if only all atoms are, ``ua`` if an atom is unknown."""
    if any(_BETWEEN.join(atom) not in known for atom in graph.list_atoms()):
        return "ua"
    return "sc" if all(_BETWEEN.join(compound) in known for compound in graph.list_compounds()) else "uc"


def _write_shards(corpus: Path, column: str, folder: Path, size: int) -> Iterator[Path]:
    """Write the captions of a corpus as shards, and yield the shards' files."""
    rows = _iter_captions(corpus, column)
    for number in itertools.count():
        part = list(itertools.islice(rows, size))
        if not part:
            return
        path = folder / f"{number:05}.parquet"
        table = pa.table({"caption": pa.array(part, pa.string())})
        write_atomically(path, lambda temporary, table=table: pq.write_table(table, temporary))  # type: ignore[misc]
        yield path


def _iter_captions(path: Path, column: str) -> Iterator[str]:
    """Yield the captions of a corpus; empty ones are left out.

    Raises:
        DataError: the file is not a file of captions, or a caption is not text: as in ``optional_text``.
    """
    if path.suffix not in SUFFIXES or not path.is_file():
        raise DataError(f"{str(path)!r} must be a file of captions: {', '.join(SUFFIXES)}.")
    if path.suffix == ".txt":
        yield from (line.strip() for line in iter_lines(path) if line.strip())
        return
    if path.suffix == ".tsv":
        yield from _iter_tsv_captions(path, column)
        return
    rows = (
        iter_json_lines(path)
        if path.suffix == ".jsonl"
        else iter_csv_rows(path, [column])
        if path.suffix == ".csv"
        else iter_parquet_rows(path, [column])
    )
    for where, row in rows:
        if not isinstance(row, dict) or column not in row:
            raise DataError(f"{where} has no field {column!r}.")
        text = read_optional_text(row, column, where)
        if text is not None and text.strip():
            yield text


def _iter_tsv_captions(path: Path, column: str) -> Iterator[str]:
    """Yield the captions of a tab-separated file, as CC3M, CC12M and YFCC15M are published: without quotes.

    Raises:
        DataError: no line, or the first one has no such column, or a later line has too few fields.
    """
    lines = iter_lines(path)
    number = int(column) - 1 if column.isdecimal() else None
    if number is None:
        header = next(iter(lines), "").rstrip("\r\n").split("\t")
        if column not in header:
            raise DataError(
                f"{str(path)!r} has no column {column!r} in its first line, but {format_value(header)}. Without a "
                f"header, as in CC12M, name the column by its number from 1."
            )
        number = header.index(column)
    for line_number, line in enumerate(lines, 1 if column.isdecimal() else 2):
        fields = line.rstrip("\r\n").split("\t")
        if not 0 <= number < len(fields):
            raise DataError(
                f"{str(path)!r}, line {line_number} has {len(fields)} fields: no column {column!r}."
            )
        if fields[number].strip():
            yield fields[number].strip()


def _merge_in_rounds(parts: Sequence[Path], out: Path) -> None:
    """Write the sums of sorted parts as ``_merge_counts`` does, with at most ``OPEN`` parts open at a time.

    Sums of groups wait in a folder beside ``out``, which is removed; so is one that a killed run left.
    """
    for left in out.parent.glob(f"{MERGING}*"):
        shutil.rmtree(left)
    with TemporaryDirectory(prefix=MERGING, dir=out.parent) as folder:
        for turn in itertools.count():
            if len(parts) <= OPEN:
                break
            groups = [parts[i : i + OPEN] for i in range(0, len(parts), OPEN)]
            parts = [Path(folder, f"{turn}_{number}.parquet") for number in range(len(groups))]
            for group, path in zip(groups, parts, strict=True):
                _merge_counts(group, path)
        _merge_counts(parts, out)


def _merge_counts(parts: Sequence[Path], out: Path) -> None:
    """Write the sums of sorted parts in sorted order; only one batch of each part is in memory."""
    ordered = heapq.merge(*(_iter_rows(path) for path in parts))
    sums = (
        (item, sum(count for _, count in same))
        for item, same in itertools.groupby(ordered, lambda row: row[0])
    )
    with pq.ParquetWriter(out, SCHEMA) as writer:
        while part := list(itertools.islice(sums, ROWS)):
            items, totals = zip(*part, strict=True)
            writer.write_table(pa.table([pa.array(items), pa.array(totals)], schema=SCHEMA))


def _iter_rows(path: Path) -> Iterator[tuple[str, int]]:
    with open_parquet(path, SCHEMA.names) as file:
        for batch in file.iter_batches(max(1_000, ROWS // 100)):
            yield from zip(batch["item"].to_pylist(), batch["count"].to_pylist(), strict=True)
