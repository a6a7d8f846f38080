import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caramel.blind.text.odd_one_out import build_triple, extract_triple_terms, score_triples
from caramel.utils.resampling import CrossValidation

WORDS = st.lists(st.sampled_from("abcde"), max_size=6).map(" ".join)


@given(WORDS, WORDS, WORDS)
def test_a_text_is_the_same_among_its_companions_in_any_order(text, one, two):
    assert build_triple(text, one, two) == build_triple(text, two, one)
    assert extract_triple_terms(build_triple(text, one, two)) == extract_triple_terms(
        build_triple(text, two, one)
    )


def test_the_terms_say_which_of_two_that_are_alike_the_third_backs():
    caption, negative, paraphrase = "a red dog sits", "a red cat sits", "there is a dog that is red"
    true, false = (
        extract_triple_terms(build_triple(*texts))
        for texts in ((caption, negative, paraphrase), (negative, caption, paraphrase))
    )
    assert {"words backed 1", "words unbacked 0", "words alone 0"} <= set(true)
    assert {"words backed 0", "words unbacked 1", "words alone 1", "alone: cat"} <= set(false)
    assert "closer than both others" in {*true} & {*false}
    assert "farther than both others" in extract_triple_terms(build_triple(paraphrase, caption, negative))


def test_the_negative_of_three_is_found_by_what_the_paraphrase_backs():
    """Which word is the true one is drawn by lot: neither of two texts tells, but the third does."""
    rng = np.random.default_rng(0)
    true, false, groups = [], [], []
    for i in range(120):
        mine, other = rng.permutation([f"w{2 * i}", f"w{2 * i + 1}"])
        triple = (f"the {mine} is here", f"the {other} is here", f"we saw one {mine} over there")
        for caption, second in ((triple[0], triple[2]), (triple[2], triple[0])):
            true.append(build_triple(caption, triple[1], second))
            false.append(build_triple(triple[1], caption, second))
            groups.append(f"i{i}")
    positive, negative = score_triples(true, false, CrossValidation(groups, 3, 1))
    assert (positive > negative).mean() > 0.95
