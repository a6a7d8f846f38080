"""BLIP's answers are those of transformers' own passes, a question at a time, and of its own generation."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_transformers import CAPTIONS, blip_folder, picture

from caramel.errors import BackendError
from caramel.interfaces.model import Matcher
from caramel.models.specs import get_score_type, hash_content, missing_of, open_model
from caramel.models.transformers.blip_answers import WORDINGS
from caramel.models.transformers.generative import QUESTION
from caramel.report.published_rows import read_published_rows
from caramel.sources.images.judge_specs import list_judge_problems, load_judge

FILES = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 50), (64, 64)])]
IMAGE_OF = np.repeat(np.arange(len(FILES)), len(CAPTIONS))
TEXT_OF = np.tile(np.arange(len(CAPTIONS)), len(FILES))
WORDS = "yes no does this figure show please answer or caption image match following ? '"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a checkpoint that answers ``yes`` to some questions: its weights for the word and for the end are raised."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = blip_folder(tmp_path_factory.mktemp("vqa") / "blip", "BlipForQuestionAnswering", WORDS)
    weights = load_file(folder / "model.safetensors")
    model, tokenizer = plain_parts(folder)
    bias = weights["text_decoder.cls.predictions.bias"]
    bias[tokenizer.convert_tokens_to_ids("yes")] += 4.5
    bias[model.config.text_config.sep_token_id] += 6.5
    # The places of a word and of the end must differ, or one token would be likeliest at both.
    places = "text_decoder.bert.embeddings.position_embeddings.weight"
    torch.manual_seed(3)
    weights[places] = 2 * torch.randn_like(weights[places])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def plain_parts(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoTokenizer, BlipForQuestionAnswering

    return BlipForQuestionAnswering.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def prepare(folder: Path, image: bytes, question: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return model, tokenizer and inputs of one question, prepared as BLIP's authors do (pre_question)."""
    from transformers import BlipImageProcessorPil

    model, tokenizer = plain_parts(folder)
    processor = BlipImageProcessorPil.from_pretrained(folder)
    text = re.sub(r"([.!\"()*#:;~])", "", question.lower()).rstrip(" ")
    given = dict(tokenizer(text, return_tensors="pt"))
    given["input_ids"][0, 0] = model.config.text_config.vocab_size - 1  # [ENC], the last token
    pixels = processor(Image.open(io.BytesIO(image)), return_tensors="pt")["pixel_values"]
    inputs = {
        "input_ids": given["input_ids"],
        "attention_mask": given["attention_mask"],
        "pixel_values": pixels,
    }
    return model, tokenizer, inputs


def open_matcher(spec: str) -> Matcher:
    open_model.cache_clear()
    model = open_model(spec, "cpu", "fp32")
    assert isinstance(model, Matcher)
    return model


def test_vqascore_is_the_decoders_probability_of_yes(folder: Path) -> None:
    import torch

    model = open_matcher(f"vqascore:{folder}")
    found = model.match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, 4)
    expected = []
    for i, t in zip(IMAGE_OF, TEXT_OF, strict=True):
        whole, tokenizer, inputs = prepare(folder, FILES[i], QUESTION.format(CAPTIONS[t]))
        with torch.no_grad():
            image = whole.vision_model(pixel_values=inputs["pixel_values"]).last_hidden_state
            ones = torch.ones(image.shape[:2], dtype=torch.int64)
            asked = whole.text_encoder(
                input_ids=inputs["input_ids"], encoder_hidden_states=image, encoder_attention_mask=ones
            ).last_hidden_state
            start = torch.tensor([[whole.config.text_config.bos_token_id]])
            logits = whole.text_decoder(input_ids=start, encoder_hidden_states=asked).logits[0, 0].double()
        expected.append(logits.log_softmax(0)[tokenizer.convert_tokens_to_ids("yes")].item())
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.std(expected) > 0.02
    assert model.identity["prompt"] == QUESTION


@pytest.mark.parametrize("wording", WORDINGS)
def test_yes_no_is_what_the_model_itself_generates(folder: Path, wording: str) -> None:
    found = open_matcher(f"yes_no:{folder}#wording={wording}").match_pairs(
        FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None
    )
    expected = []
    for i, t in zip(IMAGE_OF, TEXT_OF, strict=True):
        model, tokenizer, inputs = prepare(folder, FILES[i], WORDINGS[wording].format(CAPTIONS[t]))
        answer = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=10)[0]
        expected.append(float(tokenizer.decode(answer, skip_special_tokens=True).strip() == "yes"))
    assert found.tolist() == expected


def test_its_answers_differ_between_pairs(folder: Path) -> None:
    found = [
        open_matcher(f"yes_no:{folder}#wording={wording}").match_pairs(
            FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None
        )
        for wording in WORDINGS
    ]
    assert set(np.concatenate(found)) == {0.0, 1.0}


def test_every_published_wording_has_a_rule_of_its_own(folder: Path) -> None:
    published = {row for row in read_published_rows()["score"] if row.startswith("yes_no")}
    assert published == {get_score_type(f"yes_no:{folder}#wording={wording}") for wording in WORDINGS}


@pytest.mark.parametrize("ending", ["", "#wording=", "#wordin=1a", "#wording=3a", "#wording=gpt4o_1"])
def test_an_unknown_wording_is_refused(folder: Path, ending: str) -> None:
    (problem,) = missing_of(f"yes_no:{folder}{ending}")
    assert "does not end with a wording" in problem
    assert problem.endswith("with NAME one of 1a, 1b, 1c, 2a, 2b.")
    with pytest.raises(BackendError, match="yes_no:FOLDER#wording=NAME"):
        open_matcher(f"yes_no:{folder}{ending}")


def test_a_blip_of_another_kind_is_named_before_it_is_loaded(folder: Path, tmp_path: Path) -> None:
    for spec in (f"vqascore:{folder}", f"yes_no:{folder}#wording=2b"):
        assert missing_of(spec) == []
    itm = blip_folder(tmp_path / "itm")
    for spec in (f"vqascore:{itm}", f"yes_no:{itm}#wording=2b"):
        assert "is a BlipForImageTextRetrieval, which does not answer questions" in missing_of(spec)[0]
        with pytest.raises(BackendError, match="text_decoder"):
            open_matcher(spec)
    (problem,) = missing_of(f"vgptscore:{folder}")
    assert "is a model of type 'blip'" in problem


def test_a_tokenizer_without_the_word_is_named(tmp_path: Path) -> None:
    mute = blip_folder(tmp_path / "mute", "BlipForQuestionAnswering")
    with pytest.raises(BackendError, match="does not know the word 'yes'"):
        open_matcher(f"vqascore:{mute}")


def test_it_judges_images(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"checkpoint": "", "device": "cpu", "allow_unmentioned_objects": False}
    assert list_judge_problems(f"vqascore:{folder}") == []
    fits = load_judge(f"vqascore:{folder}", **settings).score_match(FILES, CAPTIONS[:3])
    logs = open_matcher(f"vqascore:{folder}").match_pairs(
        FILES, CAPTIONS[:3], np.arange(3), np.arange(3), None
    )
    np.testing.assert_allclose(fits, np.exp(logs), rtol=1e-4)


def test_the_content_of_a_folder_counts_whatever_its_wording(folder: Path) -> None:
    first, second = (hash_content(f"yes_no:{folder}#wording={wording}").split() for wording in ("1a", "2a"))
    assert first[-1] == second[-1]
    assert first[0] != second[0]
    assert len(first) == 2
