"""WordNet's files say which words exclude each other: antonyms, and words under one grand-hypernym."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from real_models import WORDNET
from small_visual_genome import wordnet

from caramel.crepe import noun_lists
from caramel.crepe.wordnet_thesaurus import WordNetThesaurus, load_wordnet_thesaurus
from caramel.errors import DataError
from caramel.sources.captions.wordnet_files import HYPERNYM, HYPONYM, open_wordnet


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordNetThesaurus:
    return load_wordnet_thesaurus(str(wordnet(tmp_path_factory.mktemp("dict"))))


def test_cousins_are_foils_if_they_are_in_use_are_meant_first_and_demean_nobody(
    words: WordNetThesaurus,
) -> None:
    # not: wild dog (two words), dingo (in no text), jackal (first a desert), mutt (offensive), lynx (its definition names the wolf)
    assert words.list_foils("obj", "wolf") == ["dog", "fox", "cat"]


def test_only_nouns_of_the_corpus_are_foils(tmp_path: Path) -> None:
    known = frozenset((("obj", "fox"), ("obj", "cats"), ("att", "cat")))
    words = load_wordnet_thesaurus(str(wordnet(tmp_path)), lambda: known)
    assert words.list_foils("obj", "wolf") == ["fox"]
    assert words.list_foils("obj", "wolves") == ["cats"]


def test_a_person_is_replaced_by_who_excludes_them_and_never_by_a_role(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "men") == ["women"]
    assert words.list_foils("obj", "person") == []


def test_a_compound_is_replaced_as_a_whole_and_not_by_a_word_of_its_own(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "fox cub wolf") == ["dog", "cat"]
    assert words.is_more_general("obj", "carnivore", "sand fox")
    assert words.is_more_general("obj", "fox", "sand fox")
    assert not words.is_more_general("obj", "sand fox", "fox")


@pytest.mark.parametrize(
    ("word", "owner", "foils"),
    [
        (
            "red",
            "car",
            ["yellow", "green", "blue", "purple", "black", "white", "gray"],
        ),  # none that is nearly red
        ("grey", "car", ["red", "orange", "yellow", "green", "purple", "pink", "brown"]),
        ("short", "man", ["tall"]),
        ("short", "shoe", ["long"]),
        ("snowy", "shoe", ["sandy", "grassy", "muddy"]),
        ("young", "boy", []),  # his age is in the noun
        ("several", "dog", []),
    ],
)
def test_attributes_are_replaced_by_their_kind(
    word: str, owner: str, foils: list[str], words: WordNetThesaurus
) -> None:
    assert words.list_foils("att", word, (owner,)) == foils


def test_an_attribute_of_no_list_has_its_antonym(tmp_path: Path) -> None:
    folder = wordnet(tmp_path)
    for name in ("data.adj", "index.adj"):
        text = (folder / name).read_text(encoding="ascii")
        (folder / name).write_text(text.replace("black", "tame1").replace("white", "wild1"), encoding="ascii")
    assert load_wordnet_thesaurus(str(folder)).list_foils("att", "tame1") == ["wild1"]


ON = ("under", "beside", "off", "below", "far from")  # contraries of "on"


@pytest.mark.parametrize(
    ("predicate", "owners", "foils"),
    [
        ("on top of", (), ["under", "beside"]),
        ("near", (), ["far from", "away from", "inside", "on top of"]),
        ("glued to", (), []),
        ("of", (), []),
        (
            "sitting on",
            (),
            [
                *(f"{verb} on" for verb in ("standing", "lying")),
                *(f"sitting {word}" for word in ON),
            ],
        ),
        (
            "sits on",
            (),
            [
                *(f"{verb} on" for verb in ("stands", "lies")),
                *(f"sits {word}" for word in ON),
            ],
        ),
        (
            "standing on",
            ("man", "shoe"),
            ["sitting on", "lying on"],
        ),  # nothing is under a shoe in earnest
        ("standing on", ("shoe", "shoe"), []),  # a thing stands and sits alike
        ("holding", ("man", "shoe"), ["pointing at"]),  # this small WordNet does not say that shoes are worn
    ],
)
def test_predicates_are_replaced_whole_by_contraries_that_fit_their_ends(
    predicate: str, owners: tuple[str, ...], foils: list[str], words: WordNetThesaurus
) -> None:
    assert words.list_foils("rel", predicate, owners) == foils


def test_a_word_covers_its_synonyms_and_what_is_below_it(words: WordNetThesaurus) -> None:
    assert words.is_more_general("obj", "animal", "dog")
    assert words.is_more_general("obj", "dog", "domestic dog")
    assert not words.is_more_general("obj", "dog", "animal")
    assert not words.is_more_general("obj", "cat", "dog")
    assert words.is_more_general("rel", "move", "run")
    assert words.is_more_general("obj", "gnu", "gnu")


def test_a_plural_is_looked_up_by_its_singular_and_its_foils_are_plurals(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "wolves") == ["dogs", "foxes", "cats"]
    assert words.is_more_general("obj", "dog", "dogs")
    assert words.is_more_general("obj", "dogs", "dog")
    assert words.is_more_general("obj", "animals", "wolves")
    assert not words.is_more_general("obj", "cats", "dogs")


def test_a_word_of_one_letter_has_a_plural(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "alphas") == ["ys"]


@pytest.mark.parametrize(
    ("plural", "read_as"),
    [
        ("men", "man"),  # which WordNet also has as a work force, and "shoes" as a situation
        ("shoes", "shoe"),
        ("women", "woman"),
        ("glasses", "glasses"),  # "(plural) …": they are no plural of the material
        ("gas", "gas"),  # and no plural of the nerve agent
        ("glass", "glass"),
        ("fries", "fries"),  # the first "fry" is a painter, and a proper name has no plural
    ],
)
def test_a_plural_is_its_singular_before_it_is_a_word_of_its_own(
    plural: str, read_as: str, words: WordNetThesaurus
) -> None:
    assert words._parts["obj"].find_singular(plural) == read_as


def test_men_are_persons_and_shoes_are_no_situation(words: WordNetThesaurus) -> None:
    assert words.is_more_general("obj", "person", "men")
    assert not words.is_more_general("obj", "work force", "men")
    assert not words.is_more_general("obj", "situation", "shoes")
    assert words.is_more_general("obj", "spectacles", "glasses")
    assert not words.is_more_general("obj", "glass", "glasses")
    assert words.is_more_general("obj", "french fries", "fries")
    assert not words.is_more_general("obj", "person", "fries")


def test_files_that_are_missing_or_of_another_version_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks index\.noun, data\.noun.*wordnet\.princeton\.edu"):
        load_wordnet_thesaurus(str(tmp_path))
    with pytest.raises(DataError, match=r"is no folder: give the folder dict of WordNet"):
        load_wordnet_thesaurus(str(tmp_path / "none"))
    folder = wordnet(tmp_path / "dict")
    data = folder / "data.noun"
    right = data.read_text()
    data.write_text("x" + right)
    with pytest.raises(DataError, match=r"data\.noun.*no synset of WordNet at byte.*same version"):
        load_wordnet_thesaurus(str(folder))
    data.write_text(
        right.replace(" achromatic_colour 0 ", " achromatic_farben 0 ")
    )  # of a version that has another word at the place
    with pytest.raises(DataError, match=r"data\.noun.*no 'achromatic colour' at byte .*same version"):
        load_wordnet_thesaurus(str(folder))
    data.write_text(right)
    (folder / "index.noun").write_text("dog n\n")
    with pytest.raises(DataError, match=r"index\.noun.*not an index of WordNet"):
        load_wordnet_thesaurus(str(folder))
    wordnet(folder)
    (folder / "noun.exc").unlink()  # as a package of WordNet for another language has it
    with pytest.raises(DataError, match=r"lacks noun\.exc.*leave out the lists of irregular forms"):
        load_wordnet_thesaurus(str(folder))


@pytest.mark.skipif(
    not (WORDNET / "data.noun").exists(), reason="WordNet is not installed: apt install wordnet-base"
)
def test_the_real_wordnet_gives_sensible_foils() -> None:
    words = load_wordnet_thesaurus(str(WORDNET))
    assert "cat" in words.list_foils("obj", "dog")
    assert "women" in words.list_foils("obj", "men")
    assert {"stool", "bench"} <= set(words.list_foils("obj", "chair"))
    for noun in ("dog", "wolf", "man", "person", "chair", "hammer", "soup", "oak", "boat"):
        foils = words.list_foils("obj", noun)
        assert not {"mutt", "cur", "slave", "nazi", "procrastinator", "geological formation"} & set(foils)
        assert not any(words.is_more_general("obj", foil, noun) for foil in foils)


@pytest.fixture(scope="module")
def real() -> WordNetThesaurus:
    if not (WORDNET / "data.noun").exists():
        pytest.skip("WordNet is not installed: apt install wordnet-base")
    return load_wordnet_thesaurus(str(WORDNET))


@pytest.mark.parametrize("word", ["onion", "shoe", "shoes", "pants"])
def test_no_foil_is_a_plural_of_a_singular_or_a_plural_of_a_plural(word: str, real: WordNetThesaurus) -> None:
    foils = set(real.list_foils("obj", word))
    plurals = {"greens", "flats", "weeds", "corduroys", "spectacles", "irons"}
    assert not foils & (plurals | {f"{plural}es" for plural in plurals})


def test_a_singular_that_ends_as_a_plural_is_a_foil(real: WordNetThesaurus) -> None:
    assert "dais" in real.list_foils("obj", "pier")


COMMON = """
    apple bag ball banana bear bed bench bicycle bird boat book bottle bowl box bread bridge broccoli brush bus cake camera
    cap car carrot cat chair chicken clock coat computer cow cup curtain desk dog door dress duck elephant fence fish flag
    flower fork fruit giraffe glove goat guitar hammer hat helmet horse house jacket kite knife ladder lamp laptop leaf lion
    mirror monkey motorcycle mouse oven pants pen piano pillow plane plate pole pot rabbit radio refrigerator road roof rug
    salad sandwich scissors sheep shelf shirt shoe sign sink skirt sofa soup spoon stove suitcase table tent tie tiger tower
    toy train tree truck umbrella van vase wagon wall watch wheel window wine zebra
