"""Find text artifacts: terms of a learned attacker and simple properties that tell the true caption."""

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

# Property -> description of a text that has more of it, and of a text that has less.
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
    """Return by type the artifacts that an attacker can use: ``terms`` and ``properties``, strongest first.

    Each finding has:

    - ``true_captions``: number of rows in which the caption has more of it than the negative
    - ``negatives``: number of rows in which the negative has more of it than the caption
    - ``examples``: pair_ids of up to five rows that it reveals

    There are two sorts of findings:

    - A term is a word, a word bigram or a length. Its ``weight`` is that of scorer ``probe`` trained on all
      pairs; above 0, the term indicates the true caption. The ``TOP`` terms that separate the captions most
      over all pairs are listed.
    - A property is measured by a rule of ``surface``. ``true_caption_is`` states its direction. Properties
      without a certain direction are left out (95 % interval, ties counted half).

    Weights are trained on all pairs, so they explain the data set. They do not measure accuracy.
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
    """Return the number of rows with each sign, and examples of rows on which the direction is right."""
    right = np.flatnonzero(more * np.sign(direction) > 0)[:SHOWN]
    return {
        "true_captions": int((more > 0).sum()),
        "negatives": int((more < 0).sum()),
        "examples": [names[i] for i in right.tolist()],
    }
