"""Define how ALBEF, X-VLM, BLIP, BLIP-2 and ViLT look at an image and a text, in steps, so that each image is encoded once.

- BLIP's text encoder starts with [ENC] when it attends to an image, as in its training (Li et al. 2022, and
  LAVIS); transformers leaves [CLS] there.
- BLIP-2's logits are the mean over its queries (Li et al. 2023).
- ViLT (Kim et al. 2021) gets all patches of an image in order. transformers shuffles them, which changes only
  rounding, and so makes ties of equal captions random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Architecture:
    """The differences between the models.

    Attributes:
        model: name of the class, of transformers except for ALBEF and X-VLM (``albef``).
        image_tokens: (model, pixel_values) -> (n, tokens, d): the image's tokens for the pass with a text.
        hidden: (model, inputs) -> input of the last step. inputs: places (n, tokens, d), places_mask,
            input_ids and attention_mask.
        score: (model, hidden) -> (n,) scores of a head, or (n, d) vectors.
        can_batch_images: whether all images have one size, so that several are encoded together.
    """

    model: str
    image_tokens: Callable[[Any, Any], torch.Tensor]
    hidden: Callable[[Any, Mapping[str, Any]], torch.Tensor]
    score: Callable[[Any, Any], torch.Tensor]
    can_batch_images: bool = True


def _compute_match_logit(logits: Any) -> Any:
    """Return the logit of match minus the logit of no match."""
    return logits[..., 1] - logits[..., 0]


def run_blip_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the output of BLIP's text encoder, which attends to the image's tokens."""
    return model.text_encoder(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        encoder_hidden_states=inputs["places"],
        encoder_attention_mask=inputs["places_mask"],
    )


def _compute_blip2_hidden(model: Any, inputs: Mapping[str, Any]) -> Any:
    import torch

    ids = inputs["input_ids"]
    queries = model.query_tokens.expand(len(ids), -1, -1)
    query_mask = torch.ones(queries.shape[:2], dtype=torch.int64, device=ids.device)
    hidden = model.qformer(
        query_embeds=model.embeddings(input_ids=ids, query_embeds=queries),
        query_length=queries.shape[1],
        attention_mask=torch.cat([query_mask, inputs["attention_mask"]], 1),
        encoder_hidden_states=inputs["places"],
        encoder_attention_mask=inputs["places_mask"],
    ).last_hidden_state
    return hidden[:, : queries.shape[1]]


def _embed_vilt_image(model: Any, pixels: Any) -> Any:
    """Return the class token and all patches, (1, 1 + patches, d), with interpolated positions."""
    import torch

    parts, config = model.base_model.embeddings, model.config
    patches = parts.patch_embeddings(pixels)  # (1, d, h, w)
    side = config.image_size // config.patch_size
    grid = parts.position_embeddings[:, 1:].transpose(1, 2).unflatten(2, (side, side))
    grid = torch.nn.functional.interpolate(grid, patches.shape[2:], mode="bilinear", align_corners=True)
    first = parts.cls_token + parts.position_embeddings[:, :1]
    return torch.cat([first, (patches + grid).flatten(2).transpose(1, 2)], 1)


def _run_vilt(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.base_model(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        image_embeds=inputs["places"],
        pixel_mask=inputs["places_mask"],
    )


def _compute_unit_vectors(model: Any, hidden: Any) -> Any:
    import torch

    return torch.nn.functional.normalize(hidden, dim=-1)


def encode_vision(model: Any, pixels: Any) -> Any:
    """Return all tokens of BLIP's or BLIP-2's vision model, (n, tokens, d)."""
    return model.vision_model(pixel_values=pixels).last_hidden_state


_ALBEF = Architecture(
    "Albef",
    lambda model, pixels: model.visual_encoder(pixels),
    lambda model, inputs: model.encode_pair(inputs["input_ids"], inputs["places"])[:, 0],
    lambda model, hidden: _compute_match_logit(model.itm_head(hidden)),
)
ARCHITECTURES: Mapping[str, Architecture] = {
    "blip": Architecture(
        "BlipForImageTextRetrieval",
        encode_vision,
        lambda model, inputs: run_blip_text(model, inputs).last_hidden_state[:, 0],
        lambda model, hidden: _compute_match_logit(model.itm_head(hidden)),
    ),
    "albef": _ALBEF,
    "xvlm": _ALBEF,
    "blip-2": Architecture(
        "Blip2ForImageTextRetrieval",
        encode_vision,
        _compute_blip2_hidden,
        lambda model, hidden: _compute_match_logit(model.itm_head(hidden)).mean(1),
    ),
    "vilt": Architecture(
        "ViltForImageAndTextRetrieval",
        _embed_vilt_image,
        lambda model, inputs: _run_vilt(model, inputs).pooler_output,
        lambda model, hidden: model.rank_output(hidden)[:, 0],
        can_batch_images=False,
    ),
}
# Joint states: the unit vector of [CLS] after the last layer.
JOINT_STATES: Mapping[str, Architecture] = {
    "vilt": Architecture(
        "ViltModel",
        _embed_vilt_image,
        lambda model, inputs: _run_vilt(model, inputs).last_hidden_state[:, 0],
        _compute_unit_vectors,
        can_batch_images=False,
    ),
}


def get_text_config(model: Any) -> Any:
    """Return the config of the text part."""
    config = model.config
    return getattr(config, "text_config" if config.model_type == "blip" else "qformer_config", config)


def encode_token(model: Any, tokenizer: Any, name: str) -> int:
    """Return the id of [ENC].

    It follows [DEC], the token that starts a caption, in the order in which BLIP added them.

    Raises:
        BackendError: there is no such token.
    """
    config = model.config.text_config
    number = tokenizer.get_vocab().get("[ENC]", config.bos_token_id + 1)
    if not 0 <= number < config.vocab_size:
        raise BackendError(
            f"Model {name!r}: its text encoder has {config.vocab_size} tokens and no [ENC] (number {number}), "
            f"which BLIP's matching head was trained with. Use one of BLIP's own retrieval checkpoints."
        )
    return int(number)
