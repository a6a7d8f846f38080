"""Score how much a model gains if it may use the groups of a benchmark: GroupMatch and test-time matching.

Both are of Zhu et al. 2025 (arXiv 2510.07632). They use that of two captions and two images each caption belongs to
exactly one image. Here they are wrappers of stored similarities. What is scored is always the same: of both images
of an instance, the share that gets its own caption. Chance is 1/2 for every wrapper, and a tie counts 1/2.

- ``none``: each image alone.
- ``group_match``: the assignment with the greater sum of similarities decides for both images of the instance.
- ``test_time_matching``: the assignments of the half of the groups with the greatest margins are pseudo-labels. A
  logistic regression learns from them to choose for one image alone, from the difference of the similarities and
  of the captions' words and pairs of words. So it learns which words the model prefers whatever the image shows. The
  paper fine-tunes the model instead, in rounds; here a second round would change nothing, since what is learned of
  words alone cancels in a group's sum.

Settings:

- ``disjoint``: learned from other groups. The scored group is not used, so ``group_match`` has no such setting.
- ``transductive``: the scored group is used.
- The control deals the captions of each group anew by a coin, before anything is learned, so the group says nothing
  about which caption is right. Every deal is scored with its opposite. A wrapper that does not depend on the position
  of a caption then has exactly 1/2, as the model alone has. Whatever it gains there it took from the position.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t

from caramel.benchmarks.content import TEXTS_HASH, hash_texts
from caramel.blind.cross_validation import fit_sparse_pair_weights, group_folds
from caramel.errors import DataError, format_items
from caramel.evaluation.results.summary import assign_clusters
from caramel.interfaces.benchmark import Comparisons, Task
from caramel.utils.arrays import Bools, Floats
from caramel.utils.resampling import Bootstrap, CrossValidation
from caramel.utils.stats import (
    LEVEL,
    bootstrap_means,
    count_clusters,
    fraction_intervals,
    standard_errors,
)
from caramel.utils.text import tokenize_text

SCORES = ("s_c0_i0", "s_c0_i1", "s_c1_i0", "s_c1_i1")
NONE, GROUP_MATCH, TEST_TIME = "none", "group_match", "test_time_matching"
DISJOINT, TRANSDUCTIVE = "disjoint", "transductive"
WRAPPERS = ((NONE, DISJOINT), (GROUP_MATCH, TRANSDUCTIVE), (TEST_TIME, DISJOINT), (TEST_TIME, TRANSDUCTIVE))
COLUMNS = (
    *(
        "model",
        "benchmark",
        "wrapper",
        "setting",
        "value",
        "ci_low",
        "ci_high",
        "gain",
        "gain_low",
        "gain_high",
    ),
    *("permuted", "permuted_gain", "n"),
)
SHARE = 0.5  # of the groups of which pseudo-labels are learned, those with the greatest margins
COST, TOLERANCE = 1.0, 1e-4  # of the logistic regression
FOLDS = 5


class Groups(NamedTuple):
    """Two captions and two images per instance.

    Attributes:
        similarities: (n, caption, image).
        texts: the two captions of each, in the order of the similarities.
        images: name of the positive image: the cluster of the intervals, and what folds keep together.
    """

    similarities: Floats
    texts: Sequence[tuple[str, str]]
    images: Sequence[str]


def compute_matching_gains(similarities: pd.DataFrame, task: Task, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return value and gain of each wrapper for every model; the columns are ``COLUMNS``, values in [0, 1].

    ``gain`` is the difference to the model alone with its 95 % interval, ``permuted`` and ``permuted_gain`` are value
    and gain of the control. ``n`` counts instances. Instances without all four similarities are left out.

    Args:
        similarities: table ``similarities`` of one benchmark.
        task: the benchmark's task, for the captions.
        bootstrap: settings of the intervals; its seed is also that of folds and deals.

    Raises:
        DataError: a model has too few instances with two captions and two images, or was scored with other texts.
    """
    captions = _list_captions(task)
    rows = []
    for model, of_model in similarities.groupby("model", sort=False):
        groups = _build_groups(of_model, captions, str(model))
        clusters = assign_clusters(pd.DataFrame({"image_id": groups.images}))
        alone, *_ = hits = _score_wrappers(groups, bootstrap.seed)
        coin = np.random.default_rng(bootstrap.seed).random(len(alone)) < 0.5
        deals = [
            _score_wrappers(_deal_captions(groups, swapped), bootstrap.seed) for swapped in (coin, ~coin)
        ]
        control = (deals[0] + deals[1]) / 2
        figures = _compute_figures(hits, hits - alone, clusters, bootstrap)
        permuted = control.mean(axis=1)
        for (wrapper, setting), values, value in zip(WRAPPERS, figures, permuted, strict=True):
            name = of_model["benchmark"].iloc[0]
            rows.append((model, name, wrapper, setting, *values, value, value - permuted[0], len(alone)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _list_captions(task: Task) -> dict[str, tuple[str, str, str]]:
    """Return instance -> (hash of its texts, caption, negative caption)."""
    if not isinstance(task, Comparisons):
        return {}
    names = ("caption", "negative_caption")
    texts = zip(hash_texts(task), *(task.rows[name] for name in names), strict=True)
    return dict(zip(task.rows["instance_id"], texts, strict=True))


def _build_groups(rows: pd.DataFrame, captions: dict[str, tuple[str, str, str]], model: str) -> Groups:
    """Return the groups of a model."""
    complete = rows[rows[list(SCORES)].notna().all(axis=1)]
    wrong = [
        name
        for name, texts in zip(complete["instance_id"], complete[TEXTS_HASH], strict=True)
        if name not in captions or (isinstance(texts, str) and texts != captions[name][0])
    ]
    if wrong:
        raise DataError(
            f"Instances of model {model!r} that are not those of --data: {len(wrong)}\n"
            f"{format_items([repr(name) for name in wrong])}\nGive the release that the results are of."
        )
    if (images := complete["image_id"].nunique()) < FOLDS:
        raise DataError(
            f"Model {model!r} has {len(complete)} instances with two captions and two images, all scored, and {images} "
            f"positive images. Matching needs at least {FOLDS}, as in Winoground or BiVLC; in SugarCrepe an instance has one image."
        )
    similarities = complete[list(SCORES)].to_numpy(float).reshape(-1, 2, 2)
    texts = [captions[name][1:] for name in complete["instance_id"]]
    return Groups(similarities, texts, list(complete["image_id"]))


def _deal_captions(groups: Groups, swapped: Bools) -> Groups:
    """Return the groups with the captions of some in the other order."""
    similarities = np.where(swapped[:, None, None], groups.similarities[:, ::-1], groups.similarities)
    texts = [pair[::-1] if swap else pair for pair, swap in zip(groups.texts, swapped, strict=True)]
    return groups._replace(similarities=similarities, texts=texts)


def _score_wrappers(groups: Groups, seed: int) -> Floats:
    """Return the share of images that get their caption, by wrapper and group: (wrappers, n).

    The caption of the first image is the first one, and that of the second image the second one.
    """
    leans = compute_leans(groups, seed)
    return np.stack([np.heaviside(lean * [1, -1], 0.5).mean(axis=1) for lean in leans])


def compute_leans(groups: Groups, seed: int) -> list[Floats]:
    """Return by how much each image prefers the first caption, (n, 2), for each of ``WRAPPERS``."""
    alone = groups.similarities[:, 0] - groups.similarities[:, 1]
    margin = alone[:, 0] - alone[:, 1]
    words = _count_word_differences(groups.texts)
    transductive = _learn_leans(alone, words, np.ones(len(alone), bool), seed)
    disjoint = np.zeros_like(alone)
    for fold in group_folds(CrossValidation(groups.images, FOLDS, seed)):
        disjoint[fold.test] = _learn_leans(alone, words, fold.train, seed)[fold.test]
    return [alone, np.stack([margin, -margin], axis=1), disjoint, transductive]


def _learn_leans(alone: Floats, words: Any, train: Bools, seed: int) -> Floats:
    """Return the preferences of all images, learned from the matches of the training groups, (n, 2).

    Args:
        alone: preferences of the images without a wrapper, (n, 2).
        words: (n, d) sparse, words of the first caption minus those of the second.
        train: (n,) groups to learn from.
        seed: seed of the solver.
    """
    from scipy.sparse import csr_matrix, hstack, vstack

    margin = alone[:, 0] - alone[:, 1]
    sure = train & (np.abs(margin) >= np.quantile(np.abs(margin[train]), 1 - SHARE)) & (margin != 0)
    scale = float(np.sqrt((alone[train] ** 2).mean())) or 1.0
    features = [hstack([csr_matrix(alone[:, [image]] / scale), words]).tocsr() for image in (0, 1)]
    label = np.sign(margin[sure])[:, None]
    true_minus_false = vstack([features[0][sure].multiply(label), features[1][sure].multiply(-label)]).tocsr()
    weights = fit_sparse_pair_weights(true_minus_false, cost=COST, tolerance=TOLERANCE, seed=seed)
    return np.stack([part @ weights for part in features], axis=1)


def _count_word_differences(texts: Sequence[tuple[str, str]]) -> Any:
    """Return counts of words and pairs of words of each first caption minus those of the second, (n, d) sparse."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=_list_terms)
    counts = counter.fit_transform([text for pair in texts for text in sorted(pair)])
    order = np.array([1.0 if pair == tuple(sorted(pair)) else -1.0 for pair in texts])
    return (counts[0::2] - counts[1::2]).multiply(order[:, None]).tocsr()


def _list_terms(text: str) -> list[str]:
    words = tokenize_text(text)
    return [*words, *map(" ".join, itertools.pairwise(words))]


def _compute_figures(hits: Floats, gains: Floats, clusters: Any, bootstrap: Bootstrap) -> Floats:
    """Return value, interval, gain and its interval of each wrapper, (wrappers, 6)."""
    columns = np.concatenate([hits, gains]).T
    samples = bootstrap_means(columns, clusters, resamples=bootstrap.n_bootstrap, seed=bootstrap.seed)
    images, means = count_clusters(columns, clusters), columns.mean(axis=0)
    count = len(hits)
    low, high = fraction_intervals(means[:count], samples[:, :count], images[:count])
    half = t.ppf((1 + LEVEL) / 2, np.maximum(images[count:] - 1, 1)) * standard_errors(
        samples[:, count:], images[count:]
    )
    gain = means[count:]
    return np.stack([means[:count], low, high, gain, gain - half, gain + half], axis=1)
