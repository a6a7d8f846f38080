"""Each distinct item is computed once, and each score is that of its own items, whatever the model's form."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from encoders import CountingEncoder, CountingMatcher, family, opened
from PIL import Image

from caramel import registry
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import BackendError
from caramel.evaluation.scores import encoding, item_scores
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.item_scores import DualEncoderScores
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import ABSENT, RANKING_COLUMNS, Comparisons, ImageFile, Rankings, Task
from caramel.interfaces.settings import Compute
from caramel.models.specs import open_model
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import SIMILARITIES

PAIRS = {
    "s_c0_i0": ("caption", "image"),
    "s_c1_i0": ("negative_caption", "image"),
    "s_c2_i0": ("caption2", "image"),
    "s_c0_i1": ("caption", "negative_image"),
    "s_c1_i1": ("negative_caption", "negative_image"),
}
BETWEEN = {
    "t_p1_p2": ("caption", "caption2"),
    "t_p1_n": ("caption", "negative_caption"),
    "t_p2_n": ("caption2", "negative_caption"),
}


def draw(folder: Path, name: str, seed: int) -> ImageFile:
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    (folder / name).write_bytes(file.getvalue())
    return ImageFile(str(folder / name))


def compared(folder: Path, count: int = 40) -> Comparisons:
    """Return a task in which captions and images repeat, and of each kind of item some are absent."""
    # Images 0 and 6, 1 and 7, … have the same content under two names.
    images = [draw(folder, f"{n}.png", n % 6) for n in range(12)]
    rows: list[dict[str, object]] = [
        {
            "instance_id": f"i{n}",
            "image_id": f"{n % 12}.png",
            "subsets": [f"part {n % 2}"],
            "image": n % 12,
            "negative_image": ABSENT if n % 5 == 0 else (n + 1) % 12,
            "caption": f"a picture of {n % 7}",
            "negative_caption": None if n % 4 == 0 else f"no picture of {n % 7}",
            "caption2": None if n % 3 == 0 else f"a picture of {(n + 1) % 7}",
        }
        for n in range(count)
    ]
    return build_comparisons(rows, images)


def ranked(folder: Path) -> Rankings:
    """Return a task of both directions, with pools that rows share and pools of their own."""
    images = [draw(folder, f"{n}.png", n) for n in range(6)]
    texts = [(f"text {n}",) for n in range(8)]
    pools = [np.arange(8), np.arange(6), np.array([1, 3, 5]), np.array([0, 2])]
    lines = [["i2t", n, 0, [n, n + 1]] for n in range(6)] + [["t2i", n, 1, [n % 6]] for n in range(8)]
    lines += [["i2t", 4, 2, [3]], ["t2i", 7, 3, [2]]]
    rows = [[f"i{n}", f"{line[1]}.png", [], *line] for n, line in enumerate(lines)]
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), images, texts, pools)


def scored(task: Task, spec: str, store: Path, executor: str = "inline") -> pd.DataFrame:
    keys = check_images(task.images, "test")
    rows = compute_similarities(
        task, keys, RunConfig(spec, Compute("cpu", "fp32"), 4, str(store), executor), benchmark="b"
    )
    check_table(SIMILARITIES, rows, "test")
    return rows


def alone(encoder: CountingEncoder | CountingMatcher, text: str, image: ImageFile | str) -> float:
    """Return the model's score of one pair, computed by itself."""
    if isinstance(encoder, CountingMatcher):
        return math.nan if isinstance(image, str) else encoder.score(Path(image.path).read_bytes(), text)
    a = encoder.encode_texts([text], 1)[0].tolist()
    if isinstance(image, str):
        b = encoder.encode_texts([image], 1)[0].tolist()
    else:
        b = encoder.encode_images([Path(image.path).read_bytes()], 1)[0].tolist()
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several shards and blocks for a few items."""
    for name in ("IMAGES_PER_SHARD", "TEXTS_PER_SHARD", "PAIRS_PER_SHARD"):
        monkeypatch.setattr(encoding, name, 3)
    monkeypatch.setattr(item_scores, "BLOCK", 3)


@pytest.mark.parametrize(
    ("spec", "model"), [("counting:7", CountingEncoder(width=7)), ("matching:8", CountingMatcher())]
)
def test_every_score_is_that_of_its_own_items_and_rows_keep_their_order(
    spec: str, model: CountingEncoder | CountingMatcher, tmp_path: Path, families: None, small: None
) -> None:
    task = compared(tmp_path)
    rows = scored(task, spec, tmp_path / "store")
    assert rows["instance_id"].tolist() == [f"i{n}" for n in range(40)]
    assert rows["subsets"].tolist() == task.rows["subsets"].tolist()
    assert set(rows["model"]) == {spec}
    assert set(rows["benchmark"]) == {"b"}
    for n, row in task.rows.iterrows():
        assert isinstance(n, int)
        for column, (text, image) in PAIRS.items():
            expected = math.nan
            if row[text] is not None and row[image] != ABSENT:
                expected = alone(model, row[text], task.images[row[image]])
            assert rows[column].iloc[n] == pytest.approx(expected, nan_ok=True), (column, n)
        for column, (left, right) in BETWEEN.items():
            expected = math.nan
            if row[left] is not None and row[right] is not None:
                expected = alone(model, row[left], row[right])
            assert rows[column].iloc[n] == pytest.approx(expected, nan_ok=True), (column, n)


def test_a_dual_encoder_is_given_each_distinct_item_once(tmp_path: Path, families: None, small: None) -> None:
    task = compared(tmp_path)
    first = scored(task, "counting:7", tmp_path / "store")
    model = opened["counting:7"]
    assert isinstance(model, CountingEncoder)
    assert len(model.images) == len(set(model.images)) == 6
    captions = {t for c in ("caption", "negative_caption", "caption2") for t in task.rows[c] if t is not None}
    assert sorted(model.texts) == sorted(captions)
    again = scored(task, "counting:7", tmp_path / "store")
    assert (len(model.images), len(model.texts)) == (6, len(captions))
    pd.testing.assert_frame_equal(first, again)


def test_a_matcher_is_given_each_distinct_pair_once_and_no_other(
    tmp_path: Path, families: None, small: None
) -> None:
    task = compared(tmp_path)
    first = scored(task, "matching:8", tmp_path / "store")
    model = opened["matching:8"]
    assert isinstance(model, CountingMatcher)
    asked = {
        (Path(task.images[row[image]].path).read_bytes(), row[text])
        for _, row in task.rows.iterrows()
        for text, image in PAIRS.values()
        if row[text] is not None and row[image] != ABSENT
    }
    assert len(model.pairs) == len(asked)
    assert set(model.pairs) == asked
    again = scored(task, "matching:8", tmp_path / "store")
    assert len(model.pairs) == len(asked)
    pd.testing.assert_frame_equal(first, again)


def test_another_task_is_given_only_what_is_new(tmp_path: Path, families: None) -> None:
    task = compared(tmp_path)
    scored(task, "counting:7", tmp_path / "store")
    other = build_comparisons(
        [
            {
                "instance_id": "x",
                "image_id": "x",
                "subsets": [],
                "image": 0,
                "negative_image": 1,
                "caption": "a picture of 0",
                "negative_caption": "something new",
            }
        ],
        [task.images[2], draw(tmp_path, "new.png", 99)],
    )
    open_model.cache_clear()
    scored(other, "counting:7", tmp_path / "store")
    model = opened["counting:7"]
    assert isinstance(model, CountingEncoder)
    assert model.texts == ["something new"]
    assert model.images == [(tmp_path / "new.png").read_bytes()]


@pytest.mark.parametrize(
    ("spec", "model"), [("counting:7", CountingEncoder(width=7)), ("matching:3", CountingMatcher(steps=3))]
)
def test_ranks_are_those_of_candidates_scored_one_by_one(
    spec: str, model: CountingEncoder | CountingMatcher, tmp_path: Path, families: None, small: None
) -> None:
    task = ranked(tmp_path)
    rows = scored(task, spec, tmp_path / "store")
    for n, row in task.rows.iterrows():
        assert isinstance(n, int)
        values = {
            place: alone(model, task.texts[place][0], task.images[row["query"]])
            if row["direction"] == "i2t"
            else alone(model, task.texts[row["query"]][0], task.images[place])
            for place in task.pools[row["pool"]].tolist()
        }
        best = max(values[place] for place in row["true"])
        false = [value for place, value in values.items() if place not in row["true"]]
        found = rows.iloc[n]
        assert found["s_true"] == pytest.approx(best)
        assert found["s_other"] == pytest.approx(max(false))
        assert found["n_above"] == sum(value > best for value in false)
        assert found["n_tied"] == sum(value == best for value in false)
        assert found["n_candidates"] == len(values)


@pytest.mark.parametrize(("count", "pictures"), [(83, 3), (201, 1), (40, 20)])  # odd ones show rounding
def test_items_of_equal_embedding_tie_exactly_wherever_they_stand(
    count: int, pictures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_scores, "BLOCK", 5)
    rng = np.random.default_rng(0)
    words = rng.normal(size=(count, 37)).astype(np.float32)
    seen = rng.normal(size=(pictures, 37)).astype(np.float32)
    texts, images = np.concatenate([words, words[::-1]]), np.concatenate([seen, seen[::-1]])
    scores = DualEncoderScores(images, np.arange(2 * pictures), texts)
    grid = np.meshgrid(np.arange(2 * count), np.arange(2 * pictures), indexing="ij")
    by_row = scores.score_against_images(grid[0].reshape(-1), grid[1].reshape(-1)).reshape(grid[0].shape)
    for found in (scores.score_all_pairs(np.arange(2 * count), np.arange(2 * pictures)), by_row):
        assert np.allclose(found, texts.astype(float) @ images.astype(float).T)
        assert np.array_equal(found[:count], found[count:][::-1])
        assert np.array_equal(found[:, :pictures], found[:, pictures:][:, ::-1])
    left, right = rng.integers(0, 2 * count, 200), rng.integers(0, 2 * count, 200)
    twin = 2 * count - 1 - right
    assert np.array_equal(scores.score_between_texts(left, right), scores.score_between_texts(left, twin))


class Broken(CountingEncoder):
    """Gives NaN or infinity for one image or text."""

    def __init__(self, name: str, images: bool, value: float) -> None:
        super().__init__(name)
        self.identity = {"family": "broken", "images": images, "value": str(value)}
        self.for_images, self.value = images, value

    def encode_images(self, images: Sequence[bytes], batch: int | None) -> npt.NDArray[np.float32]:
        return self._spoilt(super().encode_images(images, batch), self.for_images)

    def encode_texts(self, texts: Sequence[str], batch: int | None) -> npt.NDArray[np.float32]:
        return self._spoilt(super().encode_texts(texts, batch), not self.for_images)

    def _spoilt(self, vectors: npt.NDArray[np.float32], spoil: bool) -> npt.NDArray[np.float32]:
        if spoil:
            vectors[-1, -1] = self.value
        return vectors


class TextsAlone:
    """A text encoder: it has no images."""

    def __init__(self, name: str, whole: CountingEncoder) -> None:
        self.name, self.encode_texts = name, whole.encode_texts
        self.identity = {"family": "texts", **whole.identity}


class Asked:
    """A model that answers in words."""

    def __init__(self, name: str) -> None:
        self.name, self.identity = name, {"family": "asked"}

    def ask(self, images: Sequence[bytes], prompts: Sequence[str], image_of: object) -> list[str | None]:
        return [None] * len(prompts)


def broken(target: str, *, device: str, precision: str, name: str) -> Broken | TextsAlone | Asked:
    """The family ``broken``: what, and with which value."""
    what, _, value = target.partition(",")
    if what == "asked":
        return Asked(name)
    if what == "texts_alone":
        spoilt = CountingEncoder(name, 7) if value == "well" else Broken(name, False, float(value))
        return TextsAlone(name, spoilt)
    return Broken(name, what == "images", float(value))


BROKEN = family("broken", broken)


@pytest.fixture
def broken_family(families: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.FAMILIES.targets, "broken", "test_scoring:BROKEN")


@pytest.mark.parametrize("what", ["images", "texts", "texts_alone"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_model_that_gives_nan_is_named(what: str, value: str, tmp_path: Path, broken_family: None) -> None:
    with pytest.raises(BackendError, match=r"for which model 'mine' gave NaN or infinity: 1"):
        scored(compared(tmp_path), f"mine=broken:{what},{value}", tmp_path / "store")


def test_a_text_encoder_scores_texts_alone(tmp_path: Path, broken_family: None) -> None:
    task = compared(tmp_path)
    rows = scored(task, "broken:texts_alone,well", tmp_path / "store")
    assert rows[list(PAIRS)].isna().all(axis=None)
    whole = scored(task, "counting:7", tmp_path / "store")
    pd.testing.assert_frame_equal(rows[list(BETWEEN)], whole[list(BETWEEN)])


def test_a_model_that_answers_in_words_has_no_scores(tmp_path: Path, broken_family: None) -> None:
    with pytest.raises(BackendError, match="Model 'mine' answers in words and gives no scores"):
        scored(compared(tmp_path), "mine=broken:asked", tmp_path / "store")


def test_the_task_is_not_changed(tmp_path: Path, families: None) -> None:
    task = compared(tmp_path)
    before = task.rows.copy(deep=True)
    scored(task, "counting:7", tmp_path / "store")
    pd.testing.assert_frame_equal(task.rows, before)


@pytest.mark.slow
def test_ray_gives_the_same_table_as_one_process(
    tmp_path: Path, clip_folder: Path, kept_workers: None, small: None
) -> None:
    spec = f"tiny=open_clip:{clip_folder}"
    for name, task in (("compared", compared(tmp_path)), ("ranked", ranked(tmp_path))):
        inline = scored(task, spec, tmp_path / f"{name} inline", "inline")
        spread = scored(task, spec, tmp_path / f"{name} ray", "ray")
        pd.testing.assert_frame_equal(inline, spread)
        assert inline.filter(regex="^s_").notna().any(axis=None)
        files = [len([*(tmp_path / f"{name} {how}").rglob("*.parquet")]) for how in ("inline", "ray")]
        assert files[0] == files[1] >= 4
