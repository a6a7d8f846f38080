"""Replace an attribute by one of its kind: a colour by a colour, a material by a material, a size by a size.

WordNet does not say which adjectives are of one kind. The words are the common attributes of captions and of
Visual Genome.
"""

from __future__ import annotations

import itertools

# colour -> colours that people may call it, too
COLOURS: dict[str, tuple[str, ...]] = {
    "red": ("orange", "pink", "brown"),
    "orange": ("red", "yellow", "brown"),
    "yellow": ("orange",),
    "green": (),
    "blue": ("purple",),
    "purple": ("blue", "pink"),
    "pink": ("red", "purple"),
    "brown": ("red", "orange", "black"),
    "black": ("brown", "gray"),
    "white": ("gray",),
    "gray": ("black", "white", "blue"),
}

SAME_COLOUR = {
    "grey": "gray",
    "silver": "gray",
    "golden": "yellow",
    "gold": "yellow",
    "tan": "brown",
    "beige": "brown",
    "maroon": "red",
    "violet": "purple",
    "teal": "blue",
    "navy": "blue",
    "navy blue": "blue",
    "light blue": "blue",
    "dark blue": "blue",
    "light green": "green",
    "dark green": "green",
    "light brown": "brown",
    "dark brown": "brown",
}

# Words of one group exclude each other.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("wooden", "metal", "plastic", "stone"),
    ("brick", "wooden", "glass"),
    ("concrete", "wooden", "metal"),
    ("leather", "wooden", "plastic"),
    ("metallic", "wooden"),
    ("wood", "metal", "plastic", "stone"),
    ("striped", "spotted", "checkered"),
    ("plaid", "striped", "spotted"),
    ("floral", "striped", "checkered"),
    ("round", "square", "triangular"),
    ("circular", "square", "triangular"),
    ("rectangular", "round", "triangular"),
    ("snowy", "sandy", "grassy"),
    ("rocky", "sandy", "grassy"),
    ("muddy", "grassy", "snowy"),
    ("sunny", "rainy"),
    ("sitting", "standing", "lying"),
    ("seated", "standing", "lying"),
    ("walking", "sitting", "lying"),
    ("running", "sitting", "lying"),
    ("sleeping", "running", "jumping"),
    ("smiling", "frowning", "crying"),
    ("blonde", "black-haired", "gray-haired"),
    ("blond", "black-haired", "gray-haired"),
)

