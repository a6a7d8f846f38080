"""Selection of hard negatives."""

from caramel.crepe.example_files import take_negatives


def score_by_number(texts):
    return [float(text) for text in texts]


def test_a_scorer_ranks_all_texts() -> None:
    texts = [str(number) for number in range(500)]
    assert take_negatives(texts, "a", 2, score_by_number) == ["499", "498"]


def test_without_a_scorer_no_more_texts_are_drawn_than_are_wanted() -> None:
    drawn = iter("abcdef")
    assert take_negatives(drawn, "a", 2) == ["b", "c"]
    assert next(drawn) == "d"
