"""Selection of hard negatives for a training set: plausible, well written, told apart, and balanced.

Steps 1 to 3 of TROHN-Img (Miranda et al. 2024, 5.2), with cleaning rules of our own: texts are compared up to
case, space and punctuation, a question is known by its mark, and what is dropped is said with the reason.

Negatives that are as good as their caption go first, so that they have no part in the percentiles; so do those of ten
signs or fewer (the authors' code drops these after the percentiles). As good as the caption means by words alike, and,
where a text encoder is given, by the cosine of the two embeddings: the authors' is CLIP ViT-B/32 (github.com/IMirandaM/BiVLC,
TROHN_Img_scoring.py and TROHN_Img_best_selection.py).
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
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import build_vector_table
from caramel.models.specs import open_model
from caramel.refine.adversarial import NO_WORDS, UNBALANCED, Within, check_grid, get_strata
from caramel.refine.mirrored_grid import UNIT, KeepMask, select_balanced
from caramel.refine.rows import build_rejects
from caramel.sources.captions.formatting import CLOSERS
from caramel.utils.arrays import Floats
from caramel.utils.text import extract_words

PERCENTILE = 64.5
MIN_SIMILARITY = 0.999  # similarity of two texts that are as good as the same
MIN_CHARACTERS = 11  # signs

BELOW = "below the percentile of its subtype under {}"
QUESTION = "the negative is a question"
UNFINISHED = "the negative has no final stop"
AS_CAPTION = "the negative is as good as its caption"
SHORT = f"the negative has fewer than {MIN_CHARACTERS} signs"
TWICE = "the negative stands elsewhere already"


def score_rows(
    rows: pd.DataFrame, scorers: Sequence[str], *, folds: int, seed: int, folder: Path
) -> tuple[Floats, Floats]:
    """Return the scores of captions and of negatives, (n, k) each, in [0, 1], in the rows' order.

    What does not fit into one shard is spread over Ray's workers; memory depends on the size of a shard.

    Args:
        rows: audit rows, at least one.
        scorers: k of them; see ``blind.scorer_specs``.
        folds: of the cross-validation within a shard.
        seed: of shards, folds and draws.
        folder: for finished shards, which are not scored again.

    Raises:
        BackendError: there is no scorer of that name, or its model cannot be loaded.
    """
    files = compute_sharded_scores(
        rows,
        scorers,
        folds=folds,
        seed=seed,
        folder=folder,
        executor="ray" if len(rows) > SHARD else "inline",
    )
    scores = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    wide = scores.pivot(index="negative_id", columns="scorer").loc[rows["pair_id"]]
    positive, negative = (wide[c][list(scorers)].to_numpy() for c in ("positive_score", "negative_score"))
    return positive, negative


def compute_cosines(rows: pd.DataFrame, model: str) -> Floats:
    """Return the cosine of each caption and its negative under a model's text encoder, in [-1, 1]. (n,).

    Args:
        rows: columns caption and negative_caption.
        model: spec of a dual or text encoder, see ``models.specs``; its vectors are kept as those of scorers.

    Raises:
        BackendError: the model cannot be loaded, or embeds no texts.
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
    """Return the ``vector_table`` of the texts' embeddings."""
    return build_vector_table(
        [compute_text_key(text) for text in texts], _open_encoder(model).encode_texts(texts, None)
    )


def _open_encoder(spec: str) -> DualEncoder | TextEncoder:
    model = open_model(spec, "auto", "fp32")
    if not isinstance(model, DualEncoder | TextEncoder):
        raise BackendError(
            f"Model {spec!r} embeds no texts. Give a dual encoder, such as ViT-B-32-quickgelu:openai, or text:FOLDER."
        )
    return model


class Selection(NamedTuple):
    """The rows that are kept, and the others as table ``rejects``."""

    rows: pd.DataFrame
    rejects: pd.DataFrame