# Attribute -> attributes that exclude it. The order within a row has no meaning.
OPPOSITES: dict[str, tuple[str, ...]] = {
    "small": ("large", "huge"),
    "little": ("big", "huge"),
    "tiny": ("large", "huge"),
    "large": ("small", "tiny"),
    "big": ("small", "tiny"),
    "huge": ("small", "tiny"),
    "giant": ("small", "tiny"),
    "enormous": ("small", "tiny"),
    "gigantic": ("small", "tiny"),
    "massive": ("small", "tiny"),
    "oversized": ("small", "tiny"),
    "tall": ("short",),
    "long": ("short",),
    "wide": ("narrow",),
    "narrow": ("wide",),
    "thick": ("thin",),
    "thin": ("thick",),
    "fat": ("thin", "skinny"),
    "skinny": ("fat",),
    "high": ("low",),
    "low": ("high",),
    "deep": ("shallow",),
    "shallow": ("deep",),
    "steep": ("flat",),
    "young": ("old", "elderly"),
    "elderly": ("young",),
    "modern": ("ancient", "antique"),
    "ancient": ("modern",),
    "antique": ("modern",),
    "vintage": ("modern",),
    "wet": ("dry",),
    "dry": ("wet",),
    "clean": ("dirty",),
    "dirty": ("clean",),
    "open": ("closed",),
    "closed": ("open",),
    "full": ("empty",),
    "empty": ("full",),
    "crowded": ("empty", "deserted"),
    "busy": ("empty", "deserted"),
    "messy": ("tidy",),
    "odd": ("ordinary",),
    "strange": ("ordinary",),
    "cluttered": ("tidy", "empty"),
    "neat": ("messy",),
    "bright": ("dark",),
    "dark": ("bright", "light"),
    "light": ("dark",),
    "lit": ("unlit",),
    "hot": ("cold",),
    "cold": ("hot",),
    "cloudy": ("clear", "cloudless"),
    "overcast": ("clear", "cloudless"),
    "smooth": ("rough",),
    "rough": ("smooth",),
    "soft": ("hard",),
    "hard": ("soft",),
    "shiny": ("dull", "rusty"),
    "rusty": ("shiny",),
    "broken": ("intact",),
    "cooked": ("raw",),
    "raw": ("cooked",),
    "sliced": ("whole",),
    "fresh": ("rotten",),
    "ripe": ("unripe",),
    "green leafy": ("withered",),
    "curly": ("straight",),
    "straight": ("curved",),
    "curved": ("straight",),
    "happy": ("sad", "angry"),
    "sad": ("happy",),
    "left": ("right",),
    "right": ("left",),
    "front": ("back",),
    "back": ("front",),
    "rear": ("front",),
    "upper": ("lower",),
    "lower": ("upper",),
    "male": ("female",),
    "female": ("male",),
    "heavy": ("light",),
    "colorful": ("colorless", "gray"),
    "colourful": ("colourless", "grey"),
    "parked": ("moving",),
    "barefoot": ("booted",),
    "bald": ("long-haired",),
    "shirtless": ("fully dressed",),
    "adult": ("young",),
    "leafless": ("leafy",),
    "leafy": ("leafless",),
    "furry": ("hairless",),
    "fluffy": ("hairless",),
    "indoor": ("outdoor",),
    "outdoor": ("indoor",),
    "snow covered": ("snowless", "grassy"),
    "snow-covered": ("snowless", "grassy"),
}

# Of a person, an animal or a plant, and of any other object.
BY_OWNER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "short": (("tall",), ("long",)),
    "old": (("young",), ("new", "modern")),
    "new": (("old",), ("old", "worn")),
}

AGES = frozenset(("young", "old", "elderly", "adult", "older", "younger"))
# "Ugly" would demean people, and WordNet's antonym of "overhead" is "subsurface".
UNREPLACED = frozenset(("beautiful", "pretty", "overhead"))
SIZES = frozenset(("little", "small", "tiny", "big", "large"))
CHILDREN = frozenset(("boy", "girl", "child", "kid", "baby", "toddler"))  # whose age is in the noun


NATURAL_COLOURS = frozenset(("black", "white", "brown", "gray"))  # of animals and hair
COMMON_ATTRIBUTES = frozenset((*COLOURS, *SAME_COLOUR, *itertools.chain(*GROUPS), *OPPOSITES, *BY_OWNER))


def is_colour(word: str) -> bool:
    """Return whether an attribute is a colour."""
    return SAME_COLOUR.get(word, word) in COLOURS


def list_attribute_foils(word: str, owner: str, *, is_living: bool) -> list[str]:
    """Return the attributes that exclude one, in a fixed order; none if the lists do not know it.

    Args:
        word: the attribute.
        owner: the object that has it, in the singular.
        is_living: whether the object is a person, an animal or a plant.
    """
    if word in AGES | SIZES and owner in CHILDREN:
        return []
    colour = SAME_COLOUR.get(word, word)
    if colour in COLOURS:
        return [other for other in COLOURS if other not in (colour, *COLOURS[colour])]
    if word in BY_OWNER:
        living, rest = BY_OWNER[word]
        return list(living if is_living else rest)
    foils = [other for group in GROUPS if word in group for other in group if other != word]
    return list(dict.fromkeys([*foils, *OPPOSITES.get(word, ())]))


def may_be_called(name: str, colour: str) -> bool:
    """Return whether people may call a colour by a name: what is gray may be called grey, silver or black."""
    name, colour = (SAME_COLOUR.get(word, word) for word in (name, colour))
    return name in (colour, *COLOURS.get(colour, ()))
