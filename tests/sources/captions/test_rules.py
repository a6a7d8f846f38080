"""The hard negatives of the embedded world: which words replace which."""

from __future__ import annotations

from collections import Counter

import numpy as np

from caramel.sources.captions.rules import HARD, replace_obj
from caramel.sources.world.grammar import Reading
from caramel.sources.world.scenes import LOOK_ALIKE, NOUNS, Meaning, Mention

DRAWS = 1000


def replaced(noun: str, *others: str) -> Counter[str]:
    """Return how often a noun is replaced by which, of a caption that holds others."""
    said = Reading(Meaning(tuple(Mention(n) for n in (noun, *others)), ()), 0)
    rng = np.random.default_rng(0)
    drafts = (replace_obj(said, rng) for _ in range(DRAWS * (1 + len(others))))
    firsts = [draft.meaning.mentions[0].noun for draft in drafts if isinstance(draft, Reading)]
    return Counter(new for new in firsts if new != noun)


def test_a_noun_with_a_look_alike_is_mostly_replaced_by_it() -> None:
    for noun, alike in LOOK_ALIKE.items():
        assert abs(replaced(noun)[alike] / DRAWS - HARD) < 0.06
        assert not replaced(noun, alike)[alike], "the caption holds it"


def test_nouns_are_as_frequent_among_negatives_as_among_captions() -> None:
    counts = {noun: replaced(noun) for noun in NOUNS}
    into = sum(counts.values(), Counter())
    for noun in NOUNS:
        assert abs(into[noun] / DRAWS - 1) < 0.15, noun
        assert all((other in LOOK_ALIKE) == (noun in LOOK_ALIKE) for other in counts[noun])
