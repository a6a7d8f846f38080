from __future__ import annotations

from pathlib import Path

import pytest
from small_language_models import gpt2_folder

from caramel.errors import BackendError
from caramel.models.llm.local import load_local_model
from caramel.models.llm.specs import missing_language_model


@pytest.mark.parametrize("content", [b"GGUF" + b"\0" * 60, b"not a model", b""])
@pytest.mark.parametrize("given", ["model.gguf", ""])
def test_a_gguf_file_and_one_that_is_none_are_told_apart(tmp_path: Path, content: bytes, given: str) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    cure = "give chat:MODEL@URL, or convert it" if content.startswith(b"GGUF") else "nor a GGUF file"
    target = str(tmp_path / given)
    assert [cure in problem for problem in missing_language_model(f"local:{target}")] == [True]
    with pytest.raises(BackendError, match=cure):
        load_local_model(target, max_connections=1, workers=0)


def test_a_folder_that_holds_a_gguf_beside_its_checkpoint_is_used(tmp_path: Path) -> None:
    (gpt2_folder(tmp_path) / "model.gguf").write_bytes(b"GGUF")
    assert missing_language_model(f"local:{tmp_path}#plain_text") == []


def test_a_local_model_has_a_batch_size_and_finds_none(tmp_path: Path) -> None:
    with pytest.raises(
        BackendError, match=r"'local:.*' cannot be used with max_connections 'auto'.*batch size"
    ):
        load_local_model(f"{gpt2_folder(tmp_path)}#plain_text", max_connections="auto", workers=0)


def test_a_folder_without_a_chat_template_is_an_error_unless_the_target_says_plain_text(
    tmp_path: Path,
) -> None:
    folder = gpt2_folder(tmp_path)
    cure = f"give local:{folder}#plain_text"
    assert [cure in problem for problem in missing_language_model(f"local:{folder}")] == [True]
    with pytest.raises(BackendError, match=cure):
        load_local_model(str(folder), max_connections=1, workers=0)
    assert missing_language_model(f"local:{folder}#plain_text") == []
    plain = load_local_model(f"{folder}#plain_text", max_connections=1, workers=0)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert missing_language_model(f"local:{folder}") == []
    chat = load_local_model(str(folder), max_connections=1, workers=0)
    assert plain.identity != chat.identity


def test_a_folder_that_says_plain_text_and_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="nowhere"):
        load_local_model(str(tmp_path / "nowhere#plain_text"), max_connections=1, workers=0)
