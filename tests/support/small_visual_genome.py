"""A small Visual Genome in the form of its release, and a small WordNet in the form of its database files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Thing = tuple[str, list[str]]
SIDE = 300  # of an object and of a region


def item(image_id: int, things: Sequence[Thing], relations: Sequence[tuple[int, str, int]]) -> Any:
    """Return an item of scene_graphs.json: objects side by side."""
    objects = [
        {
            "object_id": 100 * image_id + i,
            "names": [name],
            "attributes": attributes,
            "x": i * SIDE // 2,
            "y": 10,
            "w": SIDE,
            "h": SIDE,
            "synsets": [],
        }
        for i, (name, attributes) in enumerate(things)
    ]
    related = [
        {
            "relationship_id": i,
            "subject_id": 100 * image_id + a,
            "predicate": name,
            "object_id": 100 * image_id + b,
            "synsets": [],
        }
        for i, (a, name, b) in enumerate(relations)
    ]
    return {"image_id": image_id, "objects": objects, "relationships": related}


def region(graph: Any, phrase: str, places: Sequence[int], relations: Sequence[int] = ()) -> Any:
    """Return a region of region_graphs.json that names some objects and relations of an item."""
    return {
        "region_id": 1,
        "image_id": graph["image_id"],
        "x": 0,
        "y": 0,
        "width": SIDE,
        "height": SIDE,
        "phrase": phrase,
        "objects": [{"object_id": graph["objects"][i]["object_id"], "name": "?"} for i in places],
        "relationships": [graph["relationships"][i] for i in relations],
        "synsets": [],
    }


def write(folder: Path, graphs: Sequence[Any], regions: Mapping[int, Sequence[Any]]) -> Path:
    """Write the three files of the release into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [{"image_id": i, "width": 800, "height": 800} for i in sorted({g["image_id"] for g in graphs})]
    (folder / "image_data.json").write_text(json.dumps(sizes), encoding="utf-8")
    return write_graphs(folder, graphs, regions)


def write_graphs(folder: Path, graphs: Sequence[Any], regions: Mapping[int, Sequence[Any]]) -> Path:
    """Write the two files of graphs into a folder."""
    regional = [{"image_id": i, "regions": list(found)} for i, found in regions.items()]
    (folder / "scene_graphs.json").write_text(json.dumps(graphs), encoding="utf-8")
    (folder / "region_graphs.json").write_text(json.dumps(regional), encoding="utf-8")
    return folder


