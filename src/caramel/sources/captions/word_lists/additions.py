"""Add an object to a caption by word lists (subtype ``add_obj`` of SugarCrepe), behind a noun phrase."""

from __future__ import annotations

from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import TaggedPhrase, Token
from caramel.sources.captions.tokenization import Edit, Sentence, WordMatch
from caramel.sources.captions.word_lists.heads import (
    ALL_SAID,
    NO_INSERTION,
    NO_NOUN,
    Rng,
    draw_item,
    is_mentioned,
    iter_heads,
)
from caramel.sources.captions.word_lists.objects import has_pronoun
from caramel.sources.captions.word_lists.replacements import load_word_lists

# Words before a noun phrase to which another one can be joined by "and".
JOINING = frozenset(
    [
        "with",
        "near",
        "beside",
        "by",
        "behind",
        "holding",
        "carrying",
        "wearing",
        "eating",
        "has",
        "have",
        "having",
        "watching",
        "using",
        "featuring",
        "containing",
        "holds",
        "carries",
        "wears",
        "selling",
        "making",
    ]
)
JOINING_ENDS = ("next to", "close to", "in front of", "looking at", "photo of", "picture of", "image of")
GROUPS = frozenset(
    f"{a} {b} of" for a in ("a", "the") for b in ("group", "herd", "couple", "pair", "bunch", "team")
)
# Verb of a single subject -> of several.
AGREEING = {"is": "are", "has": "have", "was": "were"} | {
    f"{verb}s": verb
    for verb in [
        "sit",
        "stand",
        "walk",
        "run",
        "play",
        "look",
        "hold",
        "wear",
        "ride",
        "eat",
        "lie",
        "lay",
        "sleep",
        "wait",
        "pose",
        "swim",
        "graze",
        "rest",
    ]
}


def add_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Add an object behind a noun phrase, where "and" joins it to that phrase alone; the verb of a subject agrees."""
    heads = list(iter_heads(sentence))
    if not heads:
        return NO_NOUN
    joinable = [(noun, phrase) for noun, phrase in heads if _can_join(sentence, noun, phrase)]
    if not joinable:
        return NO_INSERTION
    options = [
        (phrase, word)
        for noun, phrase in joinable
        for word in _list_companions(noun, phrase)
        if not is_mentioned(sentence, word)
    ]
    if not options:
        return ALL_SAID
    phrase, word = draw_item(rng, options)
    edits = [Edit(phrase.end, phrase.end, f" and {words.choose_article(word)} {word}")]
    verb = phrase.after[0] if phrase.after else None
    if verb and _is_subject(phrase) and verb.word in AGREEING:
        edits.append(Edit(verb.start, verb.end, AGREEING[verb.word]))
    return edits


def _list_companions(noun: WordMatch, phrase: TaggedPhrase) -> tuple[str, ...]:
    companions = load_word_lists().companions.get(noun.word, ())
    if companions == ("dog",) and _is_subject(phrase) and not _is_shared_with_dogs(phrase):
        return ()
    if noun.word in ("cell phone", "camera") and phrase.before and phrase.before[-1].word == "with":
        return ()  # "taking a picture with a phone"
    if phrase.before and phrase.before[-1].word in ("wearing", "wears"):
        return load_word_lists().companions["*clothes"]
    return companions or load_word_lists().companions.get(f"*{noun.group}", ())


def _is_shared_with_dogs(phrase: TaggedPhrase) -> bool:
    """Return whether a subject does what a dog may do beside it: "a child sitting", "people are walking"."""
    actions = {
        "sitting",
        "standing",
        "walking",
        "running",
        "lying",
        "resting",
        "waiting",
        "sit",
        "stand",
        "walk",
        "run",
    }
    return not actions.isdisjoint(token.word for token in phrase.after[:2])


def _can_join(sentence: Sentence, noun: WordMatch, phrase: TaggedPhrase) -> bool:
    """Return whether "and" behind a phrase joins a further object to it alone."""
    if not (phrase.determiners or noun.plural):
        return False  # "horse and a cow" reads badly without an article
    if _is_subject(phrase):
        return _is_open_subject(sentence, noun, phrase)
    following = phrase.after[0] if phrase.after else None
    gap = sentence.text[phrase.end : following.start].strip() if following else ""
    if gap.startswith((",", "/", "-", "&")):
        return False  # of a list
    if following and not gap and not _may_follow(following, living=noun.group in words.LIVING):
        return False
    before = " ".join(token.word for token in phrase.before)
    return phrase.before[-1].word in JOINING or before.endswith(JOINING_ENDS)


def _is_subject(phrase: TaggedPhrase) -> bool:
    """Return whether a phrase begins the caption, perhaps after "a group of"."""
    return " ".join(token.word for token in phrase.before) in ("", *GROUPS)


def _may_follow(following: Token, *, living: bool) -> bool:
    """Return whether a word may come after a joined phrase without belonging to one part of it alone."""
    if following.word.endswith("ing"):
        return living
    if following.word in ("of", "with", "and", "or", "that", "which", "who", "for", "as", "to", "in"):
        return False
    return following.tag in ("preposition", "adverb", "conjunction")


def _is_open_subject(sentence: Sentence, noun: WordMatch, phrase: TaggedPhrase) -> bool:
    """Return whether a living subject may be joined by another one, and the caption's one finite verb can agree."""
    if not phrase.after or has_pronoun(sentence) or noun.group not in words.LIVING:
        return False
    first, *later = phrase.after
    if any(token.word in AGREEING or token.word in words.FINITE for token in later):
        return False
    return first.word.endswith("ing") or first.word in AGREEING or first.word in AGREEING.values()
