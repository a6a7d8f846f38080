import json
import weakref
from pathlib import Path
from typing import ClassVar

import pytest
from tiny_clips import write_json

from caramel import registry
from caramel.errors import BackendError
from caramel.interfaces.model import Family
from caramel.io.files import compute_file_hash
from caramel.models.open_clip.activations import split_quick_gelu_option
from caramel.models.specs import (
    ModelSpec,
    format_families_help,
    hash_content,
    mark_local_path,
    missing_of,
    open_model,
    parse_spec,
)
from caramel.runtime.ray.file_transfer import LocalFile, format_as_given


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model" / "open_clip_config.json", {})
    return str(tmp_path / "model")


@pytest.fixture
def dual(monkeypatch):
    """A family ``dual`` whose check and loader say what they were given."""
    monkeypatch.setitem(registry.FAMILIES.targets, "dual", "test_specs:DUAL")
    open_model.cache_clear()
    yield
    open_model.cache_clear()


def load_dual(target, *, device, precision, name):
    return (target, device, precision, name)


def missing_dual(target):
    return [f"no {target}"]


DUAL = Family("dual", "dual", "TARGET", "of a test", load_dual, missing_dual)


def test_each_family_is_described_in_a_line_and_in_the_docs():
    docs = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    lines = format_families_help()
    for name, line in zip(registry.FAMILIES, lines, strict=True):
        family = registry.FAMILIES[name]
        assert line.split() == [f"{name}:{family.target}", *family.help.split()]
        assert len(line) < 75
        assert f"`{name}:" in docs


@pytest.mark.parametrize(
    ("text", "family", "target", "name"),
    [
        ("open_clip:ViT-B-32:openai", "open_clip", "ViT-B-32:openai", None),
        ("ViT-B-32-quickgelu:openai", "open_clip", "ViT-B-32-quickgelu:openai", None),
        ("ViT-B-32:a/b.pt?quick_gelu=false", "open_clip", "ViT-B-32:a/b.pt?quick_gelu=false", None),
        ("NegCLIP=ViT-B-32:a=b.pt", "open_clip", "ViT-B-32:a=b.pt", "NegCLIP"),
        ("our best, 2nd=ViT-B-32:x", None, None, None),  # a comma is no part of a name
        (
            "our best 2=ViT-B-32:x.pt?quick_gelu=true",
            "open_clip",
            "ViT-B-32:x.pt?quick_gelu=true",
            "our best 2",
        ),
        ("hf-hub:me/model", "open_clip", "hf-hub:me/model", None),
        ("mine=hf-hub:me/model", "open_clip", "hf-hub:me/model", "mine"),
        ("dual:openai/clip-vit-base-patch32", "dual", "openai/clip-vit-base-patch32", None),
        ("c=dual:a:b=c", "dual", "a:b=c", "c"),
        ("", None, None, None),
        ("dual:", None, None, None),
        ("ViT-B-32", None, None, None),
        ("ViT-B-32:", None, None, None),
        ("name=", None, None, None),
        ("some/where", None, None, None),
        ("no-such-family:x", None, None, None),
    ],
)
def test_a_spec_is_name_family_and_target(text, family, target, name, dual, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "open_clip_config.json", {})  # of the working folder, which no spec here names
    if family is None:
        with pytest.raises(BackendError, match=r"family cannot be determined.*open_clip.*dual"):
            parse_spec(text)
    else:
        assert parse_spec(text) == ModelSpec(family, target, text if name is None else name)


def test_a_folder_of_open_clip_needs_no_family(folder, tmp_path, monkeypatch) -> None:
    assert parse_spec(folder) == ModelSpec("open_clip", folder, folder)
    assert parse_spec(f"base={folder}") == ModelSpec("open_clip", folder, "base")
    asked = f"{folder}?quick_gelu=true"
    assert parse_spec(asked) == ModelSpec("open_clip", asked, asked)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").rename(tmp_path / "lr=1e-6")
    assert parse_spec("lr=1e-6") == ModelSpec("open_clip", "lr=1e-6", "lr=1e-6")
    (tmp_path / "plain").mkdir()
    with pytest.raises(BackendError, match="family cannot be determined"):
        parse_spec("plain")


@pytest.mark.parametrize(
    ("text", "near"), [("open-clip:x", "open_clip"), ("ViT-B32:openai", "ViT-B-32"), ("bind:length", "blind")]
)
def test_a_slip_of_the_pen_is_named(text, near) -> None:
    with pytest.raises(BackendError, match=f"Did you mean .*'{near}'"):
        parse_spec(text)


def test_the_option_is_taken_off_the_end_alone() -> None:
    assert split_quick_gelu_option("a:b.pt") == ("a:b.pt", None)
    assert split_quick_gelu_option("a:b?c/d.pt") == ("a:b?c/d.pt", None)
    assert split_quick_gelu_option("a:b.pt?quick_gelu=true") == ("a:b.pt", True)
    assert split_quick_gelu_option("a?quick_gelu=true/b.pt?quick_gelu=false") == (
        "a?quick_gelu=true/b.pt",
        False,
    )


