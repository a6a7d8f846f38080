"""What gives the true caption away: the terms of the learned attacker, and simple properties of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from caramel.blind.scorers import DECIMALS, places
from caramel.blind.text import surface
from caramel.blind.text.linear_probe import CAP, COST, learn, words_of
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.arrays import Floats, Ints
from caramel.utils.hashing import stable_keys
from caramel.utils.stats import wilson

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
Giveaways = dict[str, dict[str, list[dict[str, Any]]]]  # type -> terms, properties -> findings


def giveaways(rows: pd.DataFrame, *, seed: int) -> Giveaways:
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
        str(kind): {"terms": _terms(part, seed), "properties": _properties(part)}
        for kind, part in rows.groupby("type", sort=True)
    }


def _terms(rows: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    names = rows["pair_id"].tolist()
    texts, sides = places(rows["caption"].tolist(), rows["negative_caption"].tolist())
    terms = Terms.of(texts, words_of)
    features = terms.of_items(np.arange(len(texts)))
    drawn = np.sort(np.argsort(stable_keys(names, seed), kind="stable")[:CAP])
    weights = learn(features, sides[:, drawn[np.lexsort((sides[1, drawn], sides[0, drawn]))]], COST, seed)
    more = (features[sides[0]] - features[sides[1]]).sign().tocsc()
    apart = np.abs(weights) * np.asarray(np.abs(more).sum(axis=0)).reshape(-1)
    found = []
    for i in np.argsort(-apart.round(DECIMALS), kind="stable")[:TOP].tolist():
        if apart[i] > 0:
            column = more[:, [i]].toarray().reshape(-1)
            weight = round(float(weights[i]), DECIMALS)
            found.append({"term": terms.names[i], "weight": weight, **_counts(column, weight, names)})
    return found


def _properties(rows: pd.DataFrame) -> list[dict[str, Any]]:
    names = rows["pair_id"].tolist()
    found: list[tuple[float, dict[str, Any]]] = []
    for name, words in PROPERTIES.items():
        rule: surface.Rule = getattr(surface, name)
        sides = rule.measured(rows["caption"].tolist(), rows["negative_caption"].tolist())
        more = np.sign(sides[0] - sides[1])
        share = float((1 + more).mean() / 2)
        low, high = wilson(share, len(rows))
        if low > 0.5 or high < 0.5:
            way = words[0] if share > 0.5 else words[1]
            counts = _counts(more, share - 0.5, names)
            found.append((abs(share - 0.5), {"property": name, "true_caption_is": way, **counts}))
    return [finding for _, finding in sorted(found, key=lambda item: -item[0])]


def _counts(more: Floats | Ints, direction: float, names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of rows of each sign, and examples of those that the direction is right on."""
    right = np.flatnonzero(more * np.sign(direction) > 0)[:SHOWN]
    return {
        "true_captions": int((more > 0).sum()),
        "negatives": int((more < 0).sum()),
        "examples": [names[i] for i in right.tolist()],
    }
