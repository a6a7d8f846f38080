from dataclasses import replace

import numpy as np
import pandas as pd

from caramel.benchmarks.content import hash_images, hash_texts
from caramel.benchmarks.tasks import Choice, build_choices, build_comparisons, limit_instances
from caramel.interfaces.benchmark import Comparisons, ImageFile, Rankings

IMAGES = [ImageFile("0.jpg"), ImageFile("1.jpg")]
KEYS = [b"0" * 16, b"1" * 16]


def pair(caption: str, negative: str, image: int = 0, negative_image: int = -1) -> Comparisons:
    row = {
        "instance_id": "0",
        "image_id": "0.jpg",
        "subsets": [],
        "image": image,
        "negative_image": negative_image,
        "caption": caption,
        "negative_caption": negative,
    }
    return build_comparisons([row], IMAGES)


def ranking(options: list[str], direction: str = "i2t", query: str = "0.jpg", true: int = 0) -> Rankings:
    files = [(image.path, image) for image in IMAGES]
    return build_choices([Choice("0", "0.jpg", [], direction, query, options, true)], files)  # type: ignore[arg-type]


def test_captions_that_change_or_change_places_have_another_hash() -> None:
    first = hash_texts(pair("a", "b"))
    assert first == hash_texts(pair("a", "b", image=1))
    assert first != hash_texts(pair("b", "a"))
    assert first != hash_texts(pair("a", "c"))
    assert first != hash_texts(pair("ab", ""))


def test_images_are_told_by_their_content_and_their_part() -> None:
    task = pair("a", "b", 0, 1)
    assert hash_images(task, KEYS) != hash_images(task, KEYS[::-1])
    assert hash_images(task, KEYS) == hash_images(pair("a", "b", 1, 0), KEYS[::-1])
    assert hash_images(pair("a", "b"), KEYS) != hash_images(task, KEYS)


def test_a_ranking_is_told_by_its_query_its_candidates_and_the_true_ones() -> None:
    texts = hash_texts(ranking(["a", "b", "c"]))
    assert texts == hash_texts(ranking(["a", "c", "b"]))
    assert texts != hash_texts(ranking(["a", "b", "d"]))
    assert texts != hash_texts(ranking(["a", "b", "c"], true=1))
    assert texts == hash_texts(ranking(["a", "b", "c"], query="1.jpg"))
    assert hash_images(ranking(["a"]), KEYS) != hash_images(ranking(["a"], query="1.jpg"), KEYS)
    by_text = ranking(["0.jpg", "1.jpg"], "t2i", "a dog")
    assert hash_texts(by_text) != hash_texts(ranking(["0.jpg", "1.jpg"], "t2i", "a cat"))
    assert hash_images(by_text, KEYS) != hash_images(ranking(["0.jpg", "1.jpg"], "t2i", "a dog", 1), KEYS)


def test_the_first_instances_have_the_hashes_that_they_have_among_all() -> None:
    one = ranking(["a", "b"])
    rows = pd.concat([one.rows, one.rows.assign(instance_id="1", query=1)], ignore_index=True)
    both = replace(one, rows=rows)
    assert hash_texts(limit_instances(both, 1)) == hash_texts(both)[:1]
    assert hash_images(limit_instances(both, 1), KEYS[:1]) == hash_images(both, KEYS)[:1]
    assert len(set(hash_images(both, KEYS))) == 2
    assert np.unique(hash_texts(both)).size == 1
