"""Scripts by which a language model writes hard negatives and paraphrases.

Negatives follow the steps of SugarCrepe (Hsieh et al. 2023, appendix), with these temperatures:

- *replace* finds concepts (0), proposes a substitute for a random one (1.5) and composes the sentence (0);
- *add* does the same with a concept that is not in the caption;
- *swap* is one prompt that first asks whether a swap is possible (0).

Paraphrases follow the loop of SugarCrepe++ (Dumpala et al. 2024, 2.1). A rejected text is tried again, a
bounded number of times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator

import numpy as np

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.llm.checks import (
    PROBLEMS,
    REASONS,
    Change,
    Verdict,
    evaluate_negative,
    evaluate_paraphrase,
    normalise_words,
)
from caramel.sources.captions.llm.conversation import (
    Draft,
    Outcome,
    PromptInput,
    Script,
    ScriptRules,
    ask_until_valid,
    get_text_field,
)
from caramel.sources.captions.llm.judge import judge_negative, judge_paraphrase
from caramel.sources.captions.prompts.prompt_files import Answer, FailedAnswer

SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
CONCEPTS = {"obj": "object", "att": "attribute", "rel": "relation"}
DIVERSE = 1.5  # temperature of proposals
AGAIN = 1.0  # temperature of a paraphrase after the first: 0 would give the same text
QUESTION = "the caption is a question"
NO_CONCEPT = "the model finds no {} in the caption"
NO_SWAP = "the model finds no two that can be exchanged"

Draw = Callable[[int], np.random.Generator]  # attempt -> generator
ChangeScript = Generator[PromptInput, ModelOutput, tuple[Change, str] | str]


def write_negative(
    caption: str, subtype: str, image_words: frozenset[str], draw: Draw, rules: ScriptRules
) -> Script:
    """Write a hard negative of a caption.

    Args:
        caption: the positive.
        subtype: one of ``SUBTYPES``.
        image_words: words in the captions of the image, in lower case.
        draw: returns the random generator that picks a concept.
        rules: attempts and checks.
    """
    if caption.rstrip().endswith("?"):
        return Outcome(None, 1, QUESTION, ())
    operation, _, part = subtype.partition("_")
    concepts: list[str] | str = []
    if operation != "swap":
        concepts = yield from _find_concepts(caption, "obj" if operation == "add" else part)
        if isinstance(concepts, str):
            return Outcome(None, 1, concepts, ())
    drafts: list[Draft] = []
    failed: tuple[FailedAnswer, ...] = ()
    reason = ""
    for attempt in range(1, rules.max_attempts + 1):
        if operation == "swap":
            result = yield from _ask_for_swap(caption, subtype, attempt, failed)
        else:
            concept = concepts[int(draw(attempt).integers(len(concepts)))]
            result = yield from _propose_and_compose(caption, subtype, concept, attempt)
        if isinstance(result, str):
            return Outcome(None, attempt, result, tuple(drafts))
        change, text = result
        verdict = evaluate_negative(caption, text, change, image_words, rules.bounds)
        verdict = yield from judge_negative(caption, text, verdict, rules)
        if rules.validate and verdict.find_failed_check(rules.required) is None:
            prompt_input = PromptInput(
                "validate_negative", {"caption": caption, "changed": text}, attempt, 0.0
            )
            answer = yield from ask_until_valid(prompt_input)
            if isinstance(answer, str):
                if "meaning" in rules.required:
                    return Outcome(None, attempt, answer, (*drafts, Draft(attempt, text, verdict, answer)))
            else:
                verdict = dataclasses.replace(verdict, meaning=answer["follows"] == "no")
        wrong = verdict.find_failed_check(rules.required)
        reason = "" if wrong is None else REASONS[wrong]
        drafts.append(Draft(attempt, text, verdict, reason))
        if wrong is None:
            return Outcome(text, attempt, "", tuple(drafts))
        failed = (*failed, FailedAnswer(text, reason))
    return Outcome(None, rules.max_attempts, reason, tuple(drafts))


def _find_concepts(caption: str, part: str) -> Generator[PromptInput, ModelOutput, list[str] | str]:
    """Return the concepts of a type that the model finds and the caption contains, or why there are none."""
    answer = yield from ask_until_valid(PromptInput(f"find_{part}", {"sentence": caption}, 1, 0.0))
    if isinstance(answer, str):
        return answer
    concepts = next(iter(answer.values()))
    words = f" {' '.join(normalise_words(caption))} "
    present = [c for c in concepts if normalise_words(c) and f" {' '.join(normalise_words(c))} " in words]
    return present or NO_CONCEPT.format(CONCEPTS[part])


def _propose_and_compose(caption: str, subtype: str, concept: str, attempt: int) -> ChangeScript:
    """Propose a concept and compose the sentence; return the change and the sentence, or why there is none."""
    operation, _, part = subtype.partition("_")
    given = {"sentence": caption, CONCEPTS["obj" if operation == "add" else part]: concept}
    proposed = yield from ask_until_valid(PromptInput(f"{subtype}_propose", given, attempt, DIVERSE))
    if isinstance(proposed, str):
        return proposed
    new = get_text_field(proposed, "new")
    prompt_input = PromptInput(f"{subtype}_compose", {**given, "new": new}, attempt, 0.0)
    composed = yield from ask_until_valid(prompt_input)
    return (
        composed
        if isinstance(composed, str)
        else (Change(subtype, concept, new), get_text_field(composed, "sentence"))
    )


def _ask_for_swap(caption: str, subtype: str, attempt: int, failed: tuple[FailedAnswer, ...]) -> ChangeScript:
    """Return the two exchanged phrases and the sentence, or why there is none."""
    prompt_input = PromptInput(subtype, {"sentence": caption}, attempt, 0.0, failed)
    answer = yield from ask_until_valid(prompt_input)
    if isinstance(answer, str):
        return answer
    if answer["possible"] == "no":
        return NO_SWAP
    return Change(subtype, get_text_field(answer, "first"), get_text_field(answer, "second")), get_text_field(
        answer, "sentence"
    )


def write_paraphrase(caption: str, rules: ScriptRules) -> Script:
    """Write a paraphrase: generate it, check for copies and excess changes, validate it; on failure start again."""
    if caption.rstrip().endswith("?"):
        return Outcome(None, 1, QUESTION, ())
    drafts: list[Draft] = []
    failed: tuple[FailedAnswer, ...] = ()
    reason = ""
    for attempt in range(1, rules.max_attempts + 1):
        prompt_input = PromptInput(
            "paraphrase", {"sentence": caption}, attempt, AGAIN if attempt > 1 else 0.0, failed
        )
        answer = yield from ask_until_valid(prompt_input)
        if isinstance(answer, str):
            return Outcome(None, attempt, answer, tuple(drafts))
        text = get_text_field(answer, "sentence")
        verdict = evaluate_paraphrase(caption, text, rules.bounds)
        verdict = yield from judge_paraphrase(caption, text, verdict, rules)
        wrong, problem = verdict.find_failed_check(rules.required), ""
        if wrong is None and rules.validate:
            verdict, problem = yield from _validate_paraphrase(caption, text, verdict, attempt)
            if verdict.meaning is None and "meaning" in rules.required:
                return Outcome(None, attempt, problem, (*drafts, Draft(attempt, text, verdict, problem)))
            wrong = verdict.find_failed_check(rules.required)
        again = wrong in ("meaning", "entailment")  # it means something else: start from the caption again
        reason = (
            "" if wrong is None else PROBLEMS.get(problem, PROBLEMS["meaning"]) if again else REASONS[wrong]
        )
        drafts.append(Draft(attempt, text, verdict, reason))
        if wrong is None:
            return Outcome(text, attempt, "", tuple(drafts))
        failed = () if again else (*failed, FailedAnswer(text, reason))
    return Outcome(None, rules.max_attempts, reason, tuple(drafts))


def _validate_paraphrase(
    caption: str, text: str, verdict: Verdict, attempt: int
) -> Generator[PromptInput, ModelOutput, tuple[Verdict, str]]:
    """Return the verdict with the validator's, and the problem that it names or why it gave no answer."""
    given = {"first": caption, "second": text}
    answer: Answer | str = yield from ask_until_valid(PromptInput("validate_paraphrase", given, attempt, 0.0))
    if isinstance(answer, str):
        return verdict, answer
    same = answer["same"] == "yes"
    return dataclasses.replace(verdict, meaning=same), get_text_field(answer, "problem").lower()
