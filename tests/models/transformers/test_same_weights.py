"""The same weights give the same vectors through each family that can load them."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from same_weights import (
    ODD_TEXTS,
    PIXELS,
    random_open_clip,
    save_open_clip,
    save_transformers,
)
from small_transformers import siglip2_square_folder, siglip_folder

from caramel.evaluation.adapters import wrap_model
from caramel.models.open_clip.loader import load_open_clip
from caramel.models.transformers.dual import load_dual

SIZES = [(32, 32), (33, 32), (35, 32), (32, 35), (64, 48), (50, 37), (301, 200), (200, 303), (7, 5), (32, 1)]

CHARACTERS = (
    "aAbBz 019.,;:!?'\"-_()&<>#@ \t\n"
    + "’‘“”–—…«»ﬁﬂﬀéÉßẞøñçığİΣσςЖжאش字かカ한हि\u0301\u0308\u00a0\u2009\u3000\u200d½²①Ａａ１！ｶ🐶👩\u2764\ufe0f"
)


@pytest.fixture(scope="module", params=[False, True], ids=["gelu", "quick_gelu"])
def encoders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One CLIP through each family and from memory, the first of them open_clip's."""
    import open_clip
    from transformers import CLIPModel, CLIPProcessor

    folder, quick = tmp_path_factory.mktemp("same"), request.param
    model = random_open_clip(quick)
    ours = save_open_clip(folder / "open_clip", model, quick)
    new = save_transformers(folder / "new", model, quick)
    old = save_transformers(folder / "old", model, quick, eos_token_id=2, bos_token_id=0, pad_token_id=1)
    loaded = {"device": "cpu", "precision": "fp32", "name": "it"}
    live = {"precision": "fp32", "name": "it"}
    preprocess = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(size=PIXELS), is_train=False
    )
    none = {"tokenizer": None, "preprocess": None, "processor": None}
    parts = {"tokenizer": open_clip.SimpleTokenizer(), "preprocess": preprocess}
    processor = {"processor": CLIPProcessor.from_pretrained(new, backend="pil")}
    return {
        "open_clip": load_open_clip(str(ours), **loaded),
        "dual": load_dual(str(new), **loaded),
        "dual of an old config": load_dual(str(old), **loaded),
        "open_clip in memory": wrap_model(model, **{**none, **parts}, **live),
        "transformers in memory": wrap_model(
            CLIPModel.from_pretrained(new).eval(), **{**none, **processor}, **live
        ),
    }


def encoded(size: tuple[int, int], seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_odd_texts_have_the_same_vectors_through_all_families(encoders: dict[str, Any]) -> None:
    first, *others = (encoder.encode_texts(ODD_TEXTS, None) for encoder in encoders.values())
    for name, vectors in zip(list(encoders)[1:], others, strict=True):
        apart = np.abs(first - vectors).max(axis=1)
        assert (name, [text for text, gap in zip(ODD_TEXTS, apart, strict=True) if gap > 1e-5]) == (name, [])
    assert len(np.unique(first.round(4), axis=0)) > len(ODD_TEXTS) - 5  # or equal vectors would say nothing


def test_texts_made_of_any_characters_have_the_same_vectors_through_all_families(
    encoders: dict[str, Any],
) -> None:
    rng = random.Random(0)
    texts = ["".join(rng.choices(CHARACTERS, k=rng.randrange(1, 30))) for _ in range(300)]
    first, *others = (encoder.encode_texts(texts, None) for encoder in encoders.values())
    for vectors in others:
        np.testing.assert_allclose(vectors, first, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_images_of_any_size_have_the_same_vectors_through_all_families(
    size: tuple[int, int], encoders: dict[str, Any]
) -> None:
    first, *others = (encoder.encode_images([encoded(size, 1)], None) for encoder in encoders.values())
    for vectors in others:
        np.testing.assert_allclose(vectors, first, atol=1e-5)


def test_the_processor_of_the_caller_is_left_as_it_is(encoders: dict[str, Any]) -> None:
    for name in ("dual", "transformers in memory"):
        assert "center_crop" not in vars(encoders[name]._image_processor)
        assert "center_crop" not in str(encoders[name].identity)


@pytest.mark.parametrize(
    ("write", "clean"), [(siglip_folder, "canonicalize"), (siglip2_square_folder, "lower")]
)
def test_siglip_reads_the_tokens_that_open_clip_reads(write: Any, clean: str, tmp_path: Path) -> None:
    from open_clip.tokenizer import HFTokenizer

    folder = write(tmp_path / "siglip")
    encoder, seen = load_dual(str(folder), device="cpu", precision="fp32", name="it"), []
    encoder._model.text_model.register_forward_pre_hook(  # type: ignore[attr-defined]
        lambda _, args, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True
    )
    for text in ODD_TEXTS:
        encoder.encode_texts([text], None)
    expected = HFTokenizer(str(folder), 64, clean=clean)(ODD_TEXTS)
    assert [row[0].tolist() for row in seen] == expected.tolist()
