"""Find COCO's things and stuff in captions (Lin et al. 2014; COCO-Stuff, Caesar et al. 2018).

COCO has 80 things and 91 stuff categories, in 12 and 15 super-categories. Captions do not tell some of the stuff
apart: all kinds of wall are "wall" here, and all kinds of floor "floor". A category is found by its words, so that an
orange wall and a light blue sky count as orange and light, too.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple

from caramel.sources.captions.words import get_plural

THINGS: dict[str, tuple[str, ...]] = {
    "person": ("person",),
    "vehicle": ("bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"),
    "outdoor": ("traffic light", "fire hydrant", "stop sign", "parking meter", "bench"),
    "animal": ("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"),
    "accessory": ("backpack", "umbrella", "handbag", "tie", "suitcase"),
    "sports": (
        *("frisbee", "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove"),
        *("skateboard", "surfboard", "tennis racket"),
    ),
    "kitchen": ("bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl"),
    "food": (
        *("banana", "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake"),
    ),
    "furniture": ("chair", "couch", "potted plant", "bed", "dining table", "toilet"),
    "electronic": ("tv", "laptop", "mouse", "remote", "keyboard", "cell phone"),
    "appliance": ("microwave", "oven", "toaster", "sink", "refrigerator"),
    "indoor": ("book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush"),
}
STUFF: dict[str, tuple[str, ...]] = {
    "textile": (
        *(
            "banner",
            "blanket",
            "cloth",
            "clothes",
            "curtain",
            "mat",
            "napkin",
            "pillow",
            "rug",
            "textile",
            "towel",
        ),
    ),
    "plant": ("branch", "bush", "flower", "grass", "leaves", "moss", "plant", "straw", "tree"),
    "building": ("bridge", "building", "house", "roof", "skyscraper", "tent"),
    "furniture-stuff": (
        *(
            "cabinet",
            "counter",
            "cupboard",
            "desk",
            "door",
            "furniture",
            "light",
            "mirror",
            "shelf",
            "stairs",
        ),
        "table",
    ),
    "structural": ("cage", "fence", "net", "railing"),
    "raw-material": ("cardboard", "metal", "paper", "plastic"),
    "floor": ("carpet", "floor"),
    "ceiling": ("ceiling",),
    "sky": ("clouds", "sky"),
    "ground": (
        *(
            "dirt",
            "gravel",
            "ground",
            "mud",
            "pavement",
            "platform",
            "playing field",
            "railroad",
            "road",
            "sand",
        ),
        "snow",
    ),
    "water": ("fog", "river", "sea", "water", "waterdrops"),
    "food-stuff": ("food", "fruit", "salad", "vegetable"),
    "solid": ("hill", "mountain", "rock", "stone", "wood"),
    "wall": ("wall",),
    "window": ("window blind", "window"),
}
# Words of captions -> the category's name.
SYNONYMS = {
    **dict.fromkeys(
        ("people", "man", "woman", "boy", "girl", "child", "lady", "guy", "kid", "baby"), "person"
    ),
    **dict.fromkeys(("player", "skier", "surfer", "skateboarder", "snowboarder"), "person"),
    "bike": "bicycle",
    "motorbike": "motorcycle",
    "plane": "airplane",
    "jet": "airplane",
    "purse": "handbag",
    "sofa": "couch",
    "television": "tv",
    "fridge": "refrigerator",
    "cellphone": "cell phone",
    "phone": "cell phone",
    "doughnut": "donut",
    "ocean": "sea",
    "leaf": "leaves",
    "cloud": "clouds",
    "cows": "cow",
    "cattle": "cow",
    "men": "person",
    "women": "person",
    "children": "person",
}
CategoryType = Literal["thing", "stuff"]
CATEGORIES: dict[CategoryType, dict[str, tuple[str, ...]]] = {"thing": THINGS, "stuff": STUFF}


class Category(NamedTuple):
    """A category of COCO that a text names."""

    category_type: CategoryType
    supercategory: str
    name: str


def find_categories(text: str) -> frozenset[Category]:
    """Return the categories that a text names, in singular or plural; the longest name at a place counts."""
    pattern, categories = _compile_names()
    return frozenset(categories[match.lower()] for match in pattern.findall(text))


@functools.cache
def _compile_names() -> tuple[re.Pattern[str], dict[str, Category]]:
    """Return the pattern of all written forms, and form -> category."""
    named = {
        name: Category(category_type, group, name)
        for category_type, groups in CATEGORIES.items()
        for group, names in groups.items()
        for name in names
    }
    written = named | {form: named[name] for form, name in SYNONYMS.items()}
    written |= {get_plural(form): category for form, category in written.items()}
    longest_first = sorted(written, key=lambda form: (-len(form), form))
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE), written
