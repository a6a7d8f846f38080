"""ALBEF's checkpoints, under the names of its authors' files, are scored as a plain computation over the weights does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_albef import (
    EMBED,
    FILES,
    IMAGE_OF,
    INNER,
    TEXT_OF,
    WIDTH,
    State,
    attend,
    build_text_shapes,
    draw_weights,
    name_layers,
    normalise,
    open_fresh,
    prepare_pixels,
    project,
    read,
    write_vocabulary,
)
from small_transformers import CAPTIONS, bert_tokenizer

from caramel.errors import BackendError
from caramel.interfaces.model import DualEncoder, Matcher
from caramel.models.specs import hash_content, missing_of

PATCH, SIDE, BLOCKS = 16, 48, 2


def build_state(words: int) -> State:
    """Return random weights with the names and shapes of ALBEF.pth, as pre-training writes them."""
    shapes = build_text_shapes(words, WIDTH) | {
        "visual_encoder.cls_token": (1, 1, WIDTH),
        "visual_encoder.pos_embed": (1, 1 + (SIDE // PATCH) ** 2, WIDTH),
        "visual_encoder.patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH),
        "visual_encoder.patch_embed.proj.bias": (WIDTH,),
        "itm_head.weight": (2, WIDTH),
        "itm_head.bias": (2,),
        "image_queue": (EMBED, 8),
    }
    norms, linear = ["visual_encoder.norm"], {}
    for block in (f"visual_encoder.blocks.{n}" for n in range(BLOCKS)):
        norms += [f"{block}.norm1", f"{block}.norm2"]
        linear |= {f"{block}.attn.qkv": (3 * WIDTH, WIDTH), f"{block}.attn.proj": (WIDTH, WIDTH)}
        linear |= {f"{block}.mlp.fc1": (INNER, WIDTH), f"{block}.mlp.fc2": (WIDTH, INNER)}
    state = draw_weights(shapes | name_layers(linear, norms))
    momentum = {
        name.replace("visual_encoder.", "visual_encoder_m.", 1): value + 1 for name, value in state.items()
    }
    return {**momentum, **state, "text_encoder.bert.embeddings.position_ids": torch.arange(40)[None]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the state dict as ALBEF's training script does, and the vocabulary as bert-base-uncased has it."""
    folder = tmp_path_factory.mktemp("albef")
    words = write_vocabulary(folder)
    state = build_state(words)
    torch.save({"model": state, "config": {"image_res": SIDE}, "epoch": 3}, folder / "ALBEF.pth")
    return folder


def see(state: State, image: bytes, side: int, positions: torch.Tensor) -> torch.Tensor:
    """Return the tokens (tokens, d) of an image: models/vit.py of ALBEF, an image at a time."""
    stem = "visual_encoder.patch_embed.proj"
    patches = F.conv2d(
        prepare_pixels(image, side), state[f"{stem}.weight"], state[f"{stem}.bias"], stride=PATCH
    )
    x = torch.cat([state["visual_encoder.cls_token"][0], patches[0].flatten(1).T]) + positions
    for block in (f"visual_encoder.blocks.{n}" for n in range(BLOCKS)):
        h = normalise(state, x, f"{block}.norm1", 1e-6)
        thirds = {
            f"{part}{end}": state[f"{block}.attn.qkv{end}"].chunk(3)[n]
            for n, part in enumerate("qkv")
            for end in (".weight", ".bias")
        }
        x = x + project(state, attend(thirds, h, h, h, "qkv"), f"{block}.attn.proj")
        h = project(state, normalise(state, x, f"{block}.norm2", 1e-6), f"{block}.mlp.fc1")
        x = x + project(state, F.gelu(h), f"{block}.mlp.fc2")
    return normalise(state, x, "visual_encoder.norm", 1e-6)


