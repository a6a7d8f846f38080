"""Build training examples for a small language model: prompts about captions of the world, with correct answers.

The world's captions can be parsed exactly, so the correct answers are computed. The examples do not use the
scene, because the model does not see the image. Whether a text of the model is false of the scene is measured
in ``sources.captions.error_rates``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from caramel.sources.captions.prompts.prompt_files import (
    OF_GRAPHS,
    Answer,
    FailedAnswer,
    format_answer,
    list_learned_prompts,
)
from caramel.sources.captions.rules import ATTRIBUTES, RULES, Rng, list_related_mentions
from caramel.sources.world.grammar import (
    ADDED,
    ADVERB,
    PATTERNS,
    POSITION_PHRASE,
    PREPOSITION,
    Reading,
    format_mention,
    format_sentence,
    get_pattern_key,
    realise_caption,
)
from caramel.sources.world.sampling import add_tail, sample_tail
from caramel.sources.world.scenes import (
    COLOURS,
    MAX_OBJECTS,
    NOUNS,
    SIZES,
    Mention,
    sample_meaning,
    sample_scene,
)

AGAIN = 0.15  # probability that a prompt includes a rejected answer, where scripts may include one
SAME = 0.5  # probability that a validator's example has equal meanings
PRIOR = 0.5  # argument of ``sample_scene``
ABSOLUTE_POSITIONS = 0.5  # argument of ``sample_meaning``
WORDS: Mapping[str, Sequence[str]] = {
    "obj": NOUNS,
    "att": (*COLOURS, *SIZES),
    "rel": (*ADVERB.values(), *PREPOSITION.values(), *POSITION_PHRASE.values()),
}
FOUND = {"obj": "objects", "att": "attributes", "rel": "relations"}
CONCEPT = {"obj": "object", "att": "attribute", "rel": "relation"}
NO_SWAP: Answer = {"possible": "no", "first": "", "second": "", "sentence": ""}
IDEA = "another form of sentence"


class TrainingExample(NamedTuple):
    """A prompt's input and a correct answer."""

    prompt: str
    given: Mapping[str, str]
    answer: Answer
    failed: tuple[FailedAnswer, ...] = ()


def sample_example(rng: Rng) -> TrainingExample:
    """Return a training example on a random caption of the world; all applicable prompts are equally likely."""
    while True:
        reading = _sample_reading(rng)
        name = _draw_item(rng, [name for name in list_learned_prompts() if name != OF_GRAPHS])
        example = _build_example(name, reading, rng)
        if example is not None:
            return example


def _sample_reading(rng: Rng) -> Reading:
    """Return the reading of a random caption, drawn as the world's captions are."""
    num_objects = int(rng.integers(1, MAX_OBJECTS + 1))
    scene = sample_scene(rng, num_objects=num_objects, typical_color_prob=PRIOR)
    meaning = sample_meaning(rng, scene.things, absolute_positions=ABSOLUTE_POSITIONS)
    reading = add_tail(meaning, sample_tail(rng, num_objects, num_objects))
    return replace(reading, pattern=int(rng.integers(len(PATTERNS[get_pattern_key(reading.meaning)]))))


