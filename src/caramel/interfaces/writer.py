"""Interface of a backend that writes captions, and its result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import pandas as pd

Part = Literal["negatives", "paraphrases"]


class WrittenCaption(NamedTuple):
    """Hard negatives, paraphrases and rejects, each of which keeps its contract.

    Writers that query a model also return its replies, in parts that can be consumed once, the verdicts on each
    draft, the validator's answers to texts with known answers (``llm.validator_quality.GOLD_COLUMNS``), and what
    corrections gave (``llm.corrections.CORRECTION_COLUMNS``).
    """

    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame
    replies: Iterator[pd.DataFrame] | None = None
    verdicts: pd.DataFrame | None = None
    gold_items: pd.DataFrame | None = None
    corrections: pd.DataFrame | None = None


class Writer(Protocol):
    """Writes hard negatives of all subtypes and one paraphrase for each pair, where possible."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        *,
        data_dir: str,
        seed: int,
        max_attempts: int,
        spacy_model: str | None,
        allow_unmentioned_objects: bool,
        parts: Collection[Part],
        model: Mapping[str, Any],
        annotations: str,
    ) -> WrittenCaption:
        """Return the captions written for the pairs. Equal arguments give equal tables.

        Args:
            pairs: table ``pairs``.
            data_dir: the user's folder from which the pairs were read.
            seed: a draw depends only on this, the pair's name and the subtype.
            max_attempts: maximum number of draws per negative.
            spacy_model: package or folder of a spaCy model that tags the captions; None: the word lists do.
            allow_unmentioned_objects: a caption may omit objects of its image.
            parts: requested parts; a writer may write both if that costs nothing extra.
            model: settings of the language model: ``negatives.language_model`` of the params.
            annotations: folder with people's decisions.

        Raises:
            DataError: the writer does not support the source of the pairs, or the files are broken.
        """
        ...
