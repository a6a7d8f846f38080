"""Results of a few models on a small release in SugarCrepe's format, for the pages that show them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from small_releases import write_sugarcrepe

from caramel.benchmarks.content import hash_texts
from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe
from caramel.evaluation.external.run_files import write_run
from caramel.evaluation.results.summary import summarise_similarities
from caramel.registry import BENCHMARKS
from caramel.schemas.evaluation import ANSWERS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.schemas.rejects import REJECTS
from caramel.utils.resampling import Bootstrap

IMAGES = 8
NULLS = [name for name, column in SIMILARITIES.columns.items() if column.null]


def write_release(folder: Path, captions: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write the release with an image for each eighth row."""
    write_sugarcrepe(folder, captions, IMAGES)
    for number in range(IMAGES):
        stream = io.BytesIO()
        Image.new("RGB", (160, 120), (30 * number, 90, 160)).save(stream, "JPEG")
        (folder / f"{number:012}.jpg").write_bytes(stream.getvalue())


def write_results(out: Path, release: Path, gaps: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Write the results of models, each given as caption minus hard negative for each instance; return the similarities."""
    task = read_sugarcrepe(release, release)
    described = task.rows[["instance_id", "image_id", "subsets"]].assign(
        benchmark="sugarcrepe", texts_hash=hash_texts(task), score_type="cosine"
    )
    parts = [
        described.assign(model=model, **dict.fromkeys(set(NULLS) - {*described}))
        .assign(s_c1_i0=0.0, s_c0_i0=np.asarray(gaps_of_model, float), images_hash="0" * 32)
        for model, gaps_of_model in gaps.items()
    ]  # fmt: skip
    similarities = build_frame(SIMILARITIES, pd.concat(parts, ignore_index=True))
    metrics = summarise_similarities(
        similarities, {"sugarcrepe": BENCHMARKS["sugarcrepe"]}, bootstrap=Bootstrap(100, 0)
    )
    out.mkdir(parents=True, exist_ok=True)
    write_run(out, similarities, build_frame(ANSWERS, []), metrics, build_frame(REJECTS, []))
    return similarities
