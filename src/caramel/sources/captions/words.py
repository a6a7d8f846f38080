"""Word lists for rule-based negatives on free captions: objects, attributes, relations.

Two types of words are left out: words with another common meaning ("orange", "light", "watch", "park",
"mouse", "train" as a verb), and words that are implied by another word ("person", "dish").
"""

from __future__ import annotations

import re

# Words of one group exclude each other for the same object; the groups follow the supercategories of COCO.
NOUNS: dict[str, tuple[str, ...]] = {
    "person": ("man", "woman"),
    "child": ("boy", "girl"),
    "vehicle": ("bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "helicopter"),
    "street": ("bench", "fire hydrant", "parking meter", "stop sign", "traffic light", "mailbox", "statue"),
    "animal": (
        *("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"),
        *("rabbit", "goat", "monkey", "lion"),
    ),
    "accessory": ("backpack", "umbrella", "handbag", "suitcase", "hat", "helmet", "scarf"),
    "sport": ("frisbee", "kite", "skateboard", "surfboard", "snowboard", "tennis racket", "baseball bat"),
    "kitchen": ("bottle", "cup", "fork", "knife", "spoon", "bowl", "plate", "vase", "jar"),
    "food": (
        *("banana", "apple", "sandwich", "carrot", "hot dog", "pizza", "donut", "cake", "burger"),
        *("salad", "strawberry", "tomato"),
    ),
    "furniture": ("chair", "couch", "bed", "table", "desk", "stool", "cabinet", "bookshelf"),
    "electronics": ("television", "laptop", "keyboard", "camera", "cell phone", "printer", "radio"),
    "appliance": ("microwave", "oven", "toaster", "sink", "refrigerator", "dishwasher", "bathtub", "toilet"),
    "indoor": ("book", "clock", "teddy bear", "toothbrush", "candle", "mirror", "pillow", "towel", "lamp"),
    "room": ("kitchen", "bathroom", "bedroom", "office", "garage", "restaurant", "library"),
    "outdoors": ("beach", "forest", "street", "river", "lake", "mountain", "desert"),
    "building": ("house", "bridge", "tower", "church", "castle", "barn"),
    "clothes": ("shirt", "jacket", "coat", "dress", "sweater", "skirt"),
}
SAME: dict[str, str] = {  # written form -> word in the groups above
    "bike": "bicycle",
    "motorbike": "motorcycle",
    "plane": "airplane",
    "jet": "airplane",
    "kitten": "cat",
    "puppy": "dog",
    "sofa": "couch",
    "dining table": "table",
    "tv": "television",
    "fridge": "refrigerator",
    "phone": "cell phone",
    "cellphone": "cell phone",
    "doughnut": "donut",
    "hamburger": "burger",
    "racket": "tennis racket",
}
PLURALS: dict[str, str] = {
    "man": "men",
    "woman": "women",
    "sheep": "sheep",
    "goose": "geese",
    **{f"{stem}f": f"{stem}ves" for stem in ("cal", "hal", "shel", "bookshel", "wol", "el")},
    **{f"{stem}f": f"{stem}ves" for stem in ("lea", "loa", "meatloa", "scar", "hoo", "thie")},
    **{f"{stem}fe": f"{stem}ves" for stem in ("kni", "wi", "housewi", "midwi", "li")},
    **{f"{stem}o": f"{stem}oes" for stem in ("tomat", "potat", "her", "superher", "mosquit", "volcan")},
    **{f"{stem}o": f"{stem}oes" for stem in ("ech", "torped", "buffal", "domin")},
}
# Nouns in -man with a plural in -s, and nouns in -men that are no plurals
NOT_MEN = frozenset(
    (
        *("human", "german", "roman", "shaman", "talisman", "caiman", "ottoman", "walkman"),
        *("specimen", "abdomen", "omen", "stamen", "regimen", "ramen"),
    )
)

ADJECTIVES: dict[str, tuple[str, ...]] = {
    "colour": (
        *("red", "blue", "green", "yellow", "purple", "pink", "brown", "black", "white", "gray"),
        "turquoise",
    ),
    "size": ("large", "small"),
    "age": ("young", "elderly"),
    "state": ("clean", "dirty"),
    "fullness": ("empty", "full"),
    "wetness": ("wet", "dry"),
    "openness": ("open", "closed"),
    "brightness": ("bright", "dark"),
    "material": ("wooden", "metal", "plastic", "leather"),
    "pattern": ("striped", "plain", "checkered", "spotted"),
    "shape": ("round", "square"),
}
SAME_ADJECTIVE: dict[str, str] = {
    "big": "large",
    "huge": "large",
    "little": "small",
    "tiny": "small",
    "grey": "gray",
    "wood": "wooden",
}

# Relation -> the relation after its two ends are exchanged.
INVERSE: dict[str, str] = {
    "to the left of": "to the right of",
    "to the right of": "to the left of",
    "on the left of": "to the right of",
    "on the right of": "to the left of",
    "in front of": "behind",
    "behind": "in front of",
    "above": "below",
    "below": "above",
    "on top of": "underneath",
    "underneath": "above",
    "beneath": "above",
    "under": "above",
    "next to": "beside",
    "beside": "next to",
    "near": "close to",
    "close to": "near",
}
# Relation -> one that excludes it.
CONTRARY: dict[str, str] = {
    "to the left of": "to the right of",
    "to the right of": "to the left of",
    "on the left of": "to the right of",
    "on the right of": "to the left of",
    "in front of": "behind",
    "behind": "in front of",
    "above": "below",
    "below": "above",
    "on top of": "under",
    "underneath": "on top of",
    "beneath": "on top of",
    "under": "on top of",
    "next to": "far from",
    "beside": "far from",
    "near": "far from",
    "close to": "far from",
    "inside of": "outside of",
    "inside": "outside of",
    "sitting": "standing",
    "standing": "sitting",
    "laying": "standing",
    "lying": "standing",
    "riding": "pushing",
    "holding": "dropping",
    "walking": "running",
    "running": "sitting",
    "sleeping": "playing",
    "jumping": "sitting",
    "wearing": "folding",
    "eating": "sniffing",
    "parked": "driving",
}
SYMMETRIC = frozenset(
    ("and", "or", "with", "next", "to", "near", "beside", "close", "by", "together", "alongside")
)
DETERMINERS = frozenset(
    ("a", "an", "the", "one", "two", "three", "four", "some", "several", "many", "his", "her", "its", "their")
)
# Words after which a word of the attribute list is not an attribute ("black and white", "full of").
FUNCTION_WORDS = frozenset(
    ("and", "or", "of", "in", "on", "at", "to", "with", "by", "from", "for", "is", "are", "that")
)
LIVING = frozenset(("person", "child", "animal"))
POSTURES = frozenset(("sitting", "standing", "laying", "lying"))
# Relations without a direction, and what may stand beside them: "a man standing next to a woman".
UNDIRECTED = (
    SYMMETRIC
    | DETERMINERS
    | POSTURES
    | {"is", "are", "each", "other", "another", "while", "side", "as", "walking", "sits", "stands"}
)
SMALL_WORDS = frozenset(
    ("to", "the", "in", "on", "of", "from")
)  # parts of relations that have no meaning of their own
PREPOSITIONS = frozenset(
    ("on", "in", "with", "at", "near", "by", "inside", "next", "under", "behind", "beside")
)
FINITE = frozenset(("is", "are", "was", "were", "has", "have", "can", "will", "does", "do"))
NOT_FINITE = frozenset(
    ("his", "its", "this", "grass", "glasses", "pants", "tennis", "across", "as", "us", "plus")
)
_FIRST_PART = re.compile(r"\d+|[^\W\d_]+")
_VOWEL_NUMBER = re.compile(r"8|1[18](?:\d\d)?(?!\d)")  # eight, eleven, eighteen (hundred)
# Beginnings of words that sound unlike their first letter
_VOWEL_SOUNDS = ("hour", "honest", "honor", "honour", "heir", "unid", "unim", "unin", "unill")
_CONSONANT_SOUNDS = (
    *("one", "once", "uni", "use", "usa", "usu", "eu", "ewe", "ura", "uri", "ute", "uti", "ufo", "ukulele"),
    *("ubiq", "ouija"),
)


def get_plural(noun: str) -> str:
    """Return the plural of a noun by its last word: by the list of irregular ones, else by its ending."""
    start, space, last = noun.rpartition(" ")
    if last in PLURALS:
        return f"{start}{space}{PLURALS[last]}"
    if last.endswith("man") and last not in NOT_MEN:
        return f"{noun[:-3]}men"
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def choose_article(word: str) -> str:
    """Return "a" or "an", by the first letter of a word or phrase and kept lists of what sounds otherwise.

    Two or three capitals are read letter by letter ("an SUV"). Limit: other words that sound unlike their first
    letter get the wrong article, such as acronyms of more letters and foreign words.
    """
    first = _FIRST_PART.match(word)
    written = first.group() if first else ""
    if written.isdigit():
        return "an" if _VOWEL_NUMBER.match(word) else "a"
    if len(written) == 1 or (len(written) < 4 and written.isupper()):
        return "an" if written[0].lower() in "aefhilmnorsx" else "a"
    lower = written.lower()
    if lower.startswith(_VOWEL_SOUNDS):
        return "an"
    return "an" if lower[:1] in tuple("aeiou") and not lower.startswith(_CONSONANT_SOUNDS) else "a"
