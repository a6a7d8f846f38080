"""ALBEF and X-VLM computed plainly from the weights of a checkpoint, a text at a time."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from small_transformers import CAPTIONS, bert_tokenizer, picture

from caramel.models.specs import open_model

WIDTH, INNER, EMBED, LAYERS, FUSION = (
    128,
    96,
    24,
    4,
    2,
)  # of the text encoder; its first layer that sees an image
FILES = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 50), (64, 64)])]
IMAGE_OF = np.repeat(np.arange(len(FILES)), len(CAPTIONS))
TEXT_OF = np.tile(np.arange(len(CAPTIONS)), len(FILES))
MEAN, SD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's, of the pixels
State = dict[str, torch.Tensor]


def build_text_shapes(words: int, vision_width: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the text encoder's weights, as pre-training names them."""
    shapes: dict[str, tuple[int, ...]] = {
        "text_encoder.bert.embeddings.word_embeddings.weight": (words, WIDTH),
        "text_encoder.bert.embeddings.position_embeddings.weight": (40, WIDTH),
        "text_encoder.bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
        "text_encoder.cls.predictions.bias": (words,),
        "vision_proj.weight": (EMBED, vision_width),
        "vision_proj.bias": (EMBED,),
        "text_proj.weight": (EMBED, WIDTH),
        "text_proj.bias": (EMBED,),
        "temp": (),
    }
    norms, linear = ["text_encoder.bert.embeddings.LayerNorm"], {}
    for number in range(LAYERS):
        layer = f"text_encoder.bert.encoder.layer.{number}"
        for kind in ("attention", "crossattention")[: 1 + (number >= FUSION)]:
            seen = WIDTH if kind == "attention" else vision_width
            linear |= {f"{layer}.{kind}.self.{part}": (WIDTH, seen) for part in ("key", "value")}
            linear |= {f"{layer}.{kind}.{part}": (WIDTH, WIDTH) for part in ("self.query", "output.dense")}
            norms += [f"{layer}.{kind}.output.LayerNorm"]
        linear |= {f"{layer}.intermediate.dense": (INNER, WIDTH), f"{layer}.output.dense": (WIDTH, INNER)}
        norms += [f"{layer}.output.LayerNorm"]
    return shapes | name_layers(linear, norms)


def name_layers(linear: dict[str, tuple[int, int]], norms: list[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of weights and biases of linear layers, and of norms of ``WIDTH``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (out, given) in linear.items():
        shapes |= {f"{name}.weight": (out, given), f"{name}.bias": (out,)}
    for name in norms:
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    return shapes


def draw_weights(shapes: dict[str, tuple[int, ...]]) -> State:
    """Return random weights, those of norms around 1."""
    generator = torch.Generator().manual_seed(0)
    state = {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}
    return state | {
        name: state[name] + 1 for name in state if name.endswith(("LayerNorm.weight", "norm.weight"))
    }


def attend(state: State, query: Any, key: Any, value: Any, biases: Any) -> torch.Tensor:
    """Return the attention of heads of 64 numbers, before its output projection."""
    q, k, v = (
        F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"]).unflatten(-1, (-1, 64)).transpose(0, 1)
        for x, name in zip((query, key, value), biases, strict=True)
    )
    return ((q @ k.transpose(1, 2) / math.sqrt(64)).softmax(-1) @ v).transpose(0, 1).flatten(1)


def normalise(state: State, x: torch.Tensor, name: str, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps)


def project(state: State, x: torch.Tensor, name: str) -> torch.Tensor:
    return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def read(state: State, tokens: list[int], image: torch.Tensor | None) -> torch.Tensor:
    """Return the states (t, d) of a text: models/xbert.py, mode ``text`` without an image, then mode ``fusion``."""
    embeddings, bert = "text_encoder.bert.embeddings", "text_encoder.bert.encoder.layer"
    x = state[f"{embeddings}.word_embeddings.weight"][tokens]
    x = x + state[f"{embeddings}.position_embeddings.weight"][: len(tokens)]
    x = normalise(
        state, x + state[f"{embeddings}.token_type_embeddings.weight"][0], f"{embeddings}.LayerNorm", 1e-12
    )
    for number in range(FUSION if image is None else LAYERS):
        for kind, seen in (("attention", x), ("crossattention", image))[: 1 + (number >= FUSION)]:
            name = f"{bert}.{number}.{kind}"
            assert seen is not None
            other = x if kind == "attention" else seen
            h = attend(state, x, other, other, [f"{name}.self.{part}" for part in ("query", "key", "value")])
            x = normalise(
                state, x + project(state, h, f"{name}.output.dense"), f"{name}.output.LayerNorm", 1e-12
            )
        h = F.gelu(project(state, x, f"{bert}.{number}.intermediate.dense"))
        h = project(state, h, f"{bert}.{number}.output.dense")
        x = normalise(state, x + h, f"{bert}.{number}.output.LayerNorm", 1e-12)
    return x


def prepare_pixels(image: bytes, side: int) -> torch.Tensor:
    """Return the pixels (1, 3, side, side) of an encoded image as both models' authors prepare them."""
    opened = Image.open(io.BytesIO(image)).convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.tensor(np.asarray(opened) / 255.0).permute(2, 0, 1).float()
    mean, sd = (torch.tensor(x)[:, None, None] for x in (MEAN, SD))
    return ((pixels - mean) / sd)[None]


def write_vocabulary(folder: Path) -> int:
    """Write a vocabulary as bert-base-uncased has it; return its size."""
    vocabulary = bert_tokenizer().get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    return len(vocabulary)


def open_fresh(spec: str) -> Any:
    """Return the model of a spec, loaded again."""
    open_model.cache_clear()
    return open_model(spec, "cpu", "fp32")
