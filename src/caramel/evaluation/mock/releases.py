"""Releases of one or two rows of all benchmarks whose images are files, in their published formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DOG, CAT = "A dog on a mat.", "A cat on a mat."
VG = {"x": 0, "y": 0, "width": 9, "height": 9, "caption": DOG}
BOX = {"bbox_x": 0, "bbox_y": 0, "bbox_w": 9, "bbox_h": 9}
SUGARCREPE = {"caption": DOG, "negative_caption": CAT}
SWAPPED = {**BOX, "true_caption": DOG, "false_caption": CAT}
OPTIONS = [f"A mug {position} a table." for position in ("on", "under", "left of", "right of")]
NEGATED = {f"caption_{n}": f"A dog, but no {noun}." for n, noun in enumerate(("cat", "cup", "car", "bus"))}
SVO = {"sentence": DOG, "neg_image_id": 2, "subj_neg": True, "verb_neg": False, "obj_neg": False}
STATEMENT = {"Type": "Color", "Statement": DOG}
Files = Mapping[str, Any]  # name of a file -> its content


def _build_karpathy(name: str) -> dict[str, Any]:
    return {"images": [{"split": "test", "filename": name, "sentences": [{"raw": DOG}]}]}


def _build_spatial(name: str) -> list[Any]:
    return [[name, "A dog left of a cat", "A dog right of a cat"]]


# Benchmark -> its files, given the name of the first row's image.
RELEASES: Mapping[str, Callable[[str], Files]] = {
    "sugarcrepe": lambda name: {"swap_obj.json": {"0": {"filename": name, **SUGARCREPE}}},
    "sugarcrepe_pp": lambda name: {
        "swap_obj.json": [{"id": 3, "filename": name, "caption2": CAT, **SUGARCREPE}]
    },
    "bivlc": lambda name: {
        "test.jsonl": [
            {"image": name, "negative_image": "2.png", "type": "swap", "subtype": "obj", **SUGARCREPE}
        ]
    },
    "winoground": lambda name: {
        "examples.jsonl": [{"id": 5, "image_0": name, "image_1": "b", "caption_0": DOG, "caption_1": CAT}]
    },
    "colorswap": lambda name: {
        "test.json": [{"id": 5, "image_1": name, "image_2": "2.png", "caption_1": DOG, "caption_2": CAT}]
    },
    "eqben": lambda name: {
        "all_select.json": [{"image0": name, "image1": "2.png", "caption0": DOG, "caption1": CAT}]
    },
    "cola": lambda name: {"COLA_multiobjects_matching_benchmark.json": [[name, DOG, "u/2.png", CAT]]},
    "natural_bench": lambda name: {
        "metadata.json": [
            {"index": 1, "image_0": name, "image_1": "2.png", "caption_0": DOG, "caption_1": CAT}
        ]
    },
    "crepe_systematicity": lambda name: {
        "syst_vg_hard_negs_seen_compounds_in_cc12m.csv": [
            {"image_id": name, **VG, "valid_hard_negs_atom": [CAT], "valid_hard_negs_comp": [CAT]}
        ]
    },
    "crepe_productivity": lambda name: {
        "atom/prod_vg_hard_negs_atom_complexity_4.csv": [{"image_id": name, **VG, "hard_negs": [CAT]}]
    },
    "crepe_retrieval": lambda name: {"unseen.csv": [{"image_id": name, **VG}]},
    "vg_relation": lambda name: {
        "visual_genome_relation.json": [{"image_path": name, "relation_name": "on", **SWAPPED}]
    },
    "vg_attribution": lambda name: {
        "visual_genome_attribution.json": [{"image_path": name, "attributes": ["old", "red"], **SWAPPED}]
    },
    "coco_order": lambda name: {"coco_order.json": [{"image_path": name, "caption_options": [DOG, CAT]}]},
    "flickr30k_order": lambda name: {
        "flickr30k_order.json": [{"image_path": name, "caption_options": [DOG, CAT]}]
    },
    "coco_retrieval": lambda name: {"dataset_coco.json": _build_karpathy(name)},
    "flickr30k_retrieval": lambda name: {"dataset_flickr30k.json": _build_karpathy(name)},
    "zero_shot": lambda name: {"classes.json": {name: "dog", "cat": "cat"}},
    "vl_checklist": lambda name: {"Relation/vg/action.json": [[name, {"POS": [DOG], "NEG": [CAT]}]]},
    "svo_probes": lambda name: {"svo_probes.csv": [{"pos_image_id": name, **SVO}]},
    "valse": lambda name: {
        "foil-it.json": {"a": {"image_file": name, "caption": DOG, "foil": CAT, "mturk": {"caption": 3}}}
    },
    "whatsup_a": lambda name: {
        "controlled_images_dataset.json": [{"image_path": name, "caption_options": OPTIONS}]
    },
    "whatsup_b": lambda name: {
        "controlled_clevr_dataset.json": [{"image_path": name, "caption_options": OPTIONS}]
    },
    "coco_spatial_one": lambda name: {"coco_qa_one_obj.json": _build_spatial(name)},
    "coco_spatial_two": lambda name: {"coco_qa_two_obj.json": _build_spatial(name)},
    "gqa_spatial_one": lambda name: {"vg_qa_one_obj.json": _build_spatial(name)},
    "gqa_spatial_two": lambda name: {"vg_qa_two_obj.json": _build_spatial(name)},
    "mmvp": lambda name: {
        "Questions.csv": [{"Question ID": name, **STATEMENT}, {"Question ID": 2, **STATEMENT}]
    },
    "conme": lambda name: {
        "replace-att.csv": [
            {"image": name, "base_question": "What?", "correct_option": DOG, "incorrect_option": CAT}
        ]
    },
    "negbench_mcq": lambda name: {
        "VOC2007_mcq_llama3.1_rephrased.csv": [
            {"image_path": name, "correct_answer": 1, **NEGATED, "correct_answer_template": "negative"}
        ]
    },
    "negbench_retrieval": lambda name: {
        "synthetic_retrieval_v2.csv": [{"filepath": name, "captions": [DOG]}]
    },
    "spec": lambda name: {
        "count/image2text.json": [{"query": name, "keys": [DOG, CAT], "label": 0}],
        "count/text2image.json": [{"query": DOG, "keys": ["2.png", name], "label": 1}],
    },
}
# Benchmarks whose images have numbers, where others have "1.png".
NUMBERED = (
    "svo_probes",
    "coco_spatial_one",
    "coco_spatial_two",
    "gqa_spatial_one",
    "gqa_spatial_two",
    "mmvp",
)


def write_release(folder: Path, benchmark: str, name: str | None = None) -> Path:
    """Write the files of a benchmark without its images, and return the folder.

    Args:
        folder: folder of the benchmark.
        benchmark: a name in ``RELEASES``.
        name: name of the first row's image; None: one of the benchmark's form.
    """
    usual = "1" if benchmark in NUMBERED else "dog" if benchmark == "zero_shot" else "1.png"
    for file, content in RELEASES[benchmark](usual if name is None else name).items():
        write_rows(folder / file, content)
    if benchmark == "zero_shot":
        for class_name in ("dog", "cat"):
            (folder / class_name).mkdir()
            (folder / class_name / "1.png").touch()
    return folder


def write_rows(path: Path, content: Any) -> None:
    """Write a file by its suffix: JSON, JSON Lines or CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(content), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(content[0]))
            writer.writeheader()
            writer.writerows(content)
