from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.blind import sharded_scores as sharded
from caramel.blind.scorer_specs import mark_local_scorer
from caramel.blind.scores import score_pairs
from caramel.errors import BackendError
from caramel.io.files import save_hashed
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.schemas.contracts import check_table
from caramel.schemas.scores import SCORES


def audit_rows(count):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(40, size=6)) for _ in range(2 * count)]
    return pd.DataFrame(
        {
            "pair_id": [f"p{i}" for i in range(count)],
            "image_id": [f"i{i // 3}" for i in range(count)],
            "type": "add",
            "subtype": "add_obj",
            "caption": texts[:count],
            "negative_caption": [f"{text} zap" for text in texts[count:]],
        }
    )


def scored(rows, folder, *, size):
    files = sharded.compute_sharded_scores(
        rows, ["length", "ngram"], folds=3, seed=3, folder=folder, executor="inline", size=size
    )
    found = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    return files, found.sort_values(["scorer", "negative_id"], ignore_index=True)


def test_every_row_is_scored_once_whatever_the_shards(tmp_path):
    rows = audit_rows(90)
    files, found = scored(rows, tmp_path, size=30)
    check_table(SCORES, found, "test")
    assert len(files) == 3
    assert found[found["scorer"] == "ngram"]["negative_id"].tolist() == sorted(rows["pair_id"])
    length = found[found["scorer"] == "length"]
    assert (length["positive_score"] > length["negative_score"]).all()


def test_an_image_is_in_one_shard(tmp_path):
    scored(audit_rows(90), tmp_path, size=30)
    parts = [pd.read_parquet(path) for path in sorted((tmp_path / "rows").iterdir())]
    images = [set(part["image_id"]) for part in parts]
    assert sum(map(len, images)) == len(set.union(*images)) == 30


def test_one_shard_gives_the_scores_of_all_rows_together(tmp_path):
    rows = audit_rows(40)
    _, found = scored(rows, tmp_path, size=40)
    negatives = rows.assign(negative_id=rows["pair_id"])[
        ["negative_id", "pair_id", "type", "subtype", "negative_caption"]
    ]
    whole = score_pairs(
        rows[["pair_id", "image_id", "caption"]], negatives, scorers=["length", "ngram"], folds=3, seed=3
    )
    pd.testing.assert_frame_equal(found, whole.sort_values(["scorer", "negative_id"], ignore_index=True))


def test_what_is_scored_is_not_scored_again_in_any_order_of_rows(tmp_path, monkeypatch):
    rows = audit_rows(60)
    first, _ = scored(rows, tmp_path, size=20)

    def fails(*arguments, **settings):
        raise AssertionError

    monkeypatch.setattr(sharded, "score_pairs", fails)
    second, _ = scored(rows.sample(frac=1, random_state=1), tmp_path, size=20)
    assert first == second


def test_an_unknown_scorer_is_an_error_before_anything_is_scored(tmp_path):
    with pytest.raises(BackendError, match="nothing"):
        sharded.compute_sharded_scores(
            audit_rows(3), ["length", "nothing"], folds=2, seed=3, folder=tmp_path, executor="inline"
        )
    assert list(tmp_path.iterdir()) == []


def test_what_is_broken_in_the_text_store_is_said_before_workers_whom_nobody_hears_use_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("work/scorers/model").mkdir(parents=True)
    Path("work/scorers/model/identity.json").write_text("{}")
    path = save_hashed(
        Path("work/scorers/model/texts/shard.parquet"), lambda temporary: temporary.write_text("vectors")
    )
    path.write_text("broken")
    monkeypatch.setattr(sharded, "map_shards", lambda *arguments, **keywords: [])
    sharded.compute_sharded_scores(
        audit_rows(9), ["length"], folds=3, seed=3, folder=tmp_path / "out", executor="ray"
    )
    assert not path.exists()
    assert capsys.readouterr().err.count("computed again") == 1


def test_scorers_are_called_as_they_were_given_wherever_their_models_lie(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert mark_local_scorer(f"vera:{tmp_path}/model") == LocalFile(f"{tmp_path}/model", "vera:")
    for options in ("?pooling=cls", "#a"):
        spec = f"embedding_probe:{tmp_path}/model{options}"
        assert mark_local_scorer(spec) == LocalFile(f"{tmp_path}/model", "embedding_probe:", options)
    (tmp_path / "model#2").mkdir()
    assert mark_local_scorer(f"vera:{tmp_path}/model#2") == LocalFile(f"{tmp_path}/model#2", "vera:")
    assert mark_local_scorer("length") == "length"
    assert mark_local_scorer("length:") == "length:"
    rows = pd.DataFrame({"caption": ["a cat", "a red dog"], "negative_caption": ["a dog", "a dog"]})
    rows = rows.assign(pair_id=["0", "1"], image_id=["0", "1"], type="replace", subtype="replace_obj")
    rows.to_parquet(tmp_path / "rows.parquet")
    found = sharded.score_shard(
        str(tmp_path / "rows.parquet"), scorers=["length"], names=["length as given"], folds=2, seed=0
    )
    assert set(found["scorer"].to_pylist()) == {"length as given"}
