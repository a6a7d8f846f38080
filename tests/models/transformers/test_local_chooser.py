"""A generative model in a folder is asked in words, one question at a time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from paper_inputs import write_photograph
from PIL import Image
from tiny_generative import SAVED, save_llava

from caramel import cli
from caramel.errors import BackendError
from caramel.interfaces.model import CUT, Question, Reply
from caramel.models.transformers import local_chooser
from caramel.models.transformers.local_chooser import list_local_chooser_problems, load_local_chooser


@pytest.fixture(scope="module")
def photograph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photograph") / "1.jpg"
    write_photograph(path, np.random.default_rng(0), "red")
    return path


@pytest.mark.parametrize("kind", SAVED)
def test_a_reply_is_the_greedy_continuation_of_the_prompt(
    kind: str, photograph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_chooser, "MAX_TOKENS", 3)
    folder = SAVED[kind](tmp_path / "model")
    assert list_local_chooser_problems(str(folder)) == []
    model = load_local_chooser(str(folder), device="cpu", precision="fp32", name="it")
    replies: dict[int, Reply] = {}
    questions = [Question(text, photograph.read_bytes) for text in ("a cat", "a dog near a cat", "a cat")]
    model.answer_questions(questions, replies.__setitem__)
    assert replies[0] == replies[2]
    processor = model._processor
    prompt = local_chooser.build_prompt(processor, model._model.config.model_type, "a cat")
    with Image.open(photograph) as image:
        data = processor(images=[image.convert("RGB")], text=[prompt], return_tensors="pt")
    if model._model.config.text_config.is_encoder_decoder:
        return
    tokens, new = data["input_ids"], []
    for _ in range(3):  # by hand, token by token
        more = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if "mm_token_type_ids" in data:
            kinds = data["mm_token_type_ids"]
            more["mm_token_type_ids"] = torch.nn.functional.pad(kinds, (0, tokens.shape[1] - kinds.shape[1]))
        if "qformer_attention_mask" in data:
            return
        with torch.no_grad():
            new.append(int(model._model(**{**data, **more}).logits[0, -1].argmax()))
        tokens = torch.cat([tokens, torch.tensor([[new[-1]]])], 1)
        if new[-1] == processor.tokenizer.eos_token_id:
            break
    assert replies[0].text == processor.tokenizer.decode(new, skip_special_tokens=True).strip()
    assert replies[0].is_cut == (len(new) == 3 and new[-1] != processor.tokenizer.eos_token_id)
    assert CUT == "length"


def test_a_folder_answers_the_published_question_of_sugarcrepe_pp(
    photograph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = SAVED["llava"](tmp_path / "model")
    data = tmp_path / "benchmarks/sugarcrepe_pp"
    data.mkdir(parents=True)
    (data / "1.jpg").write_bytes(photograph.read_bytes())
    row = {
        "id": 0,
        "filename": "1.jpg",
        "caption": "a cat",
        "caption2": "one cat",
        "negative_caption": "a dog",
    }
    (data / "swap_obj.json").write_text(json.dumps([row]))
    spec = f"it=choice:{folder}#wording=bakllava_npp"
    places = ["--data", "benchmarks", "--out", "out", "--device", "cpu", "--executor", "inline"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["eval", "--model", spec, "--benchmark", "sugarcrepe_pp", *places])
    assert not ended.value.code
    answers = pd.read_parquet("out/answers.parquet")
    assert answers[["wording", "order", "n_options"]].to_numpy().tolist() == [["bakllava_npp", "NPP", 3]]
    assert answers["reply"].notna().all()


def test_examples_are_earlier_turns_with_images_of_their_own(
    photograph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_chooser, "MAX_TOKENS", 2)
    model = load_local_chooser(
        str(SAVED["qwen2_vl"](tmp_path / "model")), device="cpu", precision="fp32", name="it"
    )
    given: list[Any] = []
    generate = model._model.generate
    monkeypatch.setattr(model._model, "generate", lambda **inputs: given.append(inputs) or generate(**inputs))
    example = Question("a dog", photograph.read_bytes)
    question = Question("a cat", photograph.read_bytes, ((example, "yes"),))
    replies: dict[int, Reply] = {}
    model.answer_questions([question, question._replace(examples=())], replies.__setitem__)
    texts = [model._processor.tokenizer.decode(inputs["input_ids"][0]) for inputs in given]
    assert re.search("a dog.*yes.*a cat", texts[0], re.DOTALL)
    assert "a dog" not in texts[1]
    assert len(given[0]["image_grid_thw"]) == 2
    assert len(given[1]["image_grid_thw"]) == 1


def test_a_checkpoint_without_a_chat_template_is_shown_no_examples(photograph: Path, tmp_path: Path) -> None:
    folder = save_llava(tmp_path / "model", template=False)
    model = load_local_chooser(str(folder), device="cpu", precision="fp32", name="it")
    question = Question("a cat", photograph.read_bytes, ((Question("a dog", photograph.read_bytes), "yes"),))
    with pytest.raises(BackendError, match="without a chat template cannot be shown examples"):
        model.answer_questions([question], lambda index, reply: None)
