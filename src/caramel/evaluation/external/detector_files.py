"""Compute outcomes per instance from the probabilities of synthetic-item detectors.

The files are those of BiVLC (Miranda et al. 2024, 5.3 and E). A row is an item:

- ``text_pred`` and ``img_pred`` are the probabilities that its caption and its image are synthetic. Files on
  captions alone (SugarCrepe) have no ``img_pred``.
- ``label`` is the true class: 0 natural (the positive), 1 synthetic (the negative).

The k-th natural row and the k-th synthetic row form an instance.

A detector prefers the item that it finds less synthetic. It answers a query only if it classifies the query itself
correctly: an image finds its caption if the image is classified correctly and the natural caption is the less
synthetic one. The metrics therefore have the names of the retrieval metrics, and show how much of retrieval such
artifacts solve. ``text_detected`` and ``image_detected`` are the shares of an instance's two captions and two
images that are classified correctly.

Confirmed in github.com/IMirandaM/BiVLC: src/Detectors/Detector_evaluation_BiVLC.py,
Detector_evaluation_SugarCrepe.py and the first rows of the CSV files in src/Detectors/results. There a probability
of one half counts as natural; here it is a tie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.metrics import Outcomes
from caramel.errors import DataError
from caramel.evaluation.results.result_rows import number_or_nan
from caramel.io.validators import format_value
from caramel.utils.arrays import Floats

TEXT, IMAGE, LABEL = "text_pred", "img_pred", "label"
COLUMNS = (TEXT, IMAGE, LABEL)
HALF = np.float64(0.5)
Test = tuple[Floats, Floats]  # the first must be less than the second
Metrics = dict[str, Sequence[Test]]  # name -> tests that must all hold


def is_detections(columns: Sequence[str]) -> bool:
    """Return whether a file with these columns comes from a detector."""
    return TEXT in columns and LABEL in columns


def compute_detector_outcomes(
    rows: pd.DataFrame, locations: Sequence[str], where: str
) -> tuple[Outcomes, npt.NDArray[np.int64]]:
    """Return the outcomes of the n instances, and the positions of their natural rows, (n,).

    Args:
        rows: ``COLUMNS``, or all but ``img_pred``.
        locations: location of each row, for messages.
        where: source of the rows, for messages.

    Raises:
        DataError: a label or a probability is invalid, or one class has more rows than the other.
    """
    labels = _read_numbers(rows[LABEL], locations, "class. 0 is natural, 1 is synthetic")
    odd = np.flatnonzero(~np.isin(labels, (0, 1)))
    if len(odd):
        at = int(odd[0])
        raise DataError(
            f"{locations[at]}: {format_value(rows[LABEL].iloc[at])} in column {LABEL!r} is not a class. "
            f"0 is natural, 1 is synthetic."
        )
    natural, synthetic = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    if len(natural) != len(synthetic):
        raise DataError(
            f"{where} has unequal numbers of natural rows ({len(natural)}) and synthetic rows ({len(synthetic)}) "
            f"in column {LABEL!r}. An instance has one of each. Download the file again."
        )
    chances = {
        name: _read_probabilities(rows[name], locations) for name in (TEXT, IMAGE) if name in rows.columns
    }
    pairs = {name: (column[natural], column[synthetic]) for name, column in chances.items()}
    hits, ties = {}, {}
    for name, tests in _build_tests(pairs).items():
        hits[name], ties[name] = _compute_hits(tests)
    for name, (first, second) in pairs.items():
        known = ~np.isnan(first + second)
        right = ((first < HALF).astype(float) + (second > HALF)) / 2
        metric = "text_detected" if name == TEXT else "image_detected"
        hits[metric] = np.where(known, right, np.nan)
        ties[metric] = known & ((first == HALF) | (second == HALF))
    return Outcomes(pd.DataFrame(hits), pd.DataFrame(ties)), natural.astype(np.int64)


def _build_tests(pairs: dict[str, Test]) -> Metrics:
    """Return the tests of each metric on the probabilities of each modality, (natural, synthetic)."""
    text = pairs[TEXT]
    if IMAGE not in pairs:
        return {"accuracy": [text]}
    image, half = pairs[IMAGE], np.full(len(text[0]), HALF)
    tests: Metrics = {
        "i_pos2t": [(image[0], half), text],
        "i_neg2t": [(half, image[1]), text],
        "t_pos2i": [(text[0], half), image],
        "t_neg2i": [(half, text[1]), image],
    }
    tests["i2t"] = [*tests["i_pos2t"], *tests["i_neg2t"]]
    tests["t2i"] = [*tests["t_pos2i"], *tests["t_neg2i"]]
    return tests | {"group": [*tests["i2t"], *tests["t2i"]]}


def _compute_hits(tests: Sequence[Test]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return hits, (n,), with NaN where a probability is missing, and ties, (n,)."""
    known = ~np.any([np.isnan(less + more) for less, more in tests], axis=0)
    hit = np.all([less < more for less, more in tests], axis=0)
    tie = np.any([less == more for less, more in tests], axis=0)
    return np.where(known, hit.astype(float), np.nan), tie & known


def _read_probabilities(column: pd.Series, locations: Sequence[str]) -> Floats:
    probabilities = _read_numbers(column, locations, "probability")
    odd = np.flatnonzero((probabilities < 0) | (probabilities > 1))
    if len(odd):
        at = int(odd[0])
        raise DataError(
            f"{locations[at]}: {format_value(column.iloc[at])} in column {column.name!r} is not a probability "
            f"in [0, 1]."
        )
    return probabilities


def _read_numbers(column: pd.Series, locations: Sequence[str], expected: str) -> Floats:
    """Return the values as numbers, NaN where empty; ``expected`` describes a valid value in the error message."""
    numbers = [number_or_nan(value) for value in column]
    for number, value, where in zip(numbers, column, locations, strict=True):
        if number is None:
            raise DataError(f"{where}: {format_value(value)} in column {column.name!r} is not a {expected}.")
    return np.array(numbers, np.float64)
