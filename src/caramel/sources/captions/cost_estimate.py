"""Estimate what a data set written by a language model will cost, before any request is sent or paid for.

The scripts run as in a real run, on a sample of the texts. Cached responses are used where they exist. The
others are replaced by placeholders that have about the length of a real answer and always pass the checks.
The estimate is therefore a lower bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.interfaces.language_model import ModelOutput
from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.budget import Usage
from caramel.sources.captions.llm.changes import Change, normalise_words
from caramel.sources.captions.llm.conversation import Editor, PromptInput, Script
from caramel.sources.captions.llm.response_cache import ReplyStore, open_replies
from caramel.sources.captions.llm.scheduler import RequestSettings, build_request
from caramel.sources.captions.llm.settings import LanguageModelSettings, import_replies, load_writer
from caramel.sources.captions.llm.validator import plan_gold_scripts, select_gold_items
from caramel.sources.captions.llm.writer import STORE, plan_scripts
from caramel.sources.captions.prompts.prompt_files import OF_CHOICES, Answer, format_answer

NEW = "something"


class CostEstimate(NamedTuple):
    """Requests, tokens and cost still to come, as lower bounds; extrapolated from a sample to all texts."""

    texts: int
    num_sampled: int  # texts in the sample
    known: int  # requests whose responses are cached already
    requests: int
    input_tokens: int
    output_tokens: int
    cost: float  # in the currency of the prices


def estimate_cost(
    pairs: pd.DataFrame,
    *,
    seed: int,
    max_attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    sample: int,
    store: Path = STORE,
) -> CostEstimate:
    """Return what the captions for the pairs will cost; no request is sent.

    Args:
        pairs: table ``pairs``.
        seed, max_attempts, parts, model, store: as in ``language_negatives``.
        sample: largest number of pairs to simulate; they are evenly spaced.
    """
    settings = LanguageModelSettings(**model)
    some = pairs.iloc[:: -(-len(pairs) // sample)] if len(pairs) else pairs
    rules = dataclasses.replace(settings.build_rules(max_attempts), required=(), judges=())
    rules = (
        rules if rules.editor is None else dataclasses.replace(rules, editor=_EstimateEditor(rules.editor))
    )
    known, new, made_up = Usage(settings.budget), Usage(settings.budget), set[str]()
    gold_known, gold_new = Usage(settings.budget), Usage(settings.budget)
    number = 0
    with open_replies(store) as replies:
        import_replies(replies, settings.replies)
        for part in parts:
            request_settings = settings.build_request_settings(
                load_writer(settings, part, replies).name, seed
            )
            items = select_gold_items(pairs, part, settings, request_settings, seed, replies)
            for begin in plan_gold_scripts(part, items).values():
                _simulate_script(begin(), request_settings, replies, gold_known, gold_new, made_up)
            for begin in plan_scripts(some, part, seed, settings.subtypes, rules).values():
                _simulate_script(begin(), request_settings, replies, known, new, made_up)
                number += 1
    times = len(pairs) / max(1, len(some))
    return CostEstimate(
        round(number * times),
        number,
        round(known.requests * times) + gold_known.requests,
        round(new.requests * times) + gold_new.requests,
        round(new.input_tokens * times) + gold_new.input_tokens,
        round(new.output_tokens * times) + gold_new.output_tokens,
        new.cost * times + gold_new.cost,
    )


@dataclasses.dataclass(frozen=True)
class _EstimateEditor:
    """Edits as the run does; for placeholders it composes placeholders that differ between subtypes, as texts do."""

    editor: Editor

    def apply_change(self, caption: str, change: Change) -> tuple[Change, str] | str:
        if change.new == NEW or [change.old, change.new] == _choose_placeholder_words(caption):
            return change, f"{caption.rpartition(' ')[0]} {change.subtype}"
        return self.editor.apply_change(caption, change)

    def fit_phrase(self, text: str, phrase: str, part: str) -> str:
        placeholder = phrase in _choose_placeholder_words(text)
        return phrase if placeholder else self.editor.fit_phrase(text, phrase, part)


def _choose_placeholder_words(caption: str) -> list[str]:
    """Return the two longest words of a caption, or as many as there are."""
    return (sorted(normalise_words(caption), key=len) or [NEW])[:-3:-1]


def _simulate_script(
    script: Script,
    request_settings: RequestSettings,
    replies: ReplyStore,
    known: Usage,
    new: Usage,
    made_up: set[str],
) -> None:
    """Run a script on cached and placeholder responses and count both; count requests shared by scripts once."""
    output: ModelOutput | None = None
    while True:
        try:
            prompt_input = script.send(output) if output else next(script)
        except StopIteration:
            return
        key, request = build_request(prompt_input, request_settings)
        cached = replies.get_reply(key)
        output, before = cached or (
            ModelOutput(format_answer(_build_placeholder_answer(prompt_input)), "stop"),
            key.reply_id in made_up,
        )
        made_up.add(key.reply_id)
        if not before:
            (known if cached else new).record_reply(output, request)


def _build_placeholder_answer(prompt_input: PromptInput) -> Answer:
    """Return a placeholder of about the length of a correct answer."""
    caption = next(iter(prompt_input.given.values()))
    words = _choose_placeholder_words(caption)
    first, last = words[0], words[-1]
    # differs between prompts, so that each draft needs its own validation
    changed = f"{caption.rpartition(' ')[0]} {prompt_input.prompt}"
    operation, _, step = prompt_input.prompt.rpartition("_")
    if operation == "find":
        return {{"obj": "objects", "att": "attributes", "rel": "relations"}[step]: [first, last]}
    if operation == "swap":
        return {"possible": "yes", "first": first, "second": last, "sentence": changed}
    if prompt_input.prompt == OF_CHOICES:
        return {"choice": "1"}
    return {
        "propose": {"new": NEW},
        "compose": {"sentence": changed},
        "negative": {"follows": "no"},
        "paraphrase": {"same": "yes", "problem": "none"} if operation else {"idea": NEW, "sentence": caption},
    }[step]
