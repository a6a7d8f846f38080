from open_clip.tokenizer import SimpleTokenizer

from caramel.models.open_clip.tokenizer import learn_merges
from caramel.training.recipes.text_to_image import make_tokenizer

CAPTIONS = ["A red car is to the left of a blue house.", "There is a small green tree."]


def test_equal_captions_give_equal_bytes_in_any_order(tmp_path) -> None:
    one = learn_merges(CAPTIONS * 3, tmp_path / "a.gz").read_bytes()
    two = learn_merges(CAPTIONS[::-1], tmp_path / "b.gz").read_bytes()
    assert one == two


def test_pairs_that_are_as_frequent_are_merged_in_one_order_whichever_run_it_is(
    drawn_world, tmp_path
) -> None:
    captions = drawn_world[0].pairs["caption"]
    found = {learn_merges(captions, tmp_path / f"{run}.gz").read_bytes() for run in range(12)}
    assert len(found) == 1


def test_frequent_words_become_one_token(tmp_path) -> None:
    many = [*CAPTIONS, "A red car.", "A blue house and a green tree.", "Small car, small tree."]
    tokenizer = SimpleTokenizer(str(learn_merges(many, tmp_path / "m.gz")))
    assert len(tokenizer.encode("red car")) == 2


def test_text_that_was_never_seen_still_encodes_and_decodes(tmp_path) -> None:
    tokenizer = SimpleTokenizer(str(learn_merges(CAPTIONS, tmp_path / "m.gz")))
    assert tokenizer.decode(tokenizer.encode("zebra, naïve!")).split() == ["zebra", ",", "naïve", "!"]


def test_the_generator_and_the_judge_share_their_token_ids(tmp_path) -> None:
    vocabulary = learn_merges(CAPTIONS, tmp_path / "m.gz")
    ours = SimpleTokenizer(str(vocabulary))
    theirs = make_tokenizer(vocabulary, tmp_path / "hf")
    for caption in CAPTIONS:
        expected = [ours.sot_token_id, *ours.encode(caption), ours.eot_token_id]
        assert theirs(caption)["input_ids"] == expected
