"""What a source of pairs returns."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd


class Source(NamedTuple):
    """Images, pairs, and what had to be left out, each keeping its contract."""

    images: pd.DataFrame
    pairs: pd.DataFrame
    rejects: pd.DataFrame
