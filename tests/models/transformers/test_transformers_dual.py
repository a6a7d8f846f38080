"""Dual encoders of transformers give the vectors of the models themselves, whatever shares a batch."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_transformers import CAPTIONS, DUAL, picture, siglip2_square_folder, vilt_folder

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import DualEncoder
from caramel.models.batching import LEAST
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers.dual import list_dual_problems, load_dual
from caramel.models.transformers.transformers_dual import SEES_PADDING, TransformersDual

SIZES = [(40, 32), (32, 50), (64, 64)]
LENGTHS = {"clip": 77, "siglip": 64, "siglip2": 64, "align": 64, "altclip": 77, "flava": 77}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("dual")
    return {kind: write(root / kind) for kind, write in DUAL.items()}


def load(folder: Path, precision: str = "fp32") -> TransformersDual:
    model = load_dual(str(folder), device="cpu", precision=precision, name="it")
    assert isinstance(model, TransformersDual)
    return model


def files() -> list[bytes]:
    return [picture(seed, size) for seed, size in enumerate(SIZES)]


def whole_model(kind: str, folder: Path) -> Any:
    """Return the cosines (texts, images) that the model's own pass over both gives, with all padding."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer, FlavaForPreTraining

    model = (FlavaForPreTraining if kind == "flava" else AutoModel).from_pretrained(folder).eval()
    texts = AutoTokenizer.from_pretrained(folder)(
        CAPTIONS, padding="max_length", truncation=True, max_length=LENGTHS[kind], return_tensors="pt"
    )
    if kind in SEES_PADDING:
        del texts["attention_mask"]
    pictures = [Image.open(io.BytesIO(file)) for file in files()]
    images = AutoImageProcessor.from_pretrained(folder, backend="pil")(pictures, return_tensors="pt")
    with torch.no_grad():
        if kind != "flava":
            found = model(**texts, **images)
            vectors = [
                torch.nn.functional.normalize(v, dim=-1) for v in (found.text_embeds, found.image_embeds)
            ]
            return (vectors[0] @ vectors[1].T).numpy()
        rows = []
        for i in range(len(CAPTIONS)):  # it pairs each text of a batch with one image
            text = {name: value[[i] * len(pictures)] for name, value in texts.items()}
            more = {"input_ids_masked": text["input_ids"], "return_loss": False}
            logits = model(**text, **images, **more).contrastive_logits_per_text[0]
            rows.append((logits / model.flava.logit_scale.exp()).numpy())
        return np.stack(rows)


@pytest.mark.parametrize("kind", DUAL)
def test_scores_are_those_of_the_whole_model_with_all_its_padding(
    kind: str, folders: dict[str, Path]
) -> None:
    encoder = load(folders[kind])
    scores = encoder.encode_texts(CAPTIONS, None) @ encoder.encode_images(files(), None).T
    expected = whole_model(kind, folders[kind])
    assert expected.std() > 0.02
    np.testing.assert_allclose(scores, expected, atol=2e-5)


@pytest.mark.parametrize("kind", DUAL)
def test_what_shares_a_batch_does_not_matter(kind: str, folders: dict[str, Path]) -> None:
    encoder = load(folders[kind])
    for encode, items in ((encoder.encode_texts, CAPTIONS), (encoder.encode_images, files())):
        together = encode(items, None)
        alone = np.concatenate([encode([item], 1) for item in items])
        assert together.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert np.abs(together[0] - together[1]).max() > 0.01


@pytest.mark.parametrize("kind", DUAL)
def test_a_vector_is_the_same_to_the_last_bit_whatever_is_encoded_with_it(
    kind: str, folders: dict[str, Path]
) -> None:
    model = load(folders[kind])
    texts = [" ".join([CAPTIONS[0], *["and a dog"] * (number % 5), str(number)]) for number in range(40)]
    whole = model.encode_texts(texts, None)
    for some in (slice(0, 1), slice(3, 7), slice(1, 30, 2)):
        assert np.array_equal(model.encode_texts(texts[some], None), whole[some])
    images = [picture(seed, (40, 32)) for seed in range(20)]
    assert np.array_equal(model.encode_images(images[:3], None), model.encode_images(images, None)[:3])


@pytest.mark.parametrize("kind", DUAL)
def test_texts_of_equal_tokens_have_equal_vectors_bit_for_bit(kind: str, folders: dict[str, Path]) -> None:
    encoder = load(folders[kind])
    alike = "a  dog" if kind == "altclip" else "A dog"
    vectors = encoder.encode_texts([CAPTIONS[3], alike, *CAPTIONS, "a dog"], 2)
    assert vectors[1].tobytes() == vectors[2].tobytes() == vectors[-1].tobytes()


@pytest.mark.parametrize("kind", SEES_PADDING)
def test_siglips_text_tower_sees_padding_so_that_it_always_gets_all_of_it(
    kind: str, folders: dict[str, Path]
) -> None:
    import torch

    encoder = load(folders[kind])
    seen = []
    model = encoder._model
    model.text_model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs | dict(enumerate(args))), with_kwargs=True
    )
    encoder.encode_texts(["a dog"], None)
    (given,) = seen
    ids = given["input_ids"]
    assert ids.shape == (LEAST, 64)
    assert given.get("attention_mask") is None
    with torch.no_grad():
        full = model.get_text_features(input_ids=ids).pooler_output
        cut = model.get_text_features(input_ids=ids[:, :8]).pooler_output
    assert (full - cut).abs().max() > 0.01


