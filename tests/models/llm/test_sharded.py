from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from obliging_writer import BOTH, CAPTIONS, MODEL, pairs_of
from small_language_models import gpt2_folder

from caramel.interfaces.writer import WrittenCaption
from caramel.models.llm import sharded
from caramel.models.llm.sharded import ShardedLanguageModel
from caramel.runtime.ray.workers import open_worker_pool
from caramel.sources.captions.llm.writer import language_negatives


def written(folder: Path, store: Path, workers: int) -> tuple[WrittenCaption, pd.DataFrame]:
    """Return what a model of a folder writes, and its replies but for the time that they took."""
    settings = {
        **MODEL,
        "target": f"local:{folder}#plain_text",
        "max_tokens": 4,
        "examples": 0,
        "max_connections": 3,
    }
    found = language_negatives(
        pairs_of([caption[:20] for caption in CAPTIONS[:2]]),
        seed=2,
        max_attempts=1,
        parts=BOTH,
        model={**settings, "workers": workers},
        store=store,
    )
    assert found.replies is not None
    return found, pd.concat(list(found.replies)).drop(columns="seconds")


def test_a_worker_takes_a_gpu_where_the_cluster_has_some_and_this_machine_none(
    ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    taken = []

    @contextmanager
    def noted(gpus: float) -> Iterator[object]:
        taken.append(gpus)
        with open_worker_pool(gpus) as found:
            yield found

    monkeypatch.setattr(sharded, "open_worker_pool", noted)
    for has in ({"CPU": 2.0}, {"CPU": 2.0, "GPU": 8.0}):
        monkeypatch.setattr(ray, "cluster_resources", lambda has=has: has)
        ShardedLanguageModel("folder", 3, 2).answer_requests(lambda number: [], lambda request, said: None)
    assert taken == [0.0, 1.0]


@pytest.mark.slow
def test_two_workers_write_what_one_process_writes(kept_workers: None, tmp_path: Path) -> None:
    folder = gpt2_folder(tmp_path / "gpt2", n_positions=2048)
    alone, first = written(folder, tmp_path / "alone.sqlite", 0)
    spread, second = written(folder, tmp_path / "spread.sqlite", 2)
    pd.testing.assert_frame_equal(first, second)
    assert first["text"].notna().sum() > 10
    for name in ("negatives", "paraphrases", "rejects", "verdicts"):
        pd.testing.assert_frame_equal(getattr(alone, name), getattr(spread, name))