"""


def test_foils_of_common_nouns_are_neither_synonyms_nor_above_nor_below_them(real: WordNetThesaurus) -> None:
    """Walks WordNet's hyponyms down and hypernyms up from every sense of a noun, and looks for its foils there."""
    nouns = open_wordnet(str(WORDNET))["obj"]

    def walk(senses: Iterable[int], symbol: str) -> set[str]:
        todo, words, visited = list(senses), set[str](), set[int]()
        while todo:
            sense = todo.pop()
            if sense not in visited:
                visited.add(sense)
                words |= {*nouns.read_synset(sense).words}
                todo += nouns.follow_pointers(sense, symbol)
        return words

    replaced = 0
    for noun in COMMON.split():
        foils = set(real.list_foils("obj", noun))
        senses = nouns.entries[nouns.find_singular(noun)].offsets
        singles = {nouns.find_singular(foil) for foil in foils}
        assert not singles & walk(senses, HYPONYM), noun
        assert not singles & walk(senses, HYPERNYM), noun
        replaced += bool(foils)
    assert replaced > 0.6 * len(COMMON.split())


def test_foils_outside_the_kept_lists_are_single_nouns_in_use(real: WordNetThesaurus) -> None:
    nouns = open_wordnet(str(WORDNET))["obj"]
    listed = frozenset[str]().union(*noun_lists.NOUN_GROUPS)
    foils = {
        foil for noun in COMMON.split() if noun not in listed for foil in real.list_foils("obj", noun)
    } - listed
    singles = {nouns.find_singular(foil) for foil in foils} - listed
    assert len(singles) > 100
    assert not [foil for foil in singles if " " in foil]
    assert all(nouns.entries[foil].tagged for foil in singles)


