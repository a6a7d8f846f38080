"""Small valid inputs of all benchmarks, in the layout of the releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import corpus
from corpus import DATA, NOUNS, ROWS, caption, images, negative, picture, put


def _region(n: int) -> dict[str, object]:
    return {"image_id": n % 4, "x": 1, "y": 2, "width": 9, "height": 8, "caption": caption(n)}


def _genome() -> None:
    images([f"VG_100K/{n}.jpg" for n in range(4)])


def crepe_systematicity() -> None:
    negatives = [[negative(n), negative(n + 1)] for n in range(ROWS)]
    rows = [
        _region(n) | {"valid_hard_negs_atom": negatives[n], "valid_hard_negs_comp": negatives[n]}
        for n in range(ROWS)
    ]
    put("syst_vg_hard_negs_seen_compounds_in_cc12m.csv", rows)
    put("syst_vg_hard_negs_unseen_compounds_in_laion.csv", rows)
    _genome()


def crepe_productivity() -> None:
    for kind in ("atom", "swap", "negate"):
        rows = [_region(n) | {"hard_negs": [f"{negative(n)} {kind}"]} for n in range(ROWS)]
        if kind == "swap":
            rows = [row | {"combined": [f"{negative(n)} {k}" for k in "ab"]} for n, row in enumerate(rows)]
        put(f"{kind}/prod_vg_hard_negs_{kind}_complexity_4.csv", rows)
    _genome()


def crepe_retrieval() -> None:
    put("unseen_atoms_in_laion.csv", [_region(n) for n in range(ROWS)])
    put("seen_atoms_in_laion.csv", [_region(n + 1) for n in range(ROWS)])
    _genome()


def aro(kind: str) -> Callable[[], None]:
    def write() -> None:
        box = {"bbox_x": 0, "bbox_y": 1, "bbox_w": 9, "bbox_h": 8}
        rows = [
            {"image_path": f"{n % 4}.jpg", **box, "true_caption": caption(n), "false_caption": negative(n)}
            | {"relation_name": "on", "attributes": ["old", "red"]}
            for n in range(ROWS)
        ]
        put(f"visual_genome_{kind}.json", rows)
        images([f"{n}.jpg" for n in range(4)])

    return write


def order(name: str) -> Callable[[], None]:
    def write() -> None:
        rows = [
            {
                "image_path": f"{n}.jpg",
                "caption_options": [caption(n), negative(n), f"mat on {n}", f"on {n} mat a", f"a {n}"],
            }
            for n in range(ROWS)
        ]
        put(f"{name}.json", rows)
        images([f"{n}.jpg" for n in range(ROWS)])

    return write


def karpathy(file: str) -> Callable[[], None]:
    def write() -> None:
        rows = [
            {
                "filename": f"{n}.jpg",
                "split": "test",
                "imgid": n,
                "sentences": [{"raw": caption(5 * n + k)} for k in range(5)],
            }
            for n in range(ROWS)
        ]
        put(file, {"images": rows, "dataset": "coco"})
        images([f"{n}.jpg" for n in range(ROWS)])

    return write


def coco_captions() -> None:
    entries = [{"id": n, "file_name": f"{n:012}.jpg"} for n in range(ROWS)]
    notes = [{"id": n, "image_id": n % ROWS, "caption": caption(n)} for n in range(3 * ROWS)]
    put("captions_val2017.json", {"images": entries, "annotations": notes})
    images([f"{n:012}.jpg" for n in range(ROWS)])


def zero_shot() -> None:
    images([f"{name}/{n}.jpg" for name in ("n01", "n02", "n03") for n in range(2)])
    put("classes.json", {"n01": "crane", "n02": "tench", "n03": "shark"})
    (DATA / "templates.txt").write_text("a photo of a {}.\nthe {}, a kind of {}\n")


def vl_checklist() -> None:
    for file, folder in (("Attribute/vg/color.json", "vg/VG_100K"), ("Relation/swig_action.json", "swig")):
        names = [f"{'VG_100K/' if 'vg' in folder else ''}{n}.jpg" for n in range(4)]
        put(file, [[names[n % 4], {"POS": [caption(n)], "NEG": [negative(n)]}] for n in range(ROWS)])
        images([f"{folder.partition('/')[0]}/{name}" for name in names])


def svo_probes() -> None:
    rows = [
        {"sentence": caption(n), "pos_triplet": "girl,stand,grass", "pos_image_id": n, "neg_image_id": 10 + n}
        | {"subj_neg": n % 3 == 0, "verb_neg": n % 3 == 1, "obj_neg": n % 3 == 2}
        for n in range(ROWS)
    ]
    put("svo_probes.csv", rows)
    images([f"{n}.jpg" for n in (*range(ROWS), *range(10, 10 + ROWS))])


def valse() -> None:
    for piece, start in (("counting-hard", "v7w_"), ("actant-swap", "exercising_")):
        rows = {
            f"item_{n}": {"image_file": f"{start}{n % 4}.jpg", "caption": caption(n), "foil": negative(n)}
            | {"mturk": {"caption": 3, "foil": 0, "other": 0}}
            for n in range(ROWS)
        }
        put(f"{piece}.json", rows)
        images([f"{'visual7w' if start == 'v7w_' else 'swig'}/{start}{n}.jpg" for n in range(4)])


def whatsup(file: str, folder: str, third: str, fourth: str) -> Callable[[], None]:
    def write() -> None:
        words = ("left_of", "right_of", third, fourth)
        captions = [f"A mug {word.replace('_', ' ')} a table" for word in words]
        rows = [
            {
                "image_path": f"data/{folder}/mug_{word}_table.jpeg",
                "caption_options": [captions[n], *captions[:n], *captions[n + 1 :]],
            }
            for n, word in enumerate(words)
        ]
        put(file, rows)
        images([f"{folder}/mug_{word}_table.jpeg" for word in words])

    return write


def spatial(file: str, folder: str, digits: int) -> Callable[[], None]:
    def write() -> None:
        rows = [
            [n % 4 + 1, f"A {NOUNS[n]} to the left of a cup", f"A {NOUNS[n]} to the right of a cup"]
            for n in range(ROWS)
        ]
        if "one" in file:
            rows = [
                [n % 4 + 1, f"A photo of a {NOUNS[n]} on the left", f"A photo of a {NOUNS[n]} on the right"]
                for n in range(ROWS)
            ]
        put(file, rows)
        images([f"{folder}/{str(n + 1).zfill(digits)}.jpg" for n in range(4)])

    return write


def mmvp() -> None:
    rows = [{"Question ID": n, "Type": "Color", "Statement": caption(n)} for n in range(1, ROWS + 1)]
    put("Questions.csv", rows)
    images([f"Color/{n}.jpg" for n in range(1, ROWS + 1)])


def spec() -> None:
    names = [f"images/{n}.jpg" for n in range(4)]
    for part in ("existence", "relative_spatial"):
        texts = [
            {"query": names[n % 4], "keys": [caption(n), negative(n)], "label": n % 2} for n in range(ROWS)
        ]
        put(f"{part}/image2text.json", texts)
        put(
            f"{part}/text2image.json",
            [{"query": caption(n), "keys": names, "label": n % 4} for n in range(ROWS)],
        )
        images([f"{part}/{name}" for name in names])


def negbench_mcq() -> None:
    names = [f"data/val2017/{n}.jpg" for n in range(4)]
    for start, name in enumerate(("COCO_val_mcq_llama3.1_rephrased", "VOC2007_mcq_llama3.1_rephrased")):
        rows = [
            {"image_path": names[n % 4], "correct_answer": n % 4}
            | {f"caption_{k}": f"{caption(start * ROWS + n)} There is no {NOUNS[k]}." for k in range(4)}
            | {"correct_answer_template": ("positive", "negative", "hybrid")[n % 3]}
            for n in range(ROWS)
        ]
        put(f"{name}.csv", rows)
    images([name.removeprefix("data/") for name in names])


def negbench_retrieval() -> None:
    rows = [{"filepath": f"a/b/{n}.png", "captions": [caption(n), negative(n)]} for n in range(ROWS)]
    put("COCO_val_retrieval.csv", rows)
    put("synthetic_retrieval_v1.csv", rows)
    images([f"b/{n}.png" for n in range(ROWS)])


def conme() -> None:
    for part in ("att", "rel"):
        rows = [
            {"image": f"{n % 4}.jpg", "question": f"What is {n}? A. or B.", "base_question": f"What is {n}?"}
            | {"answer": "A", "correct_option": caption(n), "incorrect_option": negative(n)}
            for n in range(ROWS)
        ]
        put(f"replace-{part}.csv", rows)
    images([f"images/{n}.jpg" for n in range(4)])


def natural_bench_questions() -> None:
    answers = ("Image_0_Question_0", "Image_1_Question_0", "Image_1_Question_1", "Image_0_Question_1")
    rows = [
        {f"Image_{k}": {"bytes": picture(2 * n + k), "path": None} for k in (0, 1)}
        | {
            "Index": n,
            "Question_0": f"Is it a {NOUNS[n % 8]}? {n}",
            "Question_1": f"Is it no {NOUNS[n % 8]}? {n}",
        }
        | dict(zip(answers, ("Yes", "No", "Yes", "No"), strict=True))
        | {"Question_Type": "yes_no", "Source": "coco"}
        for n in range(ROWS)
    ]
    put("train-00000-of-00001.parquet", rows)


def vismin() -> None:
    rows = [
        {
            "image_0": {"bytes": picture(2 * n), "path": None},
            "image_1": {"bytes": picture(2 * n + 1), "path": None},
        }
        | {"text_0": caption(n), "text_1": negative(n), "category": "object"}
        for n in range(ROWS)
    ]
    put("0000.parquet", rows)


# Name in the registry -> writers of the forms that it is published in.
BENCHMARKS: Mapping[str, tuple[Callable[[], None], ...]] = {
    "sugarcrepe": (corpus.sugarcrepe,),
    "sugarcrepe_pp": (corpus.sugarcrepe_pp,),
    "bivlc": (corpus.bivlc, corpus.bivlc_files),
    "winoground": (corpus.winoground, corpus.winoground_files),
    "colorswap": (corpus.colorswap, corpus.colorswap_files),
    "eqben": (corpus.eqben,),
    "cola": (corpus.cola,),
    "conme": (conme,),
    "natural_bench_questions": (natural_bench_questions,),
    "vismin": (vismin,),
    "natural_bench": (corpus.natural_bench,),
    "crepe_systematicity": (crepe_systematicity,),
    "crepe_productivity": (crepe_productivity,),
    "crepe_retrieval": (crepe_retrieval,),
    "vg_relation": (aro("relation"),),
    "vg_attribution": (aro("attribution"),),
    "coco_order": (order("coco_order"),),
    "flickr30k_order": (order("flickr30k_order"),),
    "coco_retrieval": (karpathy("dataset_coco.json"), coco_captions),
    "flickr30k_retrieval": (karpathy("dataset_flickr30k.json"),),
    "zero_shot": (zero_shot,),
    "vl_checklist": (vl_checklist,),
    "svo_probes": (svo_probes,),
    "valse": (valse,),
    "whatsup_a": (whatsup("controlled_images_dataset.json", "controlled_images", "on", "under"),),
    "whatsup_b": (whatsup("controlled_clevr_dataset.json", "controlled_clevr", "in-front_of", "behind"),),
    "coco_spatial_one": (spatial("coco_qa_one_obj.json", "val2017", 12),),
    "coco_spatial_two": (spatial("coco_qa_two_obj.json", "val2017", 12),),
    "gqa_spatial_one": (spatial("vg_qa_one_obj.json", "vg_images", 0),),
    "gqa_spatial_two": (spatial("vg_qa_two_obj.json", "vg_images", 0),),
    "mmvp": (mmvp,),
    "spec": (spec,),
    "negbench_mcq": (negbench_mcq,),
    "negbench_retrieval": (negbench_retrieval,),
}
