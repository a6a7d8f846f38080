"""Questions of scripts to models that judge texts: what they say is kept as replies are, so that tables are rebuilt without them.

*Grammar* reads one sentence. *Entailment* reads a caption and what was made of it: a negative must not follow from its
caption, or it is still true; a paraphrase and its caption must follow from each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping

from caramel.errors import BackendError, DataError
from caramel.interfaces.language_model import Said
from caramel.interfaces.text_judge import TextJudge
from caramel.sources.captions.llm.checks import Verdict
from caramel.sources.captions.llm.conversation import Ask, Rules

VERSION = "1"  # of what is asked of them
DIGITS = 6  # of a probability that are kept

Asked = Generator[Ask, Said, Verdict]


def judged_negative(caption: str, text: str, verdict: Verdict, rules: Rules) -> Asked:
    """Return the verdict on a negative with those of the judges, of what passes all that was looked at before."""
    verdict = yield from _grammar(text, verdict, rules)
    if "entailment" in rules.judges and verdict.failed(rules.required) is None:
        follows = yield from _follows(caption, text, rules)
        verdict = dataclasses.replace(verdict, entailment=not follows)
    return verdict


def judged_paraphrase(caption: str, text: str, verdict: Verdict, rules: Rules) -> Asked:
    """Return the verdict on a paraphrase with those of the judges, of what passes all that was looked at before."""
    verdict = yield from _grammar(text, verdict, rules)
    if "entailment" in rules.judges and verdict.failed(rules.required) is None:
        same = (yield from _follows(caption, text, rules)) and (yield from _follows(text, caption, rules))
        verdict = dataclasses.replace(verdict, entailment=same)
    return verdict


def _grammar(text: str, verdict: Verdict, rules: Rules) -> Asked:
    if "grammar" not in rules.judges or verdict.failed(rules.required) is not None:
        return verdict
    sound = yield from _probability("grammar", {"sentence": text})
    return dataclasses.replace(verdict, grammar=sound >= rules.bounds.grammatical)


def _follows(premise: str, hypothesis: str, rules: Rules) -> Generator[Ask, Said, bool]:
    found = yield from _probability("entailment", {"premise": premise, "hypothesis": hypothesis})
    return found >= rules.bounds.entailed


def _probability(judge: str, given: Mapping[str, str]) -> Generator[Ask, Said, float]:
    """Ask a judge; a reply of a table that is no probability is a DataError."""
    said = yield Ask(judge, given, 1, 0.0)
    try:
        found = float(said.text or "")
    except ValueError:
        found = float("nan")
    if not 0 <= found <= 1:
        raise DataError(
            f"The reply {said.text!r:.80} of the judge {judge!r} is no probability: table replies is damaged. Take it as it "
            f"was published."
        )
    return found


def judgements(judge: TextJudge, questions: list[Ask]) -> list[Said]:
    """Return what a judge says to questions, in the form of replies; BackendError where it gives what is no probability."""
    rows = [tuple(ask.given.values()) for ask in questions]
    found = [round(value, DIGITS) for value in judge.probabilities(rows)]
    for ask, texts, value in zip(questions, rows, found, strict=True):
        if not 0 <= value <= 1:
            raise BackendError(
                f"The judge negatives.language_model.{ask.prompt} gives {value} of {texts!r:.200}, which is no probability: its "
                f"weights are damaged. Nothing of these {len(rows):,} is kept; take another folder, and run the same again."
            )
    return [Said(f"{value:.{DIGITS}f}", "stop") for value in found]