def _build_example(name: str, reading: Reading, rng: Rng) -> TrainingExample | None:
    """Return the training example of a prompt on a caption; None if the prompt does not apply to it."""
    caption = realise_caption(reading)
    operation, _, rest = name.partition("_")
    part, _, step = rest.partition("_")
    if operation == "find":
        return TrainingExample(name, {"sentence": caption}, {FOUND[part]: find_words(caption, part)})
    if operation in ("replace", "add"):
        concept_part = part if operation == "replace" else "obj"
        concepts = find_words(caption, concept_part)
        if not concepts:
            return None
        old = _draw_item(rng, concepts)
        new = (_draw_other_word if operation == "replace" else _draw_added_word)(reading, part, old, rng)
        given = {"sentence": caption, CONCEPT[concept_part]: old}
        if step == "propose":
            return TrainingExample(name, given, {"new": new})
        sentence = COMPOSED[f"{operation}_{part}"](reading, old, new)
        return TrainingExample(name, {**given, "new": new}, {"sentence": sentence})
    if operation == "swap":
        answer = SWAPPED[part](reading, rng)
        return TrainingExample(
            name, {"sentence": caption}, answer, _sample_failed_answers({**answer, "sentence": caption}, rng)
        )
    if operation == "paraphrase":
        answer = {"idea": IDEA, "sentence": realise_caption(_change_sentence_form(reading, rng))}
        return TrainingExample(
            name, {"sentence": caption}, answer, _sample_failed_answers({**answer, "sentence": caption}, rng)
        )
    other, problem = _sample_other_reading(reading, rng)
    if rest == "negative":
        given = {"caption": caption, "changed": realise_caption(other)}
        return TrainingExample(name, given, {"follows": "yes" if problem == "none" else "no"})
    same = "yes" if problem == "none" else "no"
    return TrainingExample(
        name, {"first": caption, "second": realise_caption(other)}, {"same": same, "problem": problem}
    )


def find_words(caption: str, part: str) -> list[str]:
    """Return a caption's words in order: nouns (obj), colours and sizes (att), relations and positions (rel)."""
    matches = re.findall(rf"\b(?:{'|'.join(WORDS[part])})\b", caption.lower())
    return list(dict.fromkeys(matches))


def _draw_other_word(reading: Reading, part: str, old: str, rng: Rng) -> str:
    """Return another word of the same type as the old one, preferably one that is not in the caption."""
    categories: tuple[Sequence[str], ...] = (
        NOUNS,
        COLOURS,
        SIZES,
        *(tuple(d.values()) for d in (PREPOSITION, ADVERB, POSITION_PHRASE)),
    )
    others = [word for category in categories if old in category for word in category if word != old]
    present = find_words(realise_caption(reading), part)
    return _draw_item(rng, [word for word in others if word not in present] or others)


def _draw_added_word(reading: Reading, part: str, old: str, rng: Rng) -> str:
    """Return a noun that the caption lacks, or an attribute that the noun lacks (any if it has both)."""
    if part == "obj":
        return _draw_other_word(reading, part, old, rng)
    mention = next(m for m in reading.whole.mentions if m.noun == old)
    lacking = [attribute for attribute in ATTRIBUTES if getattr(mention, attribute) is None] or ["colour"]
    attribute = _draw_item(rng, lacking)
    return _draw_item(rng, [word for word in ATTRIBUTES[attribute] if word != getattr(mention, attribute)])


def _replace_noun(reading: Reading, old: str, new: str) -> str:
    """Return the caption with a noun replaced at every occurrence."""
    return fix_articles(re.sub(rf"\b{old}\b", new, realise_caption(reading)))


def _replace_first(reading: Reading, old: str, new: str) -> str:
    """Return the caption with the first occurrence of a word or phrase replaced."""
    text = re.sub(rf"\b{old}\b", new, realise_caption(reading), count=1, flags=re.IGNORECASE)
    return fix_articles(format_sentence(text))


def _add_noun(reading: Reading, old: str, new: str) -> str:
    """Return the caption with a tail that mentions a noun.

    If there is a tail already, the noun joins another noun.
    """
    caption = realise_caption(reading)
    if reading.added or reading.alone:
        positions = "|".join(POSITION_PHRASE.values())
        beside = rf"\g<0> and {format_mention(Mention(new))}"
        return re.sub(rf"\b{old}\b(?: (?:{positions})\b)?", beside, caption, count=1)
    return format_sentence(caption.removesuffix(".") + ADDED.format(x=format_mention(Mention(new))))


