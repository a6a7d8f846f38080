"""What a batch holds of a training set: the rows' own negatives and paraphrases, as a method takes them."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import torch
from training_rows import training_rows

from caramel.errors import DataError
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.registry import METHODS
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import TEXTS
from caramel.training.data.batch import assemble_batch, draw_step_rows
from caramel.training.data.caption_phrases import find_changed_phrases, find_noun_phrases
from caramel.training.data.examples import load_examples
from caramel.training.data.hard_batch_mining import find_nearest_rows
from caramel.training.data.list_columns import LISTS
from caramel.training.data.row_units import get_needed_list
from caramel.training.loop.forward import encode_batch
from caramel.training.variants import Schedule, resolve_steps


@pytest.fixture(scope="module")
def clip(clip_folder):
    return load_checkpoint(clip_folder)


@pytest.fixture
def rows(world, files):
    return training_rows(world, list(files), 12)


@pytest.fixture
def taken(rows, files, clip):
    """Return a function: what a method takes of rows 3, 0 and 7."""

    def batch(name: str, seed: int = 1, step: int = 0, **changes):
        examples = load_examples(clip, rows, files, method=replace(METHODS[name], **changes))
        return assemble_batch(clip, examples, np.array([3, 0, 7]), seed, step)

    return batch


def said(clip, captions) -> list:
    return clip.tokenize(list(captions)).tolist()


def assert_equal_batches(batch, other) -> None:
    for field in fields(batch)[2:]:
        own, same = getattr(batch, field.name), getattr(other, field.name)
        assert own is same or own.equal(same), field.name


@pytest.mark.parametrize("name", ["trohn_text", "trohn_img", "degla", "pairs_unpaired"])
def test_lists_in_arrow_give_the_batch_of_python_lists(name, rows, files, clip) -> None:
    arrow = rows.astype(dict.fromkeys(LISTS, pd.ArrowDtype(TEXTS)))
    plain, other = (
        assemble_batch(clip, load_examples(clip, table, files, method=METHODS[name]), np.arange(9), 1, 0)
        for table in (rows, arrow)
    )
    assert_equal_batches(plain, other)


@pytest.mark.parametrize("number", [1, 3, 20])
def test_a_row_has_its_own_negatives_and_no_more_than_there_are(number, rows, taken, clip) -> None:
    found = taken("degla", negatives=number)
    assert (
        found.negative_texts.shape[:2]
        == found.negative_mask.shape
        == found.negative_types.shape
        == (3, number)
    )
    for place, row in enumerate([3, 0, 7]):
        captions, kinds = rows["negative_captions"][row], rows["subtypes"][row]
        has = min(number, len(captions))
        assert found.negative_mask[place].tolist() == [True] * has + [False] * (number - has)
        assert found.negative_texts[place, :has].tolist() == said(clip, captions[:has])
        assert [SUBTYPES[kind] for kind in found.negative_types[place, :has]] == kinds[:has]
        assert found.texts[place].tolist() == said(clip, [rows["caption"][row]])[0]


@pytest.mark.parametrize("name", ["trohn_text", "trohn_img", "shuffled", "pairs_unpaired", "two_captions"])
def test_a_row_for_each_negative_is_that_of_a_table_with_lists_of_one(name, rows, files, clip) -> None:
    method, listed = METHODS[name], rows.assign(**{column: rows[column].map(list) for column in LISTS})
    for column in LISTS:
        listed[column][2].clear()  # a pair without a negative
    listed["negative_image_ids"][3][1] = listed["negative_image_ids"][0][0]
    single = listed.explode(LISTS).dropna(subset=get_needed_list(method)).reset_index(drop=True)
    single = single.assign(**{column: [[value] for value in single[column]] for column in LISTS})
    examples, expected = (
        load_examples(clip, table, files, method=method, unit=unit, seed=3)
        for table, unit in ((listed, "negatives"), (single, "pairs"))
    )
    numbers = np.arange(len(expected))
    batch, same = (assemble_batch(clip, one, numbers, 1, 0) for one in (examples, expected))
    assert examples.names.tolist() == expected.names.tolist()
    assert listed["pair_id"][2] not in examples.names.tolist()
    assert_equal_batches(batch, same)


@pytest.mark.parametrize("name", ["negclip", "degla"])
def test_methods_that_use_or_draw_several_negatives_keep_a_pair_together(name, rows, files, clip) -> None:
    listed = rows.assign(**{column: rows[column].map(list) for column in LISTS})
    for column in LISTS:
        listed[column][2].clear()
    examples = load_examples(clip, listed, files, method=METHODS[name], unit="negatives")
    expected = load_examples(clip, listed.drop(2), files, method=METHODS[name])
    assert examples.names.tolist() == expected.names.tolist()
    batch, same = (assemble_batch(clip, one, np.arange(11), 1, 0) for one in (examples, expected))
    assert_equal_batches(batch, same)
    with pytest.raises(DataError, match="1 of 12 rows have no negative_captions"):
        load_examples(clip, listed, files, method=METHODS[name])


def test_negatives_are_drawn_anew_at_each_visit_where_the_method_says_so(rows, taken) -> None:
    def visits(name: str) -> set:
        return {str(taken(name, step=step).negative_texts.tolist()) for step in range(8)}

    assert len(visits("trohn_text")) == 1
    assert len(visits("negclip")) > 1
    assert taken("negclip").negative_texts.equal(taken("negclip").negative_texts)
    drawn = taken("negclip", negatives=3)
    assert all(len({tuple(text) for text in texts}) == 3 for texts in drawn.negative_texts.tolist())


def test_a_method_with_images_takes_negatives_that_have_one(rows, taken, files, clip) -> None:
    names, lists = list(files), rows["negative_image_ids"]
    lists[3][:3], lists[0][:2] = (
        [None, names[0], names[1]],
        [None, names[-20]],
    )  # rows 0 and 1 show the first two
    found = taken("triplet_clip", negatives=2)
    assert found.negative_mask.tolist() == [[True, True], [True, False], [True, False]]
    assert found.negative_texts[0].tolist() == said(clip, rows["negative_captions"][3][1:3])
    assert found.negative_texts[1, 0].tolist() == said(clip, rows["negative_captions"][0][1:2])[0]
    assert found.negative_images.shape[:2] == (3, 2)
    assert found.negative_images[0, 0].equal(found.images[1])
    assert found.negative_image_ids[0, 0] == found.image_ids[1]
    assert found.negative_image_ids[1, 0] not in found.image_ids


def test_captions_of_one_image_have_its_number_also_among_negatives(rows, files, clip) -> None:
    rows.loc[5, "image_id"] = rows.loc[2, "image_id"]
    rows["negative_image_ids"][4][0] = rows.loc[2, "image_id"]
    examples = load_examples(clip, rows, files, method=METHODS["trohn_img"])
    found = assemble_batch(clip, examples, np.arange(12), 1, 0)
    assert found.image_ids[5] == found.image_ids[2] == found.negative_image_ids[4, 0]
    assert len(set(found.image_ids.tolist())) == 11


def test_rows_without_a_paraphrase_are_said(rows, taken, clip) -> None:
    rows.loc[0, "caption2"] = None
    found = taken("read")
    assert found.paraphrased.tolist() == [True, False, True]
    assert found.paraphrases[[0, 2]].tolist() == said(clip, [rows["caption2"][3], rows["caption2"][7]])


def test_what_a_method_does_not_take_is_neither_in_a_batch_nor_encoded(taken, clip) -> None:
    for name, method in ((name, METHODS[name]) for name in METHODS):
        batch = taken(name)
        encoded = encode_batch(clip, method, batch)
        beside = method.pairing != "apart"
        for part, wanted in (
            ("negative_texts", (method.negatives and method.captions and beside) or method.joins),
            ("negative_images", method.images and beside),
            ("paraphrases", method.paraphrases or method.joins),
        ):
            assert (getattr(batch, part) is not None) == (getattr(encoded, part) is not None) == bool(wanted)
        assert (encoded.words is not None) == method.parts
        assert (encoded.patches is not None) == (method.parts or method.patches)
        assert (encoded.phrases is not None) == bool(method.phrases or method.units)


def test_a_batch_has_so_many_captions_and_half_of_it_may_be_neighbours(rows, files, clip) -> None:
    for name, captions, size in (
        ("infonce", 8, 8),
        ("trohn_text", 8, 4),
        ("degla", 10, 2),
        ("read", 11, 2),
        ("degla", 4, 2),
        ("c2lip", 11, 2),
        ("cs_clip", 15, 2),
        ("cs_clip", 21, 3),
    ):
        examples = load_examples(clip, rows, files, method=METHODS[name])
        assert len(draw_step_rows(examples, captions, 1, 0)) == size
    examples = load_examples(clip, rows, files, method=METHODS["negclip"])
    near = find_nearest_rows(clip, examples, 3, "cpu", "fp32")
    examples = replace(examples, neighbours=near)
    found = draw_step_rows(examples, 12, 1, 0)
    assert len(found) == 6
    assert all(beside in near[row] for row, beside in zip(found[:3], found[3:], strict=True))
    assert {str(draw_step_rows(examples, 12, 1, step)[3:]) for step in range(4)} != {str(found[3:])}


def test_neighbours_are_the_nearest_images_that_are_others(rows, files, clip) -> None:
    from caramel.models.open_clip.encoder import ClipEncoder

    rows.loc[6, "image_id"] = rows.loc[1, "image_id"]
    examples = load_examples(clip, rows, files, method=METHODS["negclip"])
    found = find_nearest_rows(clip, examples, 3, "cpu", "fp32")
    vectors = ClipEncoder(clip, "cpu", "fp32", "t").encode_images([files[n] for n in rows["image_id"]], 4)
    for row in range(12):
        others = [r for r in range(12) if r != 6 and rows["image_id"][r] != rows["image_id"][row]]
        expected = sorted(others, key=lambda r: -float(vectors[r] @ vectors[row]))[:3]
        assert found[row].tolist() == expected


@pytest.mark.parametrize(("block_size", "captions"), [(4, 8), (5, 12), (1, 6), (99, 6)])
def test_rows_of_a_block_stay_together_and_each_block_has_its_turn(
    block_size, captions, rows, files, clip
) -> None:
    examples = load_examples(clip, rows, files, method=METHODS["infonce"])
    examples = replace(examples, block_size=block_size)
    block = min(block_size, len(rows))
    first_epoch = len(rows) // block // max(1, captions // block)
    drawn = [draw_step_rows(examples, captions, 1, step) for step in range(first_epoch)]
    for found in drawn:
        blocks = found.reshape(-1, block)
        assert (blocks == blocks[:, :1] + np.arange(block)).all()
        assert (blocks[:, 0] % block == 0).all()
    everything = np.concatenate(drawn)
    assert len(set(everything.tolist())) == len(everything)


def test_shuffled_negatives_are_each_of_another_row_and_stay_so_for_the_training(rows, files, clip) -> None:
    def beside(seed: int) -> list:
        examples = load_examples(clip, rows, files, method=METHODS["shuffled"], seed=seed)
        found = assemble_batch(clip, examples, np.arange(12), seed, 0)
        later = assemble_batch(clip, examples, np.arange(12), seed, 5)
        assert later.negative_texts.equal(found.negative_texts)
        assert later.negative_images.equal(found.negative_images)
        known = said(clip, [captions[0] for captions in rows["negative_captions"]])
        of = [known.index(text) for text in found.negative_texts[:, 0].tolist()]
        own = assemble_batch(
            clip, load_examples(clip, rows, files, method=METHODS["trohn_img"]), np.arange(12), seed, 0
        )
        assert found.negative_images.equal(own.negative_images[of])
        assert found.negative_image_ids.equal(own.negative_image_ids[of])
        assert found.texts.equal(own.texts)
        return of

    assert sorted(beside(1)) == list(range(12))
    assert all(other != row for row, other in enumerate(beside(1)))
    assert beside(1) == beside(1) != beside(2)


def test_pairs_that_stand_apart_are_those_of_trohn_img_each_as_often(rows, files, clip) -> None:
    paired = load_examples(clip, rows, files, method=METHODS["trohn_img"])
    apart = load_examples(clip, rows, files, method=METHODS["pairs_unpaired"])
    whole = assemble_batch(clip, paired, np.arange(12), 1, 0)
    alone = assemble_batch(clip, apart, np.arange(24), 1, 0)
    assert len(apart) == 24
    assert alone.texts.tolist() == [*whole.texts.tolist(), *whole.negative_texts[:, 0].tolist()]
    assert alone.images.tolist() == [*whole.images.tolist(), *whole.negative_images[:, 0].tolist()]
    assert alone.image_ids.tolist() == [*whole.image_ids.tolist(), *whole.negative_image_ids[:, 0].tolist()]
    assert len(draw_step_rows(apart, 12, 1, 0)) == 2 * len(draw_step_rows(paired, 12, 1, 0)) == 12


def test_a_pass_of_pairs_that_stand_apart_has_as_many_steps_as_one_of_trohn_img(rows, files, clip) -> None:
    both = (METHODS["trohn_img"], METHODS["pairs_unpaired"])
    schedule = Schedule(
        epochs=2, evals_per_epoch=1, steps=1, checkpoint_every=1, batch_size=8, warmup_steps=1
    )
    assert resolve_steps(both[0], schedule, 12) == resolve_steps(both[1], schedule, 12)
    assert resolve_steps(both[1], schedule, 12)[0] == 2 * (24 // 8)


def test_a_row_has_the_noun_phrases_of_its_caption_and_no_more_than_there_are(rows, taken, clip) -> None:
    found = taken("c2lip", most_phrases=3)
    assert found.phrases.shape[:2] == found.phrase_mask.shape == (3, 3)
    for place, row in enumerate([3, 0, 7]):
        phrases = find_noun_phrases(rows["caption"][row])[:3]
        assert phrases
        assert found.phrase_mask[place].tolist() == [k < len(phrases) for k in range(3)]
        assert found.phrases[place, : len(phrases)].tolist() == said(clip, phrases)
    assert found.foils is None


def test_a_rows_units_and_foils_are_those_of_its_negatives(rows, taken, clip) -> None:
    found = taken("cs_clip", negatives=20)
    assert found.phrase_mask.equal(found.negative_mask)
    for place, row in enumerate([3, 0, 7]):
        changes = [
            find_changed_phrases(rows["caption"][row], text) for text in rows["negative_captions"][row][:20]
        ]
        units, foils = zip(*changes, strict=True)
        assert found.phrases[place, : len(units)].tolist() == said(clip, units)
        assert found.foils[place, : len(foils)].tolist() == said(clip, foils)


@pytest.mark.parametrize("name", ["c2lip", "cs_clip"])
def test_vectors_of_phrases_are_those_of_the_texts_alone(name, taken, clip) -> None:
    batch = taken(name)
    features = encode_batch(clip, METHODS[name], batch)
    assert features.phrases.shape[:2] == features.phrase_mask.shape
    alone = clip.model.encode_text(batch.phrases.flatten(0, 1), normalize=True)
    assert torch.allclose(features.phrases.flatten(0, 1), alone, atol=1e-5)
    assert (features.foils is None) == (name == "c2lip")
    assert (features.patches is None) == (name == "cs_clip")


def test_captions_without_a_noun_phrase_are_no_rows_for_a_method_on_phrases(rows, files, clip) -> None:
    with pytest.raises(DataError, match=r"None of 12 captions has a noun phrase .*'c2lip' trains on them"):
        load_examples(clip, rows.assign(caption="Quickly."), files, method=METHODS["c2lip"])
    load_examples(clip, rows.assign(caption=["A cat.", *11 * ["Quickly."]]), files, method=METHODS["c2lip"])
