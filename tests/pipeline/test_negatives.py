"""Stage ``negatives`` with a language model behind a real server, and another writer for one part."""

from __future__ import annotations

import copy
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer
from obliging_writer import CAPTIONS, obliging, pairs_of

from caramel import tables
from caramel.config import parse
from caramel.running.tracking_store import tracking_uri
from caramel.storage.plain_yaml import read_yaml

ROOT = Path(__file__).parents[2]
STAGE = runpy.run_path(str(ROOT / "pipelines" / "negatives.py"))["negatives"]
DEFAULT = read_yaml(ROOT / "params" / "default.yaml", "")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    pairs = pairs_of(CAPTIONS).assign(scene=None, split="train", source="test")
    tables.write(tables.PAIRS, tables.frame(tables.PAIRS, pairs), "data/scenes/pairs.parquet")
    server = ChatServer(obliging)
    yield server
    server.close()


def run(server: ChatServer, **section: Any) -> set[str]:
    """Run the stage; return the names of the tables."""
    values = copy.deepcopy(DEFAULT)
    values["negatives"] |= {"attempts": 3, **section}
    values["negatives"]["language_model"]["target"] = f"chat:m@{server.url}"
    STAGE(parse(values, "params.yaml"))
    return {path.stem for path in Path("data/negatives").iterdir()}


def test_negatives_of_a_model_and_paraphrases_of_word_lists_stand_side_by_side(server: ChatServer) -> None:
    import mlflow

    found = run(server, backend="language_model", paraphrases="lexicon")
    assert found == {"negatives", "paraphrases", "rejects", "replies", "verdicts"}
    read = {name: tables.read(tables.TABLES[name], f"data/negatives/{name}.parquet") for name in found}
    assert set(read["negatives"]["generator"]) == {"language_model"}
    assert set(read["paraphrases"]["generator"]) == {"lexicon"}
    assert len(read["negatives"]) + len(read["paraphrases"]) + len(read["rejects"]) == len(CAPTIONS) * 8
    client = mlflow.MlflowClient(tracking_uri(Path()))
    experiment = client.get_experiment_by_name("caramel")
    (logged,) = client.search_runs([experiment.experiment_id])
    versions = set(read["replies"]["prompt"])
    assert {
        f"{name}@{value}" for name, value in logged.data.params.items() if f"{name}@{value}" in versions
    } == versions
    assert logged.data.metrics["tokens_in"] == 100 * len(server.requests)


def test_word_lists_write_negatives_and_a_model_paraphrases(server: ChatServer) -> None:
    run(server, backend="lexicon", paraphrases="language_model")
    assert set(tables.read(tables.NEGATIVES, "data/negatives/negatives.parquet")["generator"]) == {"lexicon"}
    paraphrases = tables.read(tables.PARAPHRASES, "data/negatives/paraphrases.parquet")
    assert paraphrases["generator"].tolist() == ["language_model"] * len(CAPTIONS)
    assert len(server.requests) == 2 * len(CAPTIONS)


def test_without_a_model_there_are_neither_replies_nor_verdicts(server: ChatServer) -> None:
    assert run(server, backend="lexicon") == {"negatives", "paraphrases", "rejects"}
    assert server.requests == []
