"""Normalise texts before a model's tokenizer reads them, as in the model's training; no checkpoint states how.

CLIP's authors repair a text (ftfy: curly quotes, ligatures, full-width characters, text decoded in the wrong
encoding), resolve HTML entities, collapse white space and lower-case it. open_clip does the same.
transformers' tokenizer of the same checkpoint only lower-cases and collapses white space, so the same weights
would get other tokens. The first two normalisations are open_clip's functions of the same names:

    lower         CLIP with a vocabulary of its kind. SigLIP 2, too: its authors lower-case, and keep punctuation
    canonicalize  SigLIP: without punctuation, as transformers' tokenizer has it as well
    blip          ALBEF, BLIP and BLIP-2, by any of their matching heads: LAVIS's ``blip_caption`` (lower case, without the
                  characters ``.!"()*#:;~``, no more than 50 words)
    blip_question BLIP's question answering: LAVIS's ``blip_question``, which leaves the characters out instead of
                  replacing them by spaces
    xvlm          X-VLM: its ``pre_caption`` (as ``blip_question``, also without ``,'?``, and with spaces for ``-`` and ``/``)
    None          all others: the tokenizer alone

open_clip's configs of SigLIP 2 state ``canonicalize``, unlike its authors. With ``"clean": "lower"`` in
``tokenizer_kwargs``, its scores equal those of this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

LOWER, CANONICALIZE, BLIP, BLIP_QUESTION, XVLM = "lower", "canonicalize", "blip", "blip_question", "xvlm"
MOST_WORDS = 50  # words of a caption for BLIP
SUFFIX = "</w>"  # end of a word in a vocabulary of CLIP's kind


def select_cleaning(model_type: str, tokenizer: Any) -> str | None:
    """Return the name of the normalisation for a model of transformers; None: its texts are not changed."""
    if model_type == "clip":
        vocabulary = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        return LOWER if getattr(vocabulary, "end_of_word_suffix", None) == SUFFIX else None
    # SigLIP 2 with a fixed resolution has this type as well, and Gemma's tokenizer
    if model_type == "siglip":
        return (
            CANONICALIZE if type(tokenizer).__name__.startswith(("SiglipTokenizer", "T5Tokenizer")) else LOWER
        )
    return {"siglip2": LOWER, "albef": BLIP, "xvlm": XVLM, "blip": BLIP, "blip-2": BLIP}.get(model_type)


def clean_texts(texts: Sequence[str], cleaning: str | None) -> list[str]:
    """Return the texts after a normalisation; with None they are unchanged."""
    from open_clip.tokenizer import get_clean_fn

    if cleaning is None:
        return list(texts)
    cleaners = {BLIP: clean_blip_caption, BLIP_QUESTION: clean_blip_question, XVLM: clean_xvlm_caption}
    return list(map(cleaners.get(cleaning) or get_clean_fn(cleaning), texts))


def clean_blip_caption(text: str) -> str:
    """Return a caption in the form in which BLIP was trained."""
    spaced = re.sub(r"\s{2,}", " ", re.sub(r'[.!"()*#:;~]', " ", text.lower()))
    return " ".join(spaced.rstrip("\n").strip(" ").split(" ")[:MOST_WORDS])


def clean_blip_question(text: str) -> str:
    """Return a question in the form in which BLIP's question answering was trained."""
    bare = re.sub(r'[.!"()*#:;~]', "", text.lower()).rstrip(" ")
    return " ".join(bare.split(" ")[:MOST_WORDS])


def clean_xvlm_caption(text: str) -> str:
    """Return a caption in the form in which X-VLM was trained, but not cut at 30 or 40 words."""
    bare = re.sub(r"[,.'!?\"()*#:;~]", "", text.lower()).replace("-", " ").replace("/", " ")
    return re.sub(r"\s{2,}", " ", bare.replace("<person>", "person")).strip()
