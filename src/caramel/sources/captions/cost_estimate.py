"""What a data set by a language model will take, reckoned before anything is asked or paid for.

The scripts run as they would, on some of the texts. What is known is taken from the replies that are kept; what is not is
made up, of about the length that an answer has, and always passes: the least that a data set can take.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.interfaces.language_model import Said
from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.budget import Spent
from caramel.sources.captions.llm.checks import folded
from caramel.sources.captions.llm.conversation import Ask, Script
from caramel.sources.captions.llm.response_cache import ReplyStore, open_replies
from caramel.sources.captions.llm.scheduler import Manner, keyed
from caramel.sources.captions.llm.settings import Settings, adopt, writer_of
from caramel.sources.captions.llm.writer import STORE, texts
from caramel.sources.captions.prompts.prompt_files import Answer, written

NEW = "something"


class Forecast(NamedTuple):
    """What is still to be asked for, at the least; figures of all texts, from those of some."""

    texts: int
    looked_at: int  # texts that the figures are from
    known: int  # requests whose replies are kept already
    requests: int
    tokens_in: int
    tokens_out: int
    cost: float  # in the currency of the prices


def forecast(
    pairs: pd.DataFrame,
    *,
    seed: int,
    attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    sample: int,
    store: Path = STORE,
) -> Forecast:
    """Return what the pairs will take; no model is asked.

    Args:
        pairs: table ``pairs``.
        seed, attempts, parts, model, store: as in ``language_negatives``.
        sample: pairs at most that are looked at, evenly spread.
    """
    settings = Settings(**model)
    some = pairs.iloc[:: -(-len(pairs) // sample)] if len(pairs) else pairs
    rules = dataclasses.replace(settings.rules(attempts), required=(), judges=())
    known, new, made_up = Spent(settings.budget), Spent(settings.budget), set[str]()
    number = 0
    with open_replies(store) as replies:
        adopt(replies, settings.replies)
        for part in parts:
            manner = settings.manner(writer_of(settings, part, replies).name, seed)
            for begin in texts(some, part, seed, settings.subtypes, rules).values():
                _rehearse(begin(), manner, replies, known, new, made_up)
                number += 1
    times = len(pairs) / max(1, len(some))
    requests, read, made = (round(n * times) for n in (new.requests, new.tokens_in, new.tokens_out))
    return Forecast(
        round(number * times),
        number,
        round(known.requests * times),
        requests,
        read,
        made,
        new.cost * times,
    )


def _rehearse(
    script: Script, manner: Manner, replies: ReplyStore, known: Spent, new: Spent, made_up: set[str]
) -> None:
    """Go through a script with what is known and what is made up, and count both; what several scripts ask, once."""
    said: Said | None = None
    while True:
        try:
            ask = script.send(said) if said else next(script)
        except StopIteration:
            return
        key, request = keyed(ask, manner)
        found = replies.take(key)
        said, before = found or (Said(written(_answer(ask)), "stop"), key.reply_id in made_up)
        made_up.add(key.reply_id)
        if not before:
            (known if found else new).note(said, request)


def _answer(ask: Ask) -> Answer:
    """Return an answer of about the length that a right one has."""
    caption = next(iter(ask.given.values()))
    words = sorted(folded(caption), key=len) or [NEW]
    first, last = words[-1], words[-2 if len(words) > 1 else -1]
    changed = f"{caption.rpartition(' ')[0]} {ask.prompt}"  # each prompt's own, so that validators are asked of each
    kind, _, step = ask.prompt.rpartition("_")
    if kind == "find":
        return {{"obj": "objects", "att": "attributes", "rel": "relations"}[step]: [first, last]}
    if kind == "swap":
        return {"possible": "yes", "first": first, "second": last, "sentence": changed}
    return {
        "propose": {"new": NEW},
        "compose": {"sentence": changed},
        "negative": {"follows": "no"},
        "paraphrase": {"same": "yes", "problem": "none"} if kind else {"idea": NEW, "sentence": caption},
    }[step]
