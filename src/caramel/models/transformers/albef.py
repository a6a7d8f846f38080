"""ALBEF (Li et al., NeurIPS 2021) from the checkpoints of its authors: a folder with one .pth file and BERT's vocabulary.

The file is a state dict, as ``ALBEF.pth`` of github.com/salesforce/ALBEF, under the key ``model`` or alone. It holds a
vision transformer (named as timm's), a BERT whose last layers attend to the image (``crossattention``), projections and
a matching head; the momentum copies, queues and the head of masked words beside them are not used. The checkpoint states
no config: all sizes are read from the weights, and a head has 64 numbers, as in all of ViT and BERT that ALBEF uses.
Tokenizer files of bert-base-uncased must lie beside it.

Confirmed in models/model_retrieval.py, models/vit.py and configs/config_bert.json of that repository. Images are resized
to a square as there (bicubic, CLIP's mean), by default to the size of the position embeddings. ``?image_size=384``
interpolates them, as its authors do. Captions are normalised as in LAVIS, which SugarCrepe++ uses
(``text_normalization``).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from timm.models.vision_transformer import VisionTransformer
from transformers import BertConfig, BertModel, BertTokenizer, BlipImageProcessorPil
from transformers.models.bert.modeling_bert import BertLayer

from caramel.errors import BackendError
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.loading.files import translate_load_errors, validate_model
from caramel.models.loading.state_dicts import fit_state, read_state
from caramel.models.open_clip.config import LARGEST_SIDE
from caramel.models.transformers.albef_files import find_albef_file, list_albef_problems, split_image_size

HEAD = 64  # numbers of an attention head
PARTS = ("visual_encoder.", "text_encoder.", "vision_proj.", "text_proj.", "itm_head.")
UNUSED = ("text_encoder.cls.", "text_encoder.pooler.", "text_encoder.embeddings.position_ids")
_LAYER = "text_encoder.encoder.layer"
Loaded = TypeVar("Loaded")
State = dict[str, torch.Tensor]


class AlbefConfig(BertConfig):  # type: ignore[misc]
    """Sizes of the text encoder, with those of the image encoder and ``fusion_layer``, the first with an image."""

    model_type = "albef"


class Albef(torch.nn.Module):
    """The parts of ALBEF that score pairs, under the names of its checkpoints."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.config = config
        self.visual_encoder = VisionTransformer(
            img_size=config.image_size,
            patch_size=config.patch_size,
            embed_dim=config.vision_width,
            depth=config.vision_layers,
            num_heads=config.vision_width // HEAD,
            mlp_ratio=config.vision_mlp / config.vision_width,
            num_classes=0,
            global_pool="",  # all tokens
        )
        self.text_encoder = BertModel(config, add_pooling_layer=False)
        layers = self.text_encoder.encoder.layer
        crossed = copy.deepcopy(config)
        crossed.is_decoder = crossed.add_cross_attention = True  # BERT has no other layers that see an image
        for number in range(config.fusion_layer, config.num_hidden_layers):
            layers[number] = BertLayer(crossed, number)
            layers[number].attention.self.is_causal = False  # and yet each token attends to all
        self.vision_proj = torch.nn.Linear(config.vision_width, config.embed_dim)
        self.text_proj = torch.nn.Linear(config.hidden_size, config.embed_dim)
        self.itm_head = torch.nn.Linear(config.hidden_size, 2)

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
        state["visual_encoder.pos_embed"] = _resize_positions(state["visual_encoder.pos_embed"], config)
        model = Albef(config)
        fit_state(model, state, repr(str(path)))
        moved = move_to_device(model.eval(), device)
        side = {"height": config.image_size, "width": config.image_size}
        tokenizer, image_processor = BertTokenizer.from_pretrained(folder), BlipImageProcessorPil(size=side)
        if len(tokenizer) != config.vocab_size:
            raise BackendError(
                f"The vocabulary in {folder!r} has {len(tokenizer)} tokens, and ALBEF's text encoder {config.vocab_size}. "
                f"Put the tokenizer files of bert-base-uncased beside the weights."
            )
        return validate_model(form(moved, tokenizer, image_processor, device, precision, name), target)


