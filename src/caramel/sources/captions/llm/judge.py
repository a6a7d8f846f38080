"""Questions of scripts to models that judge texts: what they say is kept as replies are, so that tables are rebuilt without them.

*Grammar* reads one sentence. *Entailment* reads a caption and what was made of it: a negative must not follow from its
caption, or it is still true; a paraphrase and its caption must follow from each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping

from caramel.errors import BackendError, DataError
from caramel.interfaces.language_model import ModelOutput
from caramel.interfaces.text_judge import TextJudge
from caramel.sources.captions.llm.checks import Verdict
from caramel.sources.captions.llm.conversation import PromptInput, ScriptRules

VERSION = "1"  # of what is asked of them
DIGITS = 6  # of a probability that are kept

VerdictScript = Generator[PromptInput, ModelOutput, Verdict]


def judge_negative(caption: str, text: str, verdict: Verdict, rules: ScriptRules) -> VerdictScript:
    """Return the verdict on a negative with those of the judges, of what passes all that was looked at before."""
    verdict = yield from _judge_grammar(text, verdict, rules)
    if "entailment" in rules.judges and verdict.find_failed_check(rules.required) is None:
        follows = yield from _judge_entailment(caption, text, rules)
        verdict = dataclasses.replace(verdict, entailment=not follows)
    return verdict


def judge_paraphrase(caption: str, text: str, verdict: Verdict, rules: ScriptRules) -> VerdictScript:
    """Return the verdict on a paraphrase with those of the judges, of what passes all that was looked at before."""
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
    """Ask a judge; a reply of a table that is no probability is a DataError."""
    output = yield PromptInput(judge, given, 1, 0.0)
    try:
        probability = float(output.text or "")
    except ValueError:
        probability = float("nan")
    if not 0 <= probability <= 1:
        raise DataError(
            f"The reply {output.text!r:.80} of the judge {judge!r} is no probability: table replies is damaged. Take it as it "
            f"was published."
        )
    return probability


def compute_judgements(judge: TextJudge, questions: list[PromptInput]) -> list[ModelOutput]:
    """Return what a judge says to questions, in the form of replies; BackendError where it gives what is no probability."""
    rows = [tuple(prompt_input.given.values()) for prompt_input in questions]
    probabilities = [round(value, DIGITS) for value in judge.predict_probabilities(rows)]
    for prompt_input, texts, value in zip(questions, rows, probabilities, strict=True):
        if not 0 <= value <= 1:
            raise BackendError(
                f"The judge negatives.language_model.{prompt_input.prompt} gives {value} of {texts!r:.200}, which is no probability: its "
                f"weights are damaged. Nothing of these {len(rows):,} is kept; take another folder, and run the same again."
            )
    return [ModelOutput(f"{value:.{DIGITS}f}", "stop") for value in probabilities]
