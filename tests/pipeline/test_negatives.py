"""Stage ``negatives`` with a language model behind a real server, and another writer for one part."""

from __future__ import annotations

import copy
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chat_server import ChatServer
from obliging_writer import CAPTIONS, obliging, pairs_of

from caramel.config.schema import parse_config
from caramel.io.safe_yaml import read_yaml
from caramel.runtime.mlflow.store import get_tracking_uri
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.llm import REPLIES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.llm.split_filter import ELSEWHERE
from caramel.sources.world.sampling import sample_pairs

ROOT = Path(__file__).parents[2]
TRAIN = runpy.run_path(str(ROOT / "pipelines" / "train_writer.py"))["train_writer"]
STAGE = runpy.run_path(str(ROOT / "pipelines" / "negatives.py"))["negatives"]
DEFAULT = read_yaml(ROOT / "params" / "default.yaml", "")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("inputs/prompts").mkdir(parents=True)
    pairs = pairs_of(CAPTIONS).assign(scene=None, split="train", source="test")
    write_table(PAIRS, build_frame(PAIRS, pairs), "data/scenes/pairs.parquet")
    server = ChatServer(obliging)
    yield server
    server.close()


def run(server: ChatServer, **section: Any) -> set[str]:
    """Run the stage; return the names of the tables."""
    values = copy.deepcopy(DEFAULT)
    values["negatives"] |= {"max_attempts": 3, **section}
    values["negatives"]["language_model"]["target"] = f"chat:m@{server.url}"
    STAGE(parse_config(values, "params.yaml"))
    return {path.stem for path in Path("data/negatives").iterdir()}


def test_negatives_of_a_model_and_paraphrases_of_word_lists_stand_side_by_side(server: ChatServer) -> None:
    import mlflow

    found = run(server, backend="language_model", paraphrases="lexicon")
    figures = {"failures", "gold_items", "validator"}
    assert found == {"negatives", "paraphrases", "rejects", "replies", "verdicts", *figures}
    named = found - figures
    read = {name: read_table(TABLES[name], f"data/negatives/{name}.parquet") for name in named}
    assert set(read["negatives"]["generator"]) == {"language_model"}
    assert set(read["paraphrases"]["generator"]) == {"lexicon"}
    assert len(read["negatives"]) + len(read["paraphrases"]) + len(read["rejects"]) == len(CAPTIONS) * 8
    client = mlflow.MlflowClient(get_tracking_uri(Path()))
    experiment = client.get_experiment_by_name("caramel")
    (logged,) = client.search_runs([experiment.experiment_id])
    versions = set(read["replies"]["prompt"])
    assert {
        f"{name}@{value}" for name, value in logged.data.params.items() if f"{name}@{value}" in versions
    } == versions
    assert logged.data.metrics["input_tokens"] == 100 * len(server.requests)


def test_word_lists_write_negatives_and_a_model_paraphrases(server: ChatServer) -> None:
    run(server, backend="lexicon", paraphrases="language_model")
    assert set(read_table(NEGATIVES, "data/negatives/negatives.parquet")["generator"]) == {"lexicon"}
    paraphrases = read_table(PARAPHRASES, "data/negatives/paraphrases.parquet")
    assert paraphrases["generator"].tolist() == ["language_model"] * len(CAPTIONS)
    gold = pd.read_csv("data/negatives/gold_items.csv")
    assert gold["part"].tolist() == ["paraphrases"] * 2 * len(CAPTIONS)
    assert len(server.requests) == 2 * len(CAPTIONS) + len(gold)
    validator = pd.read_csv("data/negatives/validator.csv").iloc[0]
    assert (validator["sensitivity"], validator["specificity"]) == (0.0, 1.0)  # it always says yes


