"""Checkpoints of transformers: what is missing or broken is said, and no code of theirs is run."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_transformers import CAPTIONS, bert_folder, clip_folder, flava_folder, siglip_folder

from caramel.errors import BackendError
from caramel.models.open_clip.loader import open_target
from caramel.models.transformers import transformers_files
from caramel.models.transformers.dual import load_dual
from caramel.models.transformers.transformers_files import (
    check_type,
    find_file,
    list_checkpoint_problems,
    load_image_processor,
    load_pretrained,
    load_tokenizer,
    read_model_type,
)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clip_folder(tmp_path_factory.mktemp("files") / "clip")


@pytest.fixture
def folder(clip: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return shutil.copytree(clip, tmp_path / "clip")


class Code:
    """Runs when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def load(folder: Path | str) -> Any:
    return load_dual(str(folder), device="cpu", precision="fp32", name="it")


def as_pickle(folder: Path, **further: Any) -> None:
    """Turn the weights of the folder into the older format."""
    import torch
    from safetensors.torch import load_file

    path = folder / "model.safetensors"
    torch.save({**load_file(path), **further}, folder / "pytorch_model.bin")
    path.unlink()


def test_the_type_is_that_of_the_config(clip: Path) -> None:
    assert read_model_type(str(clip)) == "clip"
    assert check_type(str(clip), ("clip", "flava")) == "clip"


