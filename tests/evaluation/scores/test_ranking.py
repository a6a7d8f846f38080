"""Ranks of whole tasks against an oracle that looks at one candidate at a time."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from encoders import CountingEncoder, CountingMatcher, family
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from caramel import registry
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.tasks import limit_instances
from caramel.evaluation.scores import ranking
from caramel.evaluation.scores.encoding import RunConfig, encode_items
from caramel.evaluation.scores.item_scores import DualEncoderScores
from caramel.evaluation.scores.ranking import (
    COLUMNS,
    PromptGroups,
    compute_rank_columns,
    compute_ranks,
    pool_prompts,
)
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import RANKING_COLUMNS, ImageFile, Rankings
from caramel.interfaces.settings import Compute
from caramel.models.specs import open_model
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import SIMILARITIES

# Few values, so that ties and missing scores are common.
SCORE = st.sampled_from([-math.inf, -0.5, 0.0, 0.25, 0.25, 0.75, 0.75, math.nan])


class Table:
    """Scores of texts with images that are a table, as some model might give them."""

    def __init__(self, scores: np.ndarray) -> None:
        self.scores = scores

    def score_against_images(self, texts: np.ndarray, images: np.ndarray) -> np.ndarray:
        return np.array([self.scores[t, i] for t, i in zip(texts, images, strict=True)])

    def score_between_texts(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        raise AssertionError("a ranking asks for no score of two texts")

    def score_all_pairs(self, texts: np.ndarray, images: np.ndarray) -> np.ndarray:
        return np.array([[self.scores[t, i] for i in images] for t in texts])


def row_of(true: list[float], false: list[float]) -> list[float]:
    """Return s_true, s_other, above, equal and candidates of one query."""
    size = float(len(true) + len(false))
    if any(math.isnan(score) for score in true + false):
        return [math.nan] * 4 + [size]
    best, other = max(true), max(false, default=math.nan)
    return [best, other, sum(s > best for s in false), sum(s == best for s in false), size]


def oracle(task: Rankings, scores: np.ndarray) -> list[list[float]]:
    found = []
    for row in task.rows.itertuples():
        sides: tuple[list[float], list[float]] = ([], [])
        for place in task.pools[row.pool].tolist():
            text, image = (place, row.query) if row.direction == "i2t" else (row.query, place)
            sides[0 if place in row.true else 1].append(float(scores[text, image]))
        found.append(row_of(*sides))
    return found


def frame(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    named = [(f"q{n}", f"i{n % 3}", [], *row) for n, row in enumerate(rows)]
    return pd.DataFrame(named, columns=list(RANKING_COLUMNS))


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Rankings, np.ndarray]:
    """Return a task of queries in both directions, some of which share pools, and its scores."""
    texts, images = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    pools, rows = [], []
    for direction, queries, candidates in (("i2t", images, texts), ("t2i", texts, images)):
        for _ in range(draw(st.integers(1, 4))):
            places = draw(st.lists(st.integers(0, candidates - 1), min_size=1, unique=True))
            for _ in range(draw(st.integers(1, 4))):
                true = draw(st.lists(st.sampled_from(places), min_size=1, unique=True))
                rows.append((direction, draw(st.integers(0, queries - 1)), len(pools), true))
            pools.append(np.array(places))
    cells = draw(st.lists(SCORE, min_size=texts * images, max_size=texts * images))
    order = draw(st.permutations(rows))
    named = [(f"text {t}",) for t in range(texts)]
    files = [ImageFile(str(i)) for i in range(images)]
    return Rankings(frame(order), files, named, pools), np.array(cells).reshape(texts, images)


@given(tasks(), st.sampled_from([1, 3, 2**23]))
@settings(max_examples=200, deadline=None)
def test_ranks_are_those_of_the_definition(drawn: tuple[Rankings, np.ndarray], cells: int) -> None:
    task, scores = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "CELLS", cells)  # blocks of any size
        found = compute_ranks(task, Table(scores))
    assert list(found) == list(COLUMNS)
    np.testing.assert_array_equal(np.stack(list(found.values()), axis=1), oracle(task, scores))


def test_a_pool_of_true_candidates_alone_has_no_other_and_nothing_before() -> None:
    task = Rankings(frame([("i2t", 0, 0, [0, 1])]), [ImageFile("a")], [("a",), ("b",)], [np.array([1, 0])])
    found = compute_ranks(task, Table(np.array([[0.2], [0.4]])))
    np.testing.assert_array_equal([found[c][0] for c in COLUMNS], [0.4, math.nan, 0, 0, 2])


@pytest.mark.parametrize(
    ("row", "message"),
    [(("i2t", 0, 0, [2]), "not in the pool"), (("i2t", 0, 0, []), "without a true candidate")],
)
@pytest.mark.parametrize("copies", [1, 2])
def test_a_reader_that_names_no_true_candidate_of_the_pool_is_found_out(
    row: tuple[object, ...], message: str, copies: int
) -> None:
    task = Rankings(frame([row] * copies), [ImageFile("a")], [("t",)] * 3, [np.array([0, 1])])
    with pytest.raises(AssertionError, match=message):
        compute_ranks(task, Table(np.zeros((3, 1))))


def unit(rng: np.random.Generator, count: int, width: int = 5) -> np.ndarray:
    rows = rng.normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("cells", [7, 2**23])
def test_equal_embeddings_tie_exactly_wherever_they_stand(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "CELLS", cells)
    rng = np.random.default_rng(0)
    texts, images = unit(rng, 40, 37), unit(rng, 30, 37)
    texts[20:], images[20:] = texts[:20], images[:10]
    rows = [("i2t", i, 0, [i % 40]) for i in range(30)] + [("t2i", t, 1, [t % 30]) for t in range(40)]
    rows += [("i2t", i, 2 + i, [5, 25]) for i in range(30)]
    pools = [np.arange(40), np.arange(30), *(np.array([25, 5, i % 5]) for i in range(30))]
    task = Rankings(
        frame(rows), [ImageFile(str(i)) for i in range(30)], [(str(t),) for t in range(40)], pools
    )
    found = compute_ranks(task, DualEncoderScores(images, np.arange(30), texts))
    scores = np.array([[math.fsum(np.float64(t) * i) for i in images] for t in texts])
    for n, (values, expected) in enumerate(
        zip(zip(*found.values(), strict=True), oracle(task, scores), strict=True)
    ):
        assert values == pytest.approx(expected, nan_ok=True), n
    assert (found["n_tied"][:30] == 1).all()


class Prompts:
    """Texts of one to three prompts, two of which are the same in another place."""

    texts = (("a", "b"), ("c",), ("b", "d", "e"), ("a", "b"), ("c",))
    images = 4

    def write(self, folder: Path) -> list[ImageFile]:
        rng = np.random.default_rng(1)
        files = []
        for n in range(self.images):
            path = folder / f"{n}.png"
            Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
            files.append(ImageFile(str(path)))
        (folder / "3.png").write_bytes((folder / "0.png").read_bytes())
        return files

    def task(self, folder: Path) -> Rankings:
        rows = [("i2t", i, 0, [i]) for i in range(4)] + [("t2i", t, 1, [t % 4]) for t in range(5)]
        rows += [("i2t", 1, 2, [2, 4]), ("t2i", 2, 3, [0])]
        pools = [np.arange(5), np.arange(4), np.array([2, 4, 0]), np.array([3, 0, 1])]
        return Rankings(frame(rows), self.write(folder), self.texts, pools)


def scores_of(task: Rankings, spec: str) -> np.ndarray:
    """Return the score of every text with every image, of single prompts asked for one by one."""
    files = [Path(image.path).read_bytes() for image in task.images]
    family, _, size = spec.partition(":")
    if family == "matching":
        matcher = CountingMatcher(steps=int(size))
        each = [[[matcher.score(f, prompt) for prompt in text] for f in files] for text in task.texts]
        return np.array([[sum(scores) / len(scores) for scores in line] for line in each])
    encoder, found = CountingEncoder(width=int(size)), []
    for text in task.texts:
        mean = np.float64([encoder.encode_texts([prompt], 1)[0] for prompt in text]).sum(axis=0)
        mean /= math.sqrt(mean @ mean)
        found.append([math.fsum(mean * encoder.encode_images([file], 1)[0]) for file in files])
    return np.array(found)


@pytest.mark.parametrize("spec", ["counting:16", "matching:4"])
def test_prompts_are_averaged_by_every_form_of_model(spec: str, tmp_path: Path, families: None) -> None:
    task = Prompts().task(tmp_path)
    run = RunConfig(spec, Compute("cpu", "fp32"), 4, str(tmp_path / "store"), "inline")
    keys = check_images(task.images, "test")
    model = open_model(spec, "cpu", "fp32")
    found = compute_rank_columns(
        task, lambda texts, pairs: encode_items(task.images, keys, texts, pairs, run, model)
    )
    scores = scores_of(task, spec)
    scores[3], scores[4], scores[:, 3] = scores[0], scores[1], scores[:, 0]  # exactly, not but nearly
    expected = np.array(oracle(task, scores))
    np.testing.assert_array_equal(found["n_above"], expected[:, 2])
    np.testing.assert_array_equal(found["n_tied"], expected[:, 3])
    np.testing.assert_array_equal(found["n_candidates"], expected[:, 4])
    np.testing.assert_allclose(found["s_true"], expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(found["s_other"], expected[:, 1], atol=1e-6)
    assert found["n_tied"].sum() >= 4
    rows = compute_similarities(task, keys, run, benchmark="test")
    check_table(SIMILARITIES, rows, "test")
    np.testing.assert_array_equal(rows["n_above"], found["n_above"])


def test_a_single_prompt_keeps_its_embedding_to_the_last_bit() -> None:
    rng = np.random.default_rng(2)
    scores = DualEncoderScores(unit(rng, 3), np.arange(3), unit(rng, 4))
    again = pool_prompts(scores, PromptGroups(np.array([2, 0, 2]), np.array([1, 1, 1])))
    places = np.array([0, 1, 2]), np.array([2, 1, 0])
    np.testing.assert_array_equal(
        again.score_against_images(*places), scores.score_against_images(np.array([2, 0, 2]), places[1])
    )
    np.testing.assert_array_equal(
        again.score_all_pairs(*places), scores.score_all_pairs(np.array([2, 0, 2]), places[1])
    )


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
@settings(max_examples=50, deadline=None)
def test_groups_give_the_prompts_of_any_texts_in_any_order(sizes: list[int], data: st.DataObject) -> None:
    prompts = data.draw(st.lists(st.integers(0, 9), min_size=sum(sizes), max_size=sum(sizes)))
    by_text = [prompts[sum(sizes[:t]) : sum(sizes[: t + 1])] for t in range(len(sizes))]
    texts = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=8))
    found = PromptGroups(np.array(prompts), np.array(sizes)).list_prompts(np.array(texts))
    assert found.tolist() == [prompt for text in texts for prompt in by_text[text]]


class BlankMatcher(CountingMatcher):
    """A matcher that has no score for the prompt ``b``."""

    def score(self, image: bytes, text: str) -> float:
        return math.nan if text == "b" else super().score(image, text)


def blank(target: str, *, device: str, precision: str, name: str) -> BlankMatcher:
    return BlankMatcher(name)


BLANK = family("blank", blank, "matcher")


def test_a_candidate_without_a_score_leaves_its_queries_unscored(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.FAMILIES.targets, "blank", "test_ranking:BLANK")
    task = Prompts().task(tmp_path)
    run = RunConfig("blank:x", Compute("cpu", "fp32"), 4, str(tmp_path / "store"), "inline")
    rows = compute_similarities(task, check_images(task.images, "test"), run, benchmark="test")
    unscored = rows["n_above"].isna()
    # ``b`` is in texts 0, 2 and 3: in the pool of all texts, and the query of three in five.
    assert unscored.tolist() == [True] * 4 + [True, False, True, True, False] + [True, True]
    assert rows["n_candidates"].notna().all()
    assert rows.loc[unscored, ["s_true", "s_other", "n_tied"]].isna().all(axis=None)
    check_table(SIMILARITIES, rows, "test")


def test_a_matcher_is_asked_for_the_pairs_of_the_pools_alone(tmp_path: Path, families: None) -> None:
    from encoders import opened

    task = Prompts().task(tmp_path)
    task = Rankings(frame([("i2t", 1, 2, [2, 4]), ("t2i", 1, 3, [0])]), task.images, task.texts, task.pools)
    run = RunConfig("matching:8", Compute("cpu", "fp32"), 4, str(tmp_path / "store"), "inline")
    compute_similarities(task, check_images(task.images, "test"), run, benchmark="test")
    matcher = opened["matching:8"]
    assert isinstance(matcher, CountingMatcher)
    files = [Path(image.path).read_bytes() for image in task.images]
    expected = {(files[1], prompt) for prompt in "abcde"} | {(files[i], "c") for i in (0, 1, 3)}
    assert set(matcher.pairs) == expected
    assert len(matcher.pairs) == len(expected)  # the third image is the first again: one pair


def test_a_limit_changes_no_rank(tmp_path: Path, families: None) -> None:
    task = Prompts().task(tmp_path)
    run = RunConfig("counting:4", Compute("cpu", "fp32"), 4, str(tmp_path / "store"), "inline")
    keys = check_images(task.images, "test")
    whole = compute_similarities(task, keys, run, benchmark="test")
    for limit in (1, 5):
        short = limit_instances(task, limit)
        part = compute_similarities(short, check_images(short.images, "test"), run, benchmark="test")
        pd.testing.assert_frame_equal(
            part[["n_above", "n_tied", "n_candidates"]],
            whole.iloc[:limit][["n_above", "n_tied", "n_candidates"]],
        )
