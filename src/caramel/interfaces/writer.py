"""What a backend that writes captions is, and what it returns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import pandas as pd

Part = Literal["negatives", "paraphrases"]


class WrittenCaption(NamedTuple):
    """Hard negatives, paraphrases, and what could not be made, each keeping its contract.

    Writers that ask a model give its replies, too, in parts that are taken once, and what was thought of each draft.
    """

    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame
    replies: Iterator[pd.DataFrame] | None = None
    verdicts: pd.DataFrame | None = None


class Writer(Protocol):
    """Writes hard negatives of all subtypes and one paraphrase for each pair, where they can be made."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        *,
        data_dir: str,
        seed: int,
        max_attempts: int,
        allow_unmentioned_objects: bool,
        parts: Collection[Part],
        model: Mapping[str, Any],
    ) -> WrittenCaption:
        """Return what was written of the pairs; equal arguments give equal tables.

        Args:
            pairs: table ``pairs``.
            data_dir: folder of the user's that the pairs were read from.
            seed: a draw depends on this, the pair's name and the subtype alone.
            max_attempts: draws of a negative at most.
            allow_unmentioned_objects: a caption may leave out objects that its picture shows.
            parts: what is wanted; a writer to which it makes no difference may write both.
            model: how a language model is asked: ``negatives.language_model`` of the params.

        Raises:
            DataError: the pairs are of another source than this writer knows, or the files are broken.
        """
        ...
