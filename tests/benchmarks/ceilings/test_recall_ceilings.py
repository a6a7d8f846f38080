"""Chance and ceilings of recall@k are those of all orders of groups and all orders of ties, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import comb

import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES
from caramel.benchmarks.ceilings.recall_ceilings import compute_recall_ceilings, compute_recall_chance
from caramel.benchmarks.metrics import RECALLS
from caramel.interfaces.benchmark import RANKING_COLUMNS, ImageFile, Rankings

WORDS = ["a b", "b a", "a c", "c a", "a b c", "c b a"]
METRICS = ["recall@1", "recall@3", "avg_recall"]


def build_task(
    rows: Sequence[tuple[str, int, int, list[int]]],
    texts: Sequence[str],
    images: int,
    pools: Sequence[list[int]],
) -> Rankings:
    """Return the task of rows (direction, query, pool, true)."""
    frame = pd.DataFrame(
        [(f"q{n}", "0", [direction], direction, *row) for n, (direction, *row) in enumerate(rows)],
        columns=list(RANKING_COLUMNS),
    )
    files = [ImageFile(f"{n}.jpg") for n in range(images)]
    return Rankings(frame, files, [(text,) for text in texts], [np.array(pool) for pool in pools])


def compute_all(task: Rankings, metric: str, model_class: str) -> tuple[float, bool]:
    everything = {"all": np.ones(len(task.rows), bool)}
    classes = {model_class: MODEL_CLASSES[model_class]}
    (line,) = compute_recall_ceilings(task, [metric], everything, {}, classes).itertuples()
    return line.ceiling, line.exact


def find_best_recall(task: Rankings, metric: str, model_class: str) -> float:
    """Return the best mean recall over all orders of the views of the candidates, for each view of the queries."""
    view = MODEL_CLASSES[model_class].view_text
    texts = [view(text) for (text,) in task.texts]
    images = (
        list(range(len(task.images))) if MODEL_CLASSES[model_class].sees_images else [0] * len(task.images)
    )
    by_source: dict[object, list[tuple[list[object], list[bool]]]] = {}
    for row in task.rows.itertuples():
        to_text = row.direction == "i2t"
        of_query, of_candidates = (images, texts) if to_text else (texts, images)
        pool = task.pools[row.pool].tolist()
        candidates = [of_candidates[i] for i in pool]
        by_source.setdefault(of_query[row.query], []).append((candidates, [i in row.true for i in pool]))
    total = 0.0
    for queries in by_source.values():
        views = list(dict.fromkeys(v for candidates, _ in queries for v in candidates))
        total += max(
            sum(average_ties(candidates, true, order, RECALLS[metric].ks) for candidates, true in queries)
            for order in permutations(views)
        )
    return total / len(task.rows)


def average_ties(
    candidates: Sequence[object], true: Sequence[bool], order: Sequence[object], ks: Sequence[int]
) -> float:
    """Return the recall averaged over all orders of the candidates that keep the order of their views."""
    groups = [
        [flag for view, flag in zip(candidates, true, strict=True) if view == wanted] for wanted in order
    ]
    ranked = [sum(parts, ()) for parts in product(*(list(permutations(group)) for group in groups))]
    return float(np.mean([[any(flags[:k]) for k in ks] for flags in ranked]))


def iter_tasks(direction: str, shared: bool) -> Iterator[Rankings]:
    """Yield random tasks of one direction with up to 5 candidates and 3 queries, whose pool is shared or their own."""
    for seed in range(25):
        random = np.random.default_rng(seed)
        texts = random.choice(WORDS, 5, replace=False).tolist()
        pools = [random.permutation(5)[: random.integers(2, 6)].tolist() for _ in range(3)]
        rows = []
        for n in range(int(random.integers(1, 4))):
            pool = pools[0 if shared else n]
            true = random.choice(pool, min(len(pool), int(random.integers(1, 3))), replace=False).tolist()
            rows.append((direction, n, 0 if shared else n, true))
        yield build_task(rows, texts, 5, pools)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("model_class", ["bag_of_words", "no_image"])
def test_ceilings_are_those_of_the_best_order(direction: str, model_class: str, metric: str) -> None:
    exact = []
    for shared in (True, False):
        for task in iter_tasks(direction, shared):
            ceiling, is_exact = compute_all(task, metric, model_class)
            best = find_best_recall(task, metric, model_class)
            assert ceiling >= best - 1e-9, "never below what some model reaches"
            if is_exact:
                assert ceiling == pytest.approx(best)
            exact.append(is_exact)
    assert np.mean(exact) > 0.6, "bounds are the exception"


@pytest.mark.parametrize("k", [1, 3, 5])
def test_chance_is_hypergeometric_and_averaged_over_queries(k: int) -> None:
    rows = [("i2t", 0, 0, [0, 1]), ("i2t", 1, 1, [2]), ("i2t", 2, 0, [0, 1, 2, 3, 4])]
    task = build_task(rows, WORDS, 3, [[0, 1, 2, 3, 4, 5], [2, 3]])
    subsets = {"all": np.ones(3, bool), "first": np.array([True, False, False])}
    chance = compute_recall_chance(task, [f"recall@{k}"], subsets, {}).set_index("subset")["chance"]
    each = [1 - comb(n - g, min(k, n)) / comb(n, min(k, n)) for n, g in ((6, 2), (2, 1), (6, 5))]
    assert chance.tolist() == pytest.approx([np.mean(each), each[0]])


def test_a_text_query_of_a_model_without_images_has_chance() -> None:
    queries = [("t2i", n, 0, [n % 2]) for n in range(4)]
    task = build_task(queries, WORDS, 4, [[0, 1, 2, 3]])
    everything = {"all": np.ones(4, bool)}
    expected = compute_recall_chance(task, ["recall@3"], everything, {})["chance"].item()
    assert compute_all(task, "recall@3", "no_image") == (pytest.approx(expected), True)
    assert expected == pytest.approx(3 / 4)


def test_equal_bags_of_words_share_the_first_ranks() -> None:
    task = build_task([("i2t", 0, 0, [0])], WORDS, 1, [[0, 1, 2, 4]])
    assert compute_all(task, "recall@1", "bag_of_words") == (pytest.approx(1 / 2), True)
    assert compute_all(task, "recall@3", "bag_of_words") == (pytest.approx(1), True)
    assert compute_all(task, "avg_recall", "bag_of_words") == (pytest.approx(3 / 4), True)
    assert compute_all(task, "recall@1", "no_image") == (pytest.approx(1), True)


def build_retrieval(images: int, captions: int, repeated: int) -> Rankings:
    """Return retrieval in both directions; the first caption of the first images is the same bag of words."""
    texts = [
        ("b a", "a b")[n % 2] if n % captions == 0 and n < repeated * captions else f"text {n}"
        for n in range(images * captions)
    ]
    pools = [list(range(len(texts))), list(range(images))]
    rows = [("i2t", n, 0, list(range(captions * n, captions * (n + 1)))) for n in range(images)]
    rows += [("t2i", n, 1, [n // captions]) for n in range(len(texts))]
    return build_task(rows, texts, images, pools)


def test_retrieval_with_repeated_captions_has_exact_ceilings_in_both_directions() -> None:
    task = build_retrieval(8, 3, repeated=4)
    direction = task.rows["direction"].to_numpy()
    subsets = {"all": np.ones(len(task.rows), bool), "i2t": direction == "i2t", "t2i": direction == "t2i"}
    lines = compute_recall_ceilings(task, ["recall@1", "recall@3"], subsets, {})
    words, blind = (
        lines[lines["model_class"] == name].set_index(["metric", "subset"])
        for name in ("bag_of_words", "no_image")
    )
    assert words["exact"].all()
    ceilings = words["ceiling"].to_dict()
    assert ceilings["recall@1", "i2t"] == 1, "each image has captions of its own"
    assert ceilings["recall@1", "t2i"] == pytest.approx((24 - 4 + 1) / 24), "four images share one order"
    assert ceilings["recall@3", "t2i"] == pytest.approx((24 - 4 + 3) / 24)
    assert ceilings["recall@1", "all"] == pytest.approx((8 + 21) / 32)
    assert blind["ceiling"].to_dict()["recall@3", "i2t"] == pytest.approx(3 / 8), (
        "three ranks for eight images"
    )
