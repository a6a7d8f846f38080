"""What a backend that writes captions returns."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd


class Written(NamedTuple):
    """Hard negatives, paraphrases, and what could not be made, each keeping its contract."""

    negatives: pd.DataFrame
    paraphrases: pd.DataFrame
    rejects: pd.DataFrame
