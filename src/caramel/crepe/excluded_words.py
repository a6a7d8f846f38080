"""Words that never replace another word, because they demean people or are obscene.

A benchmark prints its negatives, and people read them. WordNet marks such meanings in their glosses, so the
glosses decide first. ``DEMEANING`` adds the words that WordNet 3.0 does not mark. It has one category each for
bondage, regimes of mass murder, disability and origin used as an insult, and sexual insult.
"""

from __future__ import annotations

import re

from caramel.sources.captions.wordnet_files import PartOfSpeechReader

# "(ethnic slur) …", "offensive term for …", "obscene words for …", "(sometimes offensive)", "considered offensive"
_MARK = re.compile(
    r"\bethnic slur\)"
    r"|\b(?:offensive|disparaging|derogatory|pejorative|insulting|obscene|vulgar)\)?(?: and \w+)?(?: British)?"
    r"(?: slang)? (?:terms?|names?|words?|references?|expressions?|slang)\b"
    r"|\((?:often|sometimes) (?:offensive|derogatory|disparaging|pejorative)\)"
    r"|\((?:offensive|derogatory|disparaging|pejorative)\b[^)]*\)"
    r"|\b(?:considered|regarded as) (?:offensive|obscene)\b",
    re.IGNORECASE,
)
DEMEANING = frozenset(
    (
        *("slave", "slave driver", "bondman", "bondwoman", "serf", "savage", "barbarian", "primitive"),
        *("nazi", "fascist", "klansman", "terrorist"),
        *(
            "cripple",
            "midget",
            "freak",
            "idiot",
            "imbecile",
            "moron",
            "cretin",
            "retard",
            "mongoloid",
            "lunatic",
        ),
        *("gypsy", "eskimo", "negro", "negress", "mulatto", "squaw", "heathen", "infidel"),
        *("whore", "slut", "harlot", "prostitute", "bitch", "bastard", "pervert", "homo", "queer", "tramp"),
    )
)
# Common words with a marked meaning that is rare in texts: their first meaning is the one that replaces a word.
COMMON = frozenset(("boy",))


def is_printable(part: PartOfSpeechReader, word: str) -> bool:
    """Return whether a word of WordNet has no meaning that demeans people or is obscene."""
    if word in DEMEANING:
        return False
    glosses = (part.read_synset(sense).gloss for sense in part.entries[word].offsets)
    return word in COMMON or not any(map(is_offensive_gloss, glosses))


def is_offensive_gloss(gloss: str) -> bool:
    """Return whether a gloss of WordNet marks its words as offensive, disparaging or obscene."""
    return _MARK.search(gloss.partition('"')[0]) is not None