# name -> (part of speech, words, [(pointer, name)])
SYNSETS: dict[str, tuple[str, list[str], list[tuple[str, str]]]] = {
    "animal": ("n", ["animal"], [("~", "carnivore")]),
    "carnivore": ("n", ["carnivore"], [("@", "animal"), ("~", "canine"), ("~", "feline")]),
    "canine": (
        "n",
        ["canine"],
        [
            ("@", "carnivore"),
            *(("~", name) for name in ("dog", "wolf", "fox", "wild dog", "mutt", "dingo", "jackal")),
        ],
    ),
    "feline": ("n", ["feline"], [("@", "carnivore"), ("~", "cat"), ("~", "lynx")]),
    "fox": ("n", ["fox"], [("@", "canine")]),
    "wild dog": ("n", ["wild_dog"], [("@", "canine")]),
    "mutt": ("n", ["mutt"], [("@", "canine")]),
    "dingo": ("n", ["dingo"], [("@", "canine")]),
    "desert": ("n", ["jackal"], []),  # the first meaning of "jackal" here
    "jackal": ("n", ["jackal"], [("@", "canine")]),
    "lynx": ("n", ["lynx"], [("@", "feline")]),
    "dog": ("n", ["dog", "domestic_dog"], [("@", "canine")]),
    "wolf": ("n", ["wolf"], [("@", "canine")]),
    "cat": ("n", ["cat"], [("@", "feline")]),
    "person": ("n", ["person"], [("~", "man"), ("~", "woman")]),
    "man": ("n", ["man"], [("@", "person")]),
    "woman": ("n", ["woman"], [("@", "person")]),
    "force": ("n", ["work_force", "men"], []),
    "shoe": ("n", ["shoe"], []),
    "situation": ("n", ["situation", "shoes"], []),
    "material": ("n", ["glass"], []),
    "spectacles": ("n", ["glasses", "spectacles"], []),
    "vapour": ("n", ["gas"], []),
    "nerve agent": ("n", ["ga"], []),
    "painter": ("n", ["Roger_Fry", "Fry"], [("@i", "person")]),
    "young": ("n", ["fry", "young"], [("@", "animal")]),
    "french fries": ("n", ["french_fries", "fries"], []),
    "letter": ("n", ["letter"], [("~", "greek letter"), ("~", "latin letter")]),
    "greek letter": ("n", ["greek_letter"], [("@", "letter"), ("~", "alpha")]),
    "latin letter": ("n", ["latin_letter"], [("@", "letter"), ("~", "letter y")]),
    "alpha": ("n", ["alpha"], [("@", "greek letter")]),
    "letter y": ("n", ["y"], [("@", "latin letter")]),
    "colour": ("n", ["colour"], [("~", "chromatic"), ("~", "achromatic")]),
    "chromatic": ("n", ["chromatic_colour"], [("@", "colour"), ("~", "red_n")]),
    "achromatic": ("n", ["achromatic_colour"], [("@", "colour"), ("~", "black_n"), ("~", "ivory_n")]),
    "red_n": ("n", ["red"], [("@", "chromatic")]),
    "black_n": ("n", ["black"], [("@", "achromatic")]),
    "ivory_n": ("n", ["ivory"], [("@", "achromatic")]),
    "red": ("a", ["red"], []),
    "black": ("a", ["black"], [("!", "white")]),
    "white": ("a", ["white(p)"], [("!", "black")]),
    "snowy": ("s", ["snowy"], [("&", "white")]),
    "act": ("v", ["act"], [("~", "move")]),
    "move": ("v", ["move"], [("@", "act"), ("~", "run")]),
    "run": ("v", ["run"], [("@", "move")]),
}
GLOSSES = {
    "spectacles": "(plural) two lenses in a frame",
    "mutt": "(offensive slang) offensive term for a dog",
    "lynx": "an animal like a wolf",
}
FIELDS = {"shoe": 6, "person": 3, "man": 18, "woman": 18}  # lexicographer files; 5, animals, for other names
TAGGED = {  # senses found in texts; 1 for other words
    "dingo": 0,
    "domestic_dog": 0,
    "ga": 0,
    "fry": 0,
    "fries": 0,
    "gas": 5,
    "man": 6,
    "men": 1,
    "shoe": 1,
    "shoes": 1,
    "glass": 4,
    "glasses": 1,
}
PARTS = {"n": "noun", "a": "adj", "v": "verb"}


def wordnet(folder: Path) -> Path:
    """Write ``SYNSETS`` as index and data files."""
    folder.mkdir(parents=True, exist_ok=True)
    licence = "  1 This stands for the licence.\n"
    places: dict[str, int] = {}
    for _ in range(2):  # places are eight digits wide, so that the second turn has them right
        for kind, part in PARTS.items():
            text, index = licence, dict[str, list[str]]()
            for name, (pos, words, pointers) in SYNSETS.items():
                if pos.replace("s", "a") != kind:
                    continue
                places[name] = len(text)
                said = " ".join(f"{word} 0" for word in words)
                ends = " ".join(
                    f"{sign} {places.get(to, 0):08d} {SYNSETS[to][0]} 0000" for sign, to in pointers
                )
                text += f"{places[name]:08d} {FIELDS.get(name, 5):02d} {pos} {len(words):02x} {said} {len(pointers):03d} {ends} "
                text += f"| {GLOSSES.get(name, 'a gloss')}  \n"
                for word in words:
                    index.setdefault(word.partition("(")[0].lower(), []).append(f"{places[name]:08d}")
            lines = [
                f"{word} {kind} {len(at)} 1 @ {len(at)} {TAGGED.get(word, 1)} {' '.join(at)}  \n"
                for word, at in sorted(index.items())
            ]
            (folder / f"data.{part}").write_text(text, encoding="ascii")
            (folder / f"index.{part}").write_text(licence + "".join(lines), encoding="ascii")
    (folder / "noun.exc").write_text("men man\nwolves wolf\n", encoding="ascii")
    return folder
