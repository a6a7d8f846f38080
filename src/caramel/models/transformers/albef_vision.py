"""The image encoders of ALBEF (a vision transformer) and of X-VLM (a Swin transformer), with sizes read from weights.

Both give an image's tokens, first the one that stands for the whole image: ALBEF's class token, and in X-VLM the mean of
the others. The names are those of the checkpoints, apart from what ``rename_swin_weights`` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer

from caramel.errors import BackendError
from caramel.models.open_clip.config import LARGEST_SIDE

HEAD = 64  # numbers of an attention head, in all of ViT and BERT that ALBEF and X-VLM use
SWIN = "visual_encoder.layers."
PATCHES = "visual_encoder.patch_embed.proj.weight"
POSITIONS = "visual_encoder.pos_embed"
_BLOCK = re.compile(rf"{re.escape(SWIN)}(\d+)\.blocks\.(\d+)\.")
_DOWNSAMPLE = re.compile(rf"^{re.escape(SWIN)}(\d+)\.downsample\.")
_COMPUTED = (".relative_position_index", ".attn_mask")  # buffers of X-VLM's Swin, which follow from its sizes
State = dict[str, torch.Tensor]


class SwinTokens(SwinTransformer):
    """A Swin transformer that gives the mean of its tokens, and then them: (n, 1 + tokens, d)."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the tokens of images, (n, 3, side, side)."""
        tokens: torch.Tensor = self.forward_features(pixels).flatten(1, 2)
        return torch.cat([tokens.mean(1, keepdim=True), tokens], 1)


def rename_swin_weights(state: Mapping[str, torch.Tensor]) -> State:
    """Return X-VLM's weights of images under the names of ALBEF's and timm's; those of ALBEF are not changed.

    timm halves the grid at the beginning of a stage, the authors at the end of the one before.
    """
    named = {re.sub(r"^vision_encoder\.", "visual_encoder.", name): value for name, value in state.items()}
    return {
        _DOWNSAMPLE.sub(lambda match: f"{SWIN}{int(match[1]) + 1}.downsample.", name): value
        for name, value in named.items()
        if not name.endswith(_COMPUTED)
    }


def is_swin(state: Mapping[str, torch.Tensor]) -> bool:
    """Return whether the image encoder of a state dict is a Swin transformer, and so the checkpoint X-VLM's."""
    return any(name.startswith(SWIN) for name in state)


def infer_vision_sizes(state: State, image_size: int | None, path: Path) -> dict[str, Any]:
    """Return the sizes of the image encoder: ``image_size``, ``vision_width`` and what ``build_vision_encoder`` needs.

    Raises:
        BackendError: a weight that tells them is missing or has another form, or the image size does not fit.
    """
    if not is_swin(state):
        sizes = _infer_vit_sizes(state, path)
        return {**sizes, "image_size": image_size or sizes["image_size"]}
    sizes = _infer_swin_sizes(state, path)
    if image_size not in {None, sizes["image_size"]}:
        raise BackendError(
            f"image_size={image_size}: the windows of {str(path)!r} fit images of {sizes['image_size']} pixels. "
            f"Leave ?image_size= out."
        )
    return sizes


def build_vision_encoder(config: Any) -> torch.nn.Module:
    """Return the image encoder of a config with ``infer_vision_sizes``, with new weights."""
    if hasattr(config, "window_size"):
        return SwinTokens(
            img_size=config.image_size,
            patch_size=config.patch_size,
            num_classes=0,
            embed_dim=config.first_width,
            depths=tuple(config.depths),
            num_heads=tuple(config.vision_heads),
            window_size=config.window_size,
            mlp_ratio=config.vision_mlp / config.first_width,
        )
    return VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        embed_dim=config.vision_width,
        depth=config.vision_layers,
        num_heads=config.vision_width // HEAD,
        mlp_ratio=config.vision_mlp / config.vision_width,
        num_classes=0,
        global_pool="",  # all tokens
    )


def _infer_vit_sizes(state: State, path: Path) -> dict[str, Any]:
    positions = get_shape(state, POSITIONS, 3, path)[1]
    patch = get_shape(state, PATCHES, 4, path)[2]
    inner, width = get_shape(state, "visual_encoder.blocks.0.mlp.fc1.weight", 2, path)
    grid = round((positions - 1) ** 0.5)
    if grid**2 != positions - 1 or width % HEAD:
        raise BackendError(
            f"{str(path)!r} is not a checkpoint of ALBEF: it has {positions} positions of an image and the width "
            f"{width}. Expected are a class token and a square of positions, and a width that {HEAD} divides."
        )
    return {
        "image_size": grid * patch,
        "patch_size": patch,
        "vision_width": width,
        "vision_layers": count_layers(state, "visual_encoder.blocks"),
        "vision_mlp": inner,
    }


def _infer_swin_sizes(state: State, path: Path) -> dict[str, Any]:
    """Return the sizes of a Swin transformer whose last grid is one window, as in all of its authors' models."""
    blocks = {(int(match[1]), int(match[2])) for name in state if (match := _BLOCK.match(name))}
    stages = len({stage for stage, _ in blocks})
    tables = [
        get_shape(state, f"{SWIN}{stage}.blocks.0.attn.relative_position_bias_table", 2, path)
        for stage in range(stages)
    ]
    window = (round(tables[0][0] ** 0.5) + 1) // 2
    first_width, _, patch, _ = get_shape(state, PATCHES, 4, path)
    return {
        "image_size": patch * window * 2 ** (stages - 1),
        "patch_size": patch,
        "window_size": window,
        "depths": [sum(stage == number for stage, _ in blocks) for number in range(stages)],
        "vision_heads": [heads for _, heads in tables],
        "first_width": first_width,
        "vision_width": get_shape(state, "visual_encoder.norm.weight", 1, path)[0],
        "vision_mlp": get_shape(state, f"{SWIN}0.blocks.0.mlp.fc1.weight", 2, path)[0],
    }


def resize_positions(positions: torch.Tensor, config: Any) -> torch.Tensor:
    """Return ALBEF's position embeddings (1, 1 + patches, d) for the config's image size, as its authors interpolate them.

    Raises:
        BackendError: the size is not a multiple of the patches', or too large.
    """
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


def count_layers(state: State, prefix: str) -> int:
    """Return how many numbered layers begin with a prefix."""
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d+)\.")
    return len({match[1] for name in state if (match := pattern.match(name))})


def get_shape(state: State, name: str, dimensions: int, path: Path) -> tuple[int, ...]:
    """Return the shape of a weight.

    Raises:
        BackendError: it is missing, or has another number of dimensions.
    """
    shape = tuple(state[name].shape) if name in state else None
    if shape is None or len(shape) != dimensions:
        what = "is missing" if shape is None else f"has the shape {shape}"
        raise BackendError(
            f"{str(path)!r} is not a checkpoint of ALBEF or X-VLM: {name!r} {what}. Use a file of "
            f"github.com/salesforce/ALBEF or github.com/zengyan-97/X-VLM that was pre-trained or tuned for retrieval."
        )
    return shape
