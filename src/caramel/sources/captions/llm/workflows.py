"""Scripts by which a language model writes hard negatives and paraphrases.

Negatives follow the steps of SugarCrepe (Hsieh et al. 2023, appendix), with these temperatures:

- *replace* finds concepts (0), proposes a substitute for a random one (1.5) and composes the sentence (0);
- *add* does the same with a concept that is not in the caption;
- *swap* is one prompt that first asks whether a swap is possible (0).

With a ``change_lister``, the model chooses among the changes that the caption allows (0) instead of proposing one.
By default the sentence of *replace*, *add* and *swap* is composed by editing the caption, not by the model.
Paraphrases follow the loop of SugarCrepe++ (Dumpala et al. 2024, 2.1). A rejected text is tried again, a
bounded number of times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator

import numpy as np

from caramel.interfaces.language_model import ModelOutput
from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.checks import (
    HINTS,
    PROBLEMS,
    REASONS,
    Verdict,
    evaluate_negative,
    evaluate_paraphrase,
)
from caramel.sources.captions.llm.choices import NO_OPTION, choose_change
from caramel.sources.captions.llm.conversation import (
    NO_REPLY,
    Draft,
    Outcome,
    PromptInput,
    Script,
    ScriptRules,
    ask_until_valid,
    get_text_field,
)
from caramel.sources.captions.llm.judge import judge_negative, judge_paraphrase
from caramel.sources.captions.llm.proposals import (
    NO_SWAP,
    Failure,
    find_concepts,
    propose_concept,
    propose_swap,
)
from caramel.sources.captions.prompts.prompt_files import Answer, FailedAnswer, format_failed_answer

SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
AGAIN = 1.0  # temperature of a paraphrase after the first: 0 would give the same text
QUESTION = "the caption is a question"
FINAL = (NO_REPLY, NO_SWAP, NO_OPTION)  # reasons that another attempt would give again

Draw = Callable[[int], np.random.Generator]  # attempt -> generator


def write_negative(
    caption: str, subtype: str, image_words: frozenset[str], draw: Draw, rules: ScriptRules
) -> Script:
    """Write a hard negative of a caption.

    Args:
        caption: the positive.
        subtype: one of ``SUBTYPES``.
        image_words: words in the captions of the image, in lower case.
        draw: returns the random generator that picks a concept.
        rules: attempts, checks, and how the text is composed.
    """
    if caption.rstrip().endswith("?"):
        return Outcome(None, 1, QUESTION, ())
    operation, _, part = subtype.partition("_")
    concepts: list[str] | str = []
    if operation != "swap" and rules.change_lister is None:
        concepts = yield from find_concepts(caption, "obj" if operation == "add" else part, rules)
        if isinstance(concepts, str):
            return Outcome(None, 1, concepts, ())
    drafts: list[Draft] = []
    failed: tuple[FailedAnswer, ...] = ()
    reason = ""
    for attempt in range(1, rules.max_attempts + 1):
        if rules.change_lister is not None:
            refused = [draft.text for draft in drafts]
            proposal = yield from choose_change(
                caption, subtype, image_words, attempt, draw(attempt), refused, rules
            )
        elif operation == "swap":
            proposal = yield from propose_swap(caption, subtype, attempt, failed, rules)
        else:
            concept = concepts[int(draw(attempt).integers(len(concepts)))]
            proposal = yield from propose_concept(caption, subtype, concept, image_words, attempt, rules)
        if isinstance(proposal, Failure):
            reason, failed = proposal.reason, (*failed, *proposal.failed)
            if reason == NO_OPTION and drafts:  # all options were refused
                return Outcome(None, attempt, drafts[-1].reason, tuple(drafts))
            if reason in FINAL:
                return Outcome(None, attempt, reason, tuple(drafts))
            continue
        verdict = evaluate_negative(
            caption,
            proposal.text,
            proposal.change,
            image_words,
            rules.bounds,
            rules.lexical,
            rules.vocabulary,
        )
        verdict = yield from judge_negative(caption, proposal.text, verdict, rules)
        problem = ""
        if rules.validate and verdict.find_failed_check(rules.required) is None:
            verdict, problem = yield from _validate_negative(caption, proposal.text, verdict, attempt)
        wrong = verdict.find_failed_check(rules.required)
        unanswered = problem if "meaning" in rules.required else ""
        reason = REASONS[wrong] if wrong else unanswered
        drafts.append(Draft(attempt, proposal.text, verdict, reason))
        if not reason:
            return Outcome(proposal.text, attempt, "", tuple(drafts))
        if reason in FINAL:
            return Outcome(None, attempt, reason, tuple(drafts))
        failed = (*failed, proposal.reject(reason)) if wrong else failed
    return Outcome(None, rules.max_attempts, reason, tuple(drafts))


def _validate_negative(
    caption: str, text: str, verdict: Verdict, attempt: int
) -> Generator[PromptInput, ModelOutput, tuple[Verdict, str]]:
    """Return the verdict with the validator's, and why it gave no answer if it gave none."""
    given = {"caption": caption, "changed": text}
    answer = yield from ask_until_valid(PromptInput("validate_negative", given, attempt, 0.0))
    if isinstance(answer, str):
        return verdict, answer
    return dataclasses.replace(verdict, meaning=answer["follows"] == "no"), ""


