"""Define expectations on captions, splits, blind accuracy and images, for any Great Expectations suite.

Once this module is imported, any suite over a pandas frame can use its expectations, by class or by name:

    import great_expectations as gx
    import pandas as pd
    from caramel.gates import expectations as e

    suite = gx.ExpectationSuite(
        name="pairs",
        expectations=[
            e.ExpectCaptionToDifferFromItsNegative(column_A="text", column_B="foil"),
            e.ExpectNegativeToChangeMoreThanWordOrder(
                column_A="text", column_B="foil", row_condition="kind != 'swap'", condition_parser="pandas"
            ),
            e.ExpectBlindAccuracyToBeAtMost(
                max_accuracy=0.6, column_caption="text", column_negative="foil", column_group="file"
            ),
        ],
    )
    frame = pd.read_csv("pairs.csv")  # columns text, foil, kind and file
    asset = gx.get_context(mode="ephemeral").data_sources.add_pandas("mine").add_dataframe_asset("pairs")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    print(batch.validate(suite).success)

No other part of caramel is needed. Each expectation, except the one on blind accuracy, is a condition on two columns
of a row, so that a failure names the rows. A row with a missing value in either column is skipped: other
expectations check for missing values. Texts are compared by their words in order: case, white space and punctuation
do not count.
"""

# Great Expectations has types, but following them takes mypy minutes: its classes are Any here.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnPairMapExpectation
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnPairMapMetricProvider,
    column_pair_condition_partial,
)

from caramel.gates.blind_expectation import ExpectBlindAccuracyToBeAtMost
from caramel.utils.arrays import factorize_texts, iter_texts
from caramel.utils.stats import wilson_interval
from caramel.utils.text import extract_words, is_word_character, normalise_text

__all__ = [
    "ExpectBlindAccuracyToBeAtMost",
    "ExpectCaptionToDifferFromItsNegative",
    "ExpectCaptionsToBeFormattedAlike",
    "ExpectImagesToDecode",
    "ExpectNegativeToChangeMoreThanWordOrder",
    "ExpectNoDuplicatePair",
    "ExpectNoImageInTwoSplits",
    "ExpectParaphraseToDifferFromCaption",
    "ExpectParaphraseToDifferFromItsCaption",
    "ExpectSubtypeShareToBeAtMost",
]

Number = float | dict[str, str]  # or {"$PARAMETER": name}, given when the suite runs
DOMAIN = ("column_A", "column_B", "row_condition", "condition_parser", "ignore_row_if")
IGNORE = "either_value_is_missing"
# The negatives of a caption follow each other: its words are extracted once for them.
_extract_caption_words = lru_cache(maxsize=1)(extract_words)


def describe_format(text: str) -> tuple[bool, str, bool]:
    """Return a text's form: (starts with a lower-case letter, final character, has irregular white space).

    The final character is "" if it belongs to a word.
    """
    end = text.rstrip()[-1:]
    return text.lstrip()[:1].islower(), "" if is_word_character(end) else end, text != " ".join(text.split())


def _evaluate_rows(column_A: pd.Series, column_B: pd.Series, holds: Callable[[str, str], bool]) -> pd.Series:
    """Return whether the condition holds, for each row; the words of one row are in memory at a time."""
    results = (holds(a, b) for a, b in zip(iter_texts(column_A), iter_texts(column_B), strict=True))
    return pd.Series(np.fromiter(results, bool, len(column_A)), index=column_A.index)


def _is_not_reordering(caption: str, negative: str) -> bool:
    """Return whether the negative is more than a reordering of the caption's words.

    Equal words in the same order also give True: another expectation checks for these.
    """
    a, b = _extract_caption_words(caption), extract_words(negative)
    return sorted(a) != sorted(b) or a == b


