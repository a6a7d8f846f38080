"""Which format a folder's data set has, seen from the names of its files."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from caramel.audit.files.columns import SUFFIXES, named_columns
from caramel.errors import DataError, shown
from caramel.io.readers import parquet
from caramel.io.zip_archive import zipped_files
from caramel.schemas.columns import SUBTYPES


class Sign(NamedTuple):
    """What tells a format.

    Attributes:
        patterns: of its files; one tells it.
        columns: that its Parquet files must have.
        zipped: whether its files may lie in zip archives.
    """

    patterns: tuple[str, ...]
    columns: tuple[str, ...] = ()
    zipped: bool = False


def _parts(*patterns: str) -> tuple[str, ...]:
    """Return the patterns in the folder itself and in its folder ``data``."""
    return tuple(f"{folder}{pattern}" for pattern in patterns for folder in ("", "data/"))


INSTANCES, TABLES, SUGARCREPE = "instances", "tables", "sugarcrepe"
SIGNS: Mapping[str, Sign] = {
    INSTANCES: Sign(("instances.parquet",)),
    TABLES: Sign(("negatives.parquet",)),
    SUGARCREPE: Sign(tuple(f"{subtype}.json" for subtype in SUBTYPES)),
    "bivlc": Sign(_parts("test-*.parquet", "test.jsonl"), ("negative_caption", "negative_image")),
    "winoground": Sign(_parts("test-*.parquet", "examples.jsonl"), ("caption_0", "caption_1")),
    "colorswap": Sign(_parts("test-*.parquet", "test.json"), ("caption_1", "caption_2")),
    "eqben": Sign(("all_select.json", "eqben_subset_10percent_final.json")),
    "cola": Sign(_parts("COLA_multiobjects_matching_benchmark.json")),
    "vismin": Sign(_parts("test-*.parquet", "0000.parquet"), ("image_0", "text_0", "text_1", "category")),
    "natural_bench": Sign(("metadata.json", "NaturalBench-Retrieval/metadata.json")),
    "natural_bench_questions": Sign(_parts("train-*.parquet"), ("Question_0", "Image_0_Question_0")),
    "crepe_systematicity": Sign(
        tuple(f"{folder}syst_vg_hard_negs_*_in_*.csv" for folder in ("", "*/")), zipped=True
    ),
    "crepe_productivity": Sign(
        tuple(f"{folder}prod_vg_hard_negs_*_complexity_*.csv" for folder in ("", "*/")), zipped=True
    ),
    "vg_relation": Sign(("visual_genome_relation.json",)),
    "vg_attribution": Sign(("visual_genome_attribution.json",)),
    "coco_order": Sign(("coco_order.json",)),
    "flickr30k_order": Sign(("flickr30k_order.json",)),
    "coco_retrieval": Sign(("dataset_coco.json", "coco_karpathy_test.json", "captions_val2017.json")),
    "flickr30k_retrieval": Sign(("dataset_flickr30k.json",)),
    "vl_checklist": Sign(("Attribute/*/*.json", "Object/*/*/*.json", "Relation/*.json", "Relation/*/*.json")),
    "svo_probes": Sign(("svo_probes.csv",)),
    "valse": Sign(
        tuple(
            f"{piece}.json"
            for piece in (
                "existence",
                "plurals",
                "counting-hard",
                "counting-small-quant",
                "counting-adversarial",
                "relations",
                "action-replacement",
                "actant-swap",
                "coreference-standard",
                "coreference-hard",
                "foil-it",
            )
        )
    ),
    "whatsup_a": Sign(("controlled_images_dataset.json",)),
    "whatsup_b": Sign(("controlled_clevr_dataset.json",)),
    "coco_spatial_one": Sign(("coco_qa_one_obj.json",)),
    "coco_spatial_two": Sign(("coco_qa_two_obj.json",)),
    "gqa_spatial_one": Sign(("vg_qa_one_obj.json",)),
    "gqa_spatial_two": Sign(("vg_qa_two_obj.json",)),
    "mmvp": Sign(("Questions.csv",)),
    "conme": Sign(("replace-att.csv", "replace-obj.csv", "replace-rel.csv")),
    "negbench_mcq": Sign(
        tuple(
            f"{folder}{name}.csv"
            for name in (
                "COCO_val_mcq_llama3.1_rephrased",
                "VOC2007_mcq_llama3.1_rephrased",
                "synthetic_mcq_llama3.1_rephrased",
                "chexpert_binary_mcq",
                "chexpert_binary_mcq_control",
            )
            for folder in ("", "images/")
        )
    ),
    "negbench_retrieval": Sign(
        tuple(
            f"{folder}{name}.csv"
            for name in (
                "COCO_val_retrieval",
                "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true",
                "synthetic_retrieval_v1",
                "synthetic_retrieval_v2",
            )
            for folder in ("", "images/")
        )
    ),
    "spec": Sign(
        _parts(
            *(
                f"{part}/image2text.json"
                for part in (
                    "absolute_size",
                    "relative_size",
                    "absolute_spatial",
                    "relative_spatial",
                    "existence",
                    "count",
                )
            )
        )
    ),
}
"""Format -> what it is known by. Retrieval from a folder of any CSV files and zero-shot classification are not
here: nothing tells them, and they have no hard negatives."""


def detected(folder: Path, name: str | None) -> str:
    """Return the format of a folder.

    Args:
        folder: of the data set.
        name: of the format, where there may be several.

    Raises:
        DataError: there is none (the message lists what was looked for), not the named one, or several.
    """
    if name is not None and name not in SIGNS:
        raise DataError(f"There is no format {name!r}. Formats: {', '.join(SIGNS)}.")
    formats = [one for one in SIGNS if _has(folder, SIGNS[one])]
    if name is not None and name not in formats:
        raise DataError(f"{str(folder)!r} holds no {name}. Looked for: {_described(SIGNS[name])}.")
    if not formats:
        raise DataError(f"{str(folder)!r} holds no data set of a known format.\n{looked_for()}")
    if name is None and len(formats) > 1:
        raise DataError(
            f"{str(folder)!r} holds data sets of several formats: {', '.join(formats)}. Say which one with "
            f"--format, or put each into a folder of its own."
        )
    return name or formats[0]


def _has(folder: Path, sign: Sign) -> bool:
    for pattern in sign.patterns:
        file = min(folder.glob(pattern), default=None)
        if file is not None and (file.suffix != ".parquet" or {*sign.columns} <= _parquet_columns(file)):
            return True
    return sign.zipped and any(
        fnmatch(name, pattern) for pattern in sign.patterns for name in zipped_files(folder)
    )


def _parquet_columns(path: Path) -> set[str]:
    with parquet(path) as file:
        return {*file.schema_arrow.names}


def looked_for() -> str:
    """Return what a data set is known by, for messages."""
    lines = [f"{name}: {_described(sign)}" for name, sign in SIGNS.items()]
    return (
        f"Looked for, in a folder:\n{shown(lines, len(lines))}\n"
        f"Or give one file ({', '.join(SUFFIXES)}) with named columns: {named_columns()}."
    )


def _described(sign: Sign) -> str:
    columns = f" (Parquet with columns {', '.join(sign.columns)})" if sign.columns else ""
    return f"{', '.join(sign.patterns)}{columns}"
