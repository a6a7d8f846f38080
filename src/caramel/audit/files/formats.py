"""Detect the format of the data set in a folder from the names of its files."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from caramel.audit.files.columns import SUFFIXES, describe_columns
from caramel.errors import DataError, format_items
from caramel.io.readers import open_parquet
from caramel.io.zip_archive import list_zipped_files
from caramel.schemas.columns import SUBTYPES


class FormatSignature(NamedTuple):
    """How a format is recognised.

    Attributes:
        patterns: patterns of its files; one matching file is enough.
        columns: columns that its Parquet files must have.
        zipped: whether its files may be in zip archives.
    """

    patterns: tuple[str, ...]
    columns: tuple[str, ...] = ()
    zipped: bool = False


def _expand_patterns(*patterns: str) -> tuple[str, ...]:
    """Return the patterns in the folder itself and in its folder ``data``."""
    return tuple(f"{folder}{pattern}" for pattern in patterns for folder in ("", "data/"))


INSTANCES_FORMAT, TABLES_FORMAT, SUGARCREPE_FORMAT = "instances", "tables", "sugarcrepe"
FORMAT_SIGNATURES: Mapping[str, FormatSignature] = {
    INSTANCES_FORMAT: FormatSignature(("instances.parquet",)),
    TABLES_FORMAT: FormatSignature(("negatives.parquet",)),
    SUGARCREPE_FORMAT: FormatSignature(tuple(f"{subtype}.json" for subtype in SUBTYPES)),
    "bivlc": FormatSignature(
        _expand_patterns("test-*.parquet", "test.jsonl"), ("negative_caption", "negative_image")
    ),
    "winoground": FormatSignature(
        _expand_patterns("test-*.parquet", "examples.jsonl"), ("caption_0", "caption_1")
    ),
    "colorswap": FormatSignature(_expand_patterns("test-*.parquet", "test.json"), ("caption_1", "caption_2")),
    "eqben": FormatSignature(("all_select.json", "eqben_subset_10percent_final.json")),
    "cola": FormatSignature(_expand_patterns("COLA_multiobjects_matching_benchmark.json")),
    "vismin": FormatSignature(
        _expand_patterns("test-*.parquet", "0000.parquet"), ("image_0", "text_0", "text_1", "category")
    ),
    "natural_bench": FormatSignature(("metadata.json", "NaturalBench-Retrieval/metadata.json")),
    "natural_bench_questions": FormatSignature(
        _expand_patterns("train-*.parquet"), ("Question_0", "Image_0_Question_0")
    ),
    "crepe_systematicity": FormatSignature(
        tuple(f"{folder}syst_vg_hard_negs_*_in_*.csv" for folder in ("", "*/")), zipped=True
    ),
    "crepe_productivity": FormatSignature(
        tuple(f"{folder}prod_vg_hard_negs_*_complexity_*.csv" for folder in ("", "*/")), zipped=True
    ),
    "vg_relation": FormatSignature(("visual_genome_relation.json",)),
    "vg_attribution": FormatSignature(("visual_genome_attribution.json",)),
    "coco_order": FormatSignature(("coco_order.json",)),
    "flickr30k_order": FormatSignature(("flickr30k_order.json",)),
    "coco_retrieval": FormatSignature(
        ("dataset_coco.json", "coco_karpathy_test.json", "captions_val2017.json")
    ),
    "flickr30k_retrieval": FormatSignature(("dataset_flickr30k.json",)),
    "vl_checklist": FormatSignature(
        ("Attribute/*/*.json", "Object/*/*/*.json", "Relation/*.json", "Relation/*/*.json")
    ),
    "svo_probes": FormatSignature(("svo_probes.csv",)),
    "valse": FormatSignature(
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
    "whatsup_a": FormatSignature(("controlled_images_dataset.json",)),
    "whatsup_b": FormatSignature(("controlled_clevr_dataset.json",)),
    "coco_spatial_one": FormatSignature(("coco_qa_one_obj.json",)),
    "coco_spatial_two": FormatSignature(("coco_qa_two_obj.json",)),
    "gqa_spatial_one": FormatSignature(("vg_qa_one_obj.json",)),
    "gqa_spatial_two": FormatSignature(("vg_qa_two_obj.json",)),
    "mmvp": FormatSignature(("Questions.csv",)),
    "conme": FormatSignature(("replace-att.csv", "replace-obj.csv", "replace-rel.csv")),
    "negbench_mcq": FormatSignature(
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
    "negbench_retrieval": FormatSignature(
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
    "spec": FormatSignature(
        _expand_patterns(
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
"""Format -> its signature. Retrieval from a folder of arbitrary CSV files and zero-shot classification are not here:
they have no recognisable files and no hard negatives."""


def detect_format(folder: Path, name: str | None) -> str:
    """Return the format of a folder.

    Args:
        folder: folder of the data set.
        name: name of the format, if the folder may hold several.

    Raises:
        DataError: the folder holds no known format (the message lists the formats), not the named format, or
            several formats.
    """
    if name is not None and name not in FORMAT_SIGNATURES:
        raise DataError(f"There is no format {name!r}. Formats: {', '.join(FORMAT_SIGNATURES)}.")
    formats = [one for one in FORMAT_SIGNATURES if _has_format(folder, FORMAT_SIGNATURES[one])]
    if name is not None and name not in formats:
        raise DataError(
            f"{str(folder)!r} holds no {name}. Looked for: {_describe_signature(FORMAT_SIGNATURES[name])}."
        )
    if not formats:
        raise DataError(f"{str(folder)!r} holds no data set of a known format.\n{describe_formats()}")
    if name is None and len(formats) > 1:
        raise DataError(
            f"{str(folder)!r} holds data sets of several formats: {', '.join(formats)}. Choose one with --format, or "
            f"put each data set into its own folder."
        )
    return name or formats[0]


def _has_format(folder: Path, sign: FormatSignature) -> bool:
    for pattern in sign.patterns:
        file = min(folder.glob(pattern), default=None)
        if file is not None and (file.suffix != ".parquet" or {*sign.columns} <= _read_parquet_columns(file)):
            return True
    return sign.zipped and any(
        fnmatch(name, pattern) for pattern in sign.patterns for name in list_zipped_files(folder)
    )


def _read_parquet_columns(path: Path) -> set[str]:
    with open_parquet(path) as file:
        return {*file.schema_arrow.names}


def describe_formats() -> str:
    """Return how a data set is recognised, for messages."""
    lines = [f"{name}: {_describe_signature(sign)}" for name, sign in FORMAT_SIGNATURES.items()]
    return (
        f"Looked for, in a folder:\n{format_items(lines, len(lines))}\n"
        f"Or give one file ({', '.join(SUFFIXES)}) with named columns: {describe_columns()}."
    )


def _describe_signature(sign: FormatSignature) -> str:
    columns = f" (Parquet with columns {', '.join(sign.columns)})" if sign.columns else ""
    return f"{', '.join(sign.patterns)}{columns}"
