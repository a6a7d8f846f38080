"""Whatever the params name is looked up before the first stage runs, by stages and doctor alike."""

from __future__ import annotations

import copy
import importlib
import os
import re
from pathlib import Path
from typing import Any

import pytest

from caramel.config.schema import Config, parse_config
from caramel.config.validate import check_names, is_there, iter_unmet_names
from caramel.doctor import settings
from caramel.doctor.findings import FAIL
from caramel.errors import BackendError
from caramel.io.safe_yaml import read_yaml

DEFAULT = read_yaml(Path(__file__).parents[2] / "params" / "default.yaml", "")


SOURCE = {"synthesize__method": "draw", "assemble__positives": "source"}


def config(**sets: Any) -> Config:
    """Return the default params with other values, by key with ``__`` for the dot."""
    values = copy.deepcopy(DEFAULT)
    for key, value in sets.items():
        section, _, name = key.partition("__")
        values[section][name] = value
    return parse_config(values, "params.yaml")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("zero_shot", "replies", "prompts"):
        (tmp_path / "inputs" / name).mkdir(parents=True)
    return tmp_path


def test_the_default_names_nothing_that_is_missing() -> None:
    assert list(iter_unmet_names(config())) == []


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"negatives__backend": "wrold"}, "negatives.backend: .*Did you mean 'world'"),
        ({"filter_images__second_judge": "clop"}, "filter_images.second_judge = 'clop': .*'clip'"),
        ({"filter_images__ambiguity": "clop"}, "filter_images.ambiguity = .*: .*'clip'"),
        ({"filter_images__judge": "people"}, "'people' needs synthesize.grid_judge"),
        ({"filter_images__ambiguity": "none", "filter_images__ambiguity_test": "images"}, "not 'none'"),
        ({"filter_images__ambiguity": "people", "filter_images__ambiguity_test": "images"}, "not 'people'"),
        ({"filter_images__judge": "itm"}, "write itm:FOLDER"),
        (
            {"filter_images__judge": "people", "filter_images__faithfulness_threshold": None},
            "'people' needs a filter_images.faithfulness_threshold",
        ),
        ({"filter_images__second_judge": "people"}, "filter_images.second_judge = 'people' is not supported"),
        ({"negatives__backend": "people"}, "negatives.backend = 'people' is not supported"),
        ({"scores__scorers": ["length", "lenght"]}, "scores.scorers = 'lenght': .*'length'.*vera:FOLDER"),
        ({"refine__scorers": ["vera"]}, "refine.scorers = 'vera': .*needs a model"),
        ({"refine__scorers": ["length:x"]}, "refine.scorers = 'length:x': .*takes no target"),
        ({"refine__scorers": ["vera:nowhere/at/all"]}, "refine.scorers = 'vera:nowhere/at/all': "),
        ({"pretrain__backend": "pretrained"}, "pretrain.pretrained is not set"),
        (
            {"scenes__source": "files"},
            "synthesize.method = 'edit' needs scenes.source = 'world', not 'files'",
        ),
        (
            {"synthesize__image_size": 96},
            "synthesize.method = 'edit' needs synthesize.image_size = 48, not 96",
        ),
        (
            {"train_generator__patch_size": 16},
            "needs a train_generator.patch_size that divides 24.* 16 does not",
        ),
        ({"synthesize__method": "draw"}, "assemble.positives = 'drawn' needs synthesize.method = 'edit'"),
        (
            {**SOURCE, "finetune__rows": "pairs", "assemble__training": "all"},
            "assemble.training = 'all' needs finetune.rows = 'negatives' for 'pairs_unpaired'",
        ),
        (
            {**SOURCE, "scenes__source": "sugarcrepe", "scenes__val_test_frac": [0.2, 0.8]},
            r"scenes.val_test_frac = \[0.2, 0.8\] leaves no image to train on",
        ),
        (
            {"filter_images__judge": "none", "synthesize__grid_judge": None},
            "synthesize.grid has several settings, and judge 'none' compares none of them",
        ),
        ({"synthesize__method": "instruct"}, "'instruct' needs train_generator.backend = 'pretrained'"),
        ({"synthesize__method": "inpaint"}, "synthesize.masks = 'inputs/masks': no such folder"),
        (
            {"synthesize__method": "instruct", "synthesize__prompt_suffix": " A photograph."},
            "synthesize.prompt_suffix is not used by method 'instruct'",
        ),
        ({"evaluate__models": ["dul:x"]}, "evaluate.models = 'dul:x': .*family cannot be determined"),
        ({"evaluate__models": ["dual:nowhere/at/all"]}, "evaluate.models = 'dual:nowhere/at/all': "),
        (
            {"evaluate__benchmarks": ["sugarcrep"], "evaluate__data": "."},
            "evaluate.benchmarks: .*'sugarcrepe'",
        ),
        ({"evaluate__benchmarks": ["sugarcrepe"]}, "evaluate.data is not set"),
        ({"evaluate__models": ["x" * 5000]}, "evaluate.models = 'x*: .*too long"),
        (
            {"evaluate__benchmarks": ["sugarcrepe"], "evaluate__data": "x" * 5000},
            "evaluate.data = 'x*': no such folder",
        ),
        (
            {"evaluate__benchmarks": ["sugarcrepe"], "evaluate__data": "gone"},
            "evaluate.data = 'gone': no such folder",
        ),
        (
            {"filter_images__second_judge": "questions:no/model@no_such_spacy"},
            "filter_images.second_judge = .*: spaCy model 'no_such_spacy': neither an installed package",
        ),
        ({"crepe__parser": "frases"}, "crepe.parser: Unknown graph parser .*'phrases'"),
        ({"crepe__words": "wordnett:inputs/wordnet"}, "crepe.words: Unknown thesaurus .*'wordnet'"),
        ({"crepe__writer": "local:m"}, "crepe.writer = 'local:m' cannot be used with max_connections 'auto'"),
        ({"crepe__writer": "chatt:m@http://h/v1"}, "crepe.writer: Unknown language model .*'chat'"),
        (
            {"evaluate__benchmarks": ["held_out_retrieval"], "evaluate__data": "."},
            "evaluate.benchmarks names 'held_out_retrieval', but it is always evaluated",
        ),
        (
            {"evaluate__benchmarks": ["zero_shot"], "evaluate__data": "."},
            "evaluate.benchmarks names 'zero_shot', but evaluate.zero_shot names its folder",
        ),
    ],
)
def test_what_is_not_there_is_named_with_its_key_by_stages_and_doctor(
    sets: dict[str, Any], said: str, folders: Path
) -> None:
    with pytest.raises(BackendError, match=said):
        check_names(config(**sets))
    found = settings.check_backends(config(**sets))
    assert found.state == FAIL
    assert said.partition(":")[0].partition(" ")[0] in found.text


