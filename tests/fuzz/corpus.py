"""Small valid inputs of every format that caramel reads, in the layout of the releases.

Each function writes into the current folder: a benchmark's files and images below ``data/``, others as it says.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ROWS = 6
NOUNS = ("dog", "cat", "horse", "bird", "boat", "kite", "table", "truck")
DATA = Path("data")


def caption(n: int) -> str:
    return f"A {NOUNS[n % 8]}, number {n}, stands on a mat."


def negative(n: int) -> str:
    return f"A {NOUNS[(n + 3) % 8]}, number {n}, stands on a mat."


def paraphrase(n: int) -> str:
    return f"On a mat stands a {NOUNS[n % 8]}, number {n}."


def picture(n: int, kind: str = "JPEG") -> bytes:
    """An encoded picture of its own colours."""
    image = Image.linear_gradient("L").resize((16, 12))
    out = io.BytesIO()
    Image.merge("RGB", (image, image.point(lambda v: (v * 7 + 31 * n) % 256), image.rotate(180))).save(
        out, kind
    )
    return out.getvalue()


def images(names: Sequence[str], folder: Path = DATA) -> None:
    for n, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(n, "PNG" if path.suffix == ".png" else "JPEG"))


def put(name: str, rows: Any, folder: Path = DATA) -> None:
    """Write rows by the suffix of the name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def named(suffix: str, **more: Any) -> Callable[[], None]:
    """A file with named columns, ``data/mine.SUFFIX``."""

    def write() -> None:
        rows = [
            {"id": n, "filename": f"{n % 4}.jpg", "caption": caption(n), "negative_caption": negative(n)}
            | {"caption2": paraphrase(n), "subtype": ("obj", "att")[n % 2], "type": "replace", **more}
            for n in range(ROWS)
        ]
        put(f"mine.{suffix}", rows)
        images([f"{n}.jpg" for n in range(4)])

    return write


def sugarcrepe() -> None:
    row = [
        {"filename": f"{n % 4:012}.jpg", "caption": caption(n), "negative_caption": negative(n)}
        for n in range(ROWS)
    ]
    put("swap_obj.json", {str(n): row[n] for n in range(3)})
    put("add_att.json", {str(n): row[n] for n in range(3, ROWS)})
    images([f"{n:012}.jpg" for n in range(4)])


def sugarcrepe_pp() -> None:
    rows = [
        {"id": n, "filename": f"{n % 4:012}.jpg", "caption": caption(n), "caption2": paraphrase(n)}
        | {"negative_caption": negative(n)}
        for n in range(ROWS)
    ]
    put("replace_obj.json", rows[:3])
    put("swap_att.json", rows[3:])
    images([f"{n:012}.jpg" for n in range(4)])


def _cells(n: int) -> tuple[dict[str, object], dict[str, object]]:
    return {"bytes": picture(2 * n, "PNG"), "path": None}, {"bytes": picture(2 * n + 1, "PNG"), "path": None}


def bivlc() -> None:
    rows = [
        {"caption": caption(n), "negative_caption": negative(n), "type": "replace", "subtype": "obj"}
        for n in range(ROWS)
    ]
    pairs = [dict(zip(("image", "negative_image"), _cells(n), strict=True)) for n in range(ROWS)]
    put("test-00000-of-00001.parquet", [row | pair for row, pair in zip(rows, pairs, strict=True)])


def bivlc_files() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "negative_image": f"n{n}.jpg",
            "caption": caption(n),
            "negative_caption": negative(n),
        }
        | {"type": "swap", "subtype": "att"}
        for n in range(ROWS)
    ]
    put("test.jsonl", rows)
    images([row[name] for row in rows for name in ("image", "negative_image")])


def winoground() -> None:
    rows = []
    for n in range(ROWS):
        first, second = _cells(n)
        row = {
            "id": n,
            "caption_0": caption(n),
            "caption_1": negative(n),
            "image_0": first,
            "image_1": second,
        }
        rows.append(row | {"collapsed_tag": "Object", "num_main_preds": 1})
    put("data/test-00000-of-00001.parquet", rows)


def winoground_files() -> None:
    rows = [
        {"id": n, "image_0": f"ex_{n}_img_0", "image_1": f"ex_{n}_img_1", "caption_0": caption(n)}
        | {"caption_1": negative(n), "collapsed_tag": "Both", "num_main_preds": 2}
        for n in range(ROWS)
    ]
    put("examples.jsonl", rows)
    images([f"images/{row[name]}.png" for row in rows for name in ("image_0", "image_1")])


def colorswap() -> None:
    rows = []
    for n in range(ROWS):
        first, second = _cells(n)
        rows.append(
            {"id": n, "caption_1": caption(n), "caption_2": negative(n), "image_1": first, "image_2": second}
        )
    put("test-00000-of-00001.parquet", rows)


def colorswap_files() -> None:
    rows = [
        {"id": n, "caption_1": caption(n), "caption_2": negative(n), "image_1": f"images/{n}_1.png"}
        | {"image_2": f"images/{n}_2.png", "image_source": "midjourney", "caption_source": "human"}
        for n in range(ROWS)
    ]
    put("test.json", rows)
    images([row[name] for row in rows for name in ("image_1", "image_2")])


def eqben() -> None:
    rows = [
        {
            "image0": f"eqbensd/{n}_0.png",
            "image1": f"eqbensd/{n}_1.png",
            "caption0": caption(n),
            "caption1": negative(n),
        }
        for n in range(ROWS)
    ]
    put("all_select.json", rows)
    images([row[name] for row in rows for name in ("image0", "image1")])


def cola() -> None:
    link = "https://example.test/{}.jpg"
    rows = [[link.format(2 * n), caption(n), link.format(2 * n + 1), negative(n)] for n in range(ROWS)]
    put("COLA_multiobjects_matching_benchmark.json", rows)
    images([f"{n}.jpg" for n in range(2 * ROWS)])


def natural_bench() -> None:
    rows = [
        {
            "index": n,
            "image_0": f"{n}_0.jpg",
            "image_1": f"{n}_1.jpg",
            "caption_0": caption(n),
            "caption_1": negative(n),
        }
        for n in range(ROWS)
    ]
    put("metadata.json", rows)
    images([f"images/{row[name]}" for row in rows for name in ("image_0", "image_1")])


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


# Name in the registry -> writers of the forms that it is published in.
BENCHMARKS: Mapping[str, tuple[Callable[[], None], ...]] = {
    "sugarcrepe": (sugarcrepe,),
    "sugarcrepe_pp": (sugarcrepe_pp,),
    "bivlc": (bivlc, bivlc_files),
    "winoground": (winoground, winoground_files),
    "colorswap": (colorswap, colorswap_files),
    "eqben": (eqben,),
    "cola": (cola,),
    "natural_bench": (natural_bench,),
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
}
