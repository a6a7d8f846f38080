"""Plain retrieval on COCO and Flickr30K, in both directions.

    i2t   an image among the captions of all images; a hit if any of its own captions is among the first k
    t2i   a caption among all images

The data are the test part of Karpathy's split (Karpathy & Fei-Fei 2015), 5,000 images of COCO and 1,000 of
Flickr30K, or the validation images of COCO 2017. An image has five captions. For the few images with more
captions, the first five count, as is usual. Each caption is a separate candidate: a caption of another image
with the same words ties with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, ImageFile, Rankings
from caramel.io.readers import read_json, read_json_rows
from caramel.io.validators import (
    format_value,
    read_list_field,
    read_name_field,
    read_number_field,
    read_text_field,
)

KARPATHY = "from caption_datasets.zip of cs.stanford.edu/people/karpathy/deepimagesent"
COCO_LAYOUT = f"""\
  coco_retrieval/dataset_coco.json            Karpathy's split, {KARPATHY}
  IMAGES/COCO_val2014_000000391895.jpg …      COCO 2014 validation images (also in IMAGES/val2014)
or
  coco_retrieval/coco_karpathy_test.json      the same images as BLIP's authors publish them (also in ARO's repository)
  IMAGES/COCO_val2014_000000391895.jpg …      as above
or
  coco_retrieval/captions_val2017.json        COCO 2017 annotations, from cocodataset.org
  IMAGES/000000085329.jpg …                   COCO 2017 validation images (also in IMAGES/val2017)"""
FLICKR30K_LAYOUT = f"""\
  flickr30k_retrieval/dataset_flickr30k.json  Karpathy's split, {KARPATHY}
  IMAGES/1007129816.jpg …                     Flickr30K images (also in IMAGES/flickr30k-images)"""
FOLDERS = {
    "dataset_coco.json": ("val2014", "coco/val2014", "coco/images/val2014"),
    "coco_karpathy_test.json": ("val2014", "coco/val2014", "coco/images/val2014"),
    "captions_val2017.json": ("val2017", "coco/val2017", "coco/images/val2017"),
    "dataset_flickr30k.json": ("flickr30k-images", "flickr30k_images", "flickr30k/flickr30k-images"),
}
CAPTIONS = 5  # of each image
CaptionedImage = tuple[str, list[str]]  # name of an image's file, its captions


def read_coco_retrieval(data: Path, images: Path) -> Rankings:
    """Return the task of the file of ``COCO_FILES`` that exists.

    Raises:
        DataError: no file or more than one exists, or the file is broken.
    """
    paths = find_release_files(data, COCO_FILES, COCO_LAYOUT)
    if len(paths) > 1:
        raise DataError(
            f"{str(data)!r} holds {' and '.join(path.name for path in paths)}, but only one file can be read. "
            f"Keep only one of them."
        )
    return _build_task(COCO_FILES[paths[0].name](paths[0]), paths[0], images)


def read_flickr30k_retrieval(data: Path, images: Path) -> Rankings:
    """Return the task of ``dataset_flickr30k.json``.

    Raises:
        DataError: the file is missing or broken.
    """
    (path,) = find_release_files(data, ["dataset_flickr30k.json"], FLICKR30K_LAYOUT)
    return _build_task(_read_karpathy_split(path), path, images)


def _read_karpathy_split(path: Path) -> list[CaptionedImage]:
    """Return the test images of a file of Karpathy's splits."""
    rows = read_list_field(_read_object(path), "images", repr(str(path)))
    tested = []
    for number, row in enumerate(rows):
        where = f"{str(path)!r}, image {number}"
        if read_text_field(row, "split", where) == "test":
            captions = [
                read_text_field(one, "raw", where) for one in read_list_field(row, "sentences", where)
            ]
            tested.append((read_name_field(row, "filename", where), captions))
    return tested


def _read_karpathy_test(path: Path) -> list[CaptionedImage]:
    """Return the images and captions of a file that holds only the test part of Karpathy's split.

    The images' folder, ``val2014``, is dropped from their names, so that the instances are those of
    ``dataset_coco.json``.
    """
    tested = []
    for where, row in read_json_rows(path):
        captions = read_list_field(row, "caption", where)
        texts = [read_text_field({"caption": text}, "caption", where) for text in captions]
        tested.append((PurePosixPath(read_name_field(row, "image", where)).name, texts))
    return tested


