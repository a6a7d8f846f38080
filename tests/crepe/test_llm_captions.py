"""Captions of many atoms come of a language model, say all of their graph, and are not asked for twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chat_server import ChatServer, Request, Response
from obliging_writer import asked, completion, obliging

from caramel.benchmarks.crepe_files import read_regions
from caramel.crepe.caption_template import Caption
from caramel.crepe.crops import CropRules
from caramel.crepe.llm_captions import OMITTED, CaptionWriter, create_caption_writer, write_template_captions
from caramel.crepe.productivity import Draft, get_file_path, sample_drafts, write_productivity_files
from caramel.crepe.visual_genome_graphs import ImageGraph
from caramel.crepe.world_graphs import (
    PIXELS,
    WorldThesaurus,
    build_graph,
    sample_grid_scene,
    select_pair_relations,
)
from caramel.errors import BackendError, ResourceError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Edge, Node, SceneGraph
from caramel.models.llm.chat import load_chat_model
from caramel.registry import LANGUAGE_MODELS

SMALL = SceneGraph((Node("car", ("red", "old")), Node("box")))
LARGE = SceneGraph((Node("car", ("red", "old")), Node("box", ("blue",))), (Edge(0, "above", 1),))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    yield server
    server.close()


def teller(server: ChatServer, folder: Path, max_requests: int | None = None) -> CaptionWriter:
    return create_caption_writer(
        LANGUAGE_MODELS["chat"].load(f"m@{server.url}", max_connections=2, workers=0),
        folder / "r.sqlite",
        seed=0,
        max_connections=2,
        max_requests=max_requests,
    )


def test_few_atoms_are_said_by_the_template_and_more_by_the_model_once(
    server: ChatServer, tmp_path: Path
) -> None:
    said = teller(server, tmp_path)([SMALL, LARGE, SMALL])
    assert said[0] == said[2] == write_template_captions([SMALL])[0]
    assert isinstance(said[1], Caption)
    assert said[1].text == "There is a red old car, a blue box, the car above box."
    assert set(said[1].spans) == set(LARGE.list_positions())
    assert [asked(request)[1] for request in server.requests] == [
        {"objects": "car (red, old); box (blue)", "relations": "car above box"}
    ]
    assert teller(server, tmp_path)([SMALL, LARGE, SMALL]) == said
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "sorry", ["I cannot do that.", "", '{"sentence": "Ένα αυτοκίνητο 🚗"}', '{"sentence": "x']
)
def test_a_caption_that_omits_an_atom_is_asked_for_again_and_then_a_reject(
    sorry: str, server: ChatServer, tmp_path: Path
) -> None:
    def omits(request: Request, number: int) -> Response:
        return completion(sorry)

    server.behave = omits
    (found,) = teller(server, tmp_path)([LARGE])
    assert isinstance(found, str)
    assert (found == OMITTED) == ("🚗" in sorry)
    assert len(server.requests) == 3
    if found == OMITTED:
        assert "it does not say 'car'" in str(server.requests[1].body["messages"][-1]["content"])


def test_a_server_that_never_replies_is_an_error_before_any_file_is_touched(
    server: ChatServer, tmp_path: Path
) -> None:
    def refuses(request: Request, number: int) -> Response:
        return Response(body=b"no reply")

    server.behave = refuses
    patient = load_chat_model(f"m@{server.url}", max_connections=2, workers=0)
    hurried = replace(patient, endpoint=replace(patient.endpoint, longest=0.01))
    kept = get_file_path(tmp_path / "set", "atom", 7)
    kept.parent.mkdir(parents=True)
    kept.write_text("of an earlier run")
    drafted = {n: [Draft(str(n), (0, 0, 1, 1), LARGE, LARGE)] for n in (6, 7)}
    with pytest.raises(BackendError, match="gave no response to any request for 2 texts"):
        write_productivity_files(
            drafted,
            WorldThesaurus(),
            tmp_path / "set",
            seed=0,
            reject=lambda reject: None,
            write_captions=create_caption_writer(hurried, tmp_path / "r.sqlite", seed=0, max_connections=2),
        )
    assert kept.read_text() == "of an earlier run"


def test_a_cap_ends_what_is_asked(server: ChatServer, tmp_path: Path) -> None:
    other = replace(LARGE, nodes=LARGE.nodes[::-1])
    with pytest.raises(ResourceError, match="The cap --max-requests 1 is reached after 1 of 2 texts"):
        teller(server, tmp_path, max_requests=1)([LARGE, other])
    assert len(server.requests) == 1
    assert len(teller(server, tmp_path, max_requests=2)([LARGE, other])) == 2


def test_what_is_missing_is_said_and_mended(server: ChatServer, tmp_path: Path) -> None:
    def learns(request: Request, number: int) -> Response:
        return obliging(request, number) if number else completion(json.dumps({"sentence": "A red car."}))

    server.behave = learns
    (found,) = teller(server, tmp_path)([LARGE])
    assert isinstance(found, Caption)
    assert len(server.requests) == 2


def test_a_set_of_the_models_captions_has_its_negatives_and_is_read_back(
    server: ChatServer, tmp_path: Path
) -> None:
    shown = [
        ImageGraph(str(i), PIXELS, PIXELS, select_pair_relations(build_graph(sample_grid_scene(rng, 4)), rng))
        for i in range(4)
        for rng in [np.random.default_rng(i)]
    ]
    rules = CropRules(area=0, share=0, narrow=0.01, overlap=2)
    rejects: list[Reject] = []
    found = sample_drafts(
        shown, complexities=[4, 6, 9], tries=1, most=4, rules=rules, seed=0, reject=rejects.append
    )
    counts = write_productivity_files(
        found,
        WorldThesaurus(),
        tmp_path / "set",
        seed=0,
        reject=rejects.append,
        write_captions=teller(server, tmp_path),
    )
    assert counts["atom", 9] > 0
    for n in (4, 6, 9):
        for row in read_regions(get_file_path(tmp_path / "set", "atom", n), {"": "hard_negs"}).regions:
            assert row.caption.startswith("There is") == (n > 4)
            assert len({row.caption, *row.negatives[""]}) == 6