def test_a_type_that_nobody_takes_lists_those_that_the_family_takes(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert")
    with pytest.raises(BackendError, match=r"type 'bert'\. This family takes clip, siglip"):
        load(folder)


@pytest.mark.parametrize("content", ["{", "[1]", "{}", '{"model_type": 3}'])
def test_a_broken_config_is_named(content: str, folder: Path) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(BackendError, match=r"config\.json"):
        load(folder)


def test_a_folder_of_open_clip_is_sent_there(tmp_path: Path) -> None:
    (tmp_path / "open_clip_config.json").write_text("{}")
    with pytest.raises(BackendError, match=f"write open_clip:{tmp_path}"):
        load(tmp_path)


@pytest.mark.parametrize("target", ["/no/such/folder", "./folder", "a/b/c", "two words"])
def test_what_can_be_no_repository_is_a_missing_folder(target: str) -> None:
    with pytest.raises(BackendError, match="does not exist"):
        load(target)
    assert "does not exist" in list_checkpoint_problems(target)[0]


def test_a_repository_that_was_not_fetched_is_said_to_be_out_of_reach() -> None:
    with pytest.raises(
        BackendError, match=r"'owner/repo' is not a folder\. config\.json .*HF_HUB_OFFLINE is set"
    ):
        load("owner/repo")
    found = list_checkpoint_problems("owner/repo")
    assert [line.split(" in ")[0] for line in found] == [
        f"'owner/repo': no {what}" for what in ("config.json", "weights", "tokenizer", "image processor")
    ]


def test_a_repository_that_was_fetched_is_read_from_the_cache(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    commit = "0" * 40
    cache = tmp_path / "hub"
    shutil.copytree(clip, cache / "models--owner--repo" / "snapshots" / commit)
    (cache / "models--owner--repo" / "refs").mkdir()
    (cache / "models--owner--repo" / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    assert list_checkpoint_problems("owner/repo") == []
    vectors = load("owner/repo").encode_texts(CAPTIONS, None)
    np.testing.assert_array_equal(vectors, load(clip).encode_texts(CAPTIONS, None))
    assert load("owner/repo").identity == load(clip).identity


@pytest.mark.parametrize("whole", [".no_exist", "snapshots"])
def test_a_file_that_was_not_fetched_is_not_taken_for_one_that_is_not_there(
    whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    repository = tmp_path / "models--owner--repo"
    for name in ("refs", "snapshots/0", ".no_exist/0"):
        (repository / name).mkdir(parents=True)
    (repository / "refs" / "main").write_text("0")
    (repository / "snapshots" / "0" / "config.json").write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert find_file("owner/repo", "config.json") is not None
    with pytest.raises(
        BackendError, match=r"modules\.json of the repository 'owner/repo' .*Download it first"
    ):
        find_file("owner/repo", "modules.json")
    # The hub said so before, or all that there is was fetched.
    name = "modules.json" if whole == ".no_exist" else ".gitattributes"
    (repository / whole / "0" / name).touch()
    assert find_file("owner/repo", "modules.json") is None


@pytest.mark.parametrize(
    "load", [lambda: find_file("me/it", "config.json"), lambda: open_target("hf-hub:me/it")]
)
def test_a_network_that_fails_within_a_file_is_an_error(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants
    from huggingface_hub.errors import HTTPError

    def fail(*_: Any) -> None:
        raise HTTPError("peer closed connection")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(BackendError, match=r"'me/it'.*peer closed connection.*network and.*HF_TOKEN"):
        load()


@pytest.mark.parametrize("size", [4, 200, -40])
def test_a_truncated_safetensors_file_is_broken(size: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BackendError, match=f"'{folder}' are damaged.*download them again"):
        load(folder)


@pytest.mark.parametrize("size", [4, 200, -40])
def test_a_truncated_pickle_is_an_error(size: int, folder: Path) -> None:
    as_pickle(folder)
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BackendError, match=f"'{folder}' are damaged.*download them again"):
        load(folder)


def test_a_pickle_of_tensors_is_read(folder: Path, clip: Path) -> None:
    as_pickle(folder)
    assert list_checkpoint_problems(str(folder)) == []
    np.testing.assert_array_equal(
        load(folder).encode_texts(CAPTIONS, None), load(clip).encode_texts(CAPTIONS, None)
    )


def test_a_pickle_with_code_is_refused_and_nothing_of_it_runs(folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    as_pickle(folder, code=Code(ran))
    with pytest.raises(BackendError, match=r"'getattr', which is code(?!.*\x1b)"):
        load(folder)
    assert not ran.exists()
    pickle.loads(pickle.dumps(Code(ran)))  # noqa: S301
    assert ran.exists()


def test_code_that_a_repository_brings_along_is_not_run(folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (folder / "modeling.py").write_text(f"open({str(ran)!r}, 'w')\nclass Model: ...\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "modeling.Model"}}))
    load(folder)  # by transformers' own class
    unknown = config | {"model_type": "new", "auto_map": {"AutoConfig": "modeling.Model"}}
    (folder / "config.json").write_text(json.dumps(unknown))
    from transformers import AutoModel

    with pytest.raises(BackendError, match="never run"):
        load_pretrained(AutoModel, str(folder), device="cpu")
    assert not ran.exists()


def test_weights_that_are_missing_are_not_made_up(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    state = load_file(path)
    del state["text_projection.weight"]
    save_file(state, path, metadata={"format": "pt"})
    with pytest.raises(
        BackendError, match=r"not a complete CLIPModel: 1 of its weights(.|\n)*text_projection\.weight"
    ):
        load(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"projection_dim": 24}))
    shapes = r"text_projection\.weight: \(16, 32\) in the file, \(24, 32\) in the model"
    with pytest.raises(
        BackendError, match=rf"'{folder}' is not a complete CLIPModel: 2 of its(.|\n)*{shapes}"
    ):
        load(folder)


def test_half_precision_weights_are_computed_with_in_single(folder: Path) -> None:
    import torch
    from transformers import CLIPModel

    CLIPModel.from_pretrained(folder, dtype=torch.float16).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
    model = load_pretrained(CLIPModel, str(folder), device="cpu")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    half = load_pretrained(CLIPModel, str(folder), device="cpu", dtype=torch.float16)
    assert {weight.dtype for weight in half.parameters()} == {torch.float16}
    assert not model.training


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (transformers_files.TOKENIZERS, "has no tokenizer"),
        (transformers_files.PREPROCESSORS, "has no image processor"),
    ],
)
def test_a_part_that_is_missing_is_named(names: tuple[str, ...], message: str, folder: Path) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(BackendError, match=message):
        load(folder)
    assert [line.split(" in ")[0] for line in list_checkpoint_problems(str(folder))] == [
        message.replace("has ", "")
    ]


def test_a_broken_tokenizer_is_an_error(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BackendError, match=f"A JSON file of '{folder}' is damaged.*Download it again"):
        load_tokenizer(str(folder))


def test_a_shard_that_an_index_names_and_is_not_there_is_listed(folder: Path) -> None:
    from transformers import CLIPModel

    model = CLIPModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="40KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert list_checkpoint_problems(str(folder)) == []
    load(folder)
    shards[1].unlink()
    assert list_checkpoint_problems(str(folder)) == [f"no {shards[1].name} in {str(folder)!r}"]
    with pytest.raises(BackendError, match=str(folder)):
        load(folder)


def test_a_device_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(BackendError, match="Device 'meteor' cannot be used"):
        load_dual(str(folder), device="meteor", precision="fp32", name="it")


def test_loading_says_nothing_and_leaves_transformers_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from logging import getLogger
    from logging.handlers import BufferingHandler

    from transformers import AutoModel
    from transformers.utils import logging

    folder = flava_folder(tmp_path / "flava")  # it holds weights that AutoModel does not take
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    said = BufferingHandler(100)  # transformers' own handler keeps the stderr of its first import
    getLogger("transformers").addHandler(said)
    try:
        AutoModel.from_pretrained(folder)
        assert any("UNEXPECTED" in record.getMessage() for record in said.buffer)
        said.flush()
        capfd.readouterr()
        load(folder)
        assert said.buffer == []
        assert capfd.readouterr() == ("", "")  # no progress bar either
    finally:
        getLogger("transformers").removeHandler(said)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_the_identity_tells_what_a_sentencepiece_model_learnt_and_not_only_its_pieces(tmp_path: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2

    folder = siglip_folder(tmp_path / "siglip")
    before = load(folder).identity
    model = sentencepiece_model_pb2.ModelProto.FromString((folder / "spiece.model").read_bytes())
    model.pieces[10].score -= 3
    (folder / "spiece.model").write_bytes(model.SerializeToString())
    after = load(folder).identity
    assert [key for key in before if before[key] != after[key]] == ["processor"]


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("text_config", {"vocab_size": 10**9}),
        ("text_config", {"num_hidden_layers": 10**9}),
        ("vision_config", {"intermediate_size": 10**9}),
        ("vision_config", {"image_size": 10**6}),
        ("text_config", {"num_labels": 10**9}),
    ],
)
def test_a_config_of_more_than_the_weights_can_hold_is_refused_before_it_is_allocated(
    part: str, values: dict[str, int], folder: Path
) -> None:
    config = json.loads((folder / "config.json").read_text())
    config[part] |= values
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BackendError, match=r"bytes of weights can hold|'num_labels' is 1000000000"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config.json", {"text_config": {"hidden_size": "x"}}),
        ("config.json", {"dtype": float("nan")}),
        ("preprocessor_config.json", {"image_mean": [0.5, 0.5]}),
        ("preprocessor_config.json", {"image_std": [0.5, 0, 0.5]}),
        ("preprocessor_config.json", {"size": {"shortest_edge": 10**6}}),
        ("preprocessor_config.json", {"crop_size": {"height": -1, "width": 32}}),
        ("preprocessor_config.json", {"crop_size": {"height": 48, "width": 48}}),
        ("tokenizer_config.json", {"model_max_length": "x"}),
        ("tokenizer_config.json", {"tokenizer_class": {"a": 1}}),
        ("tokenizer.json", {"normalizer": 7}),
    ],
)
def test_files_of_wrong_values_are_refused_when_they_are_loaded(
    name: str, values: dict[str, Any], folder: Path
) -> None:
    found = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(found | values))
    with pytest.raises(BackendError, match=str(folder)):
        load(folder)


def test_the_least_number_of_pixels_of_qwen_is_no_side(tmp_path: Path) -> None:
    from transformers import Qwen2VLImageProcessor

    Qwen2VLImageProcessor(min_pixels=200704, max_pixels=1003520).save_pretrained(tmp_path)
    assert load_image_processor(str(tmp_path)).size["shortest_edge"] == 200704
    Qwen2VLImageProcessor(min_pixels=10**10, max_pixels=10**11).save_pretrained(tmp_path)
    with pytest.raises(BackendError, match="'shortest_edge' of 'size' is 10000000000"):
        load_image_processor(str(tmp_path))


@pytest.mark.parametrize(
    "files",
    [[], 7, {"a.weight": 7}, {"a.weight": "../model.safetensors"}, {"a.weight": "/tmp/x.safetensors"}],
)
def test_an_index_that_names_no_files_of_the_folder_is_refused(files: object, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(BackendError, match="'weight_map' must give a file of the folder"):
        load(folder)
    assert len(list_checkpoint_problems(str(folder))) == 1
