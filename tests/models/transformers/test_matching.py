"""Matching heads give the logits of the models' own pass, pair by pair, whatever shares a batch."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_transformers import CAPTIONS, ITM, blip_folder, clip_folder, picture

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import Matcher
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers import pair_passes
from caramel.models.transformers.matching import MatchingHead, list_itm_problems, load_itm
from caramel.models.transformers.matching_architectures import ARCHITECTURES

FILES = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 50), (64, 64), (90, 40)])]
IMAGE_OF = np.repeat(np.arange(len(FILES)), len(CAPTIONS))
TEXT_OF = np.tile(np.arange(len(CAPTIONS)), len(FILES))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("itm")
    return {kind: write(root / kind) for kind, write in ITM.items()}


def load(folder: Path, precision: str = "fp32") -> MatchingHead:
    return load_itm(str(folder), device="cpu", precision=precision, name="it")


def whole_model(kind: str, folder: Path) -> Any:
    """Return the score of each pair by the model's own pass over one image and one text, (n,)."""
    import torch
    import transformers
    from transformers import AutoImageProcessor, AutoTokenizer

    model = getattr(transformers, ARCHITECTURES[kind].model).from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    scores = []
    for i, t in zip(IMAGE_OF, TEXT_OF, strict=True):
        image = processor(Image.open(io.BytesIO(FILES[i])), return_tensors="pt")
        text = tokenizer(CAPTIONS[t], return_tensors="pt")
        given = {"input_ids": text["input_ids"], "attention_mask": text["attention_mask"], **image}
        if kind == "blip":
            given["input_ids"][0, 0] = model.config.text_config.vocab_size - 1  # [ENC], the last token
        with torch.no_grad():
            if kind == "vilt":
                scores.append(model(**given).logits[0, 0].item())
                continue
            if kind == "blip":
                logits = model(**given).itm_score[0]
            else:
                logits = model(**given, use_image_text_matching_head=True).logits_per_image[0]
        match = logits.double().softmax(0)[1].item()
        scores.append(np.log(match) - np.log1p(-match))
    return np.array(scores)


@pytest.mark.parametrize("kind", ITM)
def test_scores_are_the_log_odds_of_the_whole_model(kind: str, folders: dict[str, Path]) -> None:
    scores = load(folders[kind]).match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
    expected = whole_model(kind, folders[kind])
    assert expected.std() > 0.02
    np.testing.assert_allclose(scores, expected, atol=2e-5)


@pytest.mark.parametrize("kind", ITM)
def test_blip_reads_captions_as_its_authors_prepare_them_and_vilt_as_they_are(
    kind: str, folders: dict[str, Path]
) -> None:
    texts = ["a dog", "A  dog.", '"a dog"!']
    first, second, third = load(folders[kind]).match_pairs(FILES, texts, np.zeros(3, int), np.arange(3), None)
    assert (first == second == third) == (kind != "vilt")


@pytest.mark.parametrize("kind", ITM)
def test_batches_of_different_lengths_equal_pairs_one_by_one(kind: str, folders: dict[str, Path]) -> None:
    model = load(folders[kind])
    together = model.match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, 5)
    alone = [
        model.match_pairs([FILES[i]], [CAPTIONS[t]], np.array([0]), np.array([0]), 1)[0]
        for i, t in zip(IMAGE_OF, TEXT_OF, strict=True)
    ]
    assert together.dtype == np.float64
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("kind", ITM)
def test_texts_of_equal_tokens_tie_exactly_in_every_run(kind: str, folders: dict[str, Path]) -> None:
    model = load(folders[kind])
    texts = [*CAPTIONS, "A DOG", "two  men"]
    image_of, text_of = np.repeat([0, 3], len(texts)), np.tile(np.arange(len(texts)), 2)
    first = model.match_pairs(FILES, texts, image_of, text_of, 4).reshape(2, -1)
    again = model.match_pairs(FILES, texts, image_of, text_of, 4).reshape(2, -1)
    assert (first[:, 6] == first[:, 0]).all()
    assert (first[:, 7] == first[:, 2]).all()
    assert (first == again).all()


@pytest.mark.parametrize("kind", ["blip", "blip-2"])
def test_each_image_is_looked_at_once_for_all_its_texts(
    kind: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_passes, "IMAGES_AT_ONCE", 3)
    model = load(folders[kind])
    seen = []
    model._passes.model.vision_model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(len(kwargs["pixel_values"])), with_kwargs=True
    )
    scores = model.match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
    assert seen == [3, 1]
    np.testing.assert_allclose(scores, whole_model(kind, folders[kind]), atol=2e-5)