def compute_plainly(folder: Path, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of a match and the cosines of all images and captions, a pair at a time."""
    state = torch.load(folder / "ALBEF.pth", weights_only=True)["model"]
    positions = state["visual_encoder.pos_embed"][0]
    if side != SIDE:
        old, new = SIDE // PATCH, side // PATCH
        grid = positions[1:].reshape(1, old, old, WIDTH).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, (new, new), mode="bicubic", align_corners=False)
        positions = torch.cat([positions[:1], grid.permute(0, 2, 3, 1).reshape(-1, WIDTH)])
    tokenizer = bert_tokenizer()
    logits, cosines = [], []
    for i, t in zip(IMAGE_OF, TEXT_OF, strict=True):
        tokens = tokenizer(CAPTIONS[t])["input_ids"]
        image = see(state, FILES[i], side, positions)
        match = project(state, read(state, tokens, image)[0], "itm_head")
        logits.append(float(match[1] - match[0]))
        vectors = (
            project(state, image[0], "vision_proj"),
            project(state, read(state, tokens, None)[0], "text_proj"),
        )
        cosines.append(float(F.cosine_similarity(*vectors, dim=0)))
    return np.array(logits), np.array(cosines)


@pytest.mark.parametrize("size", [None, 80])
def test_scores_are_those_of_a_plain_computation(folder: Path, size: int | None) -> None:
    target = f"{folder}?image_size={size}" if size else str(folder)
    logits, cosines = compute_plainly(folder, size or SIDE)
    matcher = open_fresh(f"itm:{target}")
    assert isinstance(matcher, Matcher)
    np.testing.assert_allclose(matcher.match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, 4), logits, atol=2e-4)
    encoder = open_fresh(f"itc:{target}")
    assert isinstance(encoder, DualEncoder)
    images, texts = encoder.encode_images(FILES, None), encoder.encode_texts(CAPTIONS, None)
    np.testing.assert_allclose((images @ texts.T).reshape(-1), cosines, atol=2e-5)
    assert logits.std() > 0.02
    assert cosines.std() > 0.02


def test_a_checkpoint_tuned_for_retrieval_names_its_text_encoder_without_bert(
    folder: Path, tmp_path: Path
) -> None:
    state = torch.load(folder / "ALBEF.pth", weights_only=True)["model"]
    tuned = {name.replace("text_encoder.bert.", "text_encoder."): value for name, value in state.items()}
    torch.save(tuned, tmp_path / "coco.pth")
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    scores = [
        open_fresh(f"itm:{where}").match_pairs(FILES, CAPTIONS, IMAGE_OF, TEXT_OF, None)
        for where in (folder, tmp_path)
    ]
    assert (scores[0] == scores[1]).all()
    assert hash_content(f"itm:{tmp_path}") != hash_content(f"itm:{folder}")


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("itm_head.weight", r"Weights 1 missing: \['itm_head.weight'\]"),
        ("text_encoder.bert.encoder.layer.3.crossattention.self.key.bias", "crossattention.self.key.bias"),
        ("text_proj.weight", "'text_proj.weight' is missing. Use a file of github.com/salesforce/ALBEF"),
        ("crossattention", "0 layers of text that see an image"),
        ("visual_encoder", "'visual_encoder.pos_embed' is missing"),
    ],
)
def test_missing_weights_are_named(folder: Path, tmp_path: Path, removed: str, message: str) -> None:
    state = torch.load(folder / "ALBEF.pth", weights_only=True)["model"]
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    torch.save({"model": {n: v for n, v in state.items() if removed not in n}}, tmp_path / "ALBEF.pth")
    with pytest.raises(BackendError, match=message):
        open_fresh(f"itm:{tmp_path}")


def test_a_wrong_size_and_a_folder_without_words_or_with_two_files_are_named(
    folder: Path, tmp_path: Path
) -> None:
    assert missing_of(f"itm:{folder}") == missing_of(f"itc:{folder}?image_size=80") == []
    with pytest.raises(BackendError, match="image_size=50 is not a multiple of the patches' 16 pixels"):
        open_fresh(f"itc:{folder}?image_size=50")
    (tmp_path / "ALBEF.pth").write_bytes((folder / "ALBEF.pth").read_bytes())
    (problem,) = missing_of(f"itm:{tmp_path}")
    assert "put the tokenizer files of bert-base-uncased beside the weights" in problem
    with pytest.raises(BackendError, match=r"no vocab\.txt or tokenizer\.json"):
        open_fresh(f"itm:{tmp_path}")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog"]))
    with pytest.raises(BackendError, match="has 6 tokens, and the text encoder"):
        open_fresh(f"itm:{tmp_path}")
    (tmp_path / "other.pth").write_bytes(b"")
    assert "has 2 files of weights: ALBEF.pth, other.pth" in missing_of(f"itc:{tmp_path}")[0]


def test_code_in_the_file_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    torch.save({"model": {"temp": torch.zeros(1)}, "path": Path("x")}, tmp_path / "ALBEF.pth")
    with pytest.raises(BackendError, match="None of it was run"):
        open_fresh(f"itm:{tmp_path}")
