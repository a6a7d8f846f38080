"""Images in cells have one name exactly where they are equal."""

from __future__ import annotations

from typing import Any

import pytest

from caramel.benchmarks.embedded_images import ImageCell, ImageReference, embed_values, name_cells
from caramel.errors import DataError


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ([("k", "a"), ("l", "b"), ("k", "a")], ["a", "b", "a"]),
        ([("k", "a"), ("l", "a")], ["k", "l"]),
        ([("k", "a"), ("k", "b")], ["k", "k"]),
        ([("k", None), ("l", "b")], ["k", "l"]),
        ([("k", "a"), (None, None)], ["a", None]),
        ([(None, "a"), (None, "b"), (None, "")], ["a", "b", None]),
        ([("k", ""), ("l", "")], ["k", "l"]),
    ],
)
def test_a_path_names_an_image_where_each_has_its_own_and_the_content_elsewhere(
    cells: list[tuple[str | None, str | None]], names: list[str | None]
) -> None:
    assert name_cells([ImageCell(*cell) for cell in cells], "image", "x") == names


def test_what_is_no_encoded_image_stays_as_it_is() -> None:
    values = ["a.jpg", None, 3, {"bytes": b"x", "path": "b.jpg"}, b""]
    assert embed_values(values, "image", "x") == ["a.jpg", None, 3, ImageReference("b.jpg", "b.jpg"), None]


@pytest.mark.parametrize("value", [{}, {"src": "u"}, {"bytes": "text"}, {"bytes": b"x", "path": 3}])
def test_an_object_of_something_else_is_an_error(value: Any) -> None:
    with pytest.raises(
        DataError, match="x: column 'image' must hold image names, encoded images, or structs"
    ):
        embed_values([value], "image", "x")
