"""Score data sets of any size with blind scorers: shard by shard, resumable, on one machine or a cluster.

Learned scorers train on only a part of a large data set (``CAP`` in ``linear_probe`` and ``kneser_ney``). So
whole images are assigned to shards, and each shard is scored by itself, with cross-validation within the
shard. Memory depends on the size of a shard, not on the size of the data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from caramel.blind.scorer_specs import load_scorer, mark_local_scorer
from caramel.blind.scores import score_pairs
from caramel.interfaces.settings import Executor
from caramel.io.files import write_atomically
from caramel.models.embedding_cache import check_stores
from caramel.runtime.paths import SCORED
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import map_shards
from caramel.utils.hashing import assign_folds

SHARD = 100_000  # rows
COLUMNS = ["pair_id", "image_id", "type", "subtype", "caption", "negative_caption"]


def compute_sharded_scores(
    rows: pd.DataFrame,
    scorers: Sequence[str],
    *,
    folds: int,
    seed: int,
    folder: Path,
    executor: Executor,
    size: int = SHARD,
) -> list[Path]:
    """Return the paths of Parquet files of table ``scores``, one per shard; negative_id is the pair_id.

    The order of the rows does not change the result.

    Args:
        rows: audit rows, at least one; see ``text.attack.run_attacks``.
        scorers: see ``scorer_specs``.
        folds: number of cross-validation folds within a shard.
        seed: random seed for shards, folds and sampling.
        folder: folder for the rows of the shards and their scores. Scores that exist are reused.
        executor: ``inline`` runs in this process, ``ray`` on the cluster.
        size: approximate number of rows per shard.

    Raises:
        BackendError: there is no scorer with that name.
    """
    for name in scorers:
        load_scorer(name)  # raises for an unknown scorer before anything is scored
    count = -(-len(rows) // size)
    order = rows["pair_id"].argsort().to_numpy()
    image, names = pd.factorize(rows["image_id"])
    shard = assign_folds(names.tolist(), folds=count, seed=seed)[image[order]]
    parts = []
    for i in np.unique(shard).tolist():
        part = (
            rows[COLUMNS].take(order[shard == i]).reset_index(drop=True).astype("str")
        )  # categories become texts
        path = Path(folder) / "rows" / f"{i:05}.parquet"
        write_atomically(path, lambda temporary, part=part: part.to_parquet(temporary))  # type: ignore[misc]
        parts.append(LocalFile(str(path)))
    if executor == "ray":
        check_stores(SCORED)
    placed = [mark_local_scorer(name) for name in scorers]
    settings = {"scorers": placed, "names": list(scorers), "folds": folds, "seed": seed}
    return map_shards(
        score_shard, parts, settings=settings, folder=folder, executor=executor, title="blind scores"
    )


def score_shard(
    shard: str, *, scorers: Sequence[str], names: Sequence[str], folds: int, seed: int
) -> pa.Table:
    """Return table ``scores`` of the rows in one file.

    Args:
        shard: Parquet file of the shard's rows.
        scorers: specs of the scorers on this machine.
        names: the name of each scorer in the table.
        folds, seed: see ``compute_sharded_scores``.
    """
    rows = pq.read_table(Path(shard).absolute()).to_pandas()  # pyarrow reads the relative path a:b/c as a URL
    negatives = rows[["pair_id", "type", "subtype", "negative_caption"]].assign(negative_id=rows["pair_id"])
    pairs = rows[["pair_id", "image_id", "caption"]]
    scores = score_pairs(pairs, negatives, scorers=scorers, folds=folds, seed=seed)
    called = scores["scorer"].map(dict(zip(scorers, names, strict=True)))
    return pa.Table.from_pandas(scores.assign(scorer=called), preserve_index=False)
