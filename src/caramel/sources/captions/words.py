"""Word lists for rule-based negatives on free captions: objects, attributes, relations.

Two types of words are left out: words with another common meaning ("orange", "light", "watch", "park",
"mouse", "train" as a verb), and words that are implied by another word ("person", "dish").
"""

from __future__ import annotations

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
    "knife": "knives",
    "bookshelf": "bookshelves",
    "shelf": "shelves",
    "wolf": "wolves",
    "calf": "calves",
    "goose": "geese",
}

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
    "underneath": "on top of",
    "beneath": "on top of",
    "under": "on top of",
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


def get_plural(noun: str) -> str:
    """Return the plural of a noun of the lists."""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def choose_article(word: str) -> str:
    """Return "a" or "an", by the first letter; this is correct for every word of the lists."""
    return "an" if word[:1].lower() in "aeiou" and not word.lower().startswith(("one", "uni", "use")) else "a"
