"""Negatives and paraphrases of one writer or of two, as stage ``negatives`` writes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from caramel.interfaces.writer import Part, WrittenCaption
from caramel.registry import WRITERS
from caramel.sources.captions.llm.split_filter import filter_by_split


class CaptionResult(NamedTuple):
    """The tables of the stage; and what the language model wrote of them, where one did, before its texts were filtered."""

    tables: WrittenCaption
    llm_output: WrittenCaption | None


def write_captions(
    pairs: pd.DataFrame, *, negatives: str, paraphrases: str, **settings: Any
) -> CaptionResult:
    """Return negatives and paraphrases of the pairs; texts of a language model that fit another split are rejects.

    Args:
        pairs: table ``pairs``.
        negatives: name of the writer of the negatives.
        paraphrases: name of the writer of the paraphrases; where it is the same one, it writes both at once.
        settings: of ``Writer``, for each.
    """
    parts: dict[str, list[Part]] = {negatives: ["negatives"]}
    parts.setdefault(paraphrases, []).append("paraphrases")
    outputs = [WRITERS[name](pairs, parts=of_writer, **settings) for name, of_writer in parts.items()]
    written = outputs[0] if len(outputs) == 1 else _merge_outputs(*outputs)
    llm_output = next((output for output in outputs if output.verdicts is not None), None)
    return CaptionResult(written if llm_output is None else filter_by_split(written, pairs), llm_output)


def _merge_outputs(first: WrittenCaption, second: WrittenCaption) -> WrittenCaption:
    """Return the negatives of the first writer and the paraphrases of the second, with the rejects of each."""
    of_second = first.rejects["id"].str.endswith(":paraphrase")
    rejects = [first.rejects[~of_second], second.rejects[second.rejects["id"].str.endswith(":paraphrase")]]
    return WrittenCaption(first.negatives, second.paraphrases, pd.concat(rejects, ignore_index=True))
