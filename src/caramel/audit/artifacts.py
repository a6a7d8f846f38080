"""What gives the true caption away: the terms of the learned attacker, and simple properties of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from caramel.blind.scorers import DECIMALS, deduplicate_texts
from caramel.blind.text import surface
from caramel.blind.text.linear_probe import CAP, COST, extract_words, fit_weights
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.arrays import Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.stats import wilson_interval

TOP = 20  # terms per type
SHOWN = 5  # pairs per finding

# Property -> what a text is that has more of it, and one that has less.
PROPERTIES = {
    "length": ("shorter", "longer"),
    "words": ("of fewer words", "of more words"),
    "tokens": ("of fewer words and punctuation marks", "of more words and punctuation marks"),
    "final_punctuation": ("without a final stop", "with a final stop"),
    "casing": ("of odder capital letters", "of more usual capital letters"),
    "digits": ("of more digits", "of fewer digits"),
    "articles": ("of a greater share of articles", "of a smaller share of articles"),
}
Artifacts = dict[str, dict[str, list[dict[str, Any]]]]  # type -> terms, properties -> findings


def find_artifacts(rows: pd.DataFrame, *, seed: int) -> Artifacts:
    """Return by type what an attacker can go by: ``terms`` and ``properties``, most telling first.

    Each finding has ``true_captions`` and ``negatives``, the rows in which the caption, or the negative,
    has more of it than the other, and ``examples``: pair_ids of up to five rows that it gives away.

    - A term is a word, two neighbouring words, or a length, with the ``weight`` that scorer ``probe``
      gives it when it is shown all pairs: above 0 where it speaks for the true caption. The ``TOP`` terms
      whose weight, over all pairs, sets the two captions apart most.
    - A property is one that a rule of ``surface`` measures; ``true_caption_is`` says which way it points.
      Left out are those that point neither way for certain (95 % interval, a tie counted half).

    Weights are of all pairs, so this explains the data set; it is no measure of accuracy.
    """
    rows = rows.sort_values("pair_id", ignore_index=True)
    return {
        str(type_name): {
            "terms": _find_term_artifacts(part, seed),
            "properties": _find_property_artifacts(part),
        }
        for type_name, part in rows.groupby("type", sort=True)
    }


def _find_term_artifacts(rows: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    names = rows["pair_id"].tolist()
    texts, sides = deduplicate_texts(rows["caption"].tolist(), rows["negative_caption"].tolist())
    terms = Terms.from_items(texts, extract_words)
    features = terms.count_terms(np.arange(len(texts)))
    drawn = np.sort(np.argsort(compute_stable_keys(names, seed), kind="stable")[:CAP])
    weights = fit_weights(
        features, sides[:, drawn[np.lexsort((sides[1, drawn], sides[0, drawn]))]], COST, seed
    )
    more = (features[sides[0]] - features[sides[1]]).sign().tocsc()
    separation = np.abs(weights) * np.asarray(np.abs(more).sum(axis=0)).reshape(-1)
    findings = []
    for i in np.argsort(-separation.round(DECIMALS), kind="stable")[:TOP].tolist():
        if separation[i] > 0:
            column = more[:, [i]].toarray().reshape(-1)
            weight = round(float(weights[i]), DECIMALS)
            findings.append(
                {"term": terms.names[i], "weight": weight, **_count_by_sign(column, weight, names)}
            )
    return findings


def _find_property_artifacts(rows: pd.DataFrame) -> list[dict[str, Any]]:
    names = rows["pair_id"].tolist()
    findings: list[tuple[float, dict[str, Any]]] = []
    for name, words in PROPERTIES.items():
        rule: surface.Rule = getattr(surface, name)
        sides = rule.measure_texts(rows["caption"].tolist(), rows["negative_caption"].tolist())
        more = np.sign(sides[0] - sides[1])
        share = float((1 + more).mean() / 2)
        low, high = wilson_interval(share, len(rows))
        if low > 0.5 or high < 0.5:
            way = words[0] if share > 0.5 else words[1]
            counts = _count_by_sign(more, share - 0.5, names)
            findings.append((abs(share - 0.5), {"property": name, "true_caption_is": way, **counts}))
    return [finding for _, finding in sorted(findings, key=lambda item: -item[0])]


def _count_by_sign(more: Floats | Ints, direction: float, names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of rows of each sign, and examples of those that the direction is right on."""
    right = np.flatnonzero(more * np.sign(direction) > 0)[:SHOWN]
    return {
        "true_captions": int((more > 0).sum()),
        "negatives": int((more < 0).sum()),
        "examples": [names[i] for i in right.tolist()],
    }