def _select_weights(state: Mapping[str, torch.Tensor]) -> State:
    """Return the weights that score pairs, under the names of a model that is tuned for retrieval."""
    named = {re.sub(r"^text_encoder\.bert\.", "text_encoder.", name): value for name, value in state.items()}
    return {
        name: value.float()
        for name, value in named.items()
        if name.startswith(PARTS) and not name.startswith(UNUSED)
    }


def _infer_config(state: State, image_size: int | None, path: Path) -> AlbefConfig:
    """Return the sizes that the weights have.

    Raises:
        BackendError: a weight that tells them is missing or has another form.
    """
    layers = _count_layers(state, _LAYER)
    fused = [
        number for number in range(layers) if f"{_LAYER}.{number}.crossattention.self.query.weight" in state
    ]
    positions = _get_shape(state, "visual_encoder.pos_embed", 3, path)[1]
    _, _, patch, _ = _get_shape(state, "visual_encoder.patch_embed.proj.weight", 4, path)
    vision_mlp, vision_width = _get_shape(state, "visual_encoder.blocks.0.mlp.fc1.weight", 2, path)
    words, width = _get_shape(state, "text_encoder.embeddings.word_embeddings.weight", 2, path)
    grid = round((positions - 1) ** 0.5)
    if grid**2 != positions - 1 or width % HEAD or vision_width % HEAD or not fused:
        raise BackendError(
            f"{str(path)!r} is not a checkpoint of ALBEF: it has {positions} positions of an image, widths "
            f"{vision_width} and {width}, and {len(fused)} layers of text that see an image. Expected are a class token "
            f"and a square of positions, widths that {HEAD} divides, and at least one such layer."
        )
    return AlbefConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD,
        intermediate_size=_get_shape(state, f"{_LAYER}.0.intermediate.dense.weight", 2, path)[0],
        max_position_embeddings=_get_shape(
            state, "text_encoder.embeddings.position_embeddings.weight", 2, path
        )[0],
        type_vocab_size=_get_shape(state, "text_encoder.embeddings.token_type_embeddings.weight", 2, path)[0],
        fusion_layer=fused[0],
        image_size=image_size or grid * patch,
        patch_size=patch,
        vision_width=vision_width,
        vision_layers=_count_layers(state, "visual_encoder.blocks"),
        vision_mlp=vision_mlp,
        embed_dim=_get_shape(state, "text_proj.weight", 2, path)[0],
    )


def _count_layers(state: State, prefix: str) -> int:
    """Return how many numbered layers begin with a prefix."""
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d+)\.")
    return len({match[1] for name in state if (match := pattern.match(name))})


def _get_shape(state: State, name: str, dimensions: int, path: Path) -> tuple[int, ...]:
    """Return the shape of a weight.

    Raises:
        BackendError: it is missing, or has another number of dimensions.
    """
    shape = tuple(state[name].shape) if name in state else None
    if shape is None or len(shape) != dimensions:
        what = "is missing" if shape is None else f"has the shape {shape}"
        raise BackendError(
            f"{str(path)!r} is not a checkpoint of ALBEF: {name!r} {what}. Use a file of github.com/salesforce/ALBEF "
            f"that was pre-trained or tuned for retrieval."
        )
    return shape


def _resize_positions(positions: torch.Tensor, config: AlbefConfig) -> torch.Tensor:
    """Return the position embeddings (1, 1 + patches, d) of the config's image size, as ALBEF interpolates them."""
    side, new = round((positions.shape[1] - 1) ** 0.5), config.image_size // config.patch_size
    if not 1 <= new <= LARGEST_SIDE // config.patch_size or config.image_size % config.patch_size:
        raise BackendError(
            f"image_size={config.image_size} is not a multiple of the patches' {config.patch_size} pixels up to "
            f"{LARGEST_SIDE}."
        )
    if new == side:
        return positions
    grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, side, side)
    grid = torch.nn.functional.interpolate(grid, (new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], grid.flatten(2).transpose(1, 2)], 1)