class _TextsDiffer(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_texts_differ"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return _evaluate_rows(column_A, column_B, lambda a, b: _extract_caption_words(a) != extract_words(b))


class _InOneSplit(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_in_one_split"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return column_B.groupby(column_A).transform("nunique") == 1


class _OtherWords(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_other_words"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return _evaluate_rows(column_A, column_B, _is_not_reordering)


class _StandsOnce(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_stands_once"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        # As numbers: all normalised texts would take a gigabyte for four million rows.
        numbers = {
            name: factorize_texts(map(lru_cache(maxsize=1)(normalise_text), iter_texts(column)))
            for name, column in (("a", column_A), ("b", column_B))
        }
        return ~pd.DataFrame(numbers, index=column_A.index).duplicated(keep=False)


class _FormattedAlike(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_formatted_alike"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return _evaluate_rows(column_A, column_B, lambda a, b: describe_format(a) == describe_format(b))


class _ShareAtMost(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_share_at_most"
    condition_value_keys = ("max_share",)

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, max_share: float, **_: Any) -> pd.Series:
        rows = pd.DataFrame({"split": column_A, "subtype": column_B})
        of_subtype = rows.groupby(["split", "subtype"])["subtype"].transform("size")
        of_split = rows.groupby("split")["subtype"].transform("size")
        low = wilson_interval((of_subtype / of_split).to_numpy(), of_split.to_numpy())[0]
        return pd.Series(low <= max_share, index=rows.index)


class _ImageDecodes(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_image_decodes"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return column_B.astype("bool")


class ExpectCaptionToDifferFromItsNegative(ColumnPairMapExpectation):
    """Expect caption and negative to differ in more than case, white space and punctuation.

    A negative with the same words as its caption is true of the image, so that the question has no right answer.
    """

    column_A: str = "caption"
    column_B: str = "negative_caption"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _TextsDiffer.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectNegativeToChangeMoreThanWordOrder(ColumnPairMapExpectation):
    """Expect a negative not to be its caption's words in another order.

    A swap only reorders words: exclude swaps with ``row_condition``. In other types a reordering shows that nothing
    was replaced or added. A negative with the same words in the same order passes here:
    ``expect_caption_to_differ_from_its_negative`` reports it.
    """

    column_A: str = "caption"
    column_B: str = "negative_caption"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _OtherWords.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectNoDuplicatePair(ColumnPairMapExpectation):
    """Expect no two rows with the same caption and the same negative, whether or not they share an image."""

    column_A: str = "caption"
    column_B: str = "negative_caption"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _StandsOnce.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectCaptionsToBeFormattedAlike(ColumnPairMapExpectation):
    """Expect caption and negative to have the same beginning, ending and spacing; see ``describe_format``.

    Otherwise the form of a text gives the answer away.
    """

    column_A: str = "caption"
    column_B: str = "negative_caption"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _FormattedAlike.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectParaphraseToDifferFromItsCaption(ColumnPairMapExpectation):
    """Expect caption and paraphrase to differ in more than case, white space and punctuation."""

    column_A: str = "caption"
    column_B: str = "caption2"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _TextsDiffer.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectParaphraseToDifferFromCaption(ExpectParaphraseToDifferFromItsCaption):
    """The same expectation under its former name, for suites that use it."""


class ExpectNoImageInTwoSplits(ColumnPairMapExpectation):
    """Expect each image to occur in only one split, over all rows of the table."""

    column_A: str = "image_id"
    column_B: str = "split"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _InOneSplit.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectSubtypeShareToBeAtMost(ColumnPairMapExpectation):
    """Expect no subtype to make up more than ``max_share`` of its split.

    The lower end of the share's 95 % interval is compared, because a handful of rows cannot be balanced.
    """

    column_A: str = "split"
    column_B: str = "subtype"
    max_share: Number
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _ShareAtMost.condition_metric_name
    success_keys: ClassVar[tuple[str, ...]] = ("max_share", "mostly")
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectImagesToDecode(ColumnPairMapExpectation):
    """Expect each image to decode, according to a column that was computed before.

    An expectation that decoded the images itself would decode them again whenever another expectation of its suite
    raises an error, since Great Expectations then starts over.
    """

    column_A: str = "image_id"
    column_B: str = "image_ok"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _ImageDecodes.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN
