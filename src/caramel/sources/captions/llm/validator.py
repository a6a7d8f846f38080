"""Let the validator judge texts with known answers before a run, and do without one that is no better than chance."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import pandas as pd
from tqdm import tqdm

from caramel.errors import BackendError
from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.conversation import Outcome, Script, ScriptRules
from caramel.sources.captions.llm.gold_items import GoldItem, build_gold_items
from caramel.sources.captions.llm.response_cache import ReplyStore
from caramel.sources.captions.llm.scheduler import RequestSettings, build_request
from caramel.sources.captions.llm.settings import LanguageModelSettings
from caramel.sources.captions.llm.validator_quality import build_gold_table, find_chance_problem
from caramel.sources.captions.llm.workflows import validate_text

PROMPTS: Mapping[Part, str] = {"negatives": "validate_negative", "paraphrases": "validate_paraphrase"}


class _Run(Protocol):
    """Runs scripts with the writer's model and returns their outcomes."""

    def __call__(self, scripts: Mapping[str, Callable[[], Script]], title: str) -> dict[str, Outcome]: ...


def select_gold_items(
    pairs: pd.DataFrame,
    part: Part,
    settings: LanguageModelSettings,
    request_settings: RequestSettings,
    seed: int,
    replies: ReplyStore,
) -> list[GoldItem]:
    """Return the texts with known answers that the validator of a part judges; none if it is not used.

    There are none, either, if the data set is rebuilt from a table of responses that has validated texts and lacks
    most of these: the table is older than such texts, and a rebuild sends no request.
    """
    if not settings.validate_texts or not settings.validator_gold_items:
        return []
    items = build_gold_items(pairs, settings.validator_gold_items, seed)
    if PROMPTS[part] in replies.list_published_models():
        scripts = plan_gold_scripts(part, items).values()
        ids = {build_request(next(begin()), request_settings)[0].reply_id for begin in scripts}
        if 2 * replies.count_published(ids) < len(ids):
            tqdm.write(
                f"The validator of {part} is not measured: the table of responses lacks the texts with known answers.",
                file=sys.stderr,
            )
            return []
    return items


def plan_gold_scripts(part: Part, items: Sequence[GoldItem]) -> dict[str, Callable[[], Script]]:
    """Return name -> function that starts the script of an item, in the order of the items."""
    return {
        f"gold:{index}": partial(validate_text, part, item.caption, item.text)
        for index, item in enumerate(items)
    }


def measure_validator(part: Part, items: Sequence[GoldItem], run: _Run) -> pd.DataFrame:
    """Return the items with the validator's answers: ``validator_quality.GOLD_COLUMNS``."""
    outcomes = run(scripts=plan_gold_scripts(part, items), title=f"validator of {part}") if items else {}
    return build_gold_table(part, items, [one.drafts[0].verdict.meaning for one in outcomes.values()])


def check_validator(rows: pd.DataFrame, rules: ScriptRules) -> ScriptRules:
    """Return the rules; without validation, after a warning, if the validator is no better than chance.

    Args:
        rows: from ``measure_validator``.
        rules: rules of the run.

    Raises:
        BackendError: such a validator's verdict is required.
    """
    problem = find_chance_problem(rows)
    if problem is None:
        return rules
    if "meaning" in rules.required:
        raise BackendError(
            f"{problem} Its verdict, meaning, is in negatives.language_model.required, and would keep or refuse texts "
            f"at random. Nothing else was requested. Set a larger model as negatives.language_model.target, or take "
            f"meaning out of negatives.language_model.required: then texts are not validated. To use it all the same, "
            f"set negatives.language_model.validator_gold_items=0."
        )
    tqdm.write(f"{problem} Texts are not validated: verdict meaning is null.", file=sys.stderr)
    return dataclasses.replace(rules, validate=False)
