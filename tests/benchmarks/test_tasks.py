from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.tasks import build_comparisons, limit_instances
from caramel.interfaces.benchmark import ABSENT, RANKING_COLUMNS, Comparisons, ImageFile, Rankings

IMAGES = [ImageFile(f"{n}.jpg") for n in range(6)]


def row(number: int, **changes: object) -> dict[str, object]:
    return {
        "instance_id": f"i{number}",
        "image_id": f"{number}.jpg",
        "subsets": ["s"],
        "image": number,
        "caption": f"caption {number}",
        **changes,
    }


@pytest.mark.parametrize("caption2", [[None, None], [None, "p"], ["p", None], [float("nan"), "p"]])
def test_a_caption_that_a_row_lacks_is_none_whatever_the_others_have(caption2: list[object]) -> None:
    task = build_comparisons([row(n, caption2=text) for n, text in enumerate(caption2)], IMAGES)
    assert task.rows["caption2"].tolist() == ["p" if text == "p" else None for text in caption2]
    assert task.rows["negative_caption"].tolist() == [None, None]


def test_columns_that_rows_leave_out_are_absent() -> None:
    task = build_comparisons([row(0), row(1, negative_image=2)], IMAGES)
    assert task.rows["negative_image"].tolist() == [ABSENT, 2]
    assert task.rows["image"].dtype == task.rows["negative_image"].dtype == np.int64
    assert task.rows["subsets"].tolist() == [["s"], ["s"]]


def test_a_limit_keeps_the_first_instances_and_their_images() -> None:
    lines = [row(5, negative_image=3), row(0), row(1, image=ABSENT, negative_image=5), row(2)]
    task = limit_instances(build_comparisons(lines, IMAGES), 3)
    assert isinstance(task, Comparisons)
    assert task.rows["instance_id"].tolist() == ["i5", "i0", "i1"]
    assert list(task.images) == [IMAGES[0], IMAGES[3], IMAGES[5]]
    names = [None if i == ABSENT else task.images[i].path for i in task.rows["image"]]
    assert names == ["5.jpg", "0.jpg", None]
    assert [task.images[i].path for i in task.rows["negative_image"] if i != ABSENT] == ["3.jpg", "5.jpg"]


@pytest.mark.parametrize("limit", [None, 4, 5])
def test_no_limit_and_a_high_one_change_nothing(limit: int | None) -> None:
    task = build_comparisons([row(n) for n in range(4)], IMAGES)
    assert limit_instances(task, limit) is task


def named(task: Rankings) -> list[tuple[object, list[object], list[object]]]:
    """Return query, candidates and true candidates of each row, by name."""
    found = []
    for row in task.rows.itertuples():
        asking, asked = (task.images, task.texts) if row.direction == "i2t" else (task.texts, task.images)
        candidates = [asked[i] for i in task.pools[row.pool].tolist()]
        found.append((asking[row.query], candidates, [asked[i] for i in row.true]))
    return found


def test_a_limit_keeps_all_candidates_of_a_query_and_nothing_else() -> None:
    lines = [["i2t", 5, 1, [3]], ["t2i", 2, 1, [4]], ["i2t", 5, 0, [4, 0]], ["t2i", 0, 2, [1]]]
    rows = pd.DataFrame(
        [[f"i{n}", "0.jpg", [], *line] for n, line in enumerate(lines)], columns=list(RANKING_COLUMNS)
    )
    pools = [np.array([4, 0]), np.array([3, 4]), np.array([1, 0])]
    task = Rankings(rows, IMAGES, [(f"text {n}",) for n in range(6)], pools)
    for limit, images, texts in ((1, [5], [3, 4]), (2, [3, 4, 5], [2, 3, 4]), (3, [3, 4, 5], [0, 2, 3, 4])):
        short = limit_instances(task, limit)
        assert isinstance(short, Rankings)
        assert named(short) == named(task)[:limit]
        assert short.images == [IMAGES[n] for n in images]
        assert short.texts == [(f"text {n}",) for n in texts]


def test_an_image_says_where_it_lies() -> None:
    assert str(ImageFile("a.jpg")) == "a.jpg"
    assert str(ImageFile("a.parquet", 3, "picture", (0, 1, 2, 3))) == (
        "a.parquet, row 3, column 'picture', box (0, 1, 2, 3)"
    )
    assert Path(str(IMAGES[0])).name == "0.jpg"