def test_siglip_2_reads_lower_case_with_any_tokenizer(tmp_path: Path) -> None:
    folder = siglip2_square_folder(tmp_path)
    encoder = load(folder)
    assert encoder._tokenizer(["A"]) != encoder._tokenizer(["a"])
    vectors = encoder.encode_texts(["A Dog", "a dog", "a cat"], None)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[1] - vectors[2]).max() > 0.01


def test_what_is_done_to_texts_before_the_tokenizer_is_part_of_the_identity(folders: dict[str, Path]) -> None:
    found = {kind: load(folders[kind]).identity["cleaning"] for kind in DUAL}
    expected = {"clip": "lower", "siglip": "canonicalize", "siglip2": "lower"}
    assert found == {**dict.fromkeys(DUAL), **expected}


@pytest.mark.parametrize("kind", [kind for kind in DUAL if kind not in SEES_PADDING])
def test_other_towers_get_no_more_columns_than_a_text_has(kind: str, folders: dict[str, Path]) -> None:
    encoder = load(folders[kind])
    widths = []
    encoder._model.text_model.register_forward_pre_hook(
        lambda _, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    encoder.encode_texts(CAPTIONS, 3)
    assert sorted(set(widths)) == widths
    assert 1 < len(widths) <= len(CAPTIONS)
    assert widths[-1] < LENGTHS[kind]


@pytest.mark.parametrize("kind", DUAL)
def test_a_text_that_is_too_long_is_cut(kind: str, folders: dict[str, Path]) -> None:
    encoder = load(folders[kind])
    long = "a dog on the car " * 60
    vectors = encoder.encode_texts([long, long + "holds a ball", "a dog"], None)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.isfinite(vectors).all()


def test_a_batch_in_bf16_stays_near_fp32(folders: dict[str, Path]) -> None:
    exact, coarse = load(folders["clip"]), load(folders["clip"], "bf16")
    cosines = (exact.encode_images(files(), None) * coarse.encode_images(files(), None)).sum(1)
    assert (cosines > 0.99).all()
    assert (cosines < 1 - 1e-7).any()
    assert exact.identity != coarse.identity


def test_a_broken_picture_is_named(folders: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="number 1"):
        load(folders["clip"]).encode_images([picture(0), b"no picture"], None)


def test_the_identity_is_of_the_content_and_not_of_the_place(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders["clip"], tmp_path / "copy")
    first, copy = load(folders["clip"]), load(folder)
    copy.encode_texts(CAPTIONS, None)
    assert json.dumps(first.identity) == json.dumps(copy.identity)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("preprocessor_config.json", '"resample": 3', '"resample": 2'),
        ("tokenizer.json", '"a": 2,', '"a": 3, "z": 2,'),
        ("config.json", '"quick_gelu"', '"gelu"'),
    ],
)
def test_the_identity_tells_preprocessing_tokenizer_and_activation(
    name: str, old: str, new: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders["clip"], tmp_path / "other")
    path = folder / (name if (folder / name).exists() else "processor_config.json")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert load(folder).identity != load(folders["clip"]).identity


def test_a_spec_opens_it(folders: dict[str, Path]) -> None:
    open_model.cache_clear()
    model = open_model(f"mine=dual:{folders['siglip']}", "cpu", "fp32")
    assert isinstance(model, DualEncoder)
    assert model.name == "mine"
    assert missing_of(f"dual:{folders['siglip']}") == []
    open_model.cache_clear()


def test_a_model_of_another_family_is_named_with_its_own(tmp_path: Path) -> None:
    folder = vilt_folder(tmp_path / "vilt")
    with pytest.raises(BackendError, match=f"Write itm:{folder}"):
        load(folder)


def test_missing_parts_are_listed_without_loading(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["flava"], tmp_path / "part")
    (folder / "model.safetensors").unlink()
    (folder / "tokenizer.json").unlink()
    found = list_dual_problems(str(folder))
    assert [line.split(" in ")[0] for line in found] == ["no weights", "no tokenizer"]


def test_a_model_of_another_family_is_told_without_loading(tmp_path: Path) -> None:
    folder = vilt_folder(tmp_path / "vilt")
    (line,) = list_dual_problems(str(folder))
    assert line.endswith(f"Write itm:{folder}.")


def test_a_word_that_the_tokenizer_has_no_token_for_is_an_error(tmp_path: Path) -> None:
    folder = DUAL["clip"](tmp_path / "clip")
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text())
    whole["model"]["unk_token"] = "<nothing>"  # not in the vocabulary
    path.write_text(json.dumps(whole))
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "unk_token": "<nothing>"}))
    model = load(folder)
    with pytest.raises(BackendError, match="nothing"):
        model.encode_texts(["ж 漢"], None)