def select_negatives(
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
) -> Selection:
    """Return the best rows by the scores of their negatives, cleaned, and balanced on the grid of the gaps.

    1. The negative has ``SHORTEST`` signs or more, and is not as good as its caption (``ALIKE``).
    2. Its score is at or above the percentile of its subtype under every scorer, of the rows that came so far.
    3. It has words, is no question, ends with a stop, and does not stand in another row that came so far with a
       smaller pair_id.
    4. ``balance.balanced``.

    Args:
        rows: audit rows; only pair_id, subtype, caption and negative_caption are read.
        positive: (n, k) scores of the captions in [0, 1].
        negative: (n, k) scores of the negatives in [0, 1].
        scorers: k names, such as plausibility and acceptability.
        cell: side of a grid cell.
        within: whether each subtype has a grid of its own.
        seed: of the grid's draw.
        percentile: in [0, 100]; linear interpolation between ranks.
        similarity: (n,) of caption and negative, such as ``cosines``; None: that of their words alone counts.

    The order of the rows changes nothing but the order of the rows.

    Raises:
        ConfigError: as ``refine.check_grid``, or the percentile is not in [0, 100].
        DataError: a score is NaN or not in [0, 1], or a similarity is not finite.
    """
    check_grid(scorers, cell)
    if not 0 <= percentile <= 100:
        raise ConfigError(f"percentile = {percentile!r} must be in [0, 100].")
    _check_scores(positive, negative, scorers, len(rows))
    if similarity is not None:
        _check_similarity(similarity, len(rows))
    rows = rows.reset_index(drop=True)
    reasons = np.full(len(rows), "", dtype=object)
    written = zip(rows["caption"], rows["negative_caption"], strict=True)
    reasons[[_is_near_copy(*texts) for texts in written]] = AS_CAPTION
    if similarity is not None:
        reasons[similarity >= MIN_SIMILARITY] = AS_CAPTION
    reasons[(rows["negative_caption"].str.len() < MIN_CHARACTERS).to_numpy(bool)] = SHORT
    left = np.flatnonzero(reasons == "")
    for column in reversed(range(len(scorers))):  # so that the first scorer's reason stands
        low = ~_build_percentile_mask(negative[left, column], rows["subtype"].iloc[left], percentile)
        reasons[left[low]] = BELOW.format(scorers[column])
    left = left[reasons[left] == ""]
    reasons[left] = _find_text_faults(rows.iloc[left])
    left = left[reasons[left] == ""]
    part = rows.iloc[left]
    gaps = np.rint((positive[left] - negative[left]) * UNIT).astype(np.int64)
    keep_mask = select_balanced(
        gaps, part["pair_id"].tolist(), get_strata(part, within), cell=cell, seed=seed
    )
    reasons[left[~keep_mask]] = UNBALANCED
    selected = Selection(rows[reasons == ""].reset_index(drop=True), build_rejects(rows, reasons))
    assert len(selected.rows) + len(selected.rejects) == len(rows)
    return selected


def _check_scores(positive: Floats, negative: Floats, scorers: Sequence[str], rows: int) -> None:
    """Raise a DataError unless both are (rows, scorers) and in [0, 1]."""
    for name, scores in (("caption", positive), ("negative", negative)):
        if scores.shape != (rows, len(scorers)):
            raise DataError(
                f"Scores of the {name}s have shape {scores.shape}; {rows} rows and {len(scorers)} scorers "
                f"need {(rows, len(scorers))}."
            )
        bad = ~((scores >= 0) & (scores <= 1))
        if bad.any():
            raise DataError(
                f"{int(bad.sum())} scores of {name}s are not in [0, 1], the first of them "
                f"{float(scores[bad][0])!r}. Score these texts again."
            )


def _check_similarity(similarity: Floats, rows: int) -> None:
    """Raise a DataError unless it is (rows,) and finite: what is no number would pass for unlike its caption."""
    if similarity.shape != (rows,):
        raise DataError(f"The similarity has shape {similarity.shape}; {rows} rows need {(rows,)}.")
    bad = ~np.isfinite(similarity)
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} similarities of a caption and its negative are not finite, the first of them "
            f"{float(similarity[bad][0])!r}. Embed these texts again, or leave --similarity out."
        )


def _build_percentile_mask(scores: Floats, subtypes: pd.Series[str], percentile: float) -> KeepMask:
    """Return which scores are at or above the percentile of their subtype. (n,)."""
    codes, names = pd.factorize(subtypes)
    bounds = np.array([np.percentile(scores[codes == code], percentile) for code in range(len(names))])
    above: KeepMask = scores >= bounds[codes] if len(names) else np.zeros(0, dtype=np.bool_)
    return above


def _find_text_faults(rows: pd.DataFrame) -> list[str]:
    """Return what is wrong with each row's negative, or the empty text; duplicates are looked for last. (n,)."""
    negatives = [" ".join(extract_words(text)) for text in rows["negative_caption"]]
    faults = [_find_fault(*texts) for texts in zip(rows["negative_caption"], negatives, strict=True)]
    good = [i for i, fault in enumerate(faults) if not fault]
    names = rows["pair_id"].to_numpy(dtype=object)
    first: dict[str, int] = {}
    for i in sorted(good, key=lambda i: names[i]):
        if first.setdefault(negatives[i], i) != i:
            faults[i] = TWICE
    return faults


def _find_fault(text: str, words: str) -> str:
    """Return what is wrong with a negative by itself, or the empty text."""
    end = text.rstrip().rstrip(CLOSERS)[-1:]
    if not words:
        return NO_WORDS
    if end == "?":
        return QUESTION
    return UNFINISHED if end != "." else ""


def _is_near_copy(caption: str, negative: str) -> bool:
    """Return whether the words of both are as good as the same; no words are like none."""
    from rapidfuzz.distance import Levenshtein

    caption_words, other = (" ".join(extract_words(text)) for text in (caption, negative))
    return (
        bool(other)
        and Levenshtein.normalized_similarity(caption_words, other, score_cutoff=MIN_SIMILARITY)
        >= MIN_SIMILARITY
    )
