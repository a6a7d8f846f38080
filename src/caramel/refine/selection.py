"""Select hard negatives for a training set: plausible, well written, distinct from their caption, and balanced.

Steps 1 to 3 of TROHN-Img (Miranda et al. 2024, 5.2), with caramel's own cleaning rules:

- Texts are compared by their words: case, white space and punctuation do not count.
- A text that ends with a question mark is a question.
- Every dropped row is reported with its reason.

Two kinds of negatives are dropped before the percentiles, so that they have no part in them: near copies of their
caption, and negatives of ten characters or fewer (the authors' code drops the short ones after the percentiles). A
near copy has nearly the caption's words or, if a text encoder is given, a cosine of the two embeddings near 1. The
authors' encoder is CLIP ViT-B/32 (github.com/IMirandaM/BiVLC, TROHN_Img_scoring.py and TROHN_Img_best_selection.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from caramel.blind.sharded_scores import SHARD, compute_sharded_scores
from caramel.blind.text.text_embedding_cache import compute_text_vectors
from caramel.errors import BackendError, ConfigError, DataError
from caramel.interfaces.model import DualEncoder, TextEncoder
from caramel.interfaces.settings import Executor
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import build_vector_table
from caramel.models.specs import open_model
from caramel.refine.adversarial import UNBALANCED, Reasons, Within, check_grid, get_strata
from caramel.refine.mirrored_grid import UNIT, KeepMask, select_balanced
from caramel.refine.negative_faults import MIN_SIMILARITY, build_near_copy_mask, find_text_faults
from caramel.refine.rows import build_rejects
from caramel.utils.arrays import Floats, TextIndex, iter_texts

PERCENTILE = 64.5
MIN_CHARACTERS = 11

BELOW = "below the percentile of its subtype under {}"
AS_CAPTION = "the negative is as good as its caption"
SHORT = f"the negative has fewer than {MIN_CHARACTERS} signs"


def score_rows(
    rows: pd.DataFrame,
    scorers: Sequence[str],
    *,
    folds: int,
    seed: int,
    folder: Path,
    executor: Executor = "ray",
) -> tuple[Floats, Floats]:
    """Return the scores of captions and of negatives, (n, k) each, in [0, 1], in the rows' order.

    Memory depends on the size of a shard.

    Args:
        rows: audit rows, at least one.
        scorers: names of k scorers; see ``blind.scorer_specs``.
        folds: number of folds of the cross-validation within a shard.
        seed: seed of shards, folds and sampling.
        folder: folder of finished shards, which are not scored again.
        executor: how several shards are scored; a single one is scored in this process.

    Raises:
        BackendError: a scorer is unknown, or its model cannot be loaded.
    """
    files = compute_sharded_scores(
        rows,
        scorers,
        folds=folds,
        seed=seed,
        folder=folder,
        executor=executor if len(rows) > SHARD else "inline",
    )
    positive, negative = (np.full((len(rows), len(scorers)), np.nan) for _ in range(2))
    index = TextIndex(rows["pair_id"])
    for path in files:  # one shard at a time: all of them would be millions of Python texts
        shard = pd.read_parquet(path)
        for column, scorer in enumerate(scorers):
            part = shard[shard["scorer"] == scorer]
            at = index.find_indices(part["negative_id"])
            positive[at, column], negative[at, column] = part["positive_score"], part["negative_score"]
    return positive, negative


def compute_cosines(rows: pd.DataFrame, model: str) -> Floats:
    """Return the cosine of each caption and its negative under a model's text encoder, in [-1, 1]. (n,).

    Args:
        rows: table with the columns ``caption`` and ``negative_caption``.
        model: spec of a dual or text encoder, see ``models.specs``. Its vectors are cached like those of scorers.

    Raises:
        BackendError: the model cannot be loaded, or does not embed texts.
    """
    texts = sorted({*rows["caption"], *rows["negative_caption"]})
    if not texts:
        return np.zeros(0)
    vectors = compute_text_vectors(
        texts,
        embedded,
        settings={"model": model},
        identity=_open_encoder(model).identity,
        title="text cosines",
    )
    positions = {text: n for n, text in enumerate(texts)}
    sides = [[positions[text] for text in rows[column]] for column in ("caption", "negative_caption")]
    parts = [
        np.einsum("nd,nd->n", *(vectors[side[start : start + SHARD]].astype(np.float64) for side in sides))
        for start in range(0, len(rows), SHARD)
    ]
    return np.concatenate(parts)


def embedded(texts: Sequence[str], *, model: str) -> pa.Table:
    """Return the texts' embeddings as a table of ``build_vector_table``."""
    return build_vector_table(
        [compute_text_key(text) for text in texts], _open_encoder(model).encode_texts(texts, None)
    )


def _open_encoder(spec: str) -> DualEncoder | TextEncoder:
    model = open_model(spec, "auto", "fp32")
    if not isinstance(model, DualEncoder | TextEncoder):
        raise BackendError(
            f"Model {spec!r} does not embed texts. Give a dual encoder, such as ViT-B-32-quickgelu:openai, or text:FOLDER."
        )
    return model


class Selection(NamedTuple):
    """The selected rows, and the other rows as table ``rejects``."""

    rows: pd.DataFrame
    rejects: pd.DataFrame


