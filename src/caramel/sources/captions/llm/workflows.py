"""The scripts by which a language model writes hard negatives and paraphrases.

A negative is written in the steps of SugarCrepe (Hsieh et al. 2023, appendix): *replace* finds concepts (temperature 0),
proposes another for one that is drawn (1.5) and composes the sentence (0); *add* does so with one that is not there;
*swap* is one question that first asks whether it is possible (0). A paraphrase is written in the loop of SugarCrepe++
(Dumpala et al. 2024, 2.1). What does not pass is tried again, a bounded number of times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator

import numpy as np

from caramel.interfaces.language_model import Said
from caramel.sources.captions.llm.checks import (
    PROBLEMS,
    REASONS,
    Change,
    Verdict,
    folded,
    of_negative,
    of_paraphrase,
)
from caramel.sources.captions.llm.conversation import Ask, Draft, Outcome, Rules, Script, answered, field
from caramel.sources.captions.llm.judge import judged_negative, judged_paraphrase
from caramel.sources.captions.prompts.prompt_files import Answer, Failed

SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
CONCEPTS = {"obj": "object", "att": "attribute", "rel": "relation"}
DIVERSE = 1.5  # temperature of proposals
AGAIN = 1.0  # of a paraphrase after the first: at 0 the same would come
QUESTION = "the caption is a question"
NO_CONCEPT = "the model finds no {} in the caption"
NO_SWAP = "the model finds no two that can be exchanged"

Draw = Callable[[int], np.random.Generator]  # attempt -> generator
Made = Generator[Ask, Said, tuple[Change, str] | str]


def write_negative(caption: str, subtype: str, said: frozenset[str], draw: Draw, rules: Rules) -> Script:
    """Write a hard negative of a caption.

    Args:
        caption: the positive.
        subtype: one of ``SUBTYPES``.
        said: words that captions of the image say, in lower case.
        draw: gives the generator that picks a concept.
        rules: attempts and checks.
    """
    if caption.rstrip().endswith("?"):
        return Outcome(None, 1, QUESTION, ())
    kind, _, part = subtype.partition("_")
    concepts: list[str] | str = []
    if kind != "swap":
        concepts = yield from _concepts(caption, "obj" if kind == "add" else part)
        if isinstance(concepts, str):
            return Outcome(None, 1, concepts, ())
    drafts: list[Draft] = []
    failed: tuple[Failed, ...] = ()
    reason = ""
    for attempt in range(1, rules.attempts + 1):
        if kind == "swap":
            made = yield from _swapped(caption, subtype, attempt, failed)
        else:
            concept = concepts[int(draw(attempt).integers(len(concepts)))]
            made = yield from _changed(caption, subtype, concept, attempt)
        if isinstance(made, str):
            return Outcome(None, attempt, made, tuple(drafts))
        change, text = made
        verdict = of_negative(caption, text, change, said, rules.bounds)
        verdict = yield from judged_negative(caption, text, verdict, rules)
        if rules.validate and verdict.failed(rules.required) is None:
            ask = Ask("validate_negative", {"caption": caption, "changed": text}, attempt, 0.0)
            answer = yield from answered(ask)
            if isinstance(answer, str):
                if "meaning" in rules.required:
                    return Outcome(None, attempt, answer, (*drafts, Draft(attempt, text, verdict, answer)))
            else:
                verdict = dataclasses.replace(verdict, meaning=answer["follows"] == "no")
        wrong = verdict.failed(rules.required)
        reason = "" if wrong is None else REASONS[wrong]
        drafts.append(Draft(attempt, text, verdict, reason))
        if wrong is None:
            return Outcome(text, attempt, "", tuple(drafts))
        failed = (*failed, Failed(text, reason))
    return Outcome(None, rules.attempts, reason, tuple(drafts))


def _concepts(caption: str, part: str) -> Generator[Ask, Said, list[str] | str]:
    """Return the concepts of a kind that a model finds in a caption and that are there, or why there are none."""
    answer = yield from answered(Ask(f"find_{part}", {"sentence": caption}, 1, 0.0))
    if isinstance(answer, str):
        return answer
    found = next(iter(answer.values()))
    words = f" {' '.join(folded(caption))} "
    there = [c for c in found if folded(c) and f" {' '.join(folded(c))} " in words]
    return there or NO_CONCEPT.format(CONCEPTS[part])


def _changed(caption: str, subtype: str, concept: str, attempt: int) -> Made:
    """Propose and compose; return the change and the sentence, or why there is none."""
    kind, _, part = subtype.partition("_")
    given = {"sentence": caption, CONCEPTS["obj" if kind == "add" else part]: concept}
    proposed = yield from answered(Ask(f"{subtype}_propose", given, attempt, DIVERSE))
    if isinstance(proposed, str):
        return proposed
    new = field(proposed, "new")
    ask = Ask(f"{subtype}_compose", {**given, "new": new}, attempt, 0.0)
    composed = yield from answered(ask)
    return (
        composed
        if isinstance(composed, str)
        else (Change(subtype, concept, new), field(composed, "sentence"))
    )


def _swapped(caption: str, subtype: str, attempt: int, failed: tuple[Failed, ...]) -> Made:
    """Return the two that were exchanged and the sentence, or why there is none."""
    ask = Ask(subtype, {"sentence": caption}, attempt, 0.0, failed)
    answer = yield from answered(ask)
    if isinstance(answer, str):
        return answer
    if answer["possible"] == "no":
        return NO_SWAP
    return Change(subtype, field(answer, "first"), field(answer, "second")), field(answer, "sentence")


def write_paraphrase(caption: str, rules: Rules) -> Script:
    """Write a paraphrase: generate, look for what is again the same or too much, have it validated; else start again."""
    if caption.rstrip().endswith("?"):
        return Outcome(None, 1, QUESTION, ())
    drafts: list[Draft] = []
    failed: tuple[Failed, ...] = ()
    reason = ""
    for attempt in range(1, rules.attempts + 1):
        ask = Ask("paraphrase", {"sentence": caption}, attempt, AGAIN if attempt > 1 else 0.0, failed)
        answer = yield from answered(ask)
        if isinstance(answer, str):
            return Outcome(None, attempt, answer, tuple(drafts))
        text = field(answer, "sentence")
        verdict = of_paraphrase(caption, text, rules.bounds)
        verdict = yield from judged_paraphrase(caption, text, verdict, rules)
        wrong, problem = verdict.failed(rules.required), ""
        if wrong is None and rules.validate:
            verdict, problem = yield from _validated(caption, text, verdict, attempt)
            if verdict.meaning is None and "meaning" in rules.required:
                return Outcome(None, attempt, problem, (*drafts, Draft(attempt, text, verdict, problem)))
            wrong = verdict.failed(rules.required)
        again = wrong in ("meaning", "entailment")  # it means something else: it is begun again
        reason = (
            "" if wrong is None else PROBLEMS.get(problem, PROBLEMS["meaning"]) if again else REASONS[wrong]
        )
        drafts.append(Draft(attempt, text, verdict, reason))
        if wrong is None:
            return Outcome(text, attempt, "", tuple(drafts))
        failed = () if again else (*failed, Failed(text, reason))
    return Outcome(None, rules.attempts, reason, tuple(drafts))


def _validated(
    caption: str, text: str, verdict: Verdict, attempt: int
) -> Generator[Ask, Said, tuple[Verdict, str]]:
    """Return the verdict with that of the validator, and what it calls the problem, or why it did not answer."""
    given = {"first": caption, "second": text}
    answer: Answer | str = yield from answered(Ask("validate_paraphrase", given, attempt, 0.0))
    if isinstance(answer, str):
        return verdict, answer
    same = answer["same"] == "yes"
    return dataclasses.replace(verdict, meaning=same), field(answer, "problem").lower()
