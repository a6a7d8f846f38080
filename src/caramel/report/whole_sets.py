"""Check whether figures cover a whole benchmark, because published figures do and can only be compared with such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import pandas as pd

Part = tuple[str, str, int, int]  # benchmark, subset, scored instances, instances of the release
LISTED = 3  # subsets listed in a line


def read_published_sizes() -> Mapping[tuple[str, str], int]:
    """Return the number of instances of each (benchmark, subset) with published figures, if they are released."""
    path = files("caramel.report") / "published_sizes.csv"
    with path.open("r", encoding="utf-8") as file:
        rows = pd.read_csv(file)
    return {(b, s): int(n) for b, s, n in zip(rows["benchmark"], rows["subset"], rows["n"], strict=True)}


def find_partial_subsets(rows: pd.DataFrame) -> list[Part]:
    """Return the subsets whose scored instances are not those of the release, in the order of the rows.

    Args:
        rows: benchmark, subset and n of figures.
    """
    sizes = read_published_sizes()
    scored = rows[["benchmark", "subset", "n"]].drop_duplicates().itertuples(index=False, name=None)
    return [
        (benchmark, subset, int(n), size)
        for benchmark, subset, n in scored
        if (size := sizes.get((benchmark, subset))) is not None and n != size
    ]


def format_partial_subsets(parts: Sequence[Part]) -> list[str]:
    """Return a line for each benchmark that was scored in part; nothing if all are complete."""
    by_benchmark: dict[str, list[Part]] = {}
    for part in parts:
        by_benchmark.setdefault(part[0], []).append(part)
    return [
        f"Not the released {benchmark}: {_list_sizes(of_it)}. Published figures are of the whole set and cannot be "
        f"compared."
        for benchmark, of_it in by_benchmark.items()
    ]


def _list_sizes(parts: Sequence[Part]) -> str:
    named = [part for part in parts if part[1] == "all"] or parts
    sizes = [
        f"{subset} has {n:,} of {size:,} instances"
        if n < size
        else f"{subset} has {n:,} instances, {n - size:,} more than were released"
        for _, subset, n, size in named[:LISTED]
    ]
    return "; ".join(sizes) + (f"; and {len(named) - LISTED} more" if len(named) > LISTED else "")