def test_the_folders_of_the_tuning_on_sugarcrepe_pp_must_exist(folders: Path) -> None:
    profile = read_yaml(Path(__file__).parents[2] / "params" / "sugarcrepe_pp.yaml", "")
    tuned = {**profile["finetune_sugarcrepe_pp"], "models": ["chat:m@http://127.0.0.1:9/v1"]}
    values = {**copy.deepcopy(DEFAULT), "finetune_sugarcrepe_pp": tuned}
    assert list(iter_unmet_names(parse_config(values, "params.yaml"))) == [
        "finetune_sugarcrepe_pp.data = 'inputs/benchmarks': no such folder",
        "finetune_sugarcrepe_pp.images = 'inputs/images': no such folder",
    ]
    for name in ("benchmarks", "images"):
        (folders / "inputs" / name).mkdir()
    assert list(iter_unmet_names(parse_config(values, "params.yaml"))) == []


def test_all_that_is_missing_is_named_at_once(folders: Path) -> None:
    sets = {"negatives__backend": "a", "evaluate__models": ["b:c"], "evaluate__benchmarks": ["d"]}
    assert len(list(iter_unmet_names(config(**sets)))) == 4


def test_the_published_refinement_by_two_models_can_be_asked_for(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = importlib.import_module("small_language_models")
    vera, cola = small.vera_folder(folders / "vera"), small.cola_folder(folders / "cola")
    sets = {"refine__scorers": [f"vera:{vera}", f"cola:{cola}"]}
    assert list(iter_unmet_names(config(**sets))) == []


def test_what_a_stage_will_make_and_a_server_need_not_be_there_yet(folders: Path) -> None:
    models = ["a=open_clip:data/base", "data/finetune/infonce-11", "chat:model@http://127.0.0.1:9/v1"]
    assert list(iter_unmet_names(config(evaluate__models=models))) == []


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({}, ["negatives.language_model.target is not set"]),
        (
            {"target": "chat:m@http://h/v1", "name": "m", "paraphraser": "chat:n@http://h/v1"},
            ["name is one name for two models"],
        ),
        (
            {"target": "chat:m@http://h/v1", "max_cost": 5.0},
            ["max_cost = 5 needs price_per_mtok_in or price_per_mtok_out"],
        ),
        ({"target": "chat:gpt"}, ["negatives.language_model.target = 'chat:gpt': .*MODEL@URL"]),
        (
            {"target": "chat:m@http://127.0.0.1:9/v1", "wordnet": "gone/dict"},
            ["negatives.language_model.wordnet = 'gone/dict': no such folder"],
        ),
        (
            {"target": "gpt"},
            ["target = 'gpt': A language model must be given as chat:MODEL@URL or local:FOLDER"],
        ),
        (
            {"target": "local:nowhere/at/all", "max_connections": 16},
            ["target = 'local:nowhere/at/all': "],
        ),
        (
            {"target": "local:data/writer", "paraphraser": "chat:m@http://127.0.0.1:9/v1"},
            ["target = 'local:data/writer' cannot be used with max_connections 'auto': .* such as 16"],
        ),
        (
            {"target": "chat:m@http://127.0.0.1:9/v1", "replies": "gone.parquet", "paraphraser": "lokal:x"},
            [
                "paraphraser = 'lokal:x': .*Did you mean 'local'",
                "replies = 'gone.parquet': no such file",
            ],
        ),
        (
            {"target": "chat:m@http://127.0.0.1:9/v1", "workers": 2},
            ["workers = 2 needs a model in a folder, local:FOLDER, but target is 'chat:m@"],
        ),
        (
            {"target": "chat:m@http://127.0.0.1:9/v1", "propose": "choose"},
            [r"propose = 'choose' needs negatives\.spacy_model"],
        ),
        ({"target": "chat:m@http://127.0.0.1:9/v1"}, []),
        (
            {"target": "chat:m@http://127.0.0.1:9/v1", "entailment": "nowhere/at/all", "grammar": "m:n"},
            [
                "language_model.entailment = 'nowhere/at/all': ",
                "language_model.grammar = 'm:n': ",
            ],
        ),
    ],
)
def test_what_a_language_model_lacks_is_named(model: dict[str, Any], said: list[str], folders: Path) -> None:
    settings = {**DEFAULT["negatives"]["language_model"], **model}
    sets = {"negatives__paraphrases": "language_model", "negatives__language_model": settings}
    found = list(iter_unmet_names(config(**sets)))
    assert len(found) == len(said)
    assert all(re.search(pattern, line) for pattern, line in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("name", "backend", "said"),
    [
        ("no_such_model", "lexicon", "neither an installed package nor a folder"),
        ("no.such/model", "lexicon", "neither an installed package nor a folder"),
        ("json", "world", "is used by the backend lexicon and by language_model with compose: edit"),
        ("json", "lexicon", None),  # an installed package
    ],
)
def test_a_spacy_model_that_is_missing_or_unused_is_named(
    name: str, backend: str, said: str | None, folders: Path
) -> None:
    found = list(iter_unmet_names(config(negatives__backend=backend, negatives__spacy_model=name)))
    assert [f"negatives.spacy_model = {name!r}" in line and said in line for line in found] == (
        [] if said is None else [True]
    )