@pytest.mark.parametrize(
    ("predicate", "owners", "wrong", "right"),
    [
        ("playing", ("player", "baseball"), {"repairing", "dropping", "ignoring"}, {"watching"}),
        (
            "standing behind",
            ("adult", "girl"),
            {"standing inside", "standing on top of"},
            {"standing in front of"},
        ),
        ("in", ("luggage", "room"), {"beside", "behind", "far from"}, {"outside"}),
        ("with", ("man", "umbrella"), {"lacking", "missing"}, {"without"}),
        ("wearing", ("dog", "hat"), {"pointing at", "reaching for"}, {"carrying"}),
        ("holding", ("shelf", "book"), {"dropping", "throwing", "reaching for", "pointing at"}, set()),
        ("holding", ("woman", "baby"), {"dropping", "throwing"}, {"pointing at"}),
        ("riding", ("man", "skateboard"), {"leading", "feeding", "washing"}, {"carrying"}),
        ("riding", ("man", "horse"), {"repairing", "carrying"}, {"leading"}),
        ("cooking on", ("woman", "stove"), {"cooking under", "cooking below"}, set()),
        ("sitting at", ("man", "table"), {"lying at"}, {"standing at"}),
        ("standing on", ("bird", "post"), {"lying on", "sitting on"}, set()),
    ],
)
def test_contraries_are_what_can_be_said_of_both_ends(
    predicate: str, owners: tuple[str, str], wrong: set[str], right: set[str], real: WordNetThesaurus
) -> None:
    found = set(real.list_foils("rel", predicate, owners))
    assert not found & wrong
    assert right <= found


@pytest.mark.parametrize(
    ("noun", "relation", "is_replaced"),
    [
        ("camera", ("man", "poses for", ""), False),
        ("camera", ("man", "holding", ""), True),
        ("bus", ("", "moves down", "track"), False),
        ("bus", ("", "parked on", "street"), True),
        ("table", ("woman", "sitting at", ""), False),
        ("dog", ("", "chasing", "ball"), True),
        ("dog", ("", "is", "leashed"), False),
        ("dog", ("", "is", "brown"), True),
        ("oven", ("counter", "of", ""), False),
        ("dogs", ("group", "of", ""), True),
    ],
)
def test_nouns_are_replaced_in_relations_that_others_have_too(
    noun: str, relation: tuple[str, str, str], is_replaced: bool, real: WordNetThesaurus
) -> None:
    assert bool(real.list_foils("obj", noun, (), (relation,))) == is_replaced


@pytest.mark.parametrize(
    ("colour", "owner", "foils"),
    [
        ("green", "field", set()),
        ("red", "apple", set()),
        ("black", "man", set()),
        ("brown", "horse", {"white", "gray"}),
    ],
)
def test_colours_are_those_that_the_thing_can_have(
    colour: str, owner: str, foils: set[str], real: WordNetThesaurus
) -> None:
    assert set(real.list_foils("att", colour, (owner,))) == foils
    assert len(real.list_foils("att", colour, ("car",))) >= 7
    assert real.list_foils("att", "little", ("girl",)) == []
