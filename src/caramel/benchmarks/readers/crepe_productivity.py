"""CREPE productivity (Ma et al. 2023): ranks a caption among hard negatives as it grows more complex.

Complexity n is the number of atoms in the caption's scene graph, from 4 to 12. The types of negatives are:

- ``atom``: one atom replaced; five negatives
- ``swap``: atoms permuted; five negatives
- ``negate``: five negatives
- ``all_types``: the fifteen negatives of the captions that have all three types (appendix B.3). They come
  from the files' column ``combined``. If no file of a complexity has that column, they come from the rows
  with the same region and caption in all three files.

Subsets are a type, and a type at one complexity, such as ``swap/n7``. The paper reports recall at 1 by type
and complexity.

The released files have ``ROWS`` rows. For ``atom`` and ``swap`` this is a fifth of the hard negatives in
table 5 of the paper. For ``negate`` the table counts fewer than the files hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from caramel.benchmarks.crepe_files import (
    Query,
    Region,
    build_negative_rankings,
    list_release_files,
    read_regions,
)
from caramel.benchmarks.visual_genome import Box
from caramel.interfaces.benchmark import Benchmark, Rankings, Reject

TYPES = ("atom", "swap", "negate")
ALL_TYPES = "all_types"
COMPLEXITIES = range(4, 13)
ROWS = {  # rows of the released files, n = 4 to 12
    "atom": (1258, 1454, 1805, 2082, 2241, 1897, 2265, 1724, 2001),
    "swap": (27, 36, 262, 505, 991, 884, 1293, 1076, 1578),
    "negate": (1262, 1312, 1798, 2009, 2244, 1824, 2237, 1660, 1990),
}
FILES = {
    f"prod_vg_hard_negs_{negative_type}_complexity_{n}.csv": (negative_type, n)
    for negative_type in TYPES
    for n in COMPLEXITIES
}
_COUNTS = "\n".join(
    f"    {negative_type:7}{' '.join(f'{rows:5}' for rows in counts)}"
    for negative_type, counts in ROWS.items()
)
LAYOUT = f"""\
  crepe_productivity/atom/prod_vg_hard_negs_atom_complexity_4.csv … 12, and swap/…, negate/…
                                  from github.com/RAIVNLab/CREPE, data/prod_hard_negatives, as zip archives or unpacked
  IMAGES/VG_100K/2.jpg …          Visual Genome images (folders VG_100K and VG_100K_2)
  Rows of the released files, for complexity 4 to 12:
{_COUNTS}"""
Key = tuple[str, Box, str, int]


def read_crepe_productivity(data: Path, images: Path) -> Rankings:
    """Return the task of the files in ``data``, which may be fewer than 27.

    Raises:
        DataError: no file exists, or one is broken.
    """
    by_complexity: dict[int, dict[str, list[Region]]] = {}
    rejects: list[Reject] = []
    files = sorted(
        list_release_files(data, FILES.get, LAYOUT), key=lambda file: [*FILES.values()].index(file[0])
    )
    for (negative_type, n), path in files:
        rows = read_regions(path, {negative_type: "hard_negs"}, {ALL_TYPES: "combined"})
        by_complexity.setdefault(n, {})[negative_type] = rows.regions
        rejects += rows.rejects
    return build_negative_rankings(_iter_retrievals(by_complexity), images, rejects)


def _iter_retrievals(
    by_complexity: Mapping[int, Mapping[str, list[Region]]],
) -> Iterator[tuple[Region, list[Query]]]:
    for n, files in sorted(by_complexity.items()):
        for negative_type, rows in files.items():
            for region in rows:
                if negative_type in region.negatives:
                    name = f"{negative_type}/n{n}-{region.number}"
                    yield (
                        _select_negatives(region, negative_type),
                        [Query(name, [negative_type, f"{negative_type}/n{n}"], (negative_type,))],
                    )
        combined = _select_combined(files) or _merge_all_types(files)
        for number, region in enumerate(combined):
            types = tuple(region.negatives)
            yield region, [Query(f"{ALL_TYPES}/n{n}-{number}", [ALL_TYPES, f"{ALL_TYPES}/n{n}"], types)]


def _select_negatives(region: Region, negative_type: str) -> Region:
    return region._replace(negatives={negative_type: region.negatives[negative_type]})


def _select_combined(files: Mapping[str, list[Region]]) -> list[Region]:
    """Return each region and caption once whose negatives of all types are in the column ``combined``."""
    region_by_key: dict[Key, Region] = {}
    for rows in files.values():
        for key, region in zip(_build_keys(rows), rows, strict=True):
            if ALL_TYPES in region.negatives:
                region_by_key.setdefault(key, _select_negatives(region, ALL_TYPES))
    return list(region_by_key.values())


def _merge_all_types(files: Mapping[str, list[Region]]) -> list[Region]:
    """Return the regions and captions with negatives in the files of all types, with all these negatives."""
    known = [
        [region for region in files.get(negative_type, []) if negative_type in region.negatives]
        for negative_type in TYPES
    ]
    keyed = [dict(zip(_build_keys(rows), rows, strict=True)) for rows in known]
    return [
        first._replace(
            negatives={
                negative_type: rows[key].negatives[negative_type]
                for negative_type, rows in zip(TYPES, keyed, strict=True)
            }
        )
        for key, first in keyed[0].items()
        if all(key in rows for rows in keyed)
    ]


def _build_keys(rows: Sequence[Region]) -> list[Key]:
    """Return each row's key in other files: region, caption, and its number among rows that share both."""
    counts: Counter[tuple[str, Box, str]] = Counter()
    keys = []
    for row in rows:
        name = (row.image_id, row.box, row.caption)
        keys.append((*name, counts[name]))
        counts[name] += 1
    return keys


BENCHMARK = Benchmark(
    name="crepe_productivity",
    layout=LAYOUT,
    reader=read_crepe_productivity,
    metrics=("recall@1", "recall@3", "recall@5"),
    confirmed="RAIVNLab/CREPE: crepe_eval_utils.py, crepe_compo_eval_open_clip.py, crepe_prod_eval_clip.py "
    "(names of files and columns, crops, ranks, five negatives), tables 5, 6 and 12 to 14 of the paper, and rows of a "
    "public copy of the files (columns, lists and sets of negatives), which had no column combined. No code for all_types "
    "is published",
)
