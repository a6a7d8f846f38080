"""WordNet's files are read by offset; a folder that lacks a file, or mixes versions, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_visual_genome import wordnet

from caramel.errors import DataError
from caramel.sources.captions.wordnet_files import open_wordnet


def test_a_synset_has_its_words_field_and_pointers(tmp_path: Path) -> None:
    part = open_wordnet(str(wordnet(tmp_path)))["obj"]
    synset = part.read_synset(part.entries["dog"].offsets[0])
    assert "dog" in synset.words
    assert synset.field == 5
    assert not synset.satellite
    assert any(symbol == "@" for symbol, *_ in synset.pointers)


def test_lacking_files_are_named(tmp_path: Path) -> None:
    folder = wordnet(tmp_path)
    (folder / "noun.exc").unlink()
    (folder / "data.verb").unlink()
    with pytest.raises(DataError, match=r"lacks data\.verb, noun\.exc: give the folder dict of WordNet 3\.0"):
        open_wordnet(str(folder))


def test_an_index_and_data_of_two_versions_are_an_error_at_once(tmp_path: Path) -> None:
    folder = wordnet(tmp_path)
    data = folder / "data.noun"
    data.write_text(" " * 7 + data.read_text())
    with pytest.raises(DataError, match="same version of WordNet"):
        open_wordnet(str(folder))
