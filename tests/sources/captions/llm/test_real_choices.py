"""SmolLM2 chooses changes of real captions, and its kept replies give the same tables without it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from obliging_writer import pairs_of, write
from real_models import SMOLLM2, SPACY, WORDNET

pytestmark = pytest.mark.skipif(
    not SMOLLM2.exists() or find_spec(SPACY) is None or not WORDNET.is_dir(),
    reason="SmolLM2, spaCy's model or WordNet is missing: `make dev`, apt-get install wordnet-base",
)
CAPTIONS = [
    "A man in a red shirt tossing a white frisbee.",
    "Two men wearing ties cross the street at night.",
    "The neatly made bed is beside an open window.",
]
SETTINGS = {
    "spacy_model": SPACY,
    "wordnet": str(WORDNET),
    "propose": "choose",
    "response_schema": True,
    "validate_texts": False,
    "name": "smollm2",
    "max_tokens": 16,
    "max_connections": 16,
    "subtypes": 3,
}


def read_tables(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_kept_replies_of_a_real_model_give_the_same_bytes_without_it(tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    pairs = pairs_of(CAPTIONS)
    model = {**SETTINGS, "target": f"local:{SMOLLM2}"}
    first = write("", tmp_path / "first", pairs, ["negatives"], 1, **model)
    negatives, replies = (pd.read_parquet(first / f"{name}.parquet") for name in ("negatives", "replies"))
    assert len(negatives) >= len(CAPTIONS)
    assert {prompt.partition("@")[0] for prompt in replies["prompt"]} == {"choose_change"}
    gone = {**SETTINGS, "target": "local:no_such_model", "replies": os.fspath(first / "replies.parquet")}
    second = write("", tmp_path / "second", pairs, ["negatives"], 1, **gone)
    assert read_tables(second) == read_tables(first)
