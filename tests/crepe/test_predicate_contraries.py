"""Contraries of predicates."""

from caramel.crepe.predicate_contraries import list_contraries

# The 50 most frequent predicates of Visual Genome after cleaning: the split VG150 of Xu et al. 2017.
VG150 = [
    "above",
    "across",
    "against",
    "along",
    "and",
    "at",
    "attached to",
    "behind",
    "belonging to",
    "between",
    "carrying",
    "covered in",
    "covering",
    "eating",
    "flying in",
    "for",
    "from",
    "growing on",
    "hanging from",
    "has",
    "holding",
    "in",
    "in front of",
    "laying on",
    "looking at",
    "lying on",
    "made of",
    "mounted on",
    "near",
    "of",
    "on",
    "on back of",
    "over",
    "painted on",
    "parked on",
    "part of",
    "playing",
    "riding",
    "says",
    "sitting on",
    "standing on",
    "to",
    "under",
    "using",
    "walking in",
    "walking on",
    "watching",
    "wearing",
    "wears",
    "with",
]


def test_at_least_forty_of_the_fifty_commonest_predicates_have_four_contraries() -> None:
    assert len(set(VG150)) == 50
    contraries = {predicate: set(list_contraries(predicate)) - {predicate} for predicate in VG150}
    few = {predicate: found for predicate, found in contraries.items() if len(found) < 4}
    assert len(few) <= 10, few


def test_contraries_have_the_form_of_their_predicate() -> None:
    assert list_contraries("wearing")[:2] == ["carrying", "holding"]
    assert list_contraries("wears") == ["carries", "holds", "reaches for", "points at"]
    assert "off" in list_contraries("on")
