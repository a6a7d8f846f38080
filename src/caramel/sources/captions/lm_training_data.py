"""What a small language model learns to answer: questions of the prompts about captions of the world, with right answers.

The world's captions can be read exactly, so what is right is worked out and not guessed. A model that does not see the
picture cannot do more: whether what it writes is false of the scene is another matter (``sources.captions.error_rates``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from caramel.sources.captions.prompts.prompt_files import OF_GRAPHS, Answer, Failed, names
from caramel.sources.captions.rules import ATTRIBUTES, RULES, Rng, list_related_mentions
from caramel.sources.world.grammar import (
    ADDED,
    ADVERB,
    PATTERNS,
    POSITION_PHRASE,
    PREPOSITION,
    Reading,
    formatted,
    phrase,
    realise,
    shape,
)
from caramel.sources.world.sampling import sample_tail, with_tail
from caramel.sources.world.scenes import (
    COLOURS,
    MAX_OBJECTS,
    NOUNS,
    SIZES,
    Mention,
    sample_meaning,
    sample_scene,
)

AGAIN = 0.15  # chance that an answer is shown that did not do, where scripts may show one
SAME = 0.5  # chance that what a validator is shown says the same
PRIOR = 0.5  # of ``sample_scene``
ABSOLUTE_POSITIONS = 0.5  # of ``sample_meaning``
WORDS: Mapping[str, Sequence[str]] = {
    "obj": NOUNS,
    "att": (*COLOURS, *SIZES),
    "rel": (*ADVERB.values(), *PREPOSITION.values(), *POSITION_PHRASE.values()),
}
FOUND = {"obj": "objects", "att": "attributes", "rel": "relations"}
CONCEPT = {"obj": "object", "att": "attribute", "rel": "relation"}
NO_SWAP: Answer = {"possible": "no", "first": "", "second": "", "sentence": ""}
IDEA = "another form of sentence"


class Lesson(NamedTuple):
    """A question of a prompt, and a right answer."""

    prompt: str
    given: Mapping[str, str]
    answer: Answer
    failed: tuple[Failed, ...] = ()


def lesson(rng: Rng) -> Lesson:
    """Return a lesson on a drawn caption of the world; all prompts that can be asked of it are as frequent."""
    while True:
        said = _said(rng)
        name = _pick(rng, [name for name in names() if name != OF_GRAPHS])
        made = _made(name, said, rng)
        if made is not None:
            return made


def _said(rng: Rng) -> Reading:
    """Return what a caption says, drawn as the world's are."""
    shown = int(rng.integers(1, MAX_OBJECTS + 1))
    scene = sample_scene(rng, objects=shown, prior=PRIOR)
    meaning = sample_meaning(rng, scene.things, absolute_positions=ABSOLUTE_POSITIONS)
    said = with_tail(meaning, sample_tail(rng, shown, shown))
    return replace(said, pattern=int(rng.integers(len(PATTERNS[shape(said.meaning)]))))


def _made(name: str, said: Reading, rng: Rng) -> Lesson | None:
    """Return the lesson of a prompt on a caption, if it can be asked of it."""
    caption = realise(said)
    kind, _, rest = name.partition("_")
    part, _, step = rest.partition("_")
    if kind == "find":
        return Lesson(name, {"sentence": caption}, {FOUND[part]: words_in(caption, part)})
    if kind in ("replace", "add"):
        asked = part if kind == "replace" else "obj"
        concepts = words_in(caption, asked)
        if not concepts:
            return None
        old = _pick(rng, concepts)
        new = (_another if kind == "replace" else _further)(said, part, old, rng)
        given = {"sentence": caption, CONCEPT[asked]: old}
        if step == "propose":
            return Lesson(name, given, {"new": new})
        sentence = COMPOSED[f"{kind}_{part}"](said, old, new)
        return Lesson(name, {**given, "new": new}, {"sentence": sentence})
    if kind == "swap":
        answer = SWAPPED[part](said, rng)
        return Lesson(name, {"sentence": caption}, answer, _failed(caption, rng))
    if kind == "paraphrase":
        answer = {"idea": IDEA, "sentence": realise(_reworded(said, rng))}
        return Lesson(name, {"sentence": caption}, answer, _failed(caption, rng))
    other, problem = _other(said, rng)
    if rest == "negative":
        given = {"caption": caption, "changed": realise(other)}
        return Lesson(name, given, {"follows": "yes" if problem == "none" else "no"})
    same = "yes" if problem == "none" else "no"
    return Lesson(name, {"first": caption, "second": realise(other)}, {"same": same, "problem": problem})


def words_in(caption: str, part: str) -> list[str]:
    """Return the nouns (obj), colours and sizes (att) or relations and positions (rel) of a caption of the world, in its order."""
    found = re.findall(rf"\b(?:{'|'.join(WORDS[part])})\b", caption.lower())
    return list(dict.fromkeys(found))


def _another(said: Reading, part: str, old: str, rng: Rng) -> str:
    """Return a word of the kind of another, which the caption does not say if there is one."""
    kinds: tuple[Sequence[str], ...] = (
        NOUNS,
        COLOURS,
        SIZES,
        *(tuple(d.values()) for d in (PREPOSITION, ADVERB, POSITION_PHRASE)),
    )
    others = [word for kind in kinds if old in kind for word in kind if word != old]
    there = words_in(realise(said), part)
    return _pick(rng, [word for word in others if word not in there] or others)