def _read_coco_captions(path: Path) -> list[CaptionedImage]:
    """Return all images of a file of COCO's caption annotations."""
    whole, names, captions = _read_object(path), dict[int, str](), dict[int, list[str]]()
    for number, row in enumerate(read_list_field(whole, "images", repr(str(path)))):
        where = f"{str(path)!r}, image {number}"
        image = read_number_field(row, "id", where)
        if image in names:
            raise DataError(f"{where}: the id {image} is a duplicate. Download the file again.")
        names[image], captions[image] = read_name_field(row, "file_name", where), []
    for number, row in enumerate(read_list_field(whole, "annotations", repr(str(path)))):
        where = f"{str(path)!r}, annotation {number}"
        image = read_number_field(row, "image_id", where)
        if image not in names:
            raise DataError(f"{where}: field 'image_id' = {image} matches no image in the file.")
        captions[image].append(read_text_field(row, "caption", where))
    return [(name, captions[image]) for image, name in names.items()]


COCO_FILES: Mapping[str, Callable[[Path], list[CaptionedImage]]] = {
    "dataset_coco.json": _read_karpathy_split,
    "coco_karpathy_test.json": _read_karpathy_test,
    "captions_val2017.json": _read_coco_captions,
}


def _build_task(rows: Sequence[CaptionedImage], path: Path, images: Path) -> Rankings:
    """Return the retrieval of captions by images and of images by captions, all in one pool."""
    bare = [name for name, captions in rows if not captions]
    if bare or not rows:
        what = f"the image {bare[0]!r} has no caption" if bare else "it has no image of the test split"
        raise DataError(f"{str(path)!r}: {what}. Download it again.")
    to_text: list[tuple[object, ...]] = []
    to_image: list[tuple[object, ...]] = []
    texts: list[tuple[str, ...]] = []
    for image, (name, captions) in enumerate(rows):
        text_indices = list(range(len(texts), len(texts) + len(captions[:CAPTIONS])))
        texts += [(caption,) for caption in captions[:CAPTIONS]]
        to_text.append((f"i2t/{name}", name, ["i2t"], "i2t", image, 0, text_indices))
        to_image += [
            (f"t2i/{name}-{n}", name, ["t2i"], "t2i", text, 1, [image]) for n, text in enumerate(text_indices)
        ]
    files = locate_images(images, [name for name, _ in rows], FOLDERS[path.name])
    return Rankings(
        pd.DataFrame(to_text + to_image, columns=list(RANKING_COLUMNS)),
        [ImageFile(str(path)) for path in files],
        texts,
        [np.arange(len(texts)), np.arange(len(rows))],
    )


def _read_object(path: Path) -> dict[str, Any]:
    data = read_json(path)
    if not isinstance(data, dict):
        raise DataError(f"{str(path)!r} must be an object, not {format_value(data)}.")
    return data


COCO = Benchmark(
    name="coco_retrieval",
    layout=COCO_LAYOUT,
    reader=read_coco_retrieval,
    metrics=("recall@1", "recall@5", "recall@10"),
    confirmed="public loaders of dataset_coco.json and captions_val2017.json (fields; the first five captions), and "
    "LAION-AI/CLIP_benchmark: clip_benchmark/metrics/zeroshot_retrieval.py (recall, any true caption); "
    "coco_karpathy_test.json as published (tests read all its 25,010 captions); captions_val2017.json: tests read all 79 "
    "images and 395 captions of a shortened one (Obmutescence/COCO-MINI); of the full one, the first 53 images and the last "
    "captions were read, as copied in ruizewang/evaluate. dataset_coco.json itself was not available",
)
FLICKR30K = Benchmark(
    name="flickr30k_retrieval",
    layout=FLICKR30K_LAYOUT,
    reader=read_flickr30k_retrieval,
    metrics=("recall@1", "recall@5", "recall@10"),
    confirmed="public loaders of dataset_flickr30k.json (fields), and LAION-AI/CLIP_benchmark: "
    "clip_benchmark/metrics/zeroshot_retrieval.py (recall, any true caption). The published file itself was not "
    "available, but the first images of Flickr8K's in the same form were (XinyuLyu/cc, dataset_flickr8k.json)",
)
