"""`caramel crepe` makes CREPE's sets of Visual Genome's files and a corpus, and the benchmarks' readers read them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer
from commands import call_command
from crepe_releases import COLOURS, NOUNS, build_pictures
from obliging_writer import obliging
from small_visual_genome import item, region, wordnet, write

from caramel import cli
from caramel.benchmarks.crepe_files import read_regions
from caramel.config.fields import MOST_CONNECTIONS
from caramel.io.files import compute_file_hash
from caramel.registry import BENCHMARKS

Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            cli.main(["crepe", *map(str, arguments)])
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out + said.err

    return run


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    """Six pictures of animals, whose regions say "a red dog", and one that is of no use."""
    items = build_pictures()
    said = {i: [region(items[i - 1], f"a {COLOURS[i % 4]} {noun}", [0])] for i, noun in enumerate(NOUNS, 1)}
    return write(tmp_path / "vg", [*items, item(7, [], [])], said)


def test_systematicity_is_split_by_the_corpus_and_read_back(call: Call, graphs: Path, tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.txt", tmp_path / "crepe_systematicity"
    corpus.write_text("a blue dog\na cat that is green\na green cow\na black cat")
    code, said = call("index", corpus, "--graphs", graphs, "--out", tmp_path / "index")
    assert (code, said) == (0, f"Looked for 10 words. Written to {tmp_path / 'index' / 'index.parquet'}.\n")
    made = [
        "--graphs",
        graphs,
        "--words",
        "lists",
        "--index",
        tmp_path / "index",
        "--name",
        "mine",
        "--out",
        out,
    ]
    code, said = call("systematicity", *made)
    assert code == 0, said
    splits = {"seen_compounds": ["a blue dog"], "unseen_compounds": ["a green cat", "a black cow"]}
    splits["unseen_atoms"] = ["a red horse", "a blue sheep", "a green zebra"]
    for split, captions in splits.items():
        rows = read_regions(
            out / f"syst_vg_hard_negs_{split}_in_mine.csv", {"comp": "valid_hard_negs_comp"}
        ).regions
        assert [row.caption for row in rows] == captions
        assert all(len(set(row.negatives["comp"])) == 6 for row in rows)
    task = BENCHMARKS["crepe_systematicity"].load_rows(out, tmp_path)
    assert {s for subsets in task.rows["subsets"] for s in subsets} == {
        f"mine/{split}/{kind}" for split in ("sc", "uc", "ua") for kind in ("atom", "comp", "both")
    }
    assert task.rejects == ()
    assert pd.read_csv(out / "rejects.csv")["reason"].tolist() == ["the graph has no object"]
    assert "         1  left out: the graph has no object" in said


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "a b"])
def test_a_name_that_would_be_a_path_is_refused_before_anything_is_read(name: str, tmp_path: Path) -> None:
    options = ["--graphs", tmp_path, "--index", tmp_path, "--words", "lists", "--out", tmp_path / "out"]
    done = call_command(tmp_path, "crepe", "systematicity", *options, "--name", name)
    assert done.returncode == 1
    assert f"--name {name!r} must consist of letters, digits, - and _" in done.stderr
    assert not list(tmp_path.iterdir())


def test_productivity_has_five_negatives_a_type_and_is_read_back(
    call: Call, graphs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "crepe_productivity"
    code, said = call("productivity", "--graphs", graphs, "--words", "lists", "--out", out, "--walks", 2)
    assert code == 0, said
    files = sorted(out.rglob("prod_*.csv"))
    assert {path.parent.name for path in files} == {"atom", "swap", "negate"}
    for path in files:
        for row in read_regions(path, {"": "hard_negs"}).regions:
            assert len({row.caption, *row.negatives[""]}) == 6
    task = BENCHMARKS["crepe_productivity"].load_rows(out, tmp_path)
    assert {"atom/n7", "swap/n8", "negate/n6", "all_types/n7"} <= {
        s for row in task.rows["subsets"] for s in row
    }
    again = tmp_path / "again"
    call("productivity", "--graphs", graphs, "--words", "lists", "--out", again, "--walks", 2)
    assert [path.read_bytes() for path in files] == [
        path.read_bytes() for path in sorted(again.rglob("prod_*.csv"))
    ]


def test_a_language_model_writes_captions_of_more_than_four_atoms(
    call: Call, graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    made = ["--graphs", graphs, "--words", "lists", "--walks", 1, "--per-complexity", 3]
    made += ["--out", tmp_path / "set", "--writer", f"chat:m@{server.url}"]
    code, said = call("productivity", *made)
    assert (code, "such as roberta-large-mnli, or 'none' for no check" in said) == (1, True)
    assert not server.requests
    code, said = call("productivity", *made, "--entailment", "none")
    server.close()
    assert code == 0, said
    files = {path.stem.rpartition("_")[2]: path for path in (tmp_path / "set" / "atom").iterdir()}
    for n, path in files.items():
        for row in read_regions(path, {"": "hard_negs"}).regions:
            assert row.caption.startswith("There is") == (int(n) > 4), row.caption
    assert {"4", "7"} <= set(files)
    assert (tmp_path / "work" / "replies" / "replies.sqlite").is_file()


def test_nothing_is_written_over_what_is_read(call: Call, graphs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(graphs.parent)
    corpus = tmp_path / "link" / "index.parquet"
    pd.DataFrame({"caption": ["a dog"]}).to_parquet(corpus)
    words = tmp_path / "crepe"
    wordnet(words)
    of_words = ["--graphs", graphs, "--words", f"wordnet:{words}"]
    of_index = [*of_words, "--index", tmp_path, "--name", "mine"]
    before = compute_file_hash(tmp_path)
    for arguments in (
        ["index", corpus, "--graphs", graphs, "--out", tmp_path],
        ["systematicity", *of_index, "--out", words],
        ["productivity", *of_words, "--out", words],
    ):
        code, said = call(*arguments)
        assert (code, "inputs are never overwritten" in said) == (1, True), said
    assert compute_file_hash(tmp_path) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--words", "wordnet:nowhere"], "'nowhere' is no folder: give the folder dict of WordNet"),
        (["--words", "world"], "Unknown thesaurus backend 'world'"),
        (["--words", "lists:mine"], "'mine' is given: write lists"),
        (
            ["--words", "lists", "--min-area", 10**6],
            "No caption with hard negatives is left: see the rejects for the reasons",
        ),
    ],
)
def test_what_makes_no_set_is_one_error(
    more: list[object], said: str, call: Call, graphs: Path, tmp_path: Path
) -> None:
    code, told = call("productivity", "--graphs", graphs, "--out", tmp_path / "out", *more)
    assert (code, told.count("Error")) == (1, 1)
    assert said in told


@pytest.mark.parametrize("number", ["0", str(MOST_CONNECTIONS + 1), "-1", "2.5", "many", ""])
def test_a_number_of_connections_out_of_the_range_of_the_params_is_an_error(number: str, call: Call) -> None:
    code, said = call("productivity", "--max-connections", number)
    assert code == 2
    assert (
        f"'--max-connections': {number!r} is neither auto nor an integer from 1 to {MOST_CONNECTIONS}."
        in said
    )


@pytest.mark.parametrize("number", ["auto", "1", str(MOST_CONNECTIONS)])
def test_a_number_of_connections_in_the_range_of_the_params_is_taken(number: str, call: Call) -> None:
    code, said = call("productivity", "--max-connections", number)
    assert (code, "Missing option '--graphs'" in said) == (2, True), said