def test_failures_are_those_of_the_model_alone(server: ChatServer) -> None:
    said = f"There is {CAPTIONS[0][:1].lower()}{CAPTIONS[0][1:]}"  # what the model makes of the first
    pairs = pairs_of([*CAPTIONS, said]).assign(scene=None, source="test")
    pairs["split"] = ["train"] * len(CAPTIONS) + ["test"]
    write_table(PAIRS, build_frame(PAIRS, pairs), "data/scenes/pairs.parquet")
    run(server, backend="lexicon", paraphrases="language_model")
    rejects = read_table(REJECTS, "data/negatives/rejects.parquet")
    assert ELSEWHERE in set(rejects["reason"])
    assert not rejects["id"].str.endswith(":paraphrase").all()
    found = pd.read_csv("data/negatives/failures.csv")
    assert set(found["part"]) == {"paraphrase"}
    assert found["rejects"].sum() == 0


def test_the_world_writes_negatives_and_a_model_paraphrases(server: ChatServer) -> None:
    source = sample_pairs(
        counts={"train": 4}, num_objects=(1, 2), allow_unmentioned_objects=False, unseen_frac=0, typical_color_prob=0.5,
        absolute_positions=0.5, group_size=2, seed=1, put=lambda *_, **__: None,
    )  # fmt: skip
    write_table(PAIRS, source.pairs, "data/scenes/pairs.parquet")
    run(server, backend="world", paraphrases="language_model")
    rejects = read_table(REJECTS, "data/negatives/rejects.parquet")
    assert rejects["id"].str.endswith(":only_obj").any()
    for name, column in (("failures", "part"), ("noise", "subtype")):
        assert set(pd.read_csv(f"data/negatives/{name}.csv")[column]) <= {"paraphrase", "all"}


def test_replies_in_their_folder_make_the_tables_again_without_a_server_and_without_what_was_kept(
    server: ChatServer,
) -> None:
    run(server, backend="language_model")
    first = {path.name: path.read_bytes() for path in Path("data/negatives").iterdir()}
    asked = len(server.requests)
    shutil.rmtree("work")
    Path("inputs/replies").mkdir(parents=True)
    shutil.move("data/negatives/replies.parquet", "inputs/replies/published.parquet")
    run(server, backend="language_model")
    assert {path.name: path.read_bytes() for path in Path("data/negatives").iterdir()} == first
    assert len(server.requests) == asked


def test_without_a_model_there_are_neither_replies_nor_verdicts(server: ChatServer) -> None:
    assert run(server, backend="lexicon") == {"negatives", "paraphrases", "rejects"}
    assert server.requests == []


def test_a_writer_that_is_trained_here_writes_of_the_world_and_its_errors_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("inputs/prompts").mkdir(parents=True)
    source = sample_pairs(
        counts={"train": 6, "test": 2}, num_objects=(1, 2), allow_unmentioned_objects=False, unseen_frac=0, typical_color_prob=0.5,
        absolute_positions=0.5, group_size=2, seed=1, put=lambda *_, **__: None,
    )  # fmt: skip
    write_table(PAIRS, source.pairs, "data/scenes/pairs.parquet")
    values = copy.deepcopy(DEFAULT)
    TRAIN(parse_config(values, "params.yaml"))
    assert "no language model" in Path("data/writer/SKIPPED.txt").read_text()
    values["train_writer"] |= {"steps": 2, "batch_size": 4, "hidden_size": 32, "num_layers": 2}
    values["negatives"] |= {"backend": "language_model", "max_attempts": 1}
    values["negatives"]["language_model"] |= {
        "target": "local:data/writer",
        "max_tokens": 8,
        "max_connections": 16,
    }
    TRAIN(parse_config(values, "params.yaml"))
    assert list(pd.read_csv("data/writer/curves.csv")["metric"]) == ["loss", "right"]
    STAGE(parse_config(values, "params.yaml"))
    counted = pd.read_csv("data/negatives/noise.csv").set_index("subtype").loc["all"]
    replies = read_table(REPLIES, "data/negatives/replies.parquet")
    assert counted["requests"] == len(replies) >= 3 * len(source.pairs)
    assert set(pd.read_csv("data/negatives/checks.csv").columns) >= {"precision", "recall"}
    rejects = read_table(REJECTS, "data/negatives/rejects.parquet")
    written = [read_table(t, f"data/negatives/{t.name}.parquet") for t in (NEGATIVES, PARAPHRASES)]
    assert len(rejects) + sum(map(len, written)) == 8 * len(source.pairs)
