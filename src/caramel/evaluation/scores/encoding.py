"""Compute a model's scores on texts and images; each distinct image, text or pair is computed once and stored."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa

from caramel.benchmarks.image_files import crop_image, read_whole_files
from caramel.errors import BackendError
from caramel.evaluation.scores.item_scores import (
    DualEncoderScores,
    ItemScores,
    MatcherScores,
    Pairs,
    TextEncoderScores,
    check_finite,
)
from caramel.interfaces.benchmark import ImageFile, Index
from caramel.interfaces.model import DualEncoder, Embeddings, Encodable, JointEncoder, Matcher, TextEncoder
from caramel.interfaces.settings import Compute, Executor
from caramel.io.keys import compute_pair_key, compute_text_key
from caramel.models.embedding_cache import EmbeddingCache, Vectors, build_vector_table
from caramel.models.specs import mark_local_path, open_model, parse_spec
from caramel.runtime.code_deps import compute_code_version
from caramel.runtime.ray.sharded_map import map_in_threads

IMAGES_PER_SHARD, TEXTS_PER_SHARD, PAIRS_PER_SHARD = 256, 1024, 256


@dataclass(frozen=True)
class RunConfig:
    """Settings of a model's forward passes.

    Attributes:
        model: spec from which workers load the model.
        compute: device and precision.
        batch_size: items per forward pass; None: found automatically.
        store: folder of the embedding store.
        executor: ray or inline.
        gpus: GPUs of one worker.
    """

    model: str
    compute: Compute
    batch_size: int | None
    store: str
    executor: Executor
    gpus: float = 0.0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a worker needs."""
        return {
            "model": mark_local_path(self.model),
            "device": self.compute.device,
            "precision": self.compute.precision,
            "batch_size": self.batch_size,
        }


def compute_model_code_version(model: str) -> str:
    """Return a hash of the code that computes a model's vectors: this module and the code of the model's family."""
    family = parse_spec(model).family
    return compute_code_version(__name__, model=family)


def encode_items(
    images: Sequence[ImageFile],
    image_keys: Sequence[bytes],
    texts: Sequence[str],
    pairs: Pairs,
    run: RunConfig,
    model: Encodable,
) -> ItemScores:
    """Return the model's scores on these items; items that the store lacks are computed now.

    Args:
        images: images, which may repeat; equal content is encoded once.
        image_keys: content key of each image.
        texts: distinct texts.
        pairs: returns the (text, image) rows whose scores will be used; a matcher scores only these.
        run: settings of the model's forward passes.
        model: the opened model.

    Raises:
        BackendError: the model answers in words, compares captions, or gives NaN or infinity.
    """
    store = EmbeddingCache(run.store, model.identity, compute_model_code_version(run.model))
    firsts, image_index = find_distinct_images(images, image_keys)
    if isinstance(model, Matcher):
        text_of, image_of = pairs()
        numbers, scores = _load_pair_vectors(store, firsts, texts, text_of, image_index[image_of], run)
        return MatcherScores(numbers, np.array(scores[:, 0]), len(texts), image_index)
    if isinstance(model, JointEncoder):
        raise BackendError(
            f"Model {model.name!r} compares the captions of an image with each other and gives no score of one of them. "
            f"It supports only `caramel eval`, on benchmarks with two true captions."
        )
    if not isinstance(model, TextEncoder):
        raise BackendError(
            f"Model {model.name!r} answers in words and gives no scores. It supports only multiple choice, on "
            f"benchmarks of captions for one image."
        )
    vectors = check_finite(_load_text_embeddings(store, texts, run), model.name)
    if not isinstance(model, DualEncoder):
        return TextEncoderScores(vectors, len(image_index))
    return DualEncoderScores(
        check_finite(_load_image_embeddings(store, firsts, run), model.name), image_index, vectors
    )


def encode_joint_items(
    images: Sequence[ImageFile],
    image_keys: Sequence[bytes],
    texts: Sequence[str],
    pairs: Pairs,
    run: RunConfig,
    model: JointEncoder,
) -> tuple[Embeddings, Index]:
    """Return a joint encoder's vectors of the distinct pairs among the rows, and each row's index among them.

    Arguments as in ``encode_items``.

    Raises:
        BackendError: a vector holds NaN or infinity.
    """
    store = EmbeddingCache(run.store, model.identity, compute_model_code_version(run.model))
    firsts, image_index = find_distinct_images(images, image_keys)
    text_of, image_of = pairs()
    rows = image_index[image_of]
    numbers, vectors = _load_pair_vectors(store, firsts, texts, text_of, rows, run)
    return check_finite(vectors, model.name), np.searchsorted(numbers, rows * len(texts) + text_of)


def find_distinct_images(
    images: Sequence[ImageFile], keys: Sequence[bytes]
) -> tuple[dict[bytes, ImageFile], Index]:
    """Return the first image of each distinct content by its key, and each image's index among them."""
    positions: dict[bytes, int] = {}
    image_index = np.array([positions.setdefault(key, len(positions)) for key in keys], np.int64)
    firsts: dict[bytes, ImageFile] = {}
    for key, image in zip(keys, images, strict=True):
        firsts.setdefault(key, image)
    return firsts, image_index


