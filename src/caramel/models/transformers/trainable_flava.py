"""FLAVA of transformers in the form in which open_clip's models are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from caramel.models.loading.files import translate_load_errors
from caramel.models.open_clip.config import Clip
from caramel.models.transformers.transformers_dual import (
    TRAINED_LENGTH,
    TransformersDual,
    get_token_ids,
    pad_token_ids,
)
from caramel.models.transformers.transformers_files import (
    check_type,
    load_image_processor,
    load_pretrained,
    load_tokenizer,
)

if TYPE_CHECKING:
    import torch
    from PIL import Image

FLAVA = "flava"


def load_trainable_flava(target: str, device: str, name: str) -> tuple[Clip, TransformersDual]:
    """Return FLAVA's towers as a model to train, and as the dual encoder of ``dual:`` over the same weights.

    Args:
        target: folder or OWNER/REPO.
        device: cpu, cuda or cuda:N.
        name: name of the model in tables.

    Raises:
        BackendError: it is missing or damaged, or no FLAVA.
    """
    from transformers import AutoModel

    check_type(target, (FLAVA,))
    with translate_load_errors(target):
        flava = load_pretrained(AutoModel, target, device=device)
        tokenizer, processor = load_tokenizer(target), load_image_processor(target)
    length = min(TRAINED_LENGTH[FLAVA], tokenizer.model_max_length)
    padding: int = tokenizer.pad_token_id

    def tokenize(texts: list[str]) -> torch.Tensor:
        return pad_token_ids(get_token_ids(tokenizer, texts, length), padding, width=length)["input_ids"]

    size = processor.crop_size
    config = {"model_cfg": {}, "preprocess_cfg": {"size": [size["height"], size["width"]]}}
    mean, std = tuple(processor.image_mean), tuple(processor.image_std)
    clip = Clip(
        _build_two_towers(flava, padding), tokenize, _Resize(processor), mean, std, config, None, padding
    )
    return clip, TransformersDual(flava, tokenizer, processor, device, "fp32", name)


@dataclass(frozen=True)
class _Resize:
    """The image processor's resizing and cropping."""

    processor: Any

    def __call__(self, image: Image.Image) -> Image.Image:
        from PIL import Image as images

        pixels = self.processor(image, do_rescale=False, do_normalize=False, return_tensors="np")[
            "pixel_values"
        ][0]
        return images.fromarray(pixels.transpose(1, 2, 0).round().clip(0, 255).astype("uint8"))


def _build_two_towers(flava: Any, padding: int) -> torch.nn.Module:
    """Return a module with open_clip's methods over FLAVA's image and text tower; its vectors are the first positions."""
    import torch
    from torch.nn.functional import normalize as to_unit

    class TwoTowers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flava, self.logit_bias = flava, None

        @property
        def visual(self) -> Any:
            return self.flava.image_model

        @property
        def logit_scale(self) -> Any:
            return self.flava.logit_scale

        def encode_image(self, pixels: torch.Tensor, normalize: bool = False) -> torch.Tensor:
            vectors = self.flava.get_image_features(pixel_values=pixels).pooler_output[:, 0]
            return to_unit(vectors, dim=-1) if normalize else vectors

        def encode_text(self, tokens: torch.Tensor, normalize: bool = False) -> torch.Tensor:
            mask = (tokens != padding).long()
            vectors = self.flava.get_text_features(input_ids=tokens, attention_mask=mask).pooler_output[:, 0]
            return to_unit(vectors, dim=-1) if normalize else vectors

    return TwoTowers()
