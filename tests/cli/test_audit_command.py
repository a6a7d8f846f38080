"""The audit command reads any format, writes its files, and exits by the thresholds it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from caramel import cli
from caramel.audit.similarity.parses import cache_parses
from caramel.blind.image import network
from caramel.blind.scorer_specs import list_default_scorers
from caramel.cli.audit import read_published_accuracy
from caramel.interfaces.parser import Parse, Tree
from caramel.registry import SCORERS

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in a folder with a small data set: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    rows = {
        str(i): {
            "filename": f"{i}.jpg",
            "caption": f"a cat and {i} dogs",
            "negative_caption": f"A dog, {i} cats too",
        }
        for i in range(30)
    }
    Path("bench").mkdir()
    Path("bench", "swap_obj.json").write_text(json.dumps(rows), encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["audit", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_audit_prints_and_writes_what_blind_attackers_make_of_a_folder(call: Call) -> None:
    code, out, err = call("bench", "--out", "audit", "--scorer", "casing", "--folds", "2")
    assert (code, err) == (0, "")
    assert "30 rows of bench" in out
    assert "best_blind_attacker" in out
    files = {path.name for path in Path("audit").iterdir()}
    texts = {"audit.json", "audit.html", "statistics.csv", "gaps.csv", "badge.svg", "badge.md"}
    assert files == texts | {"rows.parquet", "pairs.parquet"}
    assert json.loads(Path("audit", "audit.json").read_text())["best_blind_attacker"]["overall"]["micro"] == 1


@pytest.mark.usefixtures("blank_figures")
def test_a_text_without_a_parse_is_an_error_before_anything_is_written(call: Call) -> None:
    trees = {
        f"(S (X {' '.join(f'(W {word})' for word in text.split())}))"
        for n in range(30)
        for text in (f"a cat and {n} dogs", f"A dog, {n} cats too")
    }
    options = ("bench", "--out", "audit", "--scorer", "casing", "--folds", "2", "--parser", "given:trees")
    Path("trees").write_text("\n".join(sorted(trees)[1:]), encoding="utf-8")
    code, _, err = call(*options)
    assert code == 1
    assert "lacks the trees of some texts (number of texts: 1)" in err
    assert not Path("audit").exists()
    Path("trees").write_text("\n".join(sorted(trees)), encoding="utf-8")
    code, _, err = call(*options)
    assert (code, err) == (0, "")
    assert "syntactic" in Path("audit", "statistics.csv").read_text(encoding="utf-8")


def test_each_text_is_parsed_once() -> None:
    calls: list[Sequence[str]] = []

    def parser(texts: Sequence[str]) -> list[Parse]:
        calls.append(texts)
        return [(Tree("ROOT", word=text),) for text in texts]

    parse = cache_parses(parser)
    assert [tree.word for (tree,) in parse(["b", "a", "b"])] == ["b", "a", "b"]
    assert [tree.word for (tree,) in parse(["c", "a"])] == ["c", "a"]
    assert [text for texts in calls for text in texts] == ["a", "b", "c"]


@pytest.mark.usefixtures("blank_figures")
def test_a_folder_without_the_images_is_an_error_and_images_that_are_not_asked_are_noted(call: Call) -> None:
    Path("images").mkdir()
    for name, code, message in (
        (
            "other.jpg",
            1,
            "'images' holds none of the images of the audited rows. Their names are:\n  - '0.jpg'",
        ),
        (
            "0.jpg",
            0,
            "0 of 30 rows of 'bench' have both an image and a negative image in 'images': images are not",
        ),
    ):
        Path("images", name).touch()
        found, _, err = call("bench", "--out", "audit", "--scorer", "casing", "--images", "images")
        assert found == code
        assert message in err


@pytest.mark.usefixtures("blank_figures")
def test_a_broken_threshold_is_said_and_is_exit_code_one(call: Call) -> None:
    options = ("bench", "--out", "audit", "--scorer", "casing", "--max-accuracy", "0.55")
    code, _, err = call(*options)
    assert code == 1
    assert err.startswith("Threshold broken: The best blind attacker is right on 100.0 % [")
    assert Path("audit", "audit.json").exists()
    assert "% [" in err
    assert "refused: shown to be above 55.0 %" in err
    few = ("bench", "--out", "audit", "--scorer", "digits", "--max-accuracy", "0.55")
    code, _, err = call(*few)
    assert code == 1
    assert "undecided about 55.0 %: too few rows" in err
    code, out, err = call(*few, "--acceptance", "not_refuted")
    assert (code, err) == (0, "")
    assert "Accepted as not refuted." in out
    assert call(*few[:-1], "1")[0] == 0
    assert call("bench", "--out", "audit", "--scorer", "digits", "--max-defects", "0")[0] == 0


@pytest.mark.usefixtures("blank_figures")
def test_a_corpus_is_learned_from(call: Call) -> None:
    Path("corpus.txt").write_text("A dog, 100 cats too\n" * 3, encoding="utf-8")
    code, _, _ = call("bench", "--out", "audit", "--scorer", "ngram", "--corpus", "corpus.txt")
    assert code == 0
    figures = json.loads(Path("audit", "audit.json").read_text())["scorers"]["ngram"]
    assert figures["overall"]["micro"] == 0
    Path("corpus.txt").write_text("\n \n", encoding="utf-8")
    code, _, err = call("bench", "--out", "audit", "--scorer", "ngram", "--corpus", "corpus.txt")
    assert code == 1
    assert "'corpus.txt' has no line of text" in err


@pytest.mark.usefixtures("blank_figures")
def test_attackers_learn_from_other_data_sets_too_and_the_largest_hole_is_said(call: Call) -> None:
    lines = ["caption,negative_caption,caption2"]
    lines += [f"a big cat and {i} dogs,A dog with {i} cats,There are {i} dogs" for i in range(40, 70)]
    Path("pool.csv").write_text("\n".join(lines))
    code, out, err = call(
        "bench", "--out", "audit", "--scorer", "casing", "--folds", "2", "--learn-from", "pool.csv"
    )
    assert (code, err) == (0, "")
    assert "Largest hole: P1-N, learned from its other folds: 100.0 %" in out
    found = json.loads(Path("audit", "audit.json").read_text())
    assert [(a["task"], a["source"], a["rows_learned_from"]) for a in found["attacks"]] == [
        ("P1-N", None, 30),
        ("P1-N", "pool", 30),
    ]
    assert found["attacks"][1]["best_blind_attacker"]["overall"]["micro"] == 1
    assert found["attacks"][0]["strongest"]["seconds"] >= 0
    assert "Holes, the largest first" in Path("audit", "audit.html").read_text()
    code, _, err = call("bench", "--out", "again", "--scorer", "casing", "--learn-from", "bench")
    assert code == 1
    assert "Attackers cannot train on 'bench'" in err
    assert "(number of rows: 30)" in err


@pytest.mark.usefixtures("blank_figures")
def test_images_and_a_training_corpus_are_looked_at_where_they_are_given(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.setattr(network, "STEPS", 2)  # what the network learns has tests of its own
    monkeypatch.setattr(network, "EPOCHS", 1)
    Path("pictures").mkdir()
    lines = ["id,caption,negative_caption,image,negative_image"]
    for i in range(24):
        Image.new("RGB", (20, 20), (10 * i, 0, 0)).save(f"pictures/{i}.png")
        Image.new("RGB", (40, 40), (10 * i, 0, 200)).save(f"pictures/{i}-negative.png")
        lines.append(f"{i},A cat and {i} dogs,A dog and {i} cats,{i}.png,{i}-negative.png")
    Path("data.csv").write_text("\n".join(lines))
    Path("corpus.txt").write_text("a cat and 3 dogs\nSomething else\n")
    options = ("--scorer", "casing", "--folds", "2", "--images", "pictures", "--training", "corpus.txt")
    code, out, _ = call("data.csv", "--out", "audit", *options)
    assert code == 0
    assert "Images alone: features finds the true image on 100.0 %" in out
    assert "In the training corpus: 1 texts exactly, 0 nearly" in out
    found = json.loads(Path("audit", "audit.json").read_text())
    assert found["image_shortcuts"]["attackers"]["features"]["overall"]["micro"] == 1
    assert found["leakage"]["rows"][0]["corpus_text"] == "a cat and 3 dogs"
    page = Path("audit", "audit.html").read_text()
    assert "One feature alone" in page
    assert "without their relation" in page
    assert "a cat and 3 dogs" in page


def test_an_unknown_scorer_lists_the_choices(call: Call) -> None:
    code, _, err = call("bench", "--out", "audit", "--scorer", "lenght")
    assert code == 1
    assert "Unknown scorer 'lenght'. Did you mean 'length'?" in err


def test_all_scorers_without_a_model_are_the_default() -> None:
    assert list_default_scorers() == tuple(SCORERS)[: tuple(SCORERS).index("vera")]


def test_an_encoder_that_is_at_hand_is_among_the_defaults() -> None:
    found = list_default_scorers("minilm/")
    assert found == (*list_default_scorers(), "embedding_probe:minilm/", "finetuned:minilm/")


def test_an_encoder_that_is_none_is_said_before_anything_is_learned(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARAMEL_ENCODER", "nowhere/")
    code, _, err = call("bench", "--out", "audit")
    assert code == 1
    assert "embedding_probe:nowhere/ cannot be loaded" in err


def test_published_figures_are_shares_by_subset() -> None:
    found = read_published_accuracy("sugarcrepe_pp")
    assert found["replace_obj"] == pytest.approx(0.9086)
    assert read_published_accuracy("sugarcrepe")["all"] == pytest.approx(0.7656)
    assert read_published_accuracy("of nobody") == {}


def test_what_stands_in_data_cannot_steer_the_terminal_nor_fake_a_line(call: Call) -> None:
    rows = [
        {
            "caption": f"A cat \x1b[2J and {i} dogs",
            "negative_caption": f"a dog and {i} cats",
            "type": "fine\nPASSED\n",
            "subtype": "x" * 400,
        }
        for i in range(12)
    ]
    Path("data.json").write_text(json.dumps(rows), encoding="utf-8")
    name = ("--name", "my\x1b]0;set")
    code, out, err = call("data.json", "--out", "audit", "--scorer", "casing", "--folds", "2", *name)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "my\\x1b]0;set" in out
    assert "\nPASSED" not in out
    assert max(len(line) for line in out.splitlines()) < 300


def test_an_endless_word_does_not_swell_the_statistics(call: Call) -> None:
    word = "w" * 5_000
    rows = [
        {"caption": f"A {word} and {i} dogs", "negative_caption": f"a dog and {i} cats", "subtype": word}
        for i in range(12)
    ]
    Path("data.json").write_text(json.dumps(rows), encoding="utf-8")
    assert call("data.json", "--out", "audit", "--scorer", "casing", "--folds", "2")[0] == 0
    text = Path("audit", "statistics.csv").read_text()
    assert "(3,000 more characters)" in text
    assert "w" * 2001 not in text


@pytest.mark.usefixtures("blank_figures")
def test_topics_are_written_where_they_are_asked_for(call: Call) -> None:
    options = ("bench", "--out", "audit", "--scorer", "casing", "--folds", "2")
    assert call(*options, "--topics", "2")[0] == 0
    head, *rows = Path("audit", "topics.csv").read_text().splitlines()
    assert head == "subtype,topic,share,words"
    assert [row.split(",")[:2] for row in rows] == [["swap_obj", "1"], ["swap_obj", "2"]]
    before = Path("audit", "audit.html").stat().st_mtime_ns
    code, _, err = call(*options, "--topics", "40")
    assert (code, "too few for 40 topics" in err) == (1, True)
    assert Path("audit", "audit.html").stat().st_mtime_ns == before, "it is said before anything is attacked"
    assert call(*options)[0] == 0
    assert not Path("audit", "topics.csv").exists(), (
        "topics of an earlier call would stand beside another audit"
    )
