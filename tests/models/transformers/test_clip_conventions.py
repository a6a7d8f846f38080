"""A CLIP of transformers is pooled at the end of its texts, or refused where its files do not say where that is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_transformers import TEXT, VISION, clip_tokenizer, saved

from caramel.errors import BackendError
from caramel.models.transformers.dual import list_dual_problems, load_dual

NEW = ("<new1>", "<new2>")
CAPTIONS = [
    "a dog",
    "a <new1> on the car",
    "a <new1> under the blue ball",
    "a <new1>",
    "two <new2> and a <new1> men",
]


def write(folder: Path, tokenizer: Any, **text_config: Any) -> Path:
    """Write a small CLIP with the tokenizer."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    torch.manual_seed(0)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 77, **text_config}
    config = CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=20.0)
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return saved(folder, CLIPModel(config), tokenizer, processor)


def tokenizer_with(*added: str, **settings: Any) -> Any:
    tokenizer = clip_tokenizer()
    tokenizer.add_tokens(list(added))
    return tokenizer


def vectors_of(folder: Path) -> Any:
    model = load_dual(str(folder), device="cpu", precision="fp32", name="it")
    return model.encode_texts(CAPTIONS, None)


def of_transformers(folder: Path, **text_config: Any) -> Any:
    """Return the vectors that transformers' own pass gives, with changes of the config of texts."""
    import torch
    from transformers import AutoConfig, AutoTokenizer, CLIPModel

    config = AutoConfig.from_pretrained(folder)
    for key, value in text_config.items():
        setattr(config.text_config, key, value)
    inputs = AutoTokenizer.from_pretrained(folder)(CAPTIONS, padding=True, return_tensors="pt")
    with torch.no_grad():
        model = CLIPModel.from_pretrained(folder, config=config).eval()
        found = model.get_text_features(**inputs).pooler_output
    return torch.nn.functional.normalize(found, dim=-1).numpy()


def end_of(tokenizer: Any) -> int:
    return int(tokenizer.eos_token_id)


@pytest.mark.parametrize("stated", [2, "end"])
def test_without_added_tokens_vectors_are_those_of_transformers(stated: Any, tmp_path: Path) -> None:
    tokenizer = tokenizer_with()
    stated = end_of(tokenizer) if stated == "end" else stated
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=stated)
    np.testing.assert_allclose(vectors_of(folder), of_transformers(folder), atol=1e-5)


@pytest.mark.parametrize("stated", [2, "end"])
def test_with_added_tokens_texts_are_pooled_at_their_end(stated: Any, tmp_path: Path) -> None:
    tokenizer = tokenizer_with(*NEW)
    end = end_of(tokenizer)
    assert tokenizer.convert_tokens_to_ids("<new1>") > end
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=end if stated == "end" else stated)
    found = vectors_of(folder)
    np.testing.assert_allclose(found, of_transformers(folder, eos_token_id=end), atol=1e-5)
    assert len(np.unique(found.round(3), axis=0)) == len(CAPTIONS)
    if stated == 2:  # transformers itself reads nothing after the added token
        theirs = of_transformers(folder)
        np.testing.assert_allclose(theirs[1], theirs[2], atol=1e-5)


def test_a_padding_token_above_the_end_token_changes_nothing(tmp_path: Path) -> None:
    tokenizer = tokenizer_with("<fill>")
    tokenizer.pad_token = "<fill>"
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=2)
    found = vectors_of(folder)
    np.testing.assert_allclose(found, of_transformers(folder, eos_token_id=end_of(tokenizer)), atol=1e-5)


@pytest.mark.parametrize("stated", [49407, 1, None])
def test_an_end_token_that_no_text_has_is_refused_with_what_to_state(stated: Any, tmp_path: Path) -> None:
    tokenizer = tokenizer_with()
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=stated)
    with pytest.raises(
        BackendError, match=rf'states {stated} as eos_token_id .*"eos_token_id": {end_of(tokenizer)}'
    ):
        vectors_of(folder)
    (said,) = list_dual_problems(str(folder))
    assert re.search(rf'states {stated} as eos_token_id .*"eos_token_id": {end_of(tokenizer)}', said)
    assert repr(str(folder)) in said


def test_a_config_that_says_nothing_is_refused_where_the_tokenizer_ends_in_another_token(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "clip", tokenizer_with(), eos_token_id=2)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["text_config"]["eos_token_id"]
    path.write_text(json.dumps(config))
    with pytest.raises(BackendError, match="states 49407 as eos_token_id"):
        vectors_of(folder)


def test_an_old_config_is_refused_where_the_vocabulary_goes_on_after_the_end_token(tmp_path: Path) -> None:
    from transformers import CLIPTokenizer

    letters = [f"{letter}</w>" for letter in "abcdefghijklmnopqrstuvwxyz."]
    pieces = ["<|startoftext|>", *letters, "<|endoftext|>", *"abcdefghijklmnopqrstuvwxyz."]
    tokenizer = CLIPTokenizer(vocab={p: i for i, p in enumerate(pieces)}, merges=[], model_max_length=77)
    end = end_of(tokenizer)
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=2)
    with pytest.raises(BackendError, match=rf'27 tokens of the vocabulary are above.*"eos_token_id": {end}'):
        vectors_of(folder)
    assert "27 tokens of the vocabulary are above" in list_dual_problems(str(folder))[0]
    stated = write(tmp_path / "stated", tokenizer, eos_token_id=end)
    assert list_dual_problems(str(stated)) == []
    np.testing.assert_allclose(vectors_of(stated), of_transformers(stated), atol=1e-5)


def test_an_end_token_with_the_number_two_is_refused(tmp_path: Path) -> None:
    from transformers import CLIPTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz."
    pieces = [
        "<|pad|>",
        "<|startoftext|>",
        "<|endoftext|>",
        *letters,
        *(f"{letter}</w>" for letter in letters),
    ]
    tokenizer = CLIPTokenizer(vocab={p: i for i, p in enumerate(pieces)}, merges=[], model_max_length=77)
    folder = write(tmp_path / "clip", tokenizer, eos_token_id=2)
    with pytest.raises(
        BackendError, match=r"at which it was trained to be pooled is therefore unknown.*caramel\.score"
    ):
        vectors_of(folder)


def test_a_tokenizer_that_ends_no_text_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "clip", tokenizer_with(), eos_token_id=2)
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text())
    whole["post_processor"] = None
    path.write_text(json.dumps(whole))
    config = folder / "tokenizer_config.json"
    config.write_text(
        json.dumps({**json.loads(config.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"})
    )
    with pytest.raises(BackendError, match="its tokenizer does not end texts with an end token"):
        vectors_of(folder)
    assert "its tokenizer does not end texts with an end token" in list_dual_problems(str(folder))[0]
