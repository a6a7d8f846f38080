"""What is done to a text before a model's tokenizer reads it: no checkpoint of transformers says it.

CLIP's authors repair a text (ftfy: curly quotes, ligatures, full-width characters, text decoded in the wrong
encoding), resolve HTML entities, join white space and lower-case it. open_clip does so; transformers' tokenizer of the same
checkpoint only lower-cases and joins white space, so that the same weights would read other tokens. The first two cleanings
are open_clip's functions, by their names there:

    lower         CLIP with a vocabulary of its kind. SigLIP 2, too: its authors lower-case, and keep punctuation
    canonicalize  SigLIP: without punctuation, as transformers' tokenizer has it as well
    blip          BLIP and BLIP-2, by any of their heads: LAVIS's ``blip_caption`` (lower case, without the
                  signs ``.!"()*#:;~``, no more than 50 words)
    None          all others: the tokenizer alone

open_clip's configs of SigLIP 2 state ``canonicalize``, which its authors do not: with ``"clean": "lower"`` in
``tokenizer_kwargs`` its scores are those of here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

LOWER, CANONICALIZE, BLIP = "lower", "canonicalize", "blip"
MOST_WORDS = 50  # of a caption for BLIP
SUFFIX = "</w>"  # with which a word ends in a vocabulary of CLIP's kind


def select_cleaning(model_type: str, tokenizer: Any) -> str | None:
    """Return the name of the cleaning for a model of transformers, None: its texts are read as they are."""
    if model_type == "clip":
        vocabulary = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        return LOWER if getattr(vocabulary, "end_of_word_suffix", None) == SUFFIX else None
    if model_type == "siglip":  # SigLIP 2 of one resolution has that type as well, and Gemma's tokenizer
        return (
            CANONICALIZE if type(tokenizer).__name__.startswith(("SiglipTokenizer", "T5Tokenizer")) else LOWER
        )
    return {"siglip2": LOWER, "blip": BLIP, "blip-2": BLIP}.get(model_type)


def clean_texts(texts: Sequence[str], cleaning: str | None) -> list[str]:
    """Return the texts after a cleaning; None: as they are."""
    from open_clip.tokenizer import get_clean_fn

    if cleaning is None:
        return list(texts)
    return list(map(clean_blip_caption if cleaning == BLIP else get_clean_fn(cleaning), texts))


def clean_blip_caption(text: str) -> str:
    """Return a caption as BLIP was trained on it."""
    spaced = re.sub(r"\s{2,}", " ", re.sub(r'[.!"()*#:;~]', " ", text.lower()))
    return " ".join(spaced.rstrip("\n").strip(" ").split(" ")[:MOST_WORDS])