def _add_attribute(reading: Reading, old: str, new: str) -> str:
    """Return the caption with an attribute before a noun; sizes precede colours."""
    size, colour = ("|".join(words) for words in (SIZES, COLOURS))
    before = r"\g<1>" + (rf"{new} \g<2>" if new in SIZES else rf"\g<2>{new} ")
    text = re.sub(
        rf"\b((?:{size}) )?((?:{colour}) )?{old}\b", before + old, realise_caption(reading), count=1
    )
    return fix_articles(text)


COMPOSED: Mapping[str, Callable[[Reading, str, str], str]] = {
    "replace_obj": _replace_noun,
    "replace_att": _replace_first,
    "replace_rel": _replace_first,
    "add_obj": _add_noun,
    "add_att": _add_attribute,
}


def fix_articles(text: str) -> str:
    """Return a text with "a" and "an" chosen by the letter that follows."""
    return re.sub(r"\b([Aa])n? (?=(\w))", lambda m: f"{m[1]}n " if m[2] in "aeiou" else f"{m[1]} ", text)


def _swap_nouns(reading: Reading, rng: Rng) -> Answer:
    """Return the exchange of two nouns of a relation, or of two positions; attributes stay, as the prompt asks."""
    mentions, options = list(reading.meaning.mentions), list_related_mentions(reading)
    if not options:
        return NO_SWAP
    a, b = options[int(rng.integers(len(options)))]
    first, second = mentions[a].noun, mentions[b].noun
    mentions[a], mentions[b] = replace(mentions[a], noun=second), replace(mentions[b], noun=first)
    other = replace(reading, meaning=replace(reading.meaning, mentions=tuple(mentions)))
    return _build_swap_answer(first, second, realise_caption(other))


def _swap_attributes(reading: Reading, rng: Rng) -> Answer:
    """Return the exchange of two colours, or of two sizes."""
    other = RULES["swap_att"](reading, rng)
    if isinstance(other, str):
        return NO_SWAP
    before, after = reading.meaning.mentions, other.meaning.mentions
    pairs = (
        (getattr(m, attribute), getattr(n, attribute))
        for attribute in ATTRIBUTES
        for m, n in zip(before, after, strict=True)
    )
    a, b = (old for old, new in pairs if old != new)
    return _build_swap_answer(a, b, realise_caption(other))


SWAPPED: Mapping[str, Callable[[Reading, Rng], Answer]] = {
    "obj": _swap_nouns,
    "att": _swap_attributes,
}


def _build_swap_answer(first: str, second: str, sentence: str) -> Answer:
    return {"possible": "yes", "first": first, "second": second, "sentence": sentence}


def _change_sentence_form(reading: Reading, rng: Rng) -> Reading:
    """Return a reading with the same meaning in another sentence form."""
    others = [p for p in range(len(PATTERNS[get_pattern_key(reading.meaning)])) if p != reading.pattern]
    return replace(reading, pattern=others[int(rng.integers(len(others)))])


def _sample_other_reading(reading: Reading, rng: Rng) -> tuple[Reading, str]:
    """Return another caption's reading, and its problem as a paraphrase ("none" if it follows)."""
    if rng.random() < SAME:
        return _change_sentence_form(reading, rng), "none"
    while True:
        subtype = _draw_item(rng, list(RULES))
        other = RULES[subtype](reading, rng)
        if isinstance(other, str):
            continue
        problem = {"add": "hallucination", "only": "hallucination"}.get(subtype.partition("_")[0], "meaning")
        problem = "spatial" if subtype in ("replace_rel", "swap_obj") else problem
        return (_change_sentence_form(other, rng) if rng.random() < SAME else other), problem


def _sample_failed_answers(answer: Answer, rng: Rng) -> tuple[FailedAnswer, ...]:
    """Return, at random, a rejected answer to show in the prompt: one that repeats the caption."""
    return (FailedAnswer(format_answer(answer), "negligible change"),) if rng.random() < AGAIN else ()


def _draw_item(rng: Rng, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
