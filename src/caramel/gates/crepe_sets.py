"""Check the files of CREPE's sets with a Great Expectations suite: ``expectations/crepe_examples.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from caramel.benchmarks.crepe_files import read_regions
from caramel.crepe import productivity, systematicity
from caramel.errors import DataError
from caramel.gates.suite_summaries import SuiteSummary
from caramel.gates.suites import validate_table

COLUMNS = (
    "example_id", "type", "image_id", "width", "height", "caption", "negative", "n_negatives", "n_wanted", "n_examples"
)  # fmt: skip
# Column of a file -> (type of hard negative, number in each example). Productivity has one type per folder.
_NEGATIVES = {
    systematicity.ATOM: ("atom", systematicity.NUMBERS[systematicity.ATOM]),
    systematicity.COMP: ("comp", systematicity.NUMBERS[systematicity.COMP]),
}


def build_example_table(folder: Path) -> pd.DataFrame:
    """Return a row per hard negative of a set's files.

    ``n_negatives`` counts the example's different negatives of a type other than its caption, ``n_wanted`` is their
    published number, and ``n_examples`` the number of examples of the set.

    Raises:
        DataError: a file is broken or has no row, or a cell has no hard negatives.
    """
    rows: list[tuple[object, ...]] = []
    names = set()
    for path in sorted([*folder.glob("syst_*.csv"), *folder.glob("*/prod_*.csv")]):
        is_systematicity = path.parent == folder
        negatives = (
            {column: column for column in _NEGATIVES}
            if is_systematicity
            else {productivity.COLUMN: productivity.COLUMN}
        )
        regions, rejects = read_regions(path, negatives)
        if rejects:
            location, reason, text = rejects[0]
            raise DataError(
                f"Cells without usable hard negatives: {len(rejects)}. The first is {location}: {reason}, {text}. "
                f"Make the set again with `caramel crepe`."
            )
        for region in regions:
            name = f"{path.relative_to(folder).as_posix()}:{region.number}"
            names.add(name)
            for column, texts in region.negatives.items():
                negative_type, number = _NEGATIVES.get(column, (path.parent.name, productivity.NUMBER))
                different = len(set(texts) - {region.caption})
                head = (name, negative_type, region.image_id, *region.box[2:], region.caption)
                rows += [(*head, text, different, number) for text in texts]
    return pd.DataFrame([(*row, len(names)) for row in rows], columns=list(COLUMNS))


def validate_crepe_sets(
    sets: Mapping[str, Path], *, min_examples: int, folder: Path, docs_folder: Path
) -> list[SuiteSummary]:
    """Return the summary of each set, if none fails.

    Args:
        sets: name -> folder of a set.
        min_examples: fewest examples of a set.
        folder: folder of the suite.
        docs_folder: folder of the data docs, one folder per set.

    Raises:
        DataError: a file or the suite is broken.
        GateError: a set fails.
    """
    summaries = []
    for name, path in sets.items():
        summary = validate_table(
            build_example_table(path),
            folder / "crepe_examples.json",
            docs_folder=docs_folder / name,
            parameters={"min_examples": min_examples},
        )
        summaries.append(replace(summary, suite=f"{summary.suite} of {name}"))
    return summaries
