"""Data frames that a caller hands over where a command reads files."""

from __future__ import annotations

import pandas as pd

from caramel.errors import DataError

FRAME = "The data frame"  # what messages call it


def select_named_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a frame that have a text for a name; rows keep their labels.

    Raises:
        DataError: it is no data frame, or has a column twice.
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"Rows must be a pandas DataFrame, not {type(frame).__name__}.")
    names = [name for name in frame.columns if isinstance(name, str)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{FRAME} has several columns {twice[0]!r}. Leave one.")
    return frame[names]
