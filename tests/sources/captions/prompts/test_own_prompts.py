"""A user's own prompts: complete and of the steps' form, or an error that lists what is wrong; only changed ones ask again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from caramel.errors import DataError
from caramel.sources.captions.llm.conversation import PromptInput
from caramel.sources.captions.llm.scheduler import RequestSettings, build_request
from caramel.sources.captions.prompts.own_prompts import find_own_prompts
from caramel.sources.captions.prompts.prompt_files import FOLDER, OF_GRAPHS, list_prompt_names, load_prompt

STEPS = [name for name in list_prompt_names() if name != OF_GRAPHS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with copies of caramel's prompts."""
    for name in STEPS:
        shutil.copy(FOLDER / f"{name}.yaml", tmp_path)
    return tmp_path


def change(folder: Path, name: str, **changes: object) -> None:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text(encoding="utf-8")), **changes}))


def compute_reply_id(name: str, folder: str) -> str:
    given = dict.fromkeys(load_prompt(name).given, "a dog")
    settings = RequestSettings("m", 1, 7, 100, False, 1, prompts=folder)
    return build_request(PromptInput(name, given, 1, 0.0), settings)[0].reply_id


def test_a_folder_without_prompts_means_caramels(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    assert find_own_prompts(str(tmp_path)) == ""


def test_only_a_step_whose_text_differs_is_requested_again(folder: Path) -> None:
    change(folder, "find_obj", task="Name the things of a caption.")
    own = find_own_prompts(str(folder))
    changed = [name for name in STEPS if compute_reply_id(name, own) != compute_reply_id(name, "")]
    assert changed == ["find_obj"]
    settings = RequestSettings("m", 1, 7, 100, False, 1, prompts=own)
    messages = build_request(PromptInput("find_obj", {"sentence": "a dog"}, 1, 0.0), settings)[1].messages
    assert messages[0][1].startswith("Name the things of a caption.")


def test_a_missing_step_and_a_file_of_no_step_are_named_together(folder: Path) -> None:
    (folder / "swap_obj.yaml").rename(folder / "swap_objs.yaml")
    with pytest.raises(DataError) as error:
        find_own_prompts(str(folder))
    assert "swap_obj.yaml is missing" in str(error.value)
    assert "swap_objs.yaml is of no step" in str(error.value)
    assert str(FOLDER) in str(error.value)


EXAMPLE = {"given": {"sentence": "A dog."}, "answer": {"things": ["dog"]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"given": ["caption"]}, "find_obj.yaml: unknown placeholder 'caption'; this step has: sentence"),
        ({"given": []}, "find_obj.yaml: placeholder 'sentence' is missing"),
        ({"answer": {"nouns": "list"}}, "find_obj.yaml: answer must be "),
        ({"examples": [EXAMPLE]}, "find_obj.yaml: examples: List should have at least 7 items"),
        (
            {"examples": [{**EXAMPLE, "given": {"sentence": "A dog.", "image": "x"}}] * 7},
            "find_obj.yaml: example 1: unknown placeholder 'image'",
        ),
        ({"role": "poet"}, "find_obj.yaml: role: Extra inputs are not permitted"),
    ],
)
def test_a_prompt_that_does_not_fit_its_step_is_an_error(
    changes: dict[str, object], message: str, folder: Path
) -> None:
    change(folder, "find_obj", **changes)
    with pytest.raises(DataError) as error:
        find_own_prompts(str(folder))
    assert message in str(error.value)


def test_a_file_that_is_no_yaml_and_a_folder_that_is_not_there_are_errors(folder: Path) -> None:
    (folder / "find_obj.yaml").write_text("task: [")
    with pytest.raises(DataError, match=r"find_obj\.yaml: "):
        find_own_prompts(str(folder))
    with pytest.raises(DataError, match="is not a folder"):
        find_own_prompts(str(folder / "gone"))