def select_rows(rows: pd.DataFrame, reasons: Reasons) -> Selection:
    """Return the rows without a reason of ``find_reasons``, and the other rows."""
    rows = rows.reset_index(drop=True)
    selected = Selection(rows[reasons == ""].reset_index(drop=True), build_rejects(rows, reasons))
    assert len(selected.rows) + len(selected.rejects) == len(rows)
    return selected


def find_reasons(
    rows: pd.DataFrame,
    positive: Floats,
    negative: Floats,
    *,
    scorers: Sequence[str],
    cell: float,
    within: Within,
    seed: int,
    percentile: float = PERCENTILE,
    similarity: Floats | None = None,
) -> Reasons:
    """Return why each row is not selected; "" if it is among the best by the scores of the negatives. (n,).

    The selected rows are cleaned, and balanced on the grid of the gaps. A row must pass these steps in turn:

    1. The negative has at least ``MIN_CHARACTERS`` characters, and is not a near copy of its caption
       (``MIN_SIMILARITY``).
    2. Under every scorer, its score is at or above the percentile of its subtype, among the rows that passed step 1.
    3. It has words, is not a question, ends with a full stop, and has other words than each row with a smaller
       ``pair_id`` that passed so far.
    4. The grid keeps it (``mirrored_grid.select_balanced``).

    The order of the input rows affects only the order of the result.

    Args:
        rows: audit rows; only pair_id, subtype, caption and negative_caption are read.
        positive: (n, k) scores of the captions in [0, 1].
        negative: (n, k) scores of the negatives in [0, 1].
        scorers: k names, such as plausibility and acceptability.
        cell: side of a grid cell.
        within: whether each subtype has its own grid.
        seed: seed of the grid's sampling.
        percentile: in [0, 100]; ranks are interpolated linearly.
        similarity: (n,) similarity of caption and negative, such as ``compute_cosines``; None: only their words are
            compared.

    Raises:
        ConfigError: as in ``adversarial.check_grid``, or the percentile is not in [0, 100].
        DataError: a score is NaN or not in [0, 1], or a similarity is not finite.
    """
    check_grid(scorers, cell)
    if not 0 <= percentile <= 100:
        raise ConfigError(f"percentile = {percentile!r} must be in [0, 100].")
    _check_scores(positive, negative, scorers, len(rows))
    if similarity is not None:
        _check_similarity(similarity, len(rows))
    reasons = np.full(len(rows), "", dtype=object)
    reasons[build_near_copy_mask(rows["caption"], rows["negative_caption"])] = AS_CAPTION
    if similarity is not None:
        reasons[similarity >= MIN_SIMILARITY] = AS_CAPTION
    reasons[(rows["negative_caption"].str.len() < MIN_CHARACTERS).to_numpy(bool)] = SHORT
    left = np.flatnonzero(reasons == "")
    for column in reversed(range(len(scorers))):  # so that the first scorer's reason wins
        low = ~_build_percentile_mask(negative[left, column], rows["subtype"].iloc[left], percentile)
        reasons[left[low]] = BELOW.format(scorers[column])
    left = left[reasons[left] == ""]
    reasons[left] = find_text_faults(rows[["pair_id", "negative_caption"]].iloc[left])
    left = left[reasons[left] == ""]
    part = rows[["pair_id", "subtype"]].iloc[left]
    gaps = np.rint((positive[left] - negative[left]) * UNIT).astype(np.int64)
    keep_mask = select_balanced(
        gaps, iter_texts(part["pair_id"]), get_strata(part, within), cell=cell, seed=seed
    )
    reasons[left[~keep_mask]] = UNBALANCED
    return reasons


def _check_scores(positive: Floats, negative: Floats, scorers: Sequence[str], rows: int) -> None:
    """Raise a DataError unless both arrays are (rows, scorers) with values in [0, 1]."""
    for name, scores in (("caption", positive), ("negative", negative)):
        if scores.shape != (rows, len(scorers)):
            raise DataError(
                f"Scores of the {name}s have shape {scores.shape}; {rows} rows and {len(scorers)} scorers "
                f"need {(rows, len(scorers))}."
            )
        bad = ~((scores >= 0) & (scores <= 1))
        if bad.any():
            raise DataError(
                f"{int(bad.sum())} scores of {name}s are not in [0, 1]; the first is "
                f"{float(scores[bad][0])!r}. Score these texts again."
            )


def _check_similarity(similarity: Floats, rows: int) -> None:
    """Raise a DataError unless the array is (rows,) and finite: a NaN would count as different from the caption."""
    if similarity.shape != (rows,):
        raise DataError(f"The similarity has shape {similarity.shape}; {rows} rows need {(rows,)}.")
    bad = ~np.isfinite(similarity)
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} similarities of a caption and its negative are not finite; the first is "
            f"{float(similarity[bad][0])!r}. Embed these texts again, or leave --similarity out."
        )


def _build_percentile_mask(scores: Floats, subtypes: pd.Series[str], percentile: float) -> KeepMask:
    """Return which scores are at or above the percentile of their subtype. (n,)."""
    codes, names = pd.factorize(subtypes)
    bounds = np.array([np.percentile(scores[codes == code], percentile) for code in range(len(names))])
    above: KeepMask = scores >= bounds[codes] if len(names) else np.zeros(0, dtype=np.bool_)
    return above