def validate_text(part: Part, caption: str, text: str) -> Script:
    """Let the validator judge a text that no model wrote; the outcome has its verdict, or why it gave no answer."""
    validate = _validate_negative if part == "negatives" else _validate_paraphrase
    verdict, problem = yield from validate(caption, text, Verdict(), 1)
    answered = verdict.meaning is not None
    return Outcome(text if answered else None, 1, "" if answered else problem, (Draft(1, text, verdict),))


def write_paraphrase(caption: str, rules: ScriptRules) -> Script:
    """Write a paraphrase by Algorithms 1 and 2 of SugarCrepe++.

    A copy is shown to the model again with the reason. After a draft that fails another check, the model starts
    from the caption alone: a superfluous draft in the context is imitated. With ``correct_paraphrases`` every
    failed draft is shown with what was wrong, so many times in a row; then the model starts from the caption.
    """
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
            reason = answer
            if reason in FINAL:
                return Outcome(None, attempt, reason, tuple(drafts))
            continue
        text = get_text_field(answer, "sentence")
        corrects = failed[-1].reason.partition(":")[0] if failed and rules.correct_paraphrases else ""
        verdict = evaluate_paraphrase(caption, text, rules.bounds)
        verdict = yield from judge_paraphrase(caption, text, verdict, rules)
        wrong, problem = verdict.find_failed_check(rules.required), ""
        if wrong is None and rules.validate:
            verdict, problem = yield from _validate_paraphrase(caption, text, verdict, attempt)
            if verdict.meaning is None and "meaning" in rules.required:
                reason = problem
                drafts.append(Draft(attempt, text, verdict, reason, corrects))
                if reason in FINAL:
                    return Outcome(None, attempt, reason, tuple(drafts))
                continue
            wrong = verdict.find_failed_check(rules.required)
        again = wrong in ("meaning", "entailment")  # it means something else: start from the caption again
        reason = (
            "" if wrong is None else PROBLEMS.get(problem, PROBLEMS["meaning"]) if again else REASONS[wrong]
        )
        drafts.append(Draft(attempt, text, verdict, reason, corrects))
        if wrong is None:
            return Outcome(text, attempt, "", tuple(drafts))
        failed = _list_shown_drafts(failed, answer, reason, rules.correct_paraphrases)
    return Outcome(None, rules.max_attempts, reason, tuple(drafts))


def _list_shown_drafts(
    failed: tuple[FailedAnswer, ...], answer: Answer, reason: str, corrections: int
) -> tuple[FailedAnswer, ...]:
    """Return the failed drafts that the next prompt shows, the last one among them; none: a fresh draft is written."""
    if not corrections:
        is_copy = reason == REASONS["not_copy"]
        return (*failed, FailedAnswer(format_failed_answer(answer), reason)) if is_copy else ()
    explained = f"{reason}: {HINTS[reason]}" if reason in HINTS else reason
    if len(failed) == corrections:
        return ()
    return (*failed, FailedAnswer(format_failed_answer(answer), explained))


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
