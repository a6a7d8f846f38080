"""Contrastive scores are those of the models' own pass, pair by pair, whatever shares a batch."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_transformers import CAPTIONS, ITM, picture

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import DualEncoder, Matcher
from caramel.models.specs import get_family, missing_of, open_model
from caramel.models.transformers.contrastive import ITC, ITC_MAX
from caramel.models.transformers.matching_architectures import ARCHITECTURES
from caramel.models.transformers.text_normalization import clean_blip_caption

KINDS = ["blip", "blip-2"]
FILES = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 50), (64, 64), (90, 40)])]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("itc")
    return {kind: write(root / kind) for kind, write in ITM.items()}


def load(folder: Path, precision: str = "fp32") -> DualEncoder:
    model = ITC.load(str(folder), device="cpu", precision=precision, name="it")
    assert isinstance(model, DualEncoder)
    return model


def own_pass(kind: str, folder: Path) -> dict[str, Any]:
    """Return what transformers' own pass over one image and one text gives, (images, texts) or (texts, d)."""
    import torch
    import transformers
    from transformers import AutoImageProcessor, AutoTokenizer

    model = getattr(transformers, ARCHITECTURES[kind].model).from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    scores: dict[str, Any] = {"score": [], "first": [], "texts": {}}
    for file in FILES:
        image = processor(Image.open(io.BytesIO(file)), return_tensors="pt")
        for caption in CAPTIONS:
            text = tokenizer(caption, return_tensors="pt")
            given = {"input_ids": text["input_ids"], "attention_mask": text["attention_mask"], **image}
            with torch.no_grad():
                if kind == "blip":
                    found = model(**given, use_itm_head=False)
                    first, vector = found.itm_score, model.text_proj(found.question_embeds[:, 0])
                    best = first
                else:
                    found = model(**given, use_image_text_matching_head=False)
                    first, vector = found.image_embeds[:, 0] @ found.text_embeds.T, found.text_embeds
                    best = found.logits_per_image
            scores["first"].append(first.item())
            scores["score"].append(best.item())
            scores["texts"][caption] = torch.nn.functional.normalize(vector, dim=-1)[0].numpy()
    shape = (len(FILES), len(CAPTIONS))
    return {
        "score": np.reshape(scores["score"], shape),
        "first": np.reshape(scores["first"], shape),
        "texts": np.stack(list(scores["texts"].values())),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_cosines_are_those_of_the_models_own_pass(kind: str, folders: dict[str, Path]) -> None:
    model, own = load(folders[kind]), own_pass(kind, folders[kind])
    images, texts = model.encode_images(FILES, None), model.encode_texts(CAPTIONS, None)
    assert own["first"].std() > 0.02
    np.testing.assert_allclose(images @ texts.T, own["first"], atol=2e-5)
    # SugarCrepe++'s text-only task is on the same vectors.
    np.testing.assert_allclose(texts @ texts.T, own["texts"] @ own["texts"].T, atol=2e-5)
    np.testing.assert_allclose((images**2).sum(1), 1, atol=1e-5)


def test_the_best_of_blip_2s_queries_is_its_own_score(folders: dict[str, Path]) -> None:
    model = ITC_MAX.load(str(folders["blip-2"]), device="cpu", precision="fp32", name="it")
    assert isinstance(model, Matcher)
    assert not isinstance(model, DualEncoder)
    image_of, text_of = np.indices((len(FILES), len(CAPTIONS))).reshape(2, -1)
    own = own_pass("blip-2", folders["blip-2"])
    found = model.match_pairs(FILES, CAPTIONS, image_of, text_of, 3).reshape(own["score"].shape)
    np.testing.assert_allclose(found, own["score"], atol=2e-5)
    assert (own["score"] > own["first"] + 0.01).any()
    twice = model.match_pairs(
        FILES, [*CAPTIONS, "A DOG."], np.array([1, 1]), np.array([0, len(CAPTIONS)]), None
    )
    assert twice[0] == twice[1]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_different_lengths_equal_items_one_by_one(kind: str, folders: dict[str, Path]) -> None:
    model = load(folders[kind])
    for encode, items in ((model.encode_images, FILES), (model.encode_texts, CAPTIONS)):
        alone = np.concatenate([encode([item], 1) for item in items])  # type: ignore[operator]
        np.testing.assert_allclose(encode(items, 3), alone, atol=1e-5)  # type: ignore[operator]


def test_captions_are_read_as_blip_was_trained_on_them(folders: dict[str, Path]) -> None:
    def published(caption: str) -> str:  # LAVIS, blip_processors.py, step by step
        for sign in '.!"()*#:;~':
            caption = caption.lower().replace(sign, " ")
        while re.search(r"\s\s", caption):
            caption = re.sub(r"\s\s+", " ", caption)
        words = caption.rstrip("\n").strip(" ").split(" ")
        return " ".join(words[:50])

    texts = ["A dog.", 'Two  men ("big"); a cat:', "the red car, it's big\n", "", "...", " a " * 80, "a\tcat"]
    assert [clean_blip_caption(text) for text in texts] == [published(text) for text in texts]
    for kind in KINDS:
        vectors = load(folders[kind]).encode_texts(["a dog", "A dog.", "A DOG!", "a cat", ""], None)
        assert (vectors[:3] == vectors[0]).all()
        assert (vectors[3] != vectors[0]).any()
        assert np.isfinite(vectors).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bf16_stays_near(kind: str, folders: dict[str, Path]) -> None:
    exact, coarse = load(folders[kind]), load(folders[kind], "bf16")
    assert ((exact.encode_texts(CAPTIONS, None) * coarse.encode_texts(CAPTIONS, None)).sum(1) > 0.98).all()
    assert ((exact.encode_images(FILES, None) * coarse.encode_images(FILES, None)).sum(1) > 0.98).all()
    assert exact.identity != coarse.identity


def test_a_text_that_is_too_long_is_cut(folders: dict[str, Path]) -> None:
    long = "a dog on the car " * 30  # more tokens than the tower has places for
    for kind in KINDS:
        assert np.isfinite(load(folders[kind]).encode_texts([long], None)).all()


def test_each_score_has_an_identity_and_a_rule_of_its_own(folders: dict[str, Path]) -> None:
    folder = str(folders["blip-2"])
    specs = {family: f"{family}:{folder}" for family in ("itm", "itc", "itc_max")}
    found = {}
    for family, spec in specs.items():
        open_model.cache_clear()
        assert missing_of(spec) == []
        found[family] = str(open_model(spec, "cpu", "fp32").identity)  # type: ignore[union-attr]
    open_model.cache_clear()
    assert len(set(found.values())) == 3
    assert [get_family(spec).score for spec in specs.values()] == ["itm", "cosine", "itc_max"]


def test_a_broken_picture_is_named(folders: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="number 1"):
        load(folders["blip"]).encode_images([FILES[0], b"no picture"], None)


def test_what_has_no_projections_is_refused(folders: dict[str, Path]) -> None:
    vilt, blip = str(folders["vilt"]), str(folders["blip"])
    with pytest.raises(BackendError, match=f"'vilt'. Write itm:{vilt}"):
        ITC.load(vilt, device="cpu", precision="fp32", name="it")
    assert ITC_MAX.missing(blip) == [f"{blip!r} is a model of type 'blip'. Write itm:{blip}."]
