"""Expectations on captions, splits, blind accuracy and images, for any Great Expectations suite.

Import this module and its expectations can be used by name in any suite over a pandas frame:

    import caramel.quality.expectations
    {"type": "expect_caption_to_differ_from_its_negative", "kwargs": {"column_A": "caption", …}}

Each is a condition on two columns of a row, so that a failure names the rows. A row with a
missing value in either column is left out: emptiness is for other expectations.
"""

# Great Expectations has types, but following them takes mypy minutes: its classes are Any here.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnPairMapExpectation
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnPairMapMetricProvider,
    column_pair_condition_partial,
)

from caramel.quality.blind import words_only
from caramel.quality.intervals import wilson

Number = float | dict[str, str]  # or {"$PARAMETER": name}, given when the suite runs
DOMAIN = ("column_A", "column_B", "row_condition", "condition_parser", "ignore_row_if")
IGNORE = "either_value_is_missing"


class _TextsDiffer(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_texts_differ"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return column_A.map(words_only) != column_B.map(words_only)


class _InOneSplit(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_in_one_split"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return column_B.groupby(column_A).transform("nunique") == 1


class _AtMostChance(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_at_most_chance"
    condition_value_keys = ("tolerance",)

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, tolerance: float, **_: Any) -> pd.Series:
        return column_B <= 0.5 + tolerance


class _ShareAtMost(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_share_at_most"
    condition_value_keys = ("max_share",)

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, max_share: float, **_: Any) -> pd.Series:
        rows = pd.DataFrame({"split": column_A, "subtype": column_B})
        of_subtype = rows.groupby(["split", "subtype"])["subtype"].transform("size")
        of_split = rows.groupby("split")["subtype"].transform("size")
        low = [wilson(hits, n)[0] for hits, n in zip(of_subtype, of_split, strict=True)]
        return pd.Series(low, index=rows.index, dtype="float64") <= max_share


class _ImageDecodes(ColumnPairMapMetricProvider):
    condition_metric_name = "column_pair_values.caramel_image_decodes"

    @column_pair_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_A: pd.Series, column_B: pd.Series, **_: Any) -> pd.Series:
        return column_B.astype("bool")


class ExpectCaptionToDifferFromItsNegative(ColumnPairMapExpectation):
    """Expect caption and negative to differ in more than case, white space and punctuation.

    A negative that says the same as its caption is true of the image: no answer is right.
    """

    column_A: str = "caption"
    column_B: str = "negative_caption"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _TextsDiffer.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectParaphraseToDifferFromCaption(ColumnPairMapExpectation):
    """Expect caption and paraphrase to differ in more than case, white space and punctuation."""

    column_A: str = "caption"
    column_B: str = "caption2"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _TextsDiffer.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectNoImageInTwoSplits(ColumnPairMapExpectation):
    """Expect each image to stand in one split only, over all rows of the table."""

    column_A: str = "image_id"
    column_B: str = "split"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _InOneSplit.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectBlindAccuracyToBeAtMost(ColumnPairMapExpectation):
    """Expect no blind scorer to be surely better than chance by more than ``tolerance``.

    One row per scorer. It fails where the lower end of the 95 % interval of its accuracy is
    above 0.5 + tolerance, so that few rows alone never fail it.
    """

    column_A: str = "scorer"
    column_B: str = "ci_low"
    tolerance: Number
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _AtMostChance.condition_metric_name
    success_keys: ClassVar[tuple[str, ...]] = ("tolerance", "mostly")
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectSubtypeShareToBeAtMost(ColumnPairMapExpectation):
    """Expect no subtype to make up more than ``max_share`` of its split.

    Judged by the lower end of the share's 95 % interval: a handful of rows cannot be balanced.
    """

    column_A: str = "split"
    column_B: str = "subtype"
    max_share: Number
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _ShareAtMost.condition_metric_name
    success_keys: ClassVar[tuple[str, ...]] = ("max_share", "mostly")
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN


class ExpectImagesToDecode(ColumnPairMapExpectation):
    """Expect each image to be one that can be opened, by a column that was computed before.

    An expectation that decoded the images itself would decode them again whenever another
    expectation of its suite errs, as Great Expectations then starts over.
    """

    column_A: str = "image_id"
    column_B: str = "image_ok"
    ignore_row_if: str = IGNORE
    map_metric: ClassVar[str] = _ImageDecodes.condition_metric_name
    domain_keys: ClassVar[tuple[str, ...]] = DOMAIN
