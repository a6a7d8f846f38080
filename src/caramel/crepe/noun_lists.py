"""Kept lists about nouns: what persons and common things are replaced by, and what is not replaced at all.

WordNet orders the senses of a noun by texts of the 1960s, and its tree has no use in mind. These lists say what
captions mean.
"""

from __future__ import annotations

from caramel.sources.captions import phrases


def _split(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(","))


# Persons have many roles at a time, so a cousin in WordNet may be true of them. Only these exclude each other.
PERSONS: dict[str, tuple[str, ...]] = {
    "man": ("woman",),
    "woman": ("man",),
    "boy": ("girl",),
    "girl": ("boy",),
    "guy": ("woman",),
    "lady": ("man",),
    "gentleman": ("lady",),
    "male": ("female",),
    "female": ("male",),
    "child": ("adult",),
    "kid": ("adult",),
    "baby": ("adult",),
    "toddler": ("adult",),
    "adult": ("child", "baby"),
    "bride": ("groom",),
    "groom": ("bride",),
    "mother": ("father",),
    "father": ("mother",),
    "mom": ("dad",),
    "dad": ("mom",),
    "son": ("daughter",),
    "daughter": ("son",),
    "brother": ("sister",),
    "sister": ("brother",),
    "husband": ("wife",),
    "wife": ("husband",),
    "batter": ("pitcher", "catcher"),
    "pitcher": ("batter", "catcher"),
    "catcher": ("pitcher", "batter"),
    "waiter": ("waitress",),
    "waitress": ("waiter",),
    "king": ("queen",),
    "queen": ("king",),
}

