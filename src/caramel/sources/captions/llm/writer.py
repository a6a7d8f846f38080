"""Hard negatives and paraphrases by language models; every reply is kept, and all else is a function of the replies."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.interfaces.writer import Part, Written
from caramel.schemas.io import build_frame
from caramel.schemas.llm import VERDICTS
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.llm.budget import Spent
from caramel.sources.captions.llm.conversation import Outcome, Rules, Script
from caramel.sources.captions.llm.response_cache import ReplyStore, open_replies
from caramel.sources.captions.llm.scheduler import Asking
from caramel.sources.captions.llm.settings import Settings, adopt, judges_of, writer_of
from caramel.sources.captions.llm.workflows import SUBTYPES, write_negative, write_paraphrase
from caramel.sources.captions.tokenization import sentence

STORE = Path("work/replies/replies.sqlite")
NAME = "language_model"


def language_negatives(
    pairs: pd.DataFrame,
    *,
    seed: int,
    attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    store: Path = STORE,
    **unused: object,
) -> Written:
    """Return hard negatives of the drawn subtypes and one paraphrase for each pair, where a model writes them.

    Args:
        pairs: table ``pairs``; all captions of an image count as said of it.
        seed: what is drawn depends on this, the pair's name and the subtype alone.
        attempts: at a text.
        parts: what is wanted.
        model: ``negatives.language_model`` of the params.
        store: where replies are kept, now and for later runs.
        unused: what other backends need.

    Raises:
        BackendError: the model cannot be loaded, refuses, or does not answer; what came is kept.
        ResourceError: a cap of the budget is reached; what came is kept.
    """
    settings = Settings(**model)
    spent = Spent(settings.budget)
    with ExitStack() as open_until_written:
        replies = open_until_written.enter_context(open_replies(store))
        adopt(replies, settings.replies)
        found: dict[str, Outcome] = {}
        for part in parts:
            named = texts(pairs, part, seed, settings.subtypes, settings.rules(attempts))
            found |= _asked(named, settings, seed, replies, spent, part)
        return _written(pairs, found, seed)._replace(replies=_used(replies, open_until_written.pop_all()))


def _used(replies: ReplyStore, still_open: ExitStack) -> Iterator[pd.DataFrame]:
    """Yield the parts of table ``replies``, and let go of the file after the last."""
    with still_open:
        yield from replies.used()


def _asked(
    named: dict[str, Callable[[], Script]],
    settings: Settings,
    seed: int,
    replies: ReplyStore,
    spent: Spent,
    part: Part,
) -> dict[str, Outcome]:
    """Return name -> outcome of the scripts of a part."""
    model = writer_of(settings, part, replies)
    asking = Asking(
        (begin() for begin in named.values()),
        len(named),
        manner=settings.manner(model.name, seed),
        judges=judges_of(settings, replies),
        store=replies,
        spent=spent,
        title=part,
    )
    outcomes = asking.run(model)
    return {name: outcomes[place] for place, name in enumerate(named)}


def texts(
    pairs: pd.DataFrame, part: Part, seed: int, subtypes: int, rules: Rules
) -> dict[str, Callable[[], Script]]:
    """Return name -> what begins the script of each text that is wanted, in the pairs' order."""
    captions = pairs.groupby("image_id")["caption"].agg(list).to_dict()
    found: dict[str, Callable[[], Script]] = {}
    for pair_id, image_id, caption in zip(pairs["pair_id"], pairs["image_id"], pairs["caption"], strict=True):
        if part == "paraphrases":
            found[f"{pair_id}:paraphrase"] = partial(write_paraphrase, caption, rules)
            continue
        for subtype in _drawn(pair_id, seed, subtypes):
            draw = partial(_generator, seed, f"{pair_id}:{subtype}")
            begin = partial(_begun, caption, subtype, captions[image_id], draw, rules)
            found[f"{pair_id}:{subtype}"] = begin
    return found


def _begun(
    caption: str,
    subtype: str,
    captions: Iterable[str],
    draw: Callable[[int], np.random.Generator],
    rules: Rules,
) -> Script:
    return write_negative(caption, subtype, sentence(caption, captions).said, draw, rules)


def _generator(seed: int, name: str, attempt: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode()), attempt])


def _drawn(pair_id: str, seed: int, number: int) -> list[str]:
    """Return so many of the subtypes, drawn for a pair, in their order."""
    if number >= len(SUBTYPES):
        return list(SUBTYPES)
    chosen = _generator(seed, pair_id, 0).choice(len(SUBTYPES), number, replace=False)
    return [SUBTYPES[place] for place in sorted(chosen.tolist())]


def _written(pairs: pd.DataFrame, found: Mapping[str, Outcome], seed: int) -> Written:
    """Return the tables of what came of all scripts."""
    captions = dict(zip(pairs["pair_id"], pairs["caption"], strict=True))
    negatives, paraphrases, rejects = [], [], []
    for name, outcome in found.items():
        pair_id, _, subtype = name.rpartition(":")
        if outcome.text is None:
            drafted = outcome.drafts[-1].text if outcome.drafts else captions[pair_id]
            rejects.append((name, "negatives", outcome.reason, drafted))
        elif subtype == "paraphrase":
            paraphrases.append((pair_id, outcome.text, NAME, outcome.attempt))
        else:
            kind = subtype.partition("_")[0]
            negatives.append((name, pair_id, kind, subtype, outcome.text, NAME, seed, outcome.attempt, None))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(found)
    return Written(
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(REJECTS.columns)),
        verdicts=build_frame(VERDICTS, list(_verdicts(found))),
    )


def _verdicts(found: Mapping[str, Outcome]) -> Iterator[dict[str, object]]:
    for name, outcome in found.items():
        for draft in outcome.drafts:
            verdicts = asdict(draft.verdict)
            yield {
                "id": name,
                "attempt": draft.attempt,
                "text": draft.text,
                **verdicts,
                "reason": draft.reason or None,
            }