def test_the_schema_of_a_local_model_needs_a_package(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(target: str) -> list[str]:
        sets = {"target": target, "response_schema": True, "max_connections": 16}
        settings = {**DEFAULT["negatives"]["language_model"], **sets}
        return list(
            iter_unmet_names(config(negatives__backend="language_model", negatives__language_model=settings))
        )

    monkeypatch.setattr(
        "caramel.config.validate.find_spec", lambda name: name if name == "llguidance" else None
    )
    assert lacks("local:data/model") == []
    monkeypatch.setattr("caramel.config.validate.find_spec", lambda name: None)
    assert lacks("chat:m@http://127.0.0.1:9/v1") == []
    (problem,) = lacks("local:data/model")
    assert "response_schema = true" in problem
    assert "pip install llguidance" in problem


def test_whoever_has_the_replies_needs_no_model(folders: Path) -> None:
    def lacks(replies: str) -> list[str]:
        gone = {"target": "local:gone", "entailment": "gone", "grammar": "gone", "replies": replies}
        settings = {**DEFAULT["negatives"]["language_model"], **gone}
        return list(
            iter_unmet_names(config(negatives__backend="language_model", negatives__language_model=settings))
        )

    (folders / "inputs/replies/README.md").touch()
    assert any("'local:gone'" in line for line in lacks("inputs/replies"))
    (folders / "inputs/replies/published.PARQUET").touch()
    assert lacks("inputs/replies") == lacks("inputs/replies/published.PARQUET") == []
    (folders / "known.csv").touch()
    said = lacks("known.csv")
    assert said[0] == (
        "negatives.language_model.replies: 'known.csv' is not a table: tables are Parquet files with the suffix .parquet."
    )
    assert any("'local:gone'" in line for line in said), "it is looked for, as nothing is known"


def test_what_may_not_be_read_is_there(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/file").touch()
    (tmp_path / "closed").chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root reads everything
    try:
        assert is_there(str(tmp_path / "closed/file"))
        assert not is_there("/absent")
    finally:
        os.seteuid(user)
        (tmp_path / "closed").chmod(0o700)