def build_text_shards(texts: Sequence[str]) -> list[list[str]]:
    """Return the texts in the order and the chunks in which they are encoded.

    Texts that differ only in case are adjacent, because many tokenizers treat them as equal, so that they tie.
    """
    return split_chunks(sorted(texts, key=lambda text: (len(text), text.casefold(), text)), TEXTS_PER_SHARD)


def _load_text_embeddings(store: EmbeddingCache, texts: Sequence[str], run: RunConfig) -> Embeddings:
    """Return the embeddings of the texts, (n, d)."""

    return store.compute_vectors(
        "texts",
        [compute_text_key(text) for text in texts],
        encode_texts,
        lambda todo: build_text_shards([texts[i] for i in todo]),
        settings=run.settings,
        executor=run.executor,
        title=f"{run.model}: texts",
        gpus=run.gpus,
    ).vectors


def _load_image_embeddings(
    store: EmbeddingCache, images: Mapping[bytes, ImageFile], run: RunConfig
) -> Embeddings:
    """Return the embeddings of distinct images, (n, d)."""
    keys = list(images)

    def build_shards(todo: list[int]) -> list[list[str]]:
        return split_chunks([keys[i].hex() for i in todo], IMAGES_PER_SHARD)

    return store.compute_vectors(
        "images",
        keys,
        encode_images,
        build_shards,
        bring=lambda shard: [
            [key, *file] for key, file in zip(shard, _load_files(images, shard), strict=True)
        ],
        settings=run.settings,
        executor=run.executor,
        title=f"{run.model}: images",
        gpus=run.gpus,
    ).vectors


def _load_pair_vectors(
    store: EmbeddingCache,
    images: Mapping[bytes, ImageFile],
    texts: Sequence[str],
    text_of: Index,
    image_of: Index,
    run: RunConfig,
) -> tuple[Index, Vectors]:
    """Return the distinct pairs among the rows (image * number of texts + text, sorted), and the vector of each."""
    pairs = np.unique(image_of * len(texts) + text_of)  # sorted by image, so that a shard opens few images
    names = list(images)
    items = [(names[i].hex(), texts[t]) for i, t in zip(*np.divmod(pairs, len(texts)), strict=True)]

    def build_shards(todo: list[int]) -> list[list[list[Any]]]:
        return [
            [
                [image, [text for _, text in of_image]]
                for image, of_image in itertools.groupby(chunk, key=itemgetter(0))
            ]
            for chunk in split_chunks([items[k] for k in todo], PAIRS_PER_SHARD)
        ]

    def add_files(shard: list[list[Any]]) -> list[list[Any]]:
        files = _load_files(images, [image for image, _ in shard])
        return [[*item, *file] for item, file in zip(shard, files, strict=True)]

    vectors = store.compute_vectors(
        "pairs",
        [compute_pair_key(bytes.fromhex(image), text) for image, text in items],
        encode_pairs,
        build_shards,
        bring=add_files,
        settings=run.settings,
        executor=run.executor,
        title=f"{run.model}: pairs",
        gpus=run.gpus,
    ).vectors
    return pairs, vectors


def _load_files(images: Mapping[bytes, ImageFile], keys: Sequence[str]) -> list[list[Any]]:
    """Return the encoded file of each image, its crop box, and its name in messages."""
    image_files = [images[bytes.fromhex(key)] for key in keys]
    return [
        [data, image.box, str(image)]
        for data, image in zip(read_whole_files(image_files), image_files, strict=True)
    ]


def encode_texts(
    shard: list[str], *, model: str, device: str, precision: str, batch_size: int | None
) -> pa.Table:
    """Return keys and embeddings of one shard of texts."""
    encoder = cast(
        TextEncoder, open_model(model, device, precision)
    )  # texts are encoded only for such a model
    vectors = encoder.encode_texts(shard, batch_size)
    return build_vector_table([compute_text_key(text) for text in shard], vectors)


def encode_images(
    shard: list[list[Any]], *, model: str, device: str, precision: str, batch_size: int | None
) -> pa.Table:
    """Return keys and embeddings of one shard of images; an item is the key and the arguments of ``crop_image``."""
    files = map_in_threads(lambda item: crop_image(*item[1:]), shard)
    vectors = cast(DualEncoder, open_model(model, device, precision)).encode_images(files, batch_size)
    return build_vector_table([bytes.fromhex(item[0]) for item in shard], vectors)


def encode_pairs(
    shard: list[list[Any]], *, model: str, device: str, precision: str, batch_size: int | None
) -> pa.Table:
    """Return keys and scores or vectors of one shard of pairs.

    An item is an image's key, its texts and the arguments of ``crop_image``.
    """
    pairs = [(index, text) for index, item in enumerate(shard) for text in item[1]]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(text for _, text in pairs))}
    items = (
        map_in_threads(lambda item: crop_image(*item[2:]), shard),
        list(numbers),
        np.array([index for index, _ in pairs], np.int64),
        np.array([numbers[text] for _, text in pairs], np.int64),
        batch_size,
    )
    keys = [compute_pair_key(bytes.fromhex(shard[index][0]), text) for index, text in pairs]
    opened = open_model(model, device, precision)
    if isinstance(opened, JointEncoder):
        return build_vector_table(keys, opened.encode_pairs(*items))
    scores = cast(Matcher, opened).match_pairs(*items)
    return build_vector_table(keys, np.asarray(scores, np.float64)[:, None])


def split_chunks(items: list[Any], size: int) -> list[list[Any]]:
    """Return the items in chunks of at most ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]