# These have a gender, or an age, that goes with a pronoun of the caption.
GENDERED = frozenset(PERSONS) - _split("batter, pitcher, catcher")
# Common nouns by use: they replace each other in most sentences. Other nouns have WordNet's cousins.
NOUN_GROUPS = tuple(
    map(
        _split,
        (
            "bicycle, motorcycle",
            "car, bus, truck",
            "airplane, helicopter",
            "fire hydrant, parking meter, stop sign, traffic light, mailbox",
            "dog, cat",
            "horse, sheep, cow, goat",
            "elephant, bear, zebra, giraffe, monkey, lion",
            "backpack, umbrella, handbag, suitcase",
            "hat, scarf, helmet",
            "frisbee, kite, ball",
            "tennis racket, baseball bat, golf club",
            "bottle, cup, vase, jar",
            "plate, tray",
            "fork, knife, spoon",
            "banana, apple, carrot, strawberry, tomato",
            "sandwich, hot dog, pizza, salad",
            "box, bag, basket, bucket",
            "donut, cake, sandwich",
            "chair, stool, bench",
            "bed, couch",
            "table, shelf",
            "laptop, printer",
            "camera, cell phone",
            "microwave, oven, toaster, refrigerator, dishwasher",
            "sink, bathtub, toilet",
            "lamp, candle",
            "clock, calendar",
            "pillow, towel",
            "book, newspaper, letter",
            "kitchen, bathroom, bedroom, office, garage, living room",
            "restaurant, library",
            "beach, street",
            "forest, desert",
            "house, castle, barn",
            "shirt, jacket",
            "dress, skirt",
        ),
    )
)
# Nouns before "of" that say nothing about what follows.
AMOUNTS = _split(
    "group, bunch, pair, couple, set, row, line, pile, stack, number, herd, flock, pack, variety, collection"
) | _split("crowd, several, dozens, rows, picture, photo, photograph, image, view, shot, close up, closeup")
# Things that look alike, or that people call by each other's names: they do not replace each other.
ALIKE = tuple(
    map(
        _split,
        (
            "boat, ship, yacht, fishing boat, canoe, ferry, raft",
            "hat, cap, helmet",
            "tree, shrub, bush, plant, banana",
            "fence, railing, rail, gate, wall, stone wall, door",
            "light, lamp, lantern",
            "street, road, freeway, highway, roadway, lane, track, path, runway",
            "bag, purse, handbag, luggage, briefcase, suitcase, backpack, paper bag",
            "jacket, coat, vest, suit, sweater, costume",
            "cup, mug, glass",
            "bowl, basin, dish, plate",
            "tub, bathtub, bath, shower, basin",
            "pot, pan",
            "watch, clock",
            "ocean, sea, lake, river, bay, pond, waterway",
            "hill, mountain, slope, hillside, bank, coast",
            "field, meadow, pasture, lawn, park",
            "desk, table, counter, kitchen table, dining table, coffee table",
            "couch, sofa, loveseat",
            "teddy bear, teddy, doll, bear",
            "donkey, mule, horse, pony",
            "sheep, lamb, goat",
            "car, automobile, van, truck",
            "living room, sitting room, lobby, room",
            "kitchen, dining room, cupboard",
            "cabinet, cupboard, bookcase, bookshelf, shelf, closet, buffet",
            "beach, shore, coast, island",
            "stove, oven",
            "bathroom, toilet, restroom, shower, stall",
            "cake, pastry, pie, dessert, cookie",
            "burger, sandwich, toast, hot dog",
            "bread, toast, bun",
            "computer, laptop, monitor, television, screen, keyboard",
            "phone, cell phone, telephone, remote",
            "blanket, quilt, towel, rug, carpet",
            "pole, stick",
            "restaurant, bar, cafe",
            "house, building, dwelling, barn, church",
        ),
    )
)
# Noun -> a word that its meaning in captions is a kind of, where WordNet's first physical meaning is another one.
MEANT: dict[str, str] = {
    "plate": "crockery",
    "bat": "club",
    "baseball bat": "bat",
    "toilet": "plumbing fixture",
    "cake": "baked goods",
    "plant": "organism",
    "monitor": "electronic equipment",
    "controller": "device",
    "doughnut": "food",
    "mug": "vessel",
    "boot": "footwear",
    "cap": "headdress",
    "crane": "machine",
    "trunk": "luggage",
    "bow": "knot",
    "fry": "dish",
    "court": "area",
    "track": "road",
    "screen": "display",
    "shorts": "trouser",
    "chicken": "bird",
}
# Nouns that are not replaced and replace nothing.
NOT_REPLACED = (
    # the picture itself, and what is no thing of its own: parts, amounts and general places
    _split(
        "picture, photo, photograph, image, closeup, close-up, close up, shot, view, selfie, scene, reflection"
    )
    | _split("piece, slice, half, part, side, top, bottom, front, back, end, edge, corner, bit, bite, layer")
    | _split(
        "middle, center, background, foreground, surface, area, place, spot, region, space, seat, way, home"
    )
    | _split(
        "group, bunch, pair, set, lot, row, line, pile, stack, kind, type, variety, couple, crowd, position"
    )
    | _split("thing, object, item, stuff, something, ground, air, body, head, face, close, water, lap, case")
    # classes of things, which are true of several things that replace each other
    | _split(
        "vehicle, container, device, equipment, system, furniture, instrument, machine, utensil, appliance"
    )
    | _split(
        "clothing, cover, covering, attire, accessory, contraption, gadget, barrier, dwelling, structure"
    )
    | _split(
        "decoration, ornament, enclosure, material, fixture, toy, garment, uniform, tableware, kit, unit"
    )
    | _split(
        "facility, cloth, product, creature, beast, feeder, game bird, dish, support, holder, base, board"
    )
    | _split("construction, artifact, burner, cross, breakfast, lunch, dinner, snack, meal, dessert, topping")
    | _split("spice, luggage, load, habitat, countryside, neighborhood, waterway, mammal, wildlife, pet")
    | _split(
        "court, asphalt, garden, station, museum, scissors, mirror, window, sail, costume, console, display, vegetation, paper bag, plain, platform, stand, landmark, rack, motor, gear, dispenser, bin"
    )
)
# Nouns whose plural looks like their singular: which is meant, the word does not say.
INVARIANT = _split("sheep, deer, fish, cattle, aircraft, bison, moose, swine, livestock, poultry, offspring")
# What captions say of them fits nothing else: a train has tracks, a snowboard has snow
ALONE = _split("train, skateboard, surfboard, snowboard, skate board, surf board, snow board, ski, shower")
# Nouns of living beings that are in WordNet's files of groups and of the most general nouns
LIVING = _split("person, people, group, couple, crowd, team, herd, flock, pack, family, animal, audience")
CROWDS = _split("people, group, couple, crowd, team, family, audience")  # of persons
# Nouns without a plural, and those that captions use so: they replace each other alone, for "a bread" is no English.
MASS = (
    phrases.MASS
    | _split(
        "alcohol, honey, cream, drinking water, ice water, vinegar, dough, salt, bacon, ham, beef, chicken"
    )
    | _split(
        "cabbage, toast, clay, glass, cardboard, cement, silver, garbage, dust, marble, linen, canvas, wool"
    )
    | _split("leather, baggage, hay")
)
# What a predicate's object must be for the preposition to have a contrary: a man "outside a shirt" or "under a
# street" is no sentence about an image.
NOT_PLACES = _split(
    "clothing, garment, footwear, headdress, sky, color, wave, telephone, body part, sports implement, snow"
) | _split("rain, fog, ice, dirt, light, sun, mirror, jewelry, combination")
ENCLOSING = _split(
    "room, building, container, vehicle, conveyance, enclosure, tract, tent, cage, piece of furniture"
)
SUPPORTING = _split("furniture, vehicle, conveyance, container, animal, tableware, appliance, food")
SLOPING = _split("hill, slope, elevation, mountain, stairs, stairway, ladder, incline, inclined plane, ramp")
# Meanings so general that the words below them share little; cousins are then searched one level lower.
GENERAL = (
    _split("entity, physical entity, matter, object, whole, thing, artifact, instrumentality, unit, device")
    | _split(
        "equipment, covering, commodity, substance, material, implement, conveyance, structure, organism"
    )
    | _split(
        "living thing, animal, plant, part, location, region, geological formation, solid, food, foodstuff"
    )
    | _split(
        "fabric, article, way, surface, creation, chordate, vertebrate, mammal, placental, consumer goods"
    )
    | _split("external body part, body part, cognition, abstraction, construction")
)
# General, too, but with kinds that exclude each other: "box", "bag" and "basket" are all containers.
GENERAL_GRANDS = frozenset(("container",))
