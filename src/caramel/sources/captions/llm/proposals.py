"""Scripts by which a language model proposes a change of a caption, and the text that the change gives.

A proposal is checked before anything is composed. The text is composed by editing the caption
(``llm.caption_editor``), or by the model.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.lexical_entailment import BY_LISTS, LexicalEntailment
from caramel.sources.captions.llm.changes import Change, has_expected_type, is_still_true, normalise_words
from caramel.sources.captions.llm.checks import LITTLE, REASONS, Verdict, has_known_words
from caramel.sources.captions.llm.conversation import (
    NO_REPLY,
    PromptInput,
    ScriptRules,
    ask_until_valid,
    get_text_field,
)
from caramel.sources.captions.llm.vocabulary import Vocabulary
from caramel.sources.captions.phrases import ARTICLES, canonicalise_phrase, get_singular, is_implied
from caramel.sources.captions.prompts.prompt_files import Answer, FailedAnswer, format_failed_answer

CONCEPTS = {"obj": "object", "att": "attribute", "rel": "relation"}
DIVERSE = 1.5  # temperature of proposals
NO_CONCEPT = "the model finds no {} in the caption"
NO_SWAP = "the model finds no two that can be exchanged"


class Proposal(NamedTuple):
    """A change, the text that it gives, and the answer of the model that it comes from."""

    change: Change
    text: str
    answer: Answer

    def reject(self, reason: str) -> FailedAnswer:
        """Return the answer as it is shown to the model again."""
        return FailedAnswer(format_failed_answer(self.answer), reason)


class Failure(NamedTuple):
    """Why there is no text, and the rejected answer to show again; none if it was malformed."""

    reason: str
    failed: tuple[FailedAnswer, ...] = ()


ProposalScript = Generator[PromptInput, ModelOutput, Proposal | Failure]


def find_concepts(
    caption: str, part: str, rules: ScriptRules
) -> Generator[PromptInput, ModelOutput, list[str] | str]:
    """Return the concepts of a type that the model finds and the caption contains, or why there are none."""
    answer: Answer | str = NO_REPLY
    for attempt in range(1, rules.max_attempts + 1):
        answer = yield from ask_until_valid(PromptInput(f"find_{part}", {"sentence": caption}, attempt, 0.0))
        if not isinstance(answer, str) or answer == NO_REPLY:
            break
    if isinstance(answer, str):
        return answer
    concepts = next(iter(answer.values()))
    words = f" {' '.join(normalise_words(caption))} "
    present = [c for c in concepts if normalise_words(c) and f" {' '.join(normalise_words(c))} " in words]
    if rules.editor is not None:
        fitted = (rules.editor.fit_phrase(caption, concept, part) for concept in present)
        present = list(dict.fromkeys(filter(None, fitted)))
    return present or NO_CONCEPT.format(CONCEPTS[part])


def propose_concept(
    caption: str, subtype: str, concept: str, image_words: frozenset[str], attempt: int, rules: ScriptRules
) -> ProposalScript:
    """Let the model propose what replaces a concept or is added to it, and compose the text."""
    operation, _, part = subtype.partition("_")
    given = {"sentence": caption, CONCEPTS["obj" if operation == "add" else part]: concept}
    proposed = yield from ask_until_valid(PromptInput(f"{subtype}_propose", given, attempt, DIVERSE))
    if isinstance(proposed, str):
        return Failure(proposed)
    change = Change(subtype, concept, trim_proposal(get_text_field(proposed, "new"), concept))
    if problem := find_change_problem(
        caption, change, image_words, rules.required, rules.lexical, rules.vocabulary
    ):
        return Failure(problem)
    if rules.editor is not None:
        edited = rules.editor.apply_change(caption, change)
        return Failure(edited) if isinstance(edited, str) else Proposal(*edited, proposed)
    prompt_input = PromptInput(f"{subtype}_compose", {**given, "new": change.new}, attempt, 0.0)
    composed = yield from ask_until_valid(prompt_input)
    if isinstance(composed, str):
        return Failure(composed)
    return Proposal(change, get_text_field(composed, "sentence"), composed)


def find_change_problem(
    caption: str,
    change: Change,
    image_words: frozenset[str],
    required: Sequence[str],
    lexical: LexicalEntailment = BY_LISTS,
    vocabulary: Vocabulary | None = None,
) -> str | None:
    """Return the reason why a proposed *replace* or *add* fails a required check in any wording; None if none is known.

    Args:
        caption: the positive.
        change: the intended change.
        image_words: words in the captions of the image, in lower case.
        required: names of the required verdicts.
        lexical: tells synonyms and more general words.
        vocabulary: tells which words exist; None: words are not looked up.
    """
    operation, _, part = change.subtype.partition("_")
    known = {get_singular(word) for word in image_words}
    added = canonicalise_phrase(change.new)
    still_true = is_still_true(caption, change, image_words, lexical)
    old, new = (
        [get_singular(word) for word in normalise_words(phrase) if word not in ARTICLES]
        for phrase in (change.old, change.new)
    )
    copied = operation == "replace" and (
        old == new or (not still_true and is_implied(change.old, change.new))
    )
    verdict = Verdict(
        not_copy=bool(added) and not copied,
        not_implied=not still_true,
        novel_word=not set(added) - LITTLE <= known
        and not (part == "obj" and added[-1:] and added[-1] in known),
        known_words=has_known_words(change, image_words, vocabulary),
        subtype=has_expected_type(change),
    )
    wrong = verdict.find_failed_check(required)
    return REASONS[wrong] if wrong else None


def trim_proposal(new: str, concept: str) -> str:
    """Return a proposed phrase without article, final punctuation, capital, repeated words, and the concept."""
    tokens = new.strip(" .,;:!").split()
    tokens = tokens[1:] if tokens and tokens[0].lower() in ARTICLES else tokens
    tokens = [token for before, token in zip(["", *tokens], tokens, strict=False) if token != before]
    if len(tokens) > 1 and tokens[-1].lower() == concept.lower():
        tokens = tokens[:-1]
    text = " ".join(tokens)
    return text[:1].lower() + text[1:] if text[1:].islower() else text


def propose_swap(
    caption: str, subtype: str, attempt: int, failed: tuple[FailedAnswer, ...], rules: ScriptRules
) -> ProposalScript:
    """Let the model name the two phrases to exchange, and compose the text."""
    prompt_input = PromptInput(subtype, {"sentence": caption}, attempt, 0.0, failed)
    answer = yield from ask_until_valid(prompt_input)
    if isinstance(answer, str):
        return Failure(answer)
    if answer["possible"] == "no":
        return Failure(NO_SWAP)
    change = Change(subtype, get_text_field(answer, "first"), get_text_field(answer, "second"))
    proposal = Proposal(change, get_text_field(answer, "sentence"), answer)
    if rules.editor is None:
        return proposal
    edited = rules.editor.apply_change(caption, change)
    if isinstance(edited, str):
        return Failure(edited, (proposal.reject(edited),))
    change, text = edited
    return Proposal(change, text, {**answer, "sentence": text})
