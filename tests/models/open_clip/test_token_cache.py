from __future__ import annotations

import shutil
from pathlib import Path

from open_clip.tokenizer import SimpleTokenizer

from caramel.io.files import compute_file_hash
from caramel.models.open_clip.token_cache import Vocabulary, load_simple_tokenizer
from caramel.models.open_clip.tokenizer import learn_merges

CAPTIONS = ["A red car is to the left of a blue house.", "There is a small green tree."]


def vocabulary_of(path: Path) -> Vocabulary:
    return Vocabulary(compute_file_hash(path), str(path))


def test_models_with_equal_vocabularies_share_a_tokenizer(tmp_path: Path) -> None:
    first = learn_merges(CAPTIONS, tmp_path / "a.gz")
    second = Path(shutil.copy(first, tmp_path / "b.gz"))
    one, two = (load_simple_tokenizer(vocabulary_of(path), 20, "{}") for path in (first, second))
    assert one is two
    assert one(CAPTIONS).equal(SimpleTokenizer(str(first), context_length=20)(CAPTIONS))


def test_another_vocabulary_at_the_same_path_gives_its_own_tokens(tmp_path: Path) -> None:
    path = learn_merges(CAPTIONS, tmp_path / "m.gz")
    one = load_simple_tokenizer(vocabulary_of(path), 20, "{}")
    two = load_simple_tokenizer(vocabulary_of(learn_merges(["Zebras graze."] * 3, path)), 20, "{}")
    assert one.vocab_size != two.vocab_size
