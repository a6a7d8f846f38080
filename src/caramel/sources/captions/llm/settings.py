"""``negatives.language_model`` of the params, and the models that it names, under which replies are kept."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from caramel.interfaces.language_model import LanguageModel
from caramel.interfaces.text_judge import TextJudge
from caramel.interfaces.writer import Part
from caramel.io.files import parquet_files
from caramel.registry import LANGUAGE_MODELS, TEXT_JUDGES
from caramel.sources.captions.llm.budget import Budget
from caramel.sources.captions.llm.checks import JUDGES, Bounds
from caramel.sources.captions.llm.conversation import Rules
from caramel.sources.captions.llm.models import Named, named
from caramel.sources.captions.llm.response_cache import ReplyStore
from caramel.sources.captions.llm.scheduler import Manner
from caramel.sources.captions.prompts import prompt_files

OF_PARAPHRASES = {"paraphrase", "validate_paraphrase"}  # prompts


@dataclass(frozen=True)
class Settings:
    """``negatives.language_model`` of the params; what each means stands in params/default.yaml."""

    target: str
    paraphraser: str | None
    name: str | None
    replies: str
    subtypes: int
    examples: int
    structured: bool
    validate_texts: bool
    at_once: int
    workers: int
    max_tokens: int
    required: tuple[str, ...]
    longest: float
    similar: float
    slack: int
    overlap: float
    entailment: str | None
    entailed: float
    grammar: str | None
    grammatical: float
    price_in: float
    price_out: float
    max_requests: int | None
    max_total_tokens: int | None
    max_cost: float | None

    @property
    def budget(self) -> Budget:
        """Prices and caps."""
        return Budget(self.price_in, self.price_out, self.max_requests, self.max_total_tokens, self.max_cost)

    def rules(self, attempts: int) -> Rules:
        """Return what scripts go by."""
        bounds = Bounds(self.longest, self.similar, self.slack, self.overlap, self.entailed, self.grammatical)
        judges = tuple(name for name in JUDGES if getattr(self, name) is not None)
        return Rules(attempts, self.required, bounds, self.validate_texts, judges)

    def manner(self, model: str, seed: int) -> Manner:
        """Return how the model of a name is asked."""
        return Manner(
            model,
            seed,
            self.examples,
            self.max_tokens,
            self.structured,
            self.at_once * max(1, self.workers),
        )


def adopt(replies: ReplyStore, path: str) -> None:
    """Take over the tables of replies of a file, or of a folder; errors as in ``parquet_files`` and ``ReplyStore``."""
    for file in parquet_files(Path(path)):
        replies.adopt(file)


def writer_of(settings: Settings, part: Part, replies: ReplyStore) -> Named[LanguageModel]:
    """Return the model that writes a part."""
    spec = (settings.paraphraser if part == "paraphrases" else None) or settings.target
    kind, _, target = spec.partition(":")
    prompts = (
        OF_PARAPHRASES
        if part == "paraphrases"
        else {*prompt_files.names()} - OF_PARAPHRASES - {prompt_files.OF_GRAPHS}
    )
    opens = partial(LANGUAGE_MODELS[kind].load, target, at_once=settings.at_once, workers=settings.workers)
    return named(opens, settings.name, _published(replies, prompts), f"writer of {part}")


def judges_of(settings: Settings, replies: ReplyStore) -> dict[str, Named[TextJudge]]:
    """Return name -> model of those that judge texts."""
    found = {}
    for name in JUDGES:
        target = getattr(settings, name)
        if target is not None:
            opens = partial(TEXT_JUDGES[name].load, target)
            found[name] = named(opens, None, _published(replies, {name}), f"judge of {name}")
    return found


def _published(replies: ReplyStore, prompts: Collection[str]) -> str | None:
    """Return the one model whose replies to some prompts were adopted; None if there are none, or several."""
    models = {model for prompt, by in replies.published().items() if prompt in prompts for model in by}
    return models.pop() if len(models) == 1 else None
