"""Draw the candidates of one shard of negative captions, all at once or in rounds until one is kept."""

from __future__ import annotations

import functools
import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from caramel.runtime.last_result import keep_last, stamp_files
from caramel.schemas.contracts import INT, TEXT
from caramel.sources.images.diffusion import PipelineMethod, Sampling, draw_images, load_pipeline
from caramel.sources.images.judges import ReadingJudge

PromptCandidate = tuple[Mapping[str, str], int]  # a row of ``build_prompts``, and the number of a candidate
Files = tuple[bytes, bytes | None]  # the candidate, and its positive image if that is drawn with it
_SHARD = pa.schema(
    [
        ("negative_id", TEXT),
        ("candidate", INT),
        ("seed", INT),
        ("png", pa.binary()),
        ("positive_png", pa.binary()),
    ]
)


@keep_last(lambda generator, device, method: stamp_files(generator))
def _load_cached_pipeline(generator: str, device: str, method: PipelineMethod) -> tuple[Any, dict[str, Any]]:
    """Return the pipeline and its call options, loaded once per worker process while its files do not change."""
    import torch

    torch.set_num_threads(1)  # one worker per core: the same images on any number of cores
    return load_pipeline(generator, device, method)


def derive_candidate_seed(seed: int, negative_id: str, candidate: int) -> int:
    """Return the seed of one image, which depends only on these three values."""
    return zlib.crc32(f"{seed}:{negative_id}:{candidate}".encode())


class StopRule(NamedTuple):
    """What the exact reading keeps. Once it keeps a candidate, no further one is drawn for the negative caption."""

    allow_unmentioned_objects: bool
    keep_ambiguous: Sequence[str]


def build_stop_rule(
    judge: str,
    *,
    allow_unmentioned_objects: bool,
    faithfulness_threshold: float | None,
    keep_ambiguous: Sequence[str],
) -> StopRule | None:
    """Return the rule that stops drawing candidates of a negative caption; None: all candidates are drawn.

    A rule exists only for the exact reading, whose fits are 0 or 1: the first candidate that is kept is the best. With
    a model as judge, or with ``faithfulness_threshold`` 0, a later candidate may fit better.
    """
    if judge != ReadingJudge.name or not faithfulness_threshold:
        return None
    return StopRule(allow_unmentioned_objects, keep_ambiguous)


