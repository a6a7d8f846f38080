"""Which models a benchmark is not for."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.tasks import build_comparisons
from caramel.evaluation import compatibility
from caramel.evaluation.compatibility import count_pairs, find_incompatibility
from caramel.interfaces.benchmark import RANKING_COLUMNS, Comparisons, ImageFile, Rankings
from caramel.registry import BENCHMARKS

IMAGES = [ImageFile(f"{n}.jpg") for n in range(3)]


def compared(**changes: object) -> Comparisons:
    rows = [
        {
            "instance_id": f"i{n}",
            "image_id": f"{n}.jpg",
            "subsets": [],
            "image": n,
            "caption": "a",
            "negative_caption": "b",
            **changes,
        }
        for n in range(2)
    ]
    return build_comparisons(rows, IMAGES)


def retrieval(texts: int, prompts: int = 1) -> Rankings:
    """Return retrieval of texts by images and of images by texts."""
    lines = [["i2t", n, 0, [n]] for n in range(3)] + [["t2i", n, 1, [n % 3]] for n in range(texts)]
    rows = [[f"i{n}", "0.jpg", [], *line] for n, line in enumerate(lines)]
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        IMAGES,
        [(f"{n}",) * prompts for n in range(texts)],
        [np.arange(texts), np.arange(3)],
    )


def test_a_chat_model_is_for_captions_of_an_image() -> None:
    chat = "chat:m@http://localhost/v1"
    assert find_incompatibility(chat, BENCHMARKS["sugarcrepe"], compared()) is None
    for name, task in (
        ("svo_probes", compared(negative_caption=None, negative_image=2)),
        ("coco_retrieval", retrieval(4)),
    ):
        assert f"cannot be scored on {name!r}: it chooses among captions" in str(
            find_incompatibility(chat, BENCHMARKS[name], task)
        )


def test_a_text_encoder_is_for_paraphrases() -> None:
    assert find_incompatibility("text:folder", BENCHMARKS["sugarcrepe_pp"], compared(caption2="c")) is None
    for name, task in (
        ("sugarcrepe", compared(caption2="c")),  # none of its metrics is of texts alone
        ("instances", compared()),
        ("coco_retrieval", retrieval(4)),
    ):
        assert "texts alone" in str(find_incompatibility("text:folder", BENCHMARKS[name], task))


@pytest.mark.parametrize("family", ["itm", "vqascore", "vgptscore", "vgptscore_blind", "vgptscore_noise"])
def test_a_matcher_is_not_for_millions_of_pairs(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "MOST_PAIRS", 12)
    named = BENCHMARKS["coco_retrieval"]
    assert find_incompatibility(f"{family}:folder", named, retrieval(4)) is None
    assert "These are 15 pairs, more than 12" in str(
        find_incompatibility(f"{family}:folder", named, retrieval(5))
    )
    assert find_incompatibility("dual:folder", named, retrieval(5)) is None


def test_pairs_are_counted_once_for_both_directions_and_per_prompt() -> None:
    assert count_pairs(retrieval(5)) == 15
    assert count_pairs(retrieval(5, prompts=7)) == 105
    assert count_pairs(compared()) == 4
    assert count_pairs(compared(caption2="c", negative_image=2)) == 12


def test_the_folder_of_a_spec_need_not_be_there(tmp_path: Path) -> None:
    assert find_incompatibility(f"itm:{tmp_path}/none", BENCHMARKS["sugarcrepe"], compared()) is None
