"""Check data frames that a caller passes where a command reads files."""

from __future__ import annotations

import pandas as pd

from caramel.errors import DataError

FRAME = "The data frame"  # its name in messages


def select_named_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a frame whose names are texts. Rows keep their labels.

    Raises:
        DataError: it is not a data frame, or has duplicate column names.
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"Rows must be a pandas DataFrame, not {type(frame).__name__}.")
    names = [name for name in frame.columns if isinstance(name, str)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{FRAME} has several columns {twice[0]!r}. Keep only one.")
    return frame[names]
