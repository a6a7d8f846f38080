"""CREPE productivity (Ma et al. 2023): is a caption found among hard negatives as it grows more complex?

Complexity n is the number of atoms in the caption's scene graph, 4 to 12. The types of negatives are ``atom``
(one atom replaced), ``swap`` (atoms permuted) and ``negate``, five of each, and ``all_types``: the fifteen of
the captions that have all three (appendix B.3), as the column ``combined`` of the files gives them, or where no file
of a complexity has it, of the rows with the same region and caption in all three files. Subsets are a type, and a type at one complexity, such as
``swap/n7``. The paper reports recall at 1 by type and complexity.

The released files have ``ROWS`` rows. For ``atom`` and ``swap`` these are a fifth of the hard negatives that table 5 of the
paper counts; of ``negate`` it counts fewer than the files hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from caramel.benchmarks.crepe_files import Query, Region, among_negatives, regions, released_files
from caramel.benchmarks.visual_genome import Box
from caramel.interfaces.benchmark import Benchmark, Rankings, Reject

TYPES = ("atom", "swap", "negate")
TOGETHER = "all_types"
COMPLEXITIES = range(4, 13)
ROWS = {  # of the released files, n = 4 to 12
    "atom": (1258, 1454, 1805, 2082, 2241, 1897, 2265, 1724, 2001),
    "swap": (27, 36, 262, 505, 991, 884, 1293, 1076, 1578),
    "negate": (1262, 1312, 1798, 2009, 2244, 1824, 2237, 1660, 1990),
}
FILES = {f"prod_vg_hard_negs_{kind}_complexity_{n}.csv": (kind, n) for kind in TYPES for n in COMPLEXITIES}
_COUNTS = "\n".join(
    f"    {kind:7}{' '.join(f'{rows:5}' for rows in counts)}" for kind, counts in ROWS.items()
)
LAYOUT = f"""\
  crepe_productivity/atom/prod_vg_hard_negs_atom_complexity_4.csv … 12, and swap/…, negate/…
                                  from github.com/RAIVNLab/CREPE, data/prod_hard_negatives, as zip archives or unpacked
  IMAGES/VG_100K/2.jpg …          Visual Genome images (folders VG_100K and VG_100K_2)
  The released files have so many rows, for complexity 4 to 12:
{_COUNTS}"""
Key = tuple[str, Box, str, int]


def read_crepe_productivity(data: Path, images: Path) -> Rankings:
    """Return the task of the files in ``data``; there may be fewer than 27.

    Raises:
        DataError: there is none, or one is broken.
    """
    read: dict[int, dict[str, list[Region]]] = {}
    rejects: list[Reject] = []
    files = sorted(released_files(data, FILES.get, LAYOUT), key=lambda file: [*FILES.values()].index(file[0]))
    for (kind, n), path in files:
        rows = regions(path, {kind: "hard_negs"}, {TOGETHER: "combined"})
        read.setdefault(n, {})[kind] = rows.kept
        rejects += rows.rejects
    return among_negatives(_retrievals(read), images, rejects)


def _retrievals(read: Mapping[int, Mapping[str, list[Region]]]) -> Iterator[tuple[Region, list[Query]]]:
    for n, files in sorted(read.items()):
        for kind, rows in files.items():
            for shown in rows:
                if kind in shown.negatives:
                    name = f"{kind}/n{n}-{shown.number}"
                    yield _only(shown, kind), [Query(name, [kind, f"{kind}/n{n}"], (kind,))]
        together = _combined(files) or _together(files)
        for number, shown in enumerate(together):
            types = tuple(shown.negatives)
            yield shown, [Query(f"{TOGETHER}/n{n}-{number}", [TOGETHER, f"{TOGETHER}/n{n}"], types)]


def _only(shown: Region, kind: str) -> Region:
    return shown._replace(negatives={kind: shown.negatives[kind]})


def _combined(files: Mapping[str, list[Region]]) -> list[Region]:
    """Return the regions and captions whose negatives of all types stand in a column of their own, each once."""
    found: dict[Key, Region] = {}
    for rows in files.values():
        for key, shown in zip(_keys(rows), rows, strict=True):
            if TOGETHER in shown.negatives:
                found.setdefault(key, _only(shown, TOGETHER))
    return list(found.values())


def _together(files: Mapping[str, list[Region]]) -> list[Region]:
    """Return the regions and captions that have negatives of all types, each in the file of its type, with all of them."""
    known = [[shown for shown in files.get(kind, []) if kind in shown.negatives] for kind in TYPES]
    keyed = [dict(zip(_keys(rows), rows, strict=True)) for rows in known]
    return [
        first._replace(
            negatives={kind: rows[key].negatives[kind] for kind, rows in zip(TYPES, keyed, strict=True)}
        )
        for key, first in keyed[0].items()
        if all(key in rows for rows in keyed)
    ]


def _keys(rows: Sequence[Region]) -> list[Key]:
    """Return what a row is recognised by in other files: its region, its caption, and which such row it is."""
    seen: Counter[tuple[str, Box, str]] = Counter()
    keys = []
    for row in rows:
        name = (row.image_id, row.box, row.caption)
        keys.append((*name, seen[name]))
        seen[name] += 1
    return keys


BENCHMARK = Benchmark(
    name="crepe_productivity",
    layout=LAYOUT,
    reader=read_crepe_productivity,
    metrics=("recall@1", "recall@3", "recall@5"),
    confirmed="RAIVNLab/CREPE: crepe_eval_utils.py, crepe_compo_eval_open_clip.py, crepe_prod_eval_clip.py "
    "(names of files and columns, crops, ranks, five negatives), tables 5, 6 and 12 to 14 of the paper, and rows of a "
    "public copy of the files (columns, lists and sets of negatives), which had no column combined; no code of all_types "
    "is published",
)
