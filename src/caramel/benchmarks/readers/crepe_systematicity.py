"""CREPE systematicity (Ma et al. 2023): ranks captions whose compounds were seen, or not seen, in training.

A caption is ranked among its hard negatives. A model is evaluated on the files for its own training data. The
splits are:

    sc   seen compounds: all compounds of the caption occur in the training data
    uc   unseen compounds: all atoms occur, but at least one compound does not
    ua   unseen atoms: at least one atom does not occur. The authors made no hard negatives for these;
         `caramel crepe` does

Training data may have any name. A subset is training data, split and type of the negatives, such as
``laion/uc/atom``. The types are ``atom`` (4 negatives, one atom replaced), ``comp`` (6, two false compounds
joined) and ``both`` (10). Average recall is the mean of recall at 1 and 3, as in tables 9 to 11.

The authors rank with ``torch.argsort``, which leaves the order of ties undefined. Here a tie is a miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from caramel.benchmarks.crepe_files import (
    ParsedRegions,
    Query,
    Region,
    build_negative_rankings,
    list_release_files,
    read_regions,
)
from caramel.interfaces.benchmark import Benchmark, Rankings

LAYOUT = """\
  crepe_systematicity/syst_vg_hard_negs_seen_compounds_in_laion.csv …
                                  from github.com/RAIVNLab/CREPE, data/syst_hard_negatives, as zip archives or
                                  unpacked; also unseen_compounds and cc12m, yfcc: at least the files of the data
                                  that the model was trained on
  IMAGES/VG_100K/2.jpg …          Visual Genome images (folders VG_100K and VG_100K_2)"""
TRAINING = ("cc12m", "yfcc", "laion")
SPLITS = {"sc": "seen_compounds", "uc": "unseen_compounds", "ua": "unseen_atoms"}
NEGATIVES = {"atom": "valid_hard_negs_atom", "comp": "valid_hard_negs_comp"}
SETS = {"atom": ("atom",), "comp": ("comp",), "both": ("atom", "comp")}
NAME = re.compile(rf"syst_vg_hard_negs_({'|'.join(SPLITS.values())})_in_([\w-]+)\.csv")


def read_crepe_systematicity(data: Path, images: Path) -> Rankings:
    """Return the task of the files in ``data``: any of the authors' six, and the user's own files.

    Raises:
        DataError: no file exists, or one is broken.
    """
    files = sorted(list_release_files(data, _parse_split, LAYOUT), key=lambda file: _get_sort_key(file[0]))
    by_split = {split: read_regions(path, NEGATIVES) for split, path in files}
    rejects = [reject for rows in by_split.values() for reject in rows.rejects]
    return build_negative_rankings(_iter_retrievals(by_split), images, rejects)


def _parse_split(name: str) -> str | None:
    """Return training data and split of a file, such as ``laion/uc``, from its name."""
    match = NAME.fullmatch(name)
    splits = {name: split for split, name in SPLITS.items()}
    return f"{match[2]}/{splits[match[1]]}" if match else None


def _get_sort_key(split: str) -> tuple[int, str, int]:
    """Return the sort key of a file, which puts the authors' three training sets first."""
    data, _, part = split.partition("/")
    rank = TRAINING.index(data) if data in TRAINING else len(TRAINING)
    return rank, data, [*SPLITS].index(part)


def _iter_retrievals(by_split: Mapping[str, ParsedRegions]) -> Iterator[tuple[Region, list[Query]]]:
    for split, rows in by_split.items():
        for region in rows.regions:
            yield (
                region,
                [
                    Query(f"{split}/{negative_type}-{region.number}", [f"{split}/{negative_type}"], types)
                    for negative_type, types in SETS.items()
                    if region.negatives.keys() >= set(types)
                ],
            )


BENCHMARK = Benchmark(
    name="crepe_systematicity",
    layout=LAYOUT,
    reader=read_crepe_systematicity,
    metrics=("recall@1", "recall@3", "recall@5", "avg_recall"),
    confirmed="RAIVNLab/CREPE: crepe_eval_utils.py, crepe_compo_eval_open_clip.py, evaluate/data.py (names of "
    "files and columns, crops, ranks), a row in the README of the EvALign-ICL project, and tables 5, 6 and 9 "
    "to 11 of the paper; the published files themselves were not available",
)