def draw_shard(
    shard: Sequence[Mapping[str, str]],
    *,
    candidates: int,
    until: Sequence[Any] | None,
    generator: str,
    seed: int,
    guidance: float,
    steps: int,
    image_size: int,
    batch_size: int,
    device: str,
    edit: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Draw the candidates of one shard: one row each, with the positive image if pairs are edited.

    Args:
        shard: rows of ``build_prompts``.
        candidates: number of candidates of each caption; the maximum number if ``until`` is given.
        until: fields of the rule of ``build_stop_rule``: a further candidate is drawn only if none is kept yet.
        generator: generator folder.
        seed: seed of the images.
        guidance, steps: as in ``Sampling``.
        image_size: side in pixels.
        batch_size: images per call of the pipeline.
        device: cpu or cuda.
        edit: fields of ``photo_edits.drawing.EditSettings`` if source images are edited; None: images are drawn.
    """
    draw = functools.partial(
        _draw_candidates,
        generator=generator,
        seed=seed,
        sampling=Sampling(guidance, steps),
        image_size=image_size,
        batch_size=batch_size,
        device=device,
        edit=edit,
    )
    if until is None:
        rows = [(row, number) for row in shard for number in range(candidates)]
        return _build_shard_table(rows, draw(rows), seed)
    left = list(shard)
    results: list[tuple[PromptCandidate, Files]] = []
    for number in range(candidates):
        if not left:
            break
        rows = [(row, number) for row in left]
        files = draw(rows)
        results += zip(rows, files, strict=True)
        keep_mask = _compute_keep_mask(left, files, StopRule(*until))
        left = [row for row, is_kept in zip(left, keep_mask, strict=True) if not is_kept]
    order = {row["negative_id"]: index for index, row in enumerate(shard)}
    results.sort(key=lambda drawn: (order[drawn[0][0]["negative_id"]], drawn[0][1]))
    return _build_shard_table([row for row, _ in results], [files for _, files in results], seed)


def _build_shard_table(rows: Sequence[PromptCandidate], files: Sequence[Files], seed: int) -> pa.Table:
    names, numbers = [row["negative_id"] for row, _ in rows], [number for _, number in rows]
    seeds = [derive_candidate_seed(seed, name, number) for name, number in zip(names, numbers, strict=True)]
    return pa.table([names, numbers, seeds, *zip(*files, strict=True)], schema=_SHARD)


def _compute_keep_mask(
    rows: Sequence[Mapping[str, str]], files: Sequence[Files], until: StopRule
) -> list[bool]:
    """Return for each row whether ``filters.py`` keeps the candidate, and no later one can be better."""
    negative_files, positive_files = zip(*files, strict=True)
    drawn = [number for number, file in enumerate(positive_files) if file is not None]
    captions, positives = ([row[key] for row in rows] for key in ("caption", "positive"))
    judge = ReadingJudge(until.allow_unmentioned_objects)
    # One call, so that the judge reads images of equal content only once.
    scores = judge.score_match(
        [*negative_files, *negative_files, *(positive_files[number] for number in drawn)],
        [*captions, *positives, *(positives[number] for number in drawn)],
    )
    of_negative, of_other, of_drawn = np.split(scores, [len(rows), 2 * len(rows)])
    of_positive = np.ones(len(rows))
    of_positive[drawn] = of_drawn
    good = np.minimum(of_negative, of_positive) == 1
    clear = ~judge.is_ambiguous(of_negative, of_other, 0.0)
    # An added detail leaves the positive caption true of every faithful image: a later one is ambiguous too.
    added = [row["type"] == "add" and "add" in until.keep_ambiguous for row in rows]
    keep_mask: list[bool] = (good & (clear | np.array(added))).tolist()
    return keep_mask


def _draw_candidates(
    rows: Sequence[PromptCandidate],
    *,
    generator: str,
    seed: int,
    sampling: Sampling,
    image_size: int,
    batch_size: int,
    device: str,
    edit: Mapping[str, Any] | None,
) -> list[Files]:
    """Return the PNG of each candidate, and of its positive image if pairs are edited."""
    pipeline, options = _load_cached_pipeline(generator, device, edit["method"] if edit else "draw")
    seeds = [derive_candidate_seed(seed, row["negative_id"], number) for row, number in rows]
    files: list[Files] = []
    if edit is not None:
        from caramel.sources.images.photo_edits.drawing import EditSettings, draw_edits

        images = draw_edits(
            pipeline,
            options,
            [row for row, _ in rows],
            seeds,
            edit=EditSettings(**edit),
            sampling=sampling,
            image_size=image_size,
            batch_size=batch_size,
        )
        files += [(_encode_png(negative), _encode_png(positive)) for negative, positive in images]
    elif "planned" in rows[0][0]:
        from caramel.sources.images.editing import draw_pairs
        from caramel.sources.world.scenes import Scene

        scenes = [(Scene.from_json(row["scene"]), Scene.from_json(row["planned"])) for row, _ in rows]
        scene_pairs = [(*pair, seed) for pair, seed in zip(scenes, seeds, strict=True)]
        suffix = rows[0][0]["suffix"]
        images = draw_pairs(
            pipeline, options, scene_pairs, suffix=suffix, batch_size=batch_size, sampling=sampling
        )
        files += [(_encode_png(negative), _encode_png(positive)) for positive, negative in images]
    else:
        for start in range(0, len(rows), batch_size):
            part = slice(start, start + batch_size)
            texts = [row["prompt"] for row, _ in rows[part]]
            drawn = draw_images(
                pipeline, options, texts, seeds[part], sampling=sampling, image_size=image_size
            )
            files += [(_encode_png(image), None) for image in drawn]
    return files


def _encode_png(image: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()