def _further(said: Reading, part: str, old: str, rng: Rng) -> str:
    """Return a noun that the caption lacks, or an attribute that its noun lacks, any if it has both."""
    if part == "obj":
        return _another(said, part, old, rng)
    mention = next(m for m in said.whole.mentions if m.noun == old)
    lacking = [kind for kind in ATTRIBUTES if getattr(mention, kind) is None] or ["colour"]
    kind = _pick(rng, lacking)
    return _pick(rng, [word for word in ATTRIBUTES[kind] if word != getattr(mention, kind)])


def _replaced_noun(said: Reading, old: str, new: str) -> str:
    """Return the caption with a noun replaced wherever it stands."""
    return articled(re.sub(rf"\b{old}\b", new, realise(said)))


def _replaced_first(said: Reading, old: str, new: str) -> str:
    """Return the caption with the first of a word or phrase replaced."""
    text = re.sub(rf"\b{old}\b", new, realise(said), count=1, flags=re.IGNORECASE)
    return articled(formatted(text))


def _added_noun(said: Reading, old: str, new: str) -> str:
    """Return the caption with a tail that names a noun; beside another one, where there is a tail already."""
    caption = realise(said)
    if said.added or said.alone:
        positions = "|".join(POSITION_PHRASE.values())
        beside = rf"\g<0> and {phrase(Mention(new))}"
        return re.sub(rf"\b{old}\b(?: (?:{positions})\b)?", beside, caption, count=1)
    return formatted(caption.removesuffix(".") + ADDED.format(x=phrase(Mention(new))))


def _added_attribute(said: Reading, old: str, new: str) -> str:
    """Return the caption with an attribute before a noun; sizes stand before colours."""
    size, colour = ("|".join(words) for words in (SIZES, COLOURS))
    before = r"\g<1>" + (rf"{new} \g<2>" if new in SIZES else rf"\g<2>{new} ")
    text = re.sub(rf"\b((?:{size}) )?((?:{colour}) )?{old}\b", before + old, realise(said), count=1)
    return articled(text)


COMPOSED: Mapping[str, Callable[[Reading, str, str], str]] = {
    "replace_obj": _replaced_noun,
    "replace_att": _replaced_first,
    "replace_rel": _replaced_first,
    "add_obj": _added_noun,
    "add_att": _added_attribute,
}


def articled(text: str) -> str:
    """Return a text with "a" and "an" by the letter after them."""
    return re.sub(r"\b([Aa])n? (?=(\w))", lambda m: f"{m[1]}n " if m[2] in "aeiou" else f"{m[1]} ", text)


def _swapped_nouns(said: Reading, rng: Rng) -> Answer:
    """Return the exchange of two nouns of a relation, or of two positions; attributes stay, as the prompt asks."""
    mentions, options = list(said.meaning.mentions), list_related_mentions(said)
    if not options:
        return NO_SWAP
    a, b = options[int(rng.integers(len(options)))]
    first, second = mentions[a].noun, mentions[b].noun
    mentions[a], mentions[b] = replace(mentions[a], noun=second), replace(mentions[b], noun=first)
    other = replace(said, meaning=replace(said.meaning, mentions=tuple(mentions)))
    return _swap(first, second, realise(other))


def _swapped_attributes(said: Reading, rng: Rng) -> Answer:
    """Return the exchange of two colours, or two sizes."""
    other = RULES["swap_att"](said, rng)
    if isinstance(other, str):
        return NO_SWAP
    before, after = said.meaning.mentions, other.meaning.mentions
    pairs = (
        (getattr(m, kind), getattr(n, kind))
        for kind in ATTRIBUTES
        for m, n in zip(before, after, strict=True)
    )
    a, b = (old for old, new in pairs if old != new)
    return _swap(a, b, realise(other))


SWAPPED: Mapping[str, Callable[[Reading, Rng], Answer]] = {
    "obj": _swapped_nouns,
    "att": _swapped_attributes,
}


def _swap(first: str, second: str, sentence: str) -> Answer:
    return {"possible": "yes", "first": first, "second": second, "sentence": sentence}


def _reworded(said: Reading, rng: Rng) -> Reading:
    """Return the same in another sentence form."""
    others = [p for p in range(len(PATTERNS[shape(said.meaning)])) if p != said.pattern]
    return replace(said, pattern=others[int(rng.integers(len(others)))])


def _other(said: Reading, rng: Rng) -> tuple[Reading, str]:
    """Return what another caption says, and what is wrong with it as a paraphrase; "none" if it follows."""
    if rng.random() < SAME:
        return _reworded(said, rng), "none"
    while True:
        subtype = _pick(rng, list(RULES))
        other = RULES[subtype](said, rng)
        if isinstance(other, str):
            continue
        problem = {"add": "hallucination", "only": "hallucination"}.get(subtype.partition("_")[0], "meaning")
        problem = "spatial" if subtype in ("replace_rel", "swap_obj") else problem
        return (_reworded(other, rng) if rng.random() < SAME else other), problem


def _failed(caption: str, rng: Rng) -> tuple[Failed, ...]:
    """Return, now and then, an answer that did not do: the caption itself."""
    return (Failed(caption, "negligible change"),) if rng.random() < AGAIN else ()


def _pick(rng: Rng, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
