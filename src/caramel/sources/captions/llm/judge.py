"""Let judge models score the texts of scripts, and store their scores as responses.

Tables can thus be rebuilt without the judges. *Grammar* scores one sentence. *Entailment* scores a caption
and the text written for it. A negative must not be entailed by its caption, or it is still true. A paraphrase
and its caption must entail each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping

from caramel.errors import BackendError, DataError
from caramel.interfaces.language_model import ModelOutput
from caramel.interfaces.text_judge import TextJudge
from caramel.sources.captions.llm.checks import Verdict
from caramel.sources.captions.llm.conversation import PromptInput, ScriptRules

VERSION = "1"  # version of the judges' inputs
DIGITS = 6  # digits of a probability that are stored

VerdictScript = Generator[PromptInput, ModelOutput, Verdict]


def judge_negative(caption: str, text: str, verdict: Verdict, rules: ScriptRules) -> VerdictScript:
    """Return the verdict on a negative with those of the judges.

    The judges run only if no required check has failed.
    """
    verdict = yield from _judge_grammar(text, verdict, rules)
    if "entailment" in rules.judges and verdict.find_failed_check(rules.required) is None:
        follows = yield from _judge_entailment(caption, text, rules)
        verdict = dataclasses.replace(verdict, entailment=not follows)
    return verdict


def judge_paraphrase(caption: str, text: str, verdict: Verdict, rules: ScriptRules) -> VerdictScript:
    """Return the verdict on a paraphrase with those of the judges.

    The judges run only if no required check has failed.
    """
    verdict = yield from _judge_grammar(text, verdict, rules)
    if "entailment" in rules.judges and verdict.find_failed_check(rules.required) is None:
        same = (yield from _judge_entailment(caption, text, rules)) and (
            yield from _judge_entailment(text, caption, rules)
        )
        verdict = dataclasses.replace(verdict, entailment=same)
    return verdict


def _judge_grammar(text: str, verdict: Verdict, rules: ScriptRules) -> VerdictScript:
    if "grammar" not in rules.judges or verdict.find_failed_check(rules.required) is not None:
        return verdict
    sound = yield from _ask_judge("grammar", {"sentence": text})
    return dataclasses.replace(verdict, grammar=sound >= rules.bounds.grammar_threshold)


def _judge_entailment(
    premise: str, hypothesis: str, rules: ScriptRules
) -> Generator[PromptInput, ModelOutput, bool]:
    probability = yield from _ask_judge("entailment", {"premise": premise, "hypothesis": hypothesis})
    return probability >= rules.bounds.entailment_threshold


def _ask_judge(judge: str, given: Mapping[str, str]) -> Generator[PromptInput, ModelOutput, float]:
    """Return a judge's score; raise a DataError if the stored response is not a probability."""
    output = yield PromptInput(judge, given, 1, 0.0)
    try:
        probability = float(output.text or "")
    except ValueError:
        probability = float("nan")
    if not 0 <= probability <= 1:
        raise DataError(
            f"The response {output.text!r:.80} of the judge {judge!r} is not a probability: table replies is "
            f"damaged. Use the table as it was published."
        )
    return probability


def compute_judgements(judge: TextJudge, questions: list[PromptInput]) -> list[ModelOutput]:
    """Return a judge's scores in the form of responses; raise a BackendError if a score is not a probability."""
    rows = [tuple(prompt_input.given.values()) for prompt_input in questions]
    probabilities = [round(value, DIGITS) for value in judge.predict_probabilities(rows)]
    for prompt_input, texts, value in zip(questions, rows, probabilities, strict=True):
        if not 0 <= value <= 1:
            raise BackendError(
                f"The judge negatives.language_model.{prompt_input.prompt} returns {value} for "
                f"{texts!r:.200}, which is not a probability: its weights are damaged. None of these "
                f"{len(rows):,} scores is stored. Set another folder and rerun."
            )
    return [ModelOutput(f"{value:.{DIGITS}f}", "stop") for value in probabilities]
