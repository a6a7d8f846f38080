"""Rows that are joined: half of each picture, and both captions in either order, one pair at a time."""

import numpy as np
import pytest
from training_rows import training_rows

from caramel.errors import DataError
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.training.data.batch import assemble_batch
from caramel.training.data.clic_concat import (
    PairingIndex,
    draw_pairs,
    extract_first_sentence,
    join_image_halves,
)
from caramel.training.data.examples import load_examples
from caramel.training.methods.clic_concat_loss import swap_words


def test_a_row_is_joined_with_one_of_another_image_and_with_any_of_them() -> None:
    rows = PairingIndex.from_sentences(np.array(list("abcde"), object), np.array([7, 3, 7, 5, 3]))
    met: dict[int, set[int]] = {row: set() for row in range(5)}
    for step in range(60):
        for row, other in draw_pairs(rows, np.arange(5), 1, step):
            met[row].add(int(other))
    assert met == {0: {1, 3, 4}, 1: {0, 2, 3}, 2: {1, 3, 4}, 3: {0, 1, 2, 4}, 4: {0, 2, 3}}


def test_pictures_are_the_middle_halves_in_either_order_and_either_way() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(256, size=(2, 40, 3, 6, 5)).astype(np.uint8)
    found = join_image_halves(first, second, range(40), 1, 2)
    seen = set()
    for one, other, joined in zip(first, second, found, strict=True):
        made = {
            "one, other": np.concatenate([one[:, :, 1:3], other[:, :, 1:4]], 2),
            "other, one": np.concatenate([other[:, :, 1:3], one[:, :, 1:4]], 2),
            "one above other": np.concatenate([one[:, 1:4], other[:, 1:4]], 1),
            "other above one": np.concatenate([other[:, 1:4], one[:, 1:4]], 1),
        }
        seen |= {how for how, picture in made.items() if np.array_equal(picture, joined)}
    assert len(seen) == 4
    assert np.array_equal(join_image_halves(first[7:9], second[7:9], [7, 8], 1, 2), found[7:9])


@pytest.mark.parametrize(
    ("first", "second", "made"),
    [
        ("a red car.", "an elephant.", {"a red elephant. a car."}),
        ("a red car.", "two dogs.", {None}),
        ("a red car.", "the blue sky.", {"a blue car. the red sky."}),
        ("a red car.", "a blue bus.", {"a blue car. a red bus.", "a red bus. a blue car."}),
        ("a cat on top of a box.", "a bed below it.", {"a bed on top of a box. a cat below it."}),
        ("a red car.", "a red car.", {None}),
        ("a red car.", "a blue car.", {None}),  # else it would be what they say the other way round
        (
            "a red car, a bus.",
            "a blue car, a bus.",
            {"a red bus, a bus. a blue car, a car.", "a red car, a car. a blue bus, a bus."},
        ),
        ("", "a cat.", {None}),
    ],
)
def test_a_negative_has_two_words_of_one_kind_exchanged(first: str, second: str, made: set) -> None:
    assert {swap_words(first, second, np.random.default_rng(seed)) for seed in range(20)} == made


def test_the_first_sentence_of_a_caption_is_taken() -> None:
    assert extract_first_sentence(" A dog. It is at St. Ives.") == "a dog."
    assert extract_first_sentence("Two cats, 3.5 kg") == "two cats, 3.5 kg"


def test_every_other_step_joins(world, files, clip_folder) -> None:
    clip = load_checkpoint(clip_folder)
    rows = training_rows(world, list(files), 12)
    rows.loc[5, "image_id"] = rows.loc[2, "image_id"]
    examples = load_examples(clip, rows, files, method=METHODS["clic_joined"])
    chosen, said = np.array([3, 0, 7]), rows["caption"].str.lower()
    joined, alone = assemble_batch(clip, examples, chosen, 1, 4), assemble_batch(clip, examples, chosen, 1, 5)
    assert alone.negative_texts is None
    assert alone.paraphrases is None
    assert alone.images.equal(assemble_batch(clip, examples, chosen, 1, 7).images)
    assert alone.texts.tolist() == clip.tokenize([said[row] for row in chosen]).tolist()
    assert examples.joined is not None
    for place, (row, other) in enumerate(draw_pairs(examples.joined, chosen, 1, 4)):
        both = clip.tokenize([f"{said[row]} {said[other]}", f"{said[other]} {said[row]}"])
        assert joined.texts[place].equal(both[0])
        assert joined.paraphrases[place].equal(both[1])
        assert joined.negative_texts[place, 0].equal(both[0]) == (not joined.negative_mask[place, 0])
    assert joined.paraphrased.all()
    assert joined.negative_mask.any()
    part = assemble_batch(clip, examples, chosen, 1, 4, slice(1, 3))
    assert part.images.equal(joined.images[1:])
    assert part.negative_texts.equal(joined.negative_texts[1:])
    with pytest.raises(DataError, match="All rows show one image, and method 'clic_joined' joins two"):
        load_examples(clip, rows.assign(image_id=rows["image_id"][0]), files, method=METHODS["clic_joined"])
