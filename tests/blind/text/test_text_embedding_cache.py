"""Vectors of texts are made once; broken files are made again; other code takes none of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from caramel.blind.text import text_embedding_cache
from caramel.blind.text.text_embedding_cache import compute_text_vectors
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import build_vector_table

MADE: list[str] = []


def lengths(texts: Sequence[str]) -> pa.Table:
    MADE.extend(texts)
    return build_vector_table(
        [compute_text_key(text) for text in texts], np.array([[len(text), 1.0] for text in texts], np.float32)
    )


def ask(*texts: str) -> list[list[float]]:
    return compute_text_vectors(texts, lengths, settings={}, identity={"model": 1}, title="test").tolist()


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MADE.clear()


def test_each_text_is_made_once() -> None:
    assert ask("a", "bb") == [[1, 1], [2, 1]]
    assert ask("ccc", "bb", "a") == [[3, 1], [2, 1], [1, 1]]
    assert MADE == ["a", "bb", "ccc"]


def test_a_file_in_which_a_bit_flipped_is_said_and_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    ask("a", "bb")
    ask("ccc")
    path = next(
        p for p in Path("work/scorers").rglob("*.parquet") if compute_text_key("ccc") not in p.read_bytes()
    )
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    MADE.clear()
    capsys.readouterr()
    assert ask("a", "bb", "ccc") == [[1, 1], [2, 1], [3, 1]]
    assert MADE == ["a", "bb"]
    assert capsys.readouterr().err.count("computed again") == 1


def test_other_code_makes_everything_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ask("a")
    monkeypatch.setattr(text_embedding_cache, "compute_code_version", lambda module: "edited")
    ask("a")
    assert MADE == ["a", "a"]
