"""Read ``negatives.language_model`` of the params, and load the models that it names."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from caramel.interfaces.connections import AUTO, MaxConnections
from caramel.interfaces.language_model import LanguageModel
from caramel.interfaces.text_judge import TextJudge
from caramel.interfaces.writer import Part
from caramel.io.files import list_parquet_files
from caramel.registry import LANGUAGE_MODELS, TEXT_JUDGES
from caramel.sources.captions.lexical_entailment import LexicalEntailment
from caramel.sources.captions.llm.budget import Budget
from caramel.sources.captions.llm.caption_editor import CaptionEditor
from caramel.sources.captions.llm.change_options import ChangeOptions
from caramel.sources.captions.llm.checks import JUDGES, Bounds
from caramel.sources.captions.llm.conversation import ScriptRules
from caramel.sources.captions.llm.models import NamedModel, OneModel, build_named_model
from caramel.sources.captions.llm.response_cache import ReplyStore
from caramel.sources.captions.llm.scheduler import RequestSettings, Sampling
from caramel.sources.captions.llm.vocabulary import Vocabulary
from caramel.sources.captions.prompts import prompt_files
from caramel.sources.captions.prompts.own_prompts import find_own_prompts

OF_PARAPHRASES = {"paraphrase", "validate_paraphrase"}  # names of prompts


@dataclass(frozen=True)
class LanguageModelSettings:
    """``negatives.language_model`` of the params, and ``negatives.spacy_model``; params/default.yaml explains each key."""

    target: str
    paraphraser: str | None
    name: str | None
    replies: str
    prompts: str
    subtypes: int
    examples: int
    temperature: float
    top_p: float
    min_p: float
    seed: int | None
    response_schema: bool
    compose: str
    propose: str
    wordnet: str | None
    validate_texts: bool
    validator_gold_items: int
    correct_paraphrases: int
    max_connections: MaxConnections
    workers: int
    max_tokens: int
    required: tuple[str, ...]
    max_length_ratio: float
    max_similarity: float
    max_extra_edits: int
    min_overlap: float
    entailment: str | None
    entailment_threshold: float
    grammar: str | None
    grammar_threshold: float
    price_per_mtok_in: float
    price_per_mtok_out: float
    max_requests: int | None
    max_total_tokens: int | None
    max_cost: float | None
    spacy_model: str | None = None

    def get_writer_spec(self, part: Part) -> str:
        """Return the model that writes a part, as the params name it."""
        return (self.paraphraser if part == "paraphrases" else None) or self.target

    @property
    def budget(self) -> Budget:
        """Return prices and caps."""
        return Budget(
            self.price_per_mtok_in,
            self.price_per_mtok_out,
            self.max_requests,
            self.max_total_tokens,
            self.max_cost,
        )

    def build_rules(self, max_attempts: int) -> ScriptRules:
        """Return the rules of scripts; raise a DataError if WordNet's files cannot be used."""
        bounds = Bounds(
            self.max_length_ratio,
            self.max_similarity,
            self.max_extra_edits,
            self.min_overlap,
            self.entailment_threshold,
            self.grammar_threshold,
        )
        judges = tuple(name for name in JUDGES if getattr(self, name) is not None)
        editor = CaptionEditor(self.spacy_model) if self.compose == "edit" else None
        lexical = LexicalEntailment(self.wordnet)
        lexical.check_files()
        vocabulary = None if self.wordnet is None else Vocabulary(self.wordnet, self.spacy_model)
        lister = None
        if self.propose == "choose":
            assert self.spacy_model is not None  # config.validate
            lister = ChangeOptions(self.spacy_model, self.wordnet)
        return ScriptRules(
            max_attempts,
            self.required,
            bounds,
            self.validate_texts,
            judges,
            editor,
            lexical,
            vocabulary,
            lister,
            self.correct_paraphrases,
        )

    def build_request_settings(self, model: str, seed: int) -> RequestSettings:
        """Return the settings of requests to a model with this name; ``seed`` counts if the params set none.

        Raises:
            DataError: the user's own prompts cannot be used.
        """
        return RequestSettings(
            model,
            seed if self.seed is None else self.seed,
            self.examples,
            self.max_tokens,
            self.response_schema,
            AUTO if self.max_connections == AUTO else self.max_connections * max(1, self.workers),
            Sampling(self.temperature, self.top_p, self.min_p),
            find_own_prompts(self.prompts),
        )


def import_replies(replies: ReplyStore, path: str) -> None:
    """Import the tables of responses of a file or a folder.

    Errors are those of ``parquet_files`` and ``ReplyStore``.
    """
    for file in list_parquet_files(Path(path)):
        replies.import_table(file)


def load_writer(
    settings: LanguageModelSettings,
    part: Part,
    replies: ReplyStore,
    open_once: OneModel[LanguageModel] | None = None,
) -> NamedModel[LanguageModel]:
    """Return the model that writes a part; ``open_once`` is what the parts share."""
    spec = settings.get_writer_spec(part)
    backend, _, target = spec.partition(":")
    prompts = (
        OF_PARAPHRASES
        if part == "paraphrases"
        else {*prompt_files.list_prompt_names()} - OF_PARAPHRASES - {prompt_files.OF_GRAPHS}
    )
    load = partial(
        LANGUAGE_MODELS[backend].load,
        target,
        max_connections=settings.max_connections,
        workers=settings.workers,
    )
    opens = partial(open_once or OneModel(), spec, load)
    return build_named_model(
        opens, settings.name, _find_published_model(replies, prompts), f"writer of {part}"
    )


def load_judges(settings: LanguageModelSettings, replies: ReplyStore) -> dict[str, NamedModel[TextJudge]]:
    """Return name -> model of the models that judge texts."""
    judges = {}
    for name in JUDGES:
        target = getattr(settings, name)
        if target is not None:
            opens = functools.cache(partial(TEXT_JUDGES[name].load, target))
            judges[name] = build_named_model(
                opens, None, _find_published_model(replies, {name}), f"judge of {name}"
            )
    return judges


def _find_published_model(replies: ReplyStore, prompts: Collection[str]) -> str | None:
    """Return the model whose responses to some prompts were imported; None if there is none, or several."""
    models = {
        model for prompt, by in replies.list_published_models().items() if prompt in prompts for model in by
    }
    return models.pop() if len(models) == 1 else None
