"""Embedding models made of generative ones give the states of a plain pass over one item, whatever shares a batch."""

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_transformers import picture
from tiny_generative import save_qwen

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import DualEncoder
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers.dual import load_dual
from caramel.models.transformers.llm_embeddings import LastTokenEncoder

KINDS = {"qwen2_vl": "2", "qwen2_5_vl": "2.5"}
CAPTIONS = ["a dog", "a dog on the left of a cat", "a man rides a horse along the beach in the morning light"]
SIZES = [(64, 64), (40, 100), (20, 36), (200, 90)]  # the third is less than 28 pixels wide


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("embedding")
    return {kind: save_qwen(root / kind, version=version) for kind, version in KINDS.items()}


def load(folder: Path, precision: str = "fp32") -> LastTokenEncoder:
    model = load_dual(str(folder), device="cpu", precision=precision, name="it")
    assert isinstance(model, LastTokenEncoder)
    return model


def files() -> list[bytes]:
    return [picture(seed, size) for seed, size in enumerate(SIZES)]


def state(model: Any, **inputs: Any) -> np.ndarray:
    """Return the normalised state of the last token after the last layer, (d,)."""
    import torch

    count = inputs["input_ids"].shape[1]
    places = torch.arange(count).expand(3, 1, count)
    with torch.no_grad():
        last = model(**inputs, position_ids=places, output_hidden_states=True).hidden_states[-1][0, -1]
    return (last / last.norm()).numpy()


def plain(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors of captions and pictures, from the authors' recipe, one item at a time and without padding."""
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    texts = [state(model, input_ids=torch.tensor([tokenizer(text).input_ids])) for text in CAPTIONS]
    images = []
    for file in files():
        shown = Image.open(io.BytesIO(file)).convert("RGB")
        if min(shown.size) < 28:
            shown = shown.resize((56, 56))
        size = {"shortest_edge": 28 * 28 * 4, "longest_edge": 28 * 28 * 1280}
        data = processor(shown, size=size, return_tensors="pt")
        count = int(data["image_grid_thw"].prod()) // 4
        text = "<|image_pad|>" * count + "\nFind an image caption describing the given everyday image.\n"
        images.append(state(model, input_ids=torch.tensor([tokenizer(text).input_ids]), **data))
    return np.stack(texts), np.stack(images)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_vectors_are_those_of_a_plain_pass_over_one_item(
    kind: str, batch: int | None, folders: dict[str, Path]
) -> None:
    encoder = load(folders[kind])
    texts, images = plain(folders[kind])
    assert np.abs(texts[0] - texts[1]).max() > 0.01
    assert np.abs(images[0] - images[1]).max() > 0.01
    np.testing.assert_allclose(encoder.encode_texts(CAPTIONS, batch), texts, atol=2e-6)
    np.testing.assert_allclose(encoder.encode_images(files(), batch), images, atol=2e-6)


def test_equal_texts_have_equal_vectors_bit_for_bit(folders: dict[str, Path]) -> None:
    vectors = load(folders["qwen2_vl"]).encode_texts([CAPTIONS[0], *CAPTIONS], 2)
    assert vectors[0].tobytes() == vectors[1].tobytes()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_bf16_stays_near_fp32_and_is_another_identity(folders: dict[str, Path]) -> None:
    exact, coarse = load(folders["qwen2_vl"]), load(folders["qwen2_vl"], "bf16")
    cosines = (exact.encode_texts(CAPTIONS, None) * coarse.encode_texts(CAPTIONS, None)).sum(axis=1)
    assert (cosines > 0.98).all()
    assert exact.identity != coarse.identity
    assert "Find an image caption" in str(exact.identity["prompt"])


def test_a_spec_opens_it(folders: dict[str, Path]) -> None:
    open_model.cache_clear()
    spec = f"mine=dual:{folders['qwen2_5_vl']}"
    assert missing_of(spec) == []
    assert isinstance(open_model(spec, "cpu", "fp32"), DualEncoder)
    open_model.cache_clear()


def test_a_broken_picture_is_named(folders: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="number 1"):
        load(folders["qwen2_vl"]).encode_images([picture(0), b"no picture"], None)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("adapter_config.json", "is an adapter, not a whole model"),
        ("pytorch_model.bin", "no weights as safetensors"),
    ],
)
def test_adapters_and_pickles_are_refused_with_the_cure(
    file: str, message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders["qwen2_vl"], tmp_path / "other")
    (folder / "model.safetensors").rename(folder / file)
    with pytest.raises(BackendError, match=message):
        load(folder)
    assert any(message in line for line in missing_of(f"dual:{folder}"))
