"""ARO (Yuksekgonul et al. 2023): captions with their relation, attributes or words in the wrong order.

``vg_relation`` and ``vg_attribution`` have a region of a Visual Genome image, a true caption, and a false
caption with the two objects, or their attributes, swapped. The subsets are the relations, and the pairs of
attributes with at least 25 instances, as the authors report them. The authors' main result is the mean over
the subsets, ``macro``. For the relations, the mean leaves out those in ``SYMMETRIC``, as the authors'
notebook does: they may stay true when swapped.

``coco_order`` and ``flickr30k_order`` rank a caption among itself and four shuffles of its words. The authors
shuffle while loading, with tools whose results depend on their versions, and publish no file. This module
reads the output of their loader. A shuffle that equals the caption is not a false candidate: the authors'
``argmax`` takes the first of equal scores, which is the caption, and so counts it as right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.benchmarks.visual_genome import FOLDERS, read_box
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, Comparisons, ImageFile, Index, Rankings
from caramel.io.readers import read_json_rows
from caramel.io.validators import (
    format_value,
    read_list_field,
    read_name_field,
    read_text_field,
    validate_text,
)

BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
FEWEST = 25  # instances that a pair of attributes needs for its own result
REPOSITORY = "github.com/mertyg/vision-language-models-are-bows"
SYMMETRIC = frozenset(
    re.split(
        r",\s+",
        """
    adjusting, around, attached to, beside, between, bigger than, biting, boarding, brushing, by, chewing,
    cleaning, climbing, close to, coming from, coming out of, contain, crossing, dragging, draped over,
    drinking, drinking from, driving, driving down, driving on, eating from, eating in, enclosing, exiting,
    facing, filled with, floating in, floating on, flying, flying above, flying in, flying over,
    flying through, full of, going down, going into, going through, grazing in, growing in, growing on,
    guiding, hanging from, hanging in, hanging off, hanging over, higher than, holding onto, hugging,
    in between, jumping off, jumping on, jumping over, kept in, larger than, leading, leaning over, leaving,
    licking, longer than, looking in, looking into, looking out, looking over, looking through,
    lying next to, lying on top of, making, mixed with, mounted on, moving, near, next to, of,
    on the back of, on the edge of, on the front of, on the other side of, on the side of, opening,
    painted on, parked at, parked beside, parked by, parked in, parked in front of, parked near,
    parked next to, perched on, petting, piled on, playing, playing in, playing on, playing with, pouring,
    reaching for, reading, reflected on, riding on, running in, running on, running through, seen through,
    sitting behind, sitting beside, sitting by, sitting in front of, sitting near, sitting next to,
    sitting under, skiing down, skiing on, sleeping in, sleeping on, smiling at, sniffing, splashing,
    sprinkled on, stacked on, standing against, standing around, standing behind, standing beside,
    standing in front of, standing near, standing next to, staring at, stuck in, surrounding, swimming in,
    swinging, talking to, topped with, touching, traveling down, traveling on, tying, typing on, underneath,
    wading in, waiting for, walking across, walking by, walking down, walking next to, walking through, with,
    working in, working on, worn on, wrapped around, wrapped in
    """.strip(),
    )
)
ORDER_LAYOUT = """\
  {name}/{name}.json   [{{"image_path": …, "caption_options": [caption, four shuffles of it]}}, …]
  IMAGES/{image}   {source}
  The authors' loader makes the file, in a checkout of {repository}:
    import json, random, numpy, dataset_zoo
    random.seed(1), numpy.random.seed(1)
    made = dataset_zoo.get_dataset("{loader}", root_dir="IMAGES", split="test").test_cases
    rows = [{{"image_path": case["image"], "caption_options": case["caption_options"]}} for case in made]
    json.dump(rows, open("{name}.json", "w"))"""


def read_vg_relation(data: Path, images: Path) -> Comparisons:
    """Return the task of ``visual_genome_relation.json``.

    Raises:
        DataError: the file is missing or broken.
    """
    return _build_swap_task(
        data, images, "relation", lambda row, where: read_text_field(row, "relation_name", where), 1
    )


def read_vg_attribution(data: Path, images: Path) -> Comparisons:
    """Return the task of ``visual_genome_attribution.json``.

    Raises:
        DataError: the file is missing or broken.
    """
    return _build_swap_task(data, images, "attribution", _join_attributes, FEWEST)


def _join_attributes(row: Any, where: str) -> str:
    pair = row.get("attributes") if isinstance(row, dict) else None
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise DataError(f"{where}: field 'attributes' must be a list of two texts, not {format_value(pair)}.")
    return validate_text("_".join(pair), "attributes", where)


def _build_swap_task(
    data: Path, images: Path, part: str, subset: Callable[[Any, str], str], fewest: int
) -> Comparisons:
    """Return the task of one of the two sets, without subsets of fewer than ``fewest`` instances."""
    layout = _format_swap_layout(part)
    (path,) = find_release_files(data, [f"visual_genome_{part}.json"], layout)
    rows = read_json_rows(path)
    if not rows:
        raise DataError(f"{str(path)!r} has no rows. Download it again.")
    names = [read_name_field(row, "image_path", where) for where, row in rows]
    files = locate_images(images, names, ("images", "aro/images", *FOLDERS))
    subsets = [subset(row, where) for where, row in rows]
    counts = Counter(subsets)
    image_indices: dict[ImageFile, int] = {}
    instances = []
    for number, ((where, row), name, file, group) in enumerate(zip(rows, names, files, subsets, strict=True)):
        image = ImageFile(str(file), box=read_box(row, BOX, where))
        instances.append(
            {
                "instance_id": f"{part}-{number}",
                "image_id": name,
                "subsets": [group] if counts[group] >= fewest else [],
                "image": image_indices.setdefault(image, len(image_indices)),
                "caption": read_text_field(row, "true_caption", where),
                "negative_caption": read_text_field(row, "false_caption", where),
            }
        )
    return build_comparisons(instances, list(image_indices))


def _format_swap_layout(part: str) -> str:
    return f"""\
  vg_{part}/visual_genome_{part}.json   from the links in {REPOSITORY},
                                  dataset_zoo/aro_datasets.py
  IMAGES/2405311.jpg …            the images of vgr_vga_images.zip, from there (also in IMAGES/images)"""


def read_coco_order(data: Path, images: Path) -> Rankings:
    """Return the task of ``coco_order.json``.

    Raises:
        DataError: the file is missing or broken.
    """
    return _build_order_task(data, images, "coco_order", COCO_ORDER_LAYOUT)


def read_flickr30k_order(data: Path, images: Path) -> Rankings:
    """Return the task of ``flickr30k_order.json``.

    Raises:
        DataError: the file is missing or broken.
    """
    return _build_order_task(data, images, "flickr30k_order", FLICKR30K_ORDER_LAYOUT)


def _build_order_task(data: Path, images: Path, name: str, layout: str) -> Rankings:
    """Return the task of one of the order sets. The first option is the caption."""
    (path,) = find_release_files(data, [f"{name}.json"], layout)
    rows: list[tuple[object, ...]] = []
    texts: list[tuple[str, ...]] = []
    pools: list[Index] = []
    image_indices: dict[str, int] = {}
    for number, (where, row) in enumerate(read_json_rows(path)):
        image = read_name_field(row, "image_path", where)
        caption, *shuffles = _read_options(row, where)
        pool = [(caption,), *((text,) for text in shuffles if text != caption)]
        query = image_indices.setdefault(image, len(image_indices))
        rows.append((f"{name}-{number}", image, [], "i2t", query, len(pools), [len(texts)]))
        pools.append(np.arange(len(texts), len(texts) + len(pool)))
        texts += pool
    if not rows:
        raise DataError(f"{str(path)!r} has no rows. Write it again.")
    files = [ImageFile(str(images / image)) for image in image_indices]
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), files, texts, pools)


def _read_options(row: Any, where: str) -> list[str]:
    options = read_list_field(row, "caption_options", where)
    if len(options) < 2:
        raise DataError(
            f"{where}: field 'caption_options' must be the caption and its shuffles, not {format_value(options)}."
        )
    return [read_text_field({"caption_options": text}, "caption_options", where) for text in options]


COCO_ORDER_LAYOUT = ORDER_LAYOUT.format(
    name="coco_order",
    repository=REPOSITORY,
    loader="COCO_Order",
    image="val2014/COCO_val2014_000000391895.jpg …",
    source="COCO 2014 images",
)
FLICKR30K_ORDER_LAYOUT = ORDER_LAYOUT.format(
    name="flickr30k_order",
    repository=REPOSITORY,
    loader="Flickr30k_Order",
    image="flickr30k-images/1007129816.jpg …",
    source="Flickr30K images",
)
_CODE = "mertyg/vision-language-models-are-bows: dataset_zoo/aro_datasets.py"
VG_RELATION = Benchmark(
    name="vg_relation",
    layout=_format_swap_layout("relation"),
    reader=read_vg_relation,
    metrics=("accuracy",),
    confirmed=f"{_CODE} (fields, crops, accuracy) and the notebook that replicates it (macro mean); from the copy of the file in "
    "ivana-13/fvp-review, data/aro, some rows at the beginning, in the middle and at the end (34,000 of its "
    "9,125,212 characters)",
    macro=lambda subset: subset not in SYMMETRIC,
)
VG_ATTRIBUTION = Benchmark(
    name="vg_attribution",
    layout=_format_swap_layout("attribution"),
    reader=read_vg_attribution,
    metrics=("accuracy",),
    confirmed=f"{_CODE} (fields, crops, accuracy, 25 instances) and the notebook that replicates it (macro mean); "
    "the published file itself was not available",
    macro=lambda subset: True,
)
COCO_ORDER = Benchmark(
    name="coco_order",
    layout=COCO_ORDER_LAYOUT,
    reader=read_coco_order,
    metrics=("recall@1",),
    confirmed=f"{_CODE}, dataset_zoo/perturbations.py and main_aro.py (order of the options, precision at 1, seed). "
    "The file is not published; its form is caramel's. Tests read its captions, coco_karpathy_test.json",
)
FLICKR30K_ORDER = Benchmark(
    name="flickr30k_order",
    layout=FLICKR30K_ORDER_LAYOUT,
    reader=read_flickr30k_order,
    metrics=("recall@1",),
    confirmed=f"{_CODE}, dataset_zoo/perturbations.py and main_aro.py, as for coco_order. The file is not published; its form is "
    "caramel's",
)