def test_pairs_may_come_in_any_order_and_leave_images_out(folders: dict[str, Path]) -> None:
    model = load(folders["vilt"])
    image_of, text_of = np.array([3, 3, 1]), np.array([2, 0, 2])
    expected = whole_model("vilt", folders["vilt"]).reshape(len(FILES), -1)[image_of, text_of]
    np.testing.assert_allclose(
        model.match_pairs(FILES, CAPTIONS, image_of, text_of, None), expected, atol=2e-5
    )


def test_a_certain_head_does_not_make_ties(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(folders["blip"], tmp_path / "certain")
    state = load_file(folder / "model.safetensors")
    state["itm_head.bias"] += state["itm_head.bias"].new_tensor([-50.0, 50.0])
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    scores = load(folder).match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
    assert len(set(scores)) == len(scores)
    assert (1 / (1 + np.exp(-scores.astype(np.float32))) == 1).all()


@pytest.mark.parametrize("kind", ITM)
def test_bf16_stays_near_and_still_tells_captions_apart(kind: str, folders: dict[str, Path]) -> None:
    exact = load(folders[kind]).match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
    coarse = load(folders[kind], "bf16").match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
    assert np.abs(coarse - exact).max() < 0.15 * exact.std() + 0.05
    assert len(set(coarse)) == len(coarse)


def test_images_have_their_say(folders: dict[str, Path]) -> None:
    for kind, folder in folders.items():
        rows = load(folder).match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None).reshape(len(FILES), -1)
        assert (rows.std(0) > 1e-3).all(), kind


def test_blips_own_token_is_read_from_its_tokenizer_where_it_is_listed(tmp_path: Path) -> None:
    folder = blip_folder(tmp_path / "blip")
    plain = load(folder)
    tokenizer = plain._passes.tokenizer
    tokenizer.add_tokens(["[DEC]", "[ENC]"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    listed = load(folder)
    assert (
        listed._passes.first == plain._passes.first == plain._passes.model.config.text_config.vocab_size - 1
    )


def test_a_text_encoder_without_blips_own_token_is_refused(tmp_path: Path) -> None:
    from transformers import BlipForImageTextRetrieval

    folder = blip_folder(tmp_path / "blip")
    model = BlipForImageTextRetrieval.from_pretrained(folder)
    model.config.text_config.bos_token_id = model.config.text_config.vocab_size - 1
    model.config.save_pretrained(folder)
    with pytest.raises(BackendError, match=r"no \[ENC\]"):
        load(folder)


def test_a_checkpoint_without_a_matching_head_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    from transformers import BlipForConditionalGeneration, BlipForImageTextRetrieval

    folder = shutil.copytree(folders["blip"], tmp_path / "captions")
    config = BlipForImageTextRetrieval.from_pretrained(folder).config
    BlipForConditionalGeneration(config).save_pretrained(folder)
    with pytest.raises(BackendError, match="not a complete BlipForImageTextRetrieval") as stopped:
        load(folder)
    assert "itm_head.weight" in str(stopped.value)


def test_a_dual_encoder_is_named_with_its_own_family(tmp_path: Path) -> None:
    folder = clip_folder(tmp_path / "clip")
    with pytest.raises(BackendError, match=f"type 'clip'.*Write dual:{folder}"):
        load(folder)


def test_a_broken_picture_is_an_error(folders: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="does not decode"):
        load(folders["vilt"]).match_pairs([b"no picture"], ["a dog"], np.array([0]), np.array([0]), None)


def test_a_spec_opens_it(folders: dict[str, Path]) -> None:
    open_model.cache_clear()
    model = open_model(f"itm:{folders['blip-2']}", "cpu", "fp32")
    assert isinstance(model, Matcher)
    assert missing_of(f"itm:{folders['blip-2']}") == list_itm_problems(str(folders["vilt"])) == []
    open_model.cache_clear()


def test_the_identity_tells_models_apart(folders: dict[str, Path]) -> None:
    identities = [load(folder).identity for folder in folders.values()]
    assert len({identity["weights"] for identity in identities}) == 3
    assert identities[0]["first"] != identities[1]["first"]
