"""Share open_clip's tokenizers between models with equal vocabularies."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Vocabulary:
    """A file ``bpe.txt.gz``; files of equal content are equal."""

    content: str  # hash of the file
    path: str = field(compare=False)


@functools.lru_cache(2)
def load_simple_tokenizer(vocabulary: Vocabulary | None, length: int, options: str) -> Any:
    """Return open_clip's tokenizer, by way of ``WordTokenizer``.

    Models with equal vocabularies share it. So a process that loads several of them in turn, such as a worker of
    ``finetune`` or ``evaluate``, tokenizes the words of their common captions once.

    Args:
        vocabulary: the model's own; None: open_clip's.
        length: context length.
        options: further arguments, as JSON.
    """
    from caramel.models.open_clip.word_tokenizer import WordTokenizer

    merges = {} if vocabulary is None else {"bpe_path": vocabulary.path}
    return WordTokenizer(**merges, context_length=length, **json.loads(options))
