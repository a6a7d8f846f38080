"""Learn a small byte-pair vocabulary in open_clip's format from captions.

open_clip's own vocabulary of 49,408 entries would be most of a small model. The file has the format of
``open_clip.tokenizer.SimpleTokenizer``: a gzip of one header line and one merge per line.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

ENTRIES = 4096  # upper bound; the world's captions need about 700


def learn_merges(captions: Iterable[str], path: Path) -> Path:
    """Write the merges learnt from the captions to ``path``; equal captions give equal bytes."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Lowercase()
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    # The characters that end words are added beforehand. Otherwise each would get its number in the order of
    # a hash map, which differs between runs, and pairs of equal frequency are merged in the order of their
    # numbers (tokenizers, issue 1794).
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        special_tokens=[f"{letter}</w>" for letter in alphabet],
        vocab_size=ENTRIES,
        min_frequency=2,
        end_of_word_suffix="</w>",
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sorted(set(captions)), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    text = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in merges)])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path
