"""Measure a validator on items with known answers, and find one that is no better than chance.

*Sensitivity* is the share of faulty texts that it refuses, *specificity* the share of sound texts that it accepts, as
of a medical test for faults. Intervals are Wilson's, of 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.gold_items import GoldItem
from caramel.utils.stats import wilson_interval

MIN_ITEMS = 8  # answered items of each half from which on a validator is judged
LEVEL = 0.05  # of the test that it refuses faulty texts more often than sound ones
GOLD_COLUMNS = ("part", "caption", "text", "edit", "sound", "accepted")
SHARES = ("sensitivity", "specificity")
VALIDATOR_COLUMNS = (
    "part",
    "faulty",
    "faulty_refused",
    *("sensitivity", "sensitivity_low", "sensitivity_high"),
    "sound",
    "sound_accepted",
    *("specificity", "specificity_low", "specificity_high"),
    "unanswered",
    "p",
)


def build_gold_table(part: Part, items: Sequence[GoldItem], accepted: Sequence[bool | None]) -> pd.DataFrame:
    """Return the items with the validator's answers: ``GOLD_COLUMNS``.

    Args:
        part: what the validator judges. A negative is sound if it does not follow from its caption, a paraphrase if it
            says the same.
        items: texts with known answers.
        accepted: whether the validator accepts each text; None: no answer.
    """
    rows = [
        (part, item.caption, item.text, item.edit, item.same == (part == "paraphrases"), answer)
        for item, answer in zip(items, accepted, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(GOLD_COLUMNS)).astype({"sound": "bool", "accepted": "boolean"})


def compute_quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Return sensitivity and specificity for each part: ``VALIDATOR_COLUMNS``.

    Args:
        rows: from ``build_gold_table``.

    Returns:
        Counts of answered items, both shares in [0, 1] with the ends of their intervals, NaN where there is no item,
        and ``p``, that of Fisher's exact test, one-sided, that faulty texts are refused more often than sound ones.
    """
    records = []
    for part, part_rows in rows.groupby("part", sort=False):
        answered = part_rows.dropna(subset=["accepted"]).astype({"accepted": "bool"})
        sound, accepted = answered["sound"], answered["accepted"]
        faulty_refused, sound_accepted = int((~sound & ~accepted).sum()), int((sound & accepted).sum())
        n_faulty, n_sound = int((~sound).sum()), int(sound.sum())
        records.append(
            (
                part,
                *(n_faulty, faulty_refused, *_compute_share(faulty_refused, n_faulty)),
                *(n_sound, sound_accepted, *_compute_share(sound_accepted, n_sound)),
                len(part_rows) - len(answered),
                _compute_p_value(faulty_refused, n_faulty, n_sound - sound_accepted, n_sound),
            )
        )
    return pd.DataFrame(records, columns=list(VALIDATOR_COLUMNS))


def find_chance_problem(rows: pd.DataFrame) -> str | None:
    """Return in words that a validator is no better than chance; None if it is, or if there are too few items.

    Args:
        rows: from ``build_gold_table``, of one part.
    """
    if rows.empty:
        return None
    (quality,) = compute_quality(rows).to_dict("records")
    if min(quality["faulty"], quality["sound"]) < MIN_ITEMS or quality["p"] < LEVEL:
        return None
    accepted_faulty = quality["faulty"] - quality["faulty_refused"]
    return (
        f"The validator of {quality['part']} is no better than chance on texts with known answers: it accepts "
        f"{quality['sound_accepted']} of {quality['sound']} that are sound and {accepted_faulty} of "
        f"{quality['faulty']} that are not (p = {quality['p']:.2g})."
    )


def _compute_share(hits: int, number: int) -> tuple[float, float, float]:
    low, high = wilson_interval(hits / number if number else 0.0, number)
    return (hits / number if number else float("nan")), float(low), float(high)


def _compute_p_value(faulty_refused: int, faulty: int, sound_refused: int, sound: int) -> float:
    from scipy.stats import fisher_exact

    table = [[faulty_refused, faulty - faulty_refused], [sound_refused, sound - sound_refused]]
    return float(fisher_exact(table, alternative="greater")[1])
