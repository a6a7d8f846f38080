import numpy as np
import pytest
from encoders import CountingEncoder

from caramel.errors import BackendError
from caramel.evaluation.embeddings import distinct, embed


def test_each_distinct_item_is_encoded_once() -> None:
    encoder = CountingEncoder()
    found = embed(encoder, [b"x", b"y", b"x", b"x"], ["a", "b", "a"], batch=2)
    assert encoder.images == [b"x", b"y"]
    assert encoder.texts == ["a", "b"]
    assert found.image_of.tolist() == [0, 1, 0, 0]
    assert found.text_of.tolist() == [0, 1, 0]


def test_each_row_finds_its_own_embedding() -> None:
    encoder = CountingEncoder()
    texts = ["c", "a", "b", "a", "c"]
    found = embed(encoder, [b"x"], texts, batch=2)
    for row, text in enumerate(texts):
        expected = CountingEncoder().encode_texts([text], 1)[0]
        assert np.array_equal(found.texts[found.text_of[row]], expected)


def test_no_items_have_no_places() -> None:
    items, index = distinct([])
    assert items == []
    assert index.shape == (0,)


class Broken(CountingEncoder):
    """Gives NaN for one text, or one embedding too few, or texts of another width."""

    def __init__(self, how: str) -> None:
        super().__init__("broken")
        self.how = how

    def encode_texts(self, texts, batch):  # type: ignore[no-untyped-def]
        rows = super().encode_texts(texts, batch)
        if self.how == "nan":
            rows[0, 3] = np.nan
        return {"nan": rows, "short": rows[1:], "width": rows[:, 1:]}[self.how]


@pytest.mark.parametrize(
    ("how", "message"),
    [("nan", "NaN or infinity for 1 of 2"), ("short", "for 2 distinct texts"), ("width", "16 .* 15")],
)
def test_broken_embeddings_are_an_error_that_names_the_model(how: str, message: str) -> None:
    with pytest.raises(BackendError, match=f"'broken'.*{message}"):
        embed(Broken(how), [b"x"], ["a", "b"], batch=2)
