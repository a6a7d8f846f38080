"""What is no spaCy model is refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from caramel.errors import BackendError
from caramel.sources.captions.spacy_models import load_spacy_model


def test_what_is_no_spacy_model_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    with pytest.raises(BackendError, match=r"no_such_model cannot be loaded: .* Give the name"):
        load_spacy_model("no_such_model")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(BackendError, match="finds no dependencies, parts of speech, lemmas: it is empty"):
        load_spacy_model(str(tmp_path / "blank"))
