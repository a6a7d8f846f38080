"""ALBEF (Li et al., NeurIPS 2021) and X-VLM (Zeng et al., ICML 2022) from the checkpoints of their authors.

A target is a folder with one .pth file and BERT's vocabulary. The file is a state dict, as ``ALBEF.pth`` of
github.com/salesforce/ALBEF and ``4m_base_model_state_step_199999.th`` (renamed to .pth) of github.com/zengyan-97/X-VLM,
under the key ``model`` or alone. It holds an image encoder (``albef_vision``), a BERT whose last layers attend to the image
(``crossattention``), projections and a matching head, in X-VLM of two layers. Momentum copies, queues, and the heads of
masked words and boxes are not used. The checkpoint states no config: all sizes are read from the weights. Tokenizer files of
bert-base-uncased must lie beside it.

Confirmed in models/model_retrieval.py, models/vit.py and configs/config_bert.json of ALBEF's repository. X-VLM's
(models/xvlm.py, models/swin_transformer.py, dataset/utils.py) is written as it is known, without the files at hand. Images
are resized to a square as there (bicubic, CLIP's mean), by default to the size of the weights. ``?image_size=384``
interpolates ALBEF's position embeddings, as its authors do. ALBEF's captions are normalised as in LAVIS, which
SugarCrepe++ uses, and X-VLM's as in its own code (``text_normalization``).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import BertConfig, BertModel, BertTokenizer, BlipImageProcessorPil
from transformers.models.bert.modeling_bert import BertLayer

from caramel.errors import BackendError
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.loading.files import translate_load_errors, validate_model
from caramel.models.loading.state_dicts import fit_state, read_state
from caramel.models.transformers.albef_files import find_albef_file, list_albef_problems, split_image_size
from caramel.models.transformers.albef_vision import (
    HEAD,
    POSITIONS,
    State,
    build_vision_encoder,
    count_layers,
    get_shape,
    infer_vision_sizes,
    is_swin,
    rename_swin_weights,
    resize_positions,
)

PARTS = ("visual_encoder.", "text_encoder.", "vision_proj.", "text_proj.", "itm_head.")
UNUSED = ("text_encoder.cls.", "text_encoder.pooler.", "text_encoder.embeddings.position_ids")
_LAYER = "text_encoder.encoder.layer"
Loaded = TypeVar("Loaded")


class AlbefConfig(BertConfig):  # type: ignore[misc]
    """Sizes of the text encoder, with those of the image encoder and ``fusion_layer``, the first with an image."""

    model_type = "albef"


class XvlmConfig(AlbefConfig):
    """The same for X-VLM."""

    model_type = "xvlm"


class Albef(torch.nn.Module):
    """The parts of ALBEF that score pairs, under the names of its checkpoints."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.config = config
        self.visual_encoder = build_vision_encoder(config)
        self.text_encoder = BertModel(config, add_pooling_layer=False)
        layers = self.text_encoder.encoder.layer
        crossed = copy.deepcopy(config)
        crossed.is_decoder = crossed.add_cross_attention = True  # BERT has no other layers that see an image
        for number in range(config.fusion_layer, config.num_hidden_layers):
            layers[number] = BertLayer(crossed, number)
            layers[number].attention.self.is_causal = False  # and yet each token attends to all
            for part in ("key", "value"):  # of an image's tokens, which may be wider
                linear = torch.nn.Linear(config.vision_width, config.hidden_size)
                setattr(layers[number].crossattention.self, part, linear)
        self.vision_proj = torch.nn.Linear(config.vision_width, config.embed_dim)
        self.text_proj = torch.nn.Linear(config.hidden_size, config.embed_dim)
        self.itm_head = _build_matching_head(config)

    def encode_text(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the states (n, t, d) of texts of equal length, before they see an image."""
        hidden: torch.Tensor = self.text_encoder.embeddings(input_ids=input_ids)
        for layer in self.text_encoder.encoder.layer[: self.config.fusion_layer]:
            hidden = layer(hidden)
        return hidden

    def encode_pair(self, input_ids: torch.Tensor, image_tokens: torch.Tensor) -> torch.Tensor:
        """Return the states (n, t, d) of texts of equal length after they saw the images' tokens (n, tokens, d)."""
        hidden = self.encode_text(input_ids)
        for layer in self.text_encoder.encoder.layer[self.config.fusion_layer :]:
            hidden = layer(hidden, None, image_tokens)
        return hidden


def _build_matching_head(config: AlbefConfig) -> torch.nn.Module:
    """Return the head that says whether an image and a text match: two logits, the second for a match."""
    if config.model_type == "albef":
        return torch.nn.Linear(config.hidden_size, 2)
    inner = 2 * config.hidden_size
    return torch.nn.Sequential(
        torch.nn.Linear(config.hidden_size, inner),
        torch.nn.LayerNorm(inner),
        torch.nn.GELU(),
        torch.nn.Linear(inner, 2),
    )


def load_albef(
    form: Callable[[Any, Any, Any, str, str, str], Loaded],
    target: str,
    *,
    device: str,
    precision: str,
    name: str,
) -> Loaded:
    """Return a model built from a folder's weights, tokenizer and image processor, after one test.

    Args:
        form: builds it from these, device, precision and name.
        target: FOLDER, or FOLDER?image_size=N.
        device, precision, name: as in ``interfaces.model.Loader``, with its errors.
    """
    if problems := list_albef_problems(target):
        raise BackendError("; ".join(problems))
    folder, size = split_image_size(target)
    path = find_albef_file(folder)
    assert path is not None
    device = resolve_device(device)
    with translate_load_errors(target):
        state = _select_weights(read_state(path))
        config = _infer_config(state, size, path)
        if not is_swin(state):
            state[POSITIONS] = resize_positions(state[POSITIONS], config)
        model = Albef(config)
        fit_state(model, state, repr(str(path)))
        moved = move_to_device(model.eval(), device)
        side = {"height": config.image_size, "width": config.image_size}
        tokenizer, image_processor = BertTokenizer.from_pretrained(folder), BlipImageProcessorPil(size=side)
        if len(tokenizer) != config.vocab_size:
            raise BackendError(
                f"The vocabulary in {folder!r} has {len(tokenizer)} tokens, and the text encoder {config.vocab_size}. "
                f"Put the tokenizer files of bert-base-uncased beside the weights."
            )
        return validate_model(form(moved, tokenizer, image_processor, device, precision, name), target)


def _select_weights(state: Mapping[str, torch.Tensor]) -> State:
    """Return the weights that score pairs, under the names of an ALBEF that is tuned for retrieval."""
    named = {re.sub(r"^text_encoder\.bert\.", "text_encoder.", name): value for name, value in state.items()}
    return {
        name: value.float()
        for name, value in rename_swin_weights(named).items()
        if name.startswith(PARTS) and not name.startswith(UNUSED)
    }


def _infer_config(state: State, image_size: int | None, path: Path) -> AlbefConfig:
    """Return the sizes that the weights have.

    Raises:
        BackendError: a weight that tells them is missing or has another form.
    """
    layers = count_layers(state, _LAYER)
    fused = [
        number for number in range(layers) if f"{_LAYER}.{number}.crossattention.self.query.weight" in state
    ]
    words, width = get_shape(state, "text_encoder.embeddings.word_embeddings.weight", 2, path)
    if width % HEAD or not fused:
        raise BackendError(
            f"{str(path)!r} is not a checkpoint of ALBEF or X-VLM: its text encoder has the width {width}, and "
            f"{len(fused)} layers of text that see an image. Expected are a width that {HEAD} divides, and one such layer or more."
        )
    return (XvlmConfig if is_swin(state) else AlbefConfig)(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD,
        intermediate_size=get_shape(state, f"{_LAYER}.0.intermediate.dense.weight", 2, path)[0],
        max_position_embeddings=get_shape(
            state, "text_encoder.embeddings.position_embeddings.weight", 2, path
        )[0],
        type_vocab_size=get_shape(state, "text_encoder.embeddings.token_type_embeddings.weight", 2, path)[0],
        fusion_layer=fused[0],
        **infer_vision_sizes(state, image_size, path),
        embed_dim=get_shape(state, "text_proj.weight", 2, path)[0],
    )
