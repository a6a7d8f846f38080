"""What a corpus has seen is counted in shards, and splits follow from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.crepe import corpus_index
from caramel.crepe.corpus_index import (
    SHARDS,
    VOCABULARY,
    assign_split,
    build_index,
    count_seen_items,
    counts,
    list_items,
)
from caramel.crepe.parsers.phrase_parser import build_phrase_parser
from caramel.errors import BackendError, DataError
from caramel.interfaces.scene_graph import Atom, Edge, GraphParser, GraphParserSpec, Node, SceneGraph

ATOMS: frozenset[Atom] = frozenset(
    [
        *(("obj", word) for word in ("dog", "grass", "fire hydrant", "glass", "orange")),
        *(("att", word) for word in ("black", "wet", "orange", "glass")),
        *(("rel", word) for word in ("on", "on top of", "next to")),
    ]
)
DOG_ON_GRASS = SceneGraph((Node("dog", ("black", "wet")), Node("grass")), (Edge(0, "on", 1),))


@pytest.mark.parametrize(
    ("text", "graph"),
    [
        ("A black, wet dog is on the grass.", DOG_ON_GRASS),
        ("Two dogs", SceneGraph((Node("dog"),))),
        ("black cat, dog on grass", SceneGraph((Node("dog"), Node("grass")), (Edge(0, "on", 1),))),
        (
            "dog on top of an orange fire hydrant",
            SceneGraph((Node("dog"), Node("fire hydrant", ("orange",))), (Edge(0, "on top of", 1),)),
        ),
        ("a dog beside a mat on grass", SceneGraph((Node("dog"), Node("grass")))),
        ("an orange next to a glass", SceneGraph((Node("orange"), Node("glass")), (Edge(0, "next to", 1),))),
        ("Το σκυλί 🐕", SceneGraph(())),
        ("", SceneGraph(())),
        ("dog", SceneGraph((Node("dog"),))),
        ("word " * 500 + "a wet dog", SceneGraph((Node("dog", ("wet",)),))),
    ],
)
def test_phrases_are_read_by_the_words_that_are_looked_for(text: str, graph: SceneGraph) -> None:
    assert build_phrase_parser("", ATOMS)([text]) == [graph]


def test_a_phrase_is_read_in_one_normal_form() -> None:
    (graph,) = build_phrase_parser("", frozenset({("obj", "cafe\u0301")}))(["a caf\u00e9"])
    (other,) = build_phrase_parser("", frozenset({("obj", "caf\u00e9")}))(["a cafe\u0301"])
    assert graph == SceneGraph((Node("cafe\u0301"),))
    assert other == SceneGraph((Node("caf\u00e9"),))


def test_a_word_with_vowel_signs_is_one_word_and_no_other_of_the_same_letters() -> None:
    parser = build_phrase_parser("", frozenset({("obj", "लड़का")}))
    assert parser(["एक लड़का", "एक लड़की"]) == [SceneGraph((Node("लड़का"),)), SceneGraph(())]


def test_a_plural_that_is_a_word_itself_is_that_word_and_any_other_is_its_singular() -> None:
    known: set[Atom] = {("obj", word) for word in ("dog", "tree", "trees", "y")}
    (graph,) = build_phrase_parser("", frozenset(known))(["two dogs by the trees and a tree"])
    assert [node.name for node in graph.nodes] == ["dog", "trees", "tree"]


CAPTIONS = ["a black dog", "a dog on grass", "wet grass", "nothing of note", "a black dog on grass", "glass"]


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".jsonl", ".parquet"])
def test_the_counts_are_those_of_all_captions_however_they_are_cut_and_kept(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = build_phrase_parser("", ATOMS)
    wanted = Counter(item for graph in parser(CAPTIONS) for item in list_items(graph))
    corpus = tmp_path / f"corpus{suffix}"
    frame = pd.DataFrame({"caption": CAPTIONS})
    if suffix == ".txt":
        corpus.write_text("\n".join(CAPTIONS))
    elif suffix == ".jsonl":
        corpus.write_text("\n".join(json.dumps({"caption": text}) for text in CAPTIONS))
    else:
        (frame.to_csv if suffix == ".csv" else frame.to_parquet)(corpus, index=False)
    calls: list[str] = []

    def inline(work: object, parts: list[object], **settings: object) -> list[Path]:
        calls.append(str(settings["executor"]))
        return real(work, parts, **(settings | {"executor": "inline"}))  # type: ignore[arg-type]

    real = corpus_index.map_shards
    monkeypatch.setattr(corpus_index, "map_shards", inline)
    monkeypatch.chdir(tmp_path)  # below it the folder's name may look like a URL
    for size in (2, 100):
        index = build_index(corpus, ATOMS, column="caption", folder=Path(f"a:{size}"), size=size)
        found = pd.read_parquet(index)
        assert dict(zip(found["item"], found["count"], strict=True)) == wanted
        assert found["item"].is_monotonic_increasing
    assert calls == ["ray", "inline"]


def test_counts_of_any_number_of_shards_are_merged_with_few_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, most = set[Path](), []

    def open_counted(path: Path) -> Iterator[tuple[str, int]]:
        opened.add(path)
        most.append(len(opened))
        yield from read_rows(path)
        opened.remove(path)

    read_rows = corpus_index._iter_rows
    monkeypatch.setattr(corpus_index, "_iter_rows", open_counted)
    monkeypatch.setattr(corpus_index, "OPEN", 3)
    parts, wanted = [], Counter[str]()
    for number in range(20):  # three rounds: 20 files, 7, 3
        counts = {"every": 1, f"own {number:02}": number + 1, f"third {number % 3}": 2}
        wanted.update(counts)
        parts.append(tmp_path / f"{number}.parquet")
        pd.DataFrame({"item": list(counts), "count": list(counts.values())}).to_parquet(
            parts[-1], index=False
        )
    out = tmp_path / "out"
    (out / "merging-of-a-killed-run").mkdir(parents=True)
    (out / "merging-of-a-killed-run" / "0_0.parquet").write_text("cut off")
    corpus_index._merge_in_rounds(parts, out / "index.parquet")
    rows = pd.read_parquet(out / "index.parquet")
    assert dict(zip(rows["item"], rows["count"], strict=True)) == wanted
    assert rows["item"].is_monotonic_increasing
    assert max(most) == 3
    assert [path.name for path in out.iterdir()] == ["index.parquet"]


def test_of_what_another_parser_finds_words_that_are_looked_for_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\ntwo")
    said = SceneGraph(
        (Node("cat"), Node("dog", ("old", "wet")), Node("grass")),
        (Edge(1, "on", 2), Edge(1, "near", 2), Edge(0, "on", 2)),
    )
    made = GraphParserSpec("made", lambda target, atoms: lambda texts: [said] * len(texts), lambda target: {})
    monkeypatch.setattr(corpus_index, "GRAPH_PARSERS", {"made": made})
    found = pd.read_parquet(build_index(corpus, ATOMS, column="", folder=tmp_path, parser="made"))
    known = SceneGraph((Node("dog", ("wet",)), Node("grass")), (Edge(0, "on", 1),))
    assert dict(zip(found["item"], found["count"], strict=True)) == dict.fromkeys(list_items(known), 2)
    monkeypatch.undo()
    with pytest.raises(BackendError, match="Did you mean 'phrases'"):
        build_index(corpus, ATOMS, column="", folder=tmp_path, parser="phrase")


def test_another_version_of_a_parser_counts_again_and_one_for_gpus_asks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a dog")
    versions, read, asked = {"model": "1"}, [], []

    def load(target: str, atoms: frozenset[Atom]) -> GraphParser:
        read.append(target)
        return build_phrase_parser("", atoms)

    def looked_at(*arguments: object, **settings: object) -> list[Path]:
        asked.append(settings["gpus"])
        return real(*arguments, **settings)  # type: ignore[arg-type]

    real = corpus_index.map_shards
    monkeypatch.setattr(corpus_index, "map_shards", looked_at)
    monkeypatch.setattr(corpus_index, "resolve_device", lambda device: "cuda")
    for gpu in (False, True):
        kind = GraphParserSpec("made", load, lambda target: dict(versions), gpu)
        monkeypatch.setattr(corpus_index, "GRAPH_PARSERS", {"made": kind})
        for versions["model"] in ("1", "1", "2"):
            build_index(corpus, ATOMS, column="", folder=tmp_path, parser="made:m")
    assert read == ["m"] * 4
    assert asked == [0.0] * 3 + [1.0] * 3


def test_a_caption_is_of_seen_compounds_of_unseen_ones_or_of_unseen_atoms(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CAPTIONS))
    index = build_index(corpus, ATOMS, column="", folder=tmp_path)
    graphs = {
        "sc": SceneGraph((Node("dog", ("black",)), Node("grass", ("wet",))), (Edge(0, "on", 1),)),
        "uc": DOG_ON_GRASS,
        "ua": SceneGraph((Node("fire hydrant"),)),
    }
    with pytest.raises(DataError, match=r"'cat' \(obj\) and 0 more words"):
        count_seen_items(index, [*graphs.values(), SceneGraph((Node("cat"),))])
    known = count_seen_items(index, graphs.values())
    assert {split: assign_split(graph, known) for split, graph in graphs.items()} == {s: s for s in graphs}
    assert known["\x1f".join(("black", "dog"))] == 2


@pytest.mark.parametrize(("caption", "value"), [(5, "5"), (["a dog"], r"\['a dog'\]"), (True, "True")])
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_caption_that_is_no_text_is_an_error_that_names_its_row(
    caption: object, value: str, suffix: str, tmp_path: Path
) -> None:
    corpus = tmp_path / f"corpus{suffix}"
    if suffix == ".jsonl":
        corpus.write_text(
            "".join(f"{json.dumps({'caption': text})}\n" for text in ("a dog", None, "", caption))
        )
    else:
        pq.write_table(pa.table({"caption": [None, caption]}), corpus)
    with pytest.raises(DataError, match=rf"corpus.*: field 'caption' must be text, not {value}"):
        build_index(corpus, ATOMS, column="caption", folder=tmp_path / "out")


@pytest.mark.parametrize("captions", [[1, 2], ["a dog", None], [["a dog"]]])
def test_a_shard_that_holds_anything_but_texts_is_an_error_that_names_it(
    captions: list[object], tmp_path: Path
) -> None:
    build_index(_text(tmp_path, "a dog"), ATOMS, column="caption", folder=tmp_path)
    shard, vocabulary = tmp_path / SHARDS / "00000.parquet", tmp_path / VOCABULARY
    pq.write_table(pa.table({"caption": captions}), shard)
    with pytest.raises(
        DataError, match=r"00000\.parquet' is not a shard of captions: column 'caption' has type"
    ):
        counts(str(shard), vocabulary=str(vocabulary), parser="phrases", made_by={})


def _text(folder: Path, *captions: str) -> Path:
    path = folder / "corpus.txt"
    path.write_text("\n".join(captions))
    return path


def test_a_corpus_of_no_captions_or_of_another_form_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("caption\n")
    several = tmp_path / "several.jsonl"
    several.write_text('{"caption": "a dog"}\n{"caption": ["a dog", "a cat"]}\n')
    for path, said in (
        (empty, "contains no captions"),
        (tmp_path / "c.xml", "must be a file of captions"),
        (several, r"line 2: field 'caption' must be text, not \['a dog', 'a cat'\]"),
    ):
        with pytest.raises(DataError, match=said):
            build_index(path, ATOMS, column="caption", folder=tmp_path / "out")


@pytest.mark.parametrize("column", ["1", "caption"])
def test_a_tab_separated_corpus_is_read_with_and_without_a_header(column: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    header = "" if column == "1" else "caption\turl\n"
    corpus.write_text(f'{header}a "wet dog" on grass\thttps://x\n\thttps://y\nblack dog\thttps://z\n')
    path = build_index(corpus, ATOMS, column=column, folder=tmp_path / "index")
    rows = pd.read_parquet(path).set_index("item")["count"]
    assert rows["obj\x1fdog"] == 2
    assert rows["wet\x1fdog"] == 1


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("text", "caption\turl\na dog\tx\n", "no column 'text' in its first line, but"),
        ("2", "a dog\thttps://x\na dog\n", "line 2 has 1 fields: no column '2'"),
        ("caption", "caption\turl\n\n", "contains no captions"),
        ("0", "a dog\n", "no column '0'"),
    ],
)
def test_a_tab_separated_corpus_without_the_column_is_an_error(
    column: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "corpus.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        build_index(tmp_path / "corpus.tsv", ATOMS, column=column, folder=tmp_path / "index")
