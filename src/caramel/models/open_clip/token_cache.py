"""Share open_clip's tokenizers between models with equal vocabularies, and keep the tokens of recent texts."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

CACHED_TEXTS = 2**14  # texts whose tokens a tokenizer keeps, about 1 kB each


@dataclass(frozen=True)
class Vocabulary:
    """A file ``bpe.txt.gz``; files of equal content are equal."""

    content: str  # hash of the file
    path: str = field(compare=False)


@functools.lru_cache(2)
def load_simple_tokenizer(vocabulary: Vocabulary | None, length: int, options: str) -> Any:
    """Return open_clip's tokenizer, which keeps the tokens of the last ``CACHED_TEXTS`` texts.

    Models with equal vocabularies share it. So a process that loads several of them in turn, such as a worker of
    ``finetune`` or ``evaluate``, tokenizes their common captions once.

    Args:
        vocabulary: the model's own; None: open_clip's.
        length: context length.
        options: further arguments, as JSON.
    """
    from open_clip.tokenizer import SimpleTokenizer

    merges = {} if vocabulary is None else {"bpe_path": vocabulary.path}
    tokenizer: Any = SimpleTokenizer(**merges, context_length=length, **json.loads(options))
    tokenizer.encode = functools.lru_cache(CACHED_TEXTS)(tokenizer.encode)
    return tokenizer