@pytest.mark.parametrize("ending", ["?quick_gelu=True", "?quick_gelu=", "?quick_gelu=1", "?gelu=true"])
def test_another_option_is_an_error_that_names_the_right_ones(ending) -> None:
    with pytest.raises(
        BackendError, match=r"is not a valid option. Write \?quick_gelu=true or \?quick_gelu=false"
    ):
        split_quick_gelu_option(f"ViT-B-32:a.pt{ending}")


def test_the_content_of_a_folder_is_its_hash(folder, tmp_path) -> None:
    before = hash_content(f"name={folder}")
    assert before == f"{folder} {compute_file_hash(folder)}"
    (tmp_path / "model" / "more").write_text("")
    assert hash_content(folder) != before


@pytest.mark.parametrize("ending", ["", "?quick_gelu=true"])
def test_the_content_of_a_file_is_its_hash_and_that_of_the_config_beside_it(tmp_path, ending) -> None:
    weights = tmp_path / "w.pt"
    weights.write_bytes(b"1")
    spec = f"ViT-B-32:{weights}{ending}"
    found = [hash_content(spec)]
    assert found[0] == f"{spec} {compute_file_hash(weights)}"
    config = write_json(tmp_path / "open_clip_config.json", {"a": 1})
    found.append(hash_content(spec))
    config.write_text(json.dumps({"a": 2}))
    found.append(hash_content(spec))
    weights.write_bytes(b"2")
    found.append(hash_content(spec))
    assert len(set(found)) == 4


def test_the_content_of_a_name_is_the_name(tmp_path, monkeypatch, dual) -> None:
    monkeypatch.chdir(tmp_path)
    assert hash_content("a=ViT-B-32:openai") == "ViT-B-32:openai"
    assert hash_content("hf-hub:me/model") == "hf-hub:me/model"
    assert hash_content("dual:me/model") == "me/model"


def test_the_family_is_asked_what_is_missing_and_to_load(dual) -> None:
    assert missing_of("x=dual:abc") == ["no abc"]
    assert open_model("x=dual:abc", "cpu", "fp32") == ("abc", "cpu", "fp32", "x")
    with pytest.raises(BackendError, match="family cannot be determined"):
        missing_of("abc")


class Large:
    """A model of which not two may be in memory."""

    loaded: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(self):
        assert not self.loaded
        self.loaded.add(self)


def load_large(target, *, device, precision, name):
    return Large()


LARGE = Family("dual", "dual", "TARGET", "of a test", load_large, missing_dual)


def test_the_last_model_is_gone_before_the_next_one_is_loaded(dual, monkeypatch) -> None:
    monkeypatch.setitem(registry.FAMILIES.targets, "dual", "test_specs:LARGE")
    for target in "abc":
        assert open_model(f"dual:{target}", "cpu", "fp32") is open_model(f"dual:{target}", "cpu", "fp32")
    assert len(Large.loaded) == 1


def test_auto_is_resolved_and_the_last_model_is_kept(dual) -> None:
    import torch

    expected = "cuda" if torch.cuda.is_available() else "cpu"
    one = open_model("dual:a", "auto", "fp32")
    assert one[1] == expected
    assert open_model("dual:a", "auto", "fp32") is one
    open_model("dual:b", "auto", "fp32")
    assert open_model("dual:a", "auto", "fp32") is not one


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("open_clip:{}/model", "{}/model"),
        ("name=open_clip:./model", "./model"),
        ("name=open_clip:x//model", "x//model"),
        ("ViT-B-32:quick?quick_gelu=false", "quick"),
        ("open_clip:ViT-B-32:quick?quick_gelu=true", "quick"),
    ],
)
def test_the_file_or_folder_of_a_spec_is_found_where_it_stands_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "model", tmp_path / "x" / "model"):
        folder.mkdir(parents=True)
        write_json(folder / "open_clip_config.json", {})
    (tmp_path / "quick").write_bytes(b"weights")
    text, path = text.format(tmp_path), path.format(tmp_path)
    found = mark_local_path(text)
    assert isinstance(found, LocalFile)
    assert found.path == path
    assert format_as_given(found) == text
    assert mark_local_path("ViT-B-32-quickgelu:openai") == "ViT-B-32-quickgelu:openai"


def test_a_model_whose_files_were_written_anew_is_loaded_again(folder, dual, tmp_path, monkeypatch):
    first = open_model(f"dual:{folder}", "cpu", "fp32")
    assert open_model(f"dual:{folder}", "cpu", "fp32") is first
    (tmp_path / "model" / "model.safetensors").write_bytes(b"trained further")
    assert open_model(f"dual:{folder}", "cpu", "fp32") is not first
    for name in ("one", "two"):
        (tmp_path / name / "here").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        found = open_model("dual:here", "cpu", "fp32")
        assert open_model("dual:here", "cpu", "fp32") is found
        assert found is not first, "a relative path in another working folder is another model"
        first = found
