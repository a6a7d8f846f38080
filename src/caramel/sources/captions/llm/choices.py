"""Script by which a language model chooses one of the changes that its caption allows, see ``llm.change_options``.

A small model that invents words chooses from them. Only changes whose texts pass every check are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice, zip_longest

import numpy as np

from caramel.sources.captions.llm.changes import Change
from caramel.sources.captions.llm.checks import evaluate_negative
from caramel.sources.captions.llm.conversation import (
    ChangeLister,
    Editor,
    PromptInput,
    ScriptRules,
    ask_until_valid,
    get_text_field,
)
from caramel.sources.captions.llm.proposals import Failure, Proposal, ProposalScript, find_change_problem
from caramel.sources.captions.prompts.prompt_files import MAX_CHOICES, OF_CHOICES

NO_OPTION = "the caption allows no such change"
NO_CHOICE = "the model chooses none of the changes that the caption allows"
NOT_SHOWN = "the model names the number of an option that it was not shown"
TRIED = 4 * MAX_CHOICES  # changes that are composed and checked at most
SIGNS = {"replace": "->", "swap": "<->", "add": "+"}


def choose_change(
    caption: str,
    subtype: str,
    image_words: frozenset[str],
    attempt: int,
    rng: np.random.Generator,
    refused: Collection[str],
    rules: ScriptRules,
) -> ProposalScript:
    """Let the model choose one of up to ``MAX_CHOICES`` changes, drawn over the places of the caption in turn.

    Args:
        caption: the positive.
        subtype: one of ``SUBTYPES``.
        image_words: words in the captions of the image, in lower case.
        attempt: at the same text, from 1.
        rng: draws and orders the options.
        refused: texts of earlier attempts, which are no options.
        rules: the checks, the editor, and the source of the changes.
    """
    assert rules.editor is not None, "options are composed by edits"
    assert rules.change_lister is not None
    changes = _draw_changes(rules.change_lister, caption, subtype, rng)
    sound = _iter_sound(caption, changes, image_words, rules.editor, rules)
    options = [*islice((option for option in sound if option[1] not in refused), MAX_CHOICES)]
    if not options:
        return Failure(NO_OPTION)
    rng.shuffle(options)  # a small model prefers some numbers
    listed = "  ".join(
        f"{number}. {change.old} {SIGNS[subtype.partition('_')[0]]} {change.new}"
        for number, (change, _) in enumerate(options, 1)
    )
    given = {"sentence": caption, "options": listed}
    prompt_input = PromptInput(OF_CHOICES, given, attempt, 0.0, n_options=len(options))
    answer = yield from ask_until_valid(prompt_input)
    if isinstance(answer, str):
        return Failure(answer)
    number = int(get_text_field(answer, "choice"))
    if not 1 <= number <= len(options):
        return Failure(NO_CHOICE if number == 0 else NOT_SHOWN)
    return Proposal(*options[number - 1], answer)


def _draw_changes(
    lister: ChangeLister, caption: str, subtype: str, rng: np.random.Generator
) -> Iterator[Change]:
    """Yield up to ``TRIED`` changes in a drawn order, one of each place in turn: nouns differ much in their number."""
    by_place = lister.list_changes(caption, subtype)
    shuffled = [
        [by_place[i][k] for k in rng.permutation(len(by_place[i]))] for i in rng.permutation(len(by_place))
    ]
    in_turn = (change for turn in zip_longest(*shuffled) for change in turn if change is not None)
    return islice(in_turn, TRIED)


def _iter_sound(
    caption: str,
    changes: Iterator[Change],
    image_words: frozenset[str],
    editor: Editor,
    rules: ScriptRules,
) -> Iterator[tuple[Change, str]]:
    """Yield the changes, as they were applied, whose texts pass the required checks that need no model."""
    texts = set[str]()
    for change in changes:
        swapped = change.subtype.startswith("swap")
        if not swapped and find_change_problem(
            caption, change, image_words, rules.required, rules.lexical, rules.vocabulary
        ):
            continue
        edited = editor.apply_change(caption, change)
        if isinstance(edited, str):
            continue
        applied, text = edited
        verdict = evaluate_negative(
            caption, text, applied, image_words, rules.bounds, rules.lexical, rules.vocabulary
        )
        if text not in texts and verdict.find_failed_check(rules.required) is None:
            texts.add(text)
            yield applied, text
