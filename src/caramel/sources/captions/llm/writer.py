"""Write hard negatives and paraphrases by language models; all tables depend only on the stored responses."""

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

from caramel.interfaces.language_model import LanguageModel
from caramel.interfaces.writer import Part, WrittenCaption
from caramel.schemas.io import build_frame
from caramel.schemas.llm import VERDICTS
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.llm.budget import Usage
from caramel.sources.captions.llm.conversation import Outcome, Script, ScriptRules
from caramel.sources.captions.llm.corrections import count_corrections
from caramel.sources.captions.llm.models import NamedModel, OneModel
from caramel.sources.captions.llm.response_cache import ReplyStore, open_replies
from caramel.sources.captions.llm.scheduler import RequestSettings, Scheduler
from caramel.sources.captions.llm.settings import (
    LanguageModelSettings,
    import_replies,
    load_judges,
    load_writer,
)
from caramel.sources.captions.llm.validator import check_validator, measure_validator, select_gold_items
from caramel.sources.captions.llm.workflows import SUBTYPES, write_negative, write_paraphrase
from caramel.sources.captions.tokenization import parse_sentence

STORE = Path("work/replies/replies.sqlite")
NAME = "language_model"


def language_negatives(
    pairs: pd.DataFrame,
    *,
    seed: int,
    max_attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    store: Path = STORE,
    **unused: object,
) -> WrittenCaption:
    """Return hard negatives of the drawn subtypes and one paraphrase for each pair, where a model writes them.

    Args:
        pairs: table ``pairs``; a word of any caption of an image counts as true of the image.
        seed: each draw depends only on this, the pair's name and the subtype.
        max_attempts: largest number of attempts at a text.
        parts: the parts to write.
        model: ``negatives.language_model`` of the params, and ``spacy_model``.
        store: path of the stored responses, also for later runs.
        unused: arguments of other backends.

    Raises:
        BackendError: the model cannot be loaded, refuses, or does not respond, or its verdict is required and no
            better than chance; responses so far are saved.
        ResourceError: a cap of the budget is reached; responses so far are saved.
    """
    settings = LanguageModelSettings(**model)
    spent = Usage(settings.budget)
    with ExitStack() as open_until_written:
        replies = open_until_written.enter_context(open_replies(store))
        import_replies(replies, settings.replies)
        gold_tables, plans = [], []
        open_once = OneModel[LanguageModel]()
        for part in parts:  # every validator is measured before anything is written
            loaded = load_writer(settings, part, replies, open_once)
            request_settings = settings.build_request_settings(loaded.name, seed)
            run = partial(run_scripts, loaded, request_settings, settings, replies, spent)
            items = select_gold_items(pairs, part, settings, request_settings, seed, replies)
            gold_tables.append(measure_validator(part, items, run))
            rules = check_validator(gold_tables[-1], settings.build_rules(max_attempts))
            plans.append((part, run, rules))
        outcomes: dict[str, Outcome] = {}
        for part, run, rules in plans:
            outcomes |= run(plan_scripts(pairs, part, seed, settings.subtypes, rules), part)
        return _build_tables(pairs, outcomes, seed)._replace(
            replies=_iter_used_replies(replies, open_until_written.pop_all()),
            gold_items=pd.concat(gold_tables, ignore_index=True),
            corrections=count_corrections(
                (draft.corrects, draft.reason) for outcome in outcomes.values() for draft in outcome.drafts
            ),
        )


def _iter_used_replies(replies: ReplyStore, still_open: ExitStack) -> Iterator[pd.DataFrame]:
    """Yield the parts of table ``replies``, and close the file after the last."""
    with still_open:
        yield from replies.iter_used_replies()


def run_scripts(
    model: NamedModel[LanguageModel],
    request_settings: RequestSettings,
    settings: LanguageModelSettings,
    replies: ReplyStore,
    spent: Usage,
    scripts: Mapping[str, Callable[[], Script]],
    title: str,
) -> dict[str, Outcome]:
    """Return name -> outcome of scripts that use one model."""
    scheduler = Scheduler(
        (begin() for begin in scripts.values()),
        len(scripts),
        request_settings=request_settings,
        judges=load_judges(settings, replies),
        store=replies,
        spent=spent,
        title=title,
    )
    outcomes = scheduler.run(model)
    return {name: outcomes[index] for index, name in enumerate(scripts)}


def plan_scripts(
    pairs: pd.DataFrame, part: Part, seed: int, subtypes: int, rules: ScriptRules
) -> dict[str, Callable[[], Script]]:
    """Return name -> function that starts the script of a text, in the order of the pairs."""
    captions = pairs.groupby("image_id")["caption"].agg(list).to_dict()
    scripts: dict[str, Callable[[], Script]] = {}
    for pair_id, image_id, caption in zip(pairs["pair_id"], pairs["image_id"], pairs["caption"], strict=True):
        if part == "paraphrases":
            scripts[f"{pair_id}:paraphrase"] = partial(write_paraphrase, caption, rules)
            continue
        for subtype in _draw_subtypes(pair_id, seed, subtypes):
            draw = partial(_create_rng, seed, f"{pair_id}:{subtype}")
            begin = partial(_start_negative_script, caption, subtype, captions[image_id], draw, rules)
            scripts[f"{pair_id}:{subtype}"] = begin
    return scripts


def _start_negative_script(
    caption: str,
    subtype: str,
    captions: Iterable[str],
    draw: Callable[[int], np.random.Generator],
    rules: ScriptRules,
) -> Script:
    return write_negative(caption, subtype, parse_sentence(caption, captions).image_words, draw, rules)


def _create_rng(seed: int, name: str, attempt: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode()), attempt])


def _draw_subtypes(pair_id: str, seed: int, number: int) -> list[str]:
    """Return this many of the subtypes, drawn for a pair, in their usual order."""
    if number >= len(SUBTYPES):
        return list(SUBTYPES)
    chosen = _create_rng(seed, pair_id, 0).choice(len(SUBTYPES), number, replace=False)
    return [SUBTYPES[index] for index in sorted(chosen.tolist())]


def _build_tables(pairs: pd.DataFrame, outcomes: Mapping[str, Outcome], seed: int) -> WrittenCaption:
    """Return the tables built from the outcomes of all scripts."""
    captions = dict(zip(pairs["pair_id"], pairs["caption"], strict=True))
    negatives, paraphrases, rejects = [], [], []
    for name, outcome in outcomes.items():
        pair_id, _, subtype = name.rpartition(":")
        if outcome.text is None:
            drafted = outcome.drafts[-1].text if outcome.drafts else captions[pair_id]
            rejects.append((name, "negatives", outcome.reason, drafted))
        elif subtype == "paraphrase":
            paraphrases.append((pair_id, outcome.text, NAME, outcome.attempt))
        else:
            negative_type = subtype.partition("_")[0]
            negatives.append(
                (name, pair_id, negative_type, subtype, outcome.text, NAME, seed, outcome.attempt, None)
            )
    assert len(negatives) + len(paraphrases) + len(rejects) == len(outcomes)
    return WrittenCaption(
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(REJECTS.columns)),
        verdicts=build_frame(VERDICTS, list(_iter_verdict_rows(outcomes))),
    )


def _iter_verdict_rows(outcomes: Mapping[str, Outcome]) -> Iterator[dict[str, object]]:
    for name, outcome in outcomes.items():
        for draft in outcome.drafts:
            verdicts = asdict(draft.verdict)
            yield {
                "id": name,
                "attempt": draft.attempt,
                "text": draft.text,
                **verdicts,
                "reason": draft.reason or None,
            }
