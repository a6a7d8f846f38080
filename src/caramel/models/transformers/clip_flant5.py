"""CLIP-FlanT5 (Lin et al., ECCV 2024), the model of VQAScore, in its own checkpoint format (model_type ``clip_t5``).

A checkpoint is a T5 with two further parts: ``vision_tower`` (CLIP's vision model) and ``mm_projector`` (two linear
layers with GELU between). The patch vectors of the tower's last but one layer, projected, stand in the encoder's
input where the prompt has ``<image>``. Images are padded to a square in the mean colour.

The files do not state the tower's shape and preprocessing but its name, ``mm_vision_tower``; ``TOWERS`` has both. A
config that holds ``vision_config`` itself takes precedence. Confirmed in github.com/linzhiqiu/t2v_metrics,
models/vqascore_models: clip_t5/model/language_model/clip_t5.py, clip_t5_model.py and mm_utils.py. There the score is
the mean over ``Yes`` and the token that ends the reply; here it is that of ``Yes``, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import CLIPImageProcessorPil, CLIPVisionConfig, CLIPVisionModel, T5Config
from transformers import T5ForConditionalGeneration as T5
from transformers.modeling_outputs import Seq2SeqLMOutput

from caramel.models.transformers.transformers_files import load_tokenizer
from caramel.models.transformers.vision_towers import CLIP_FLANT5, TOWERS, check_tower

if TYPE_CHECKING:
    from PIL import Image

IMAGE = -200  # id that stands for the image among the ids of tokens
PLACE = "<image>"


class ClipFlanT5Config(T5Config):  # type: ignore[misc]
    """Config of a checkpoint; ``vision_config`` describes its tower."""

    model_type = CLIP_FLANT5

    def __init__(self, **settings: Any) -> None:
        tower = settings.pop("vision_config", None) or TOWERS.get(settings.get("mm_vision_tower", ""), {})
        super().__init__(**settings)
        self.vision_config = tower if isinstance(tower, CLIPVisionConfig) else CLIPVisionConfig(**tower)

    @property
    def text_config(self) -> ClipFlanT5Config:
        """Return the config of the language model: this one."""
        return self


class ClipFlanT5(T5):  # type: ignore[misc]
    """A T5 whose encoder reads an image among its tokens."""

    config_class = ClipFlanT5Config

    def __init__(self, config: ClipFlanT5Config) -> None:
        super().__init__(config)
        # Two levels and this name, as in the files: vision_tower.vision_tower.vision_model.…
        self.vision_tower: Any = torch.nn.Module()
        self.vision_tower.vision_tower = torch.nn.Module()
        self.vision_tower.vision_tower.vision_model = CLIPVisionModel(config.vision_config)
        width = config.vision_config.hidden_size
        self.mm_projector = torch.nn.Sequential(
            torch.nn.Linear(width, config.d_model),
            torch.nn.GELU(),
            torch.nn.Linear(config.d_model, config.d_model),
        )
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor,
        labels: torch.Tensor,
        use_cache: bool = False,
    ) -> Seq2SeqLMOutput:
        """Return the logits of the replies.

        Args:
            input_ids: (n, t) tokens; each row holds ``IMAGE`` once.
            attention_mask: (n, t) 0 for padding, which is at the end.
            pixel_values: (n, 3, size, size).
            labels: (n, r) tokens of the replies, padded with −100.
            use_cache: as in T5.
        """
        embeddings, mask = self._insert_images(input_ids, attention_mask, self._encode_images(pixel_values))
        output: Seq2SeqLMOutput = super().forward(
            inputs_embeds=embeddings, attention_mask=mask, labels=labels, use_cache=use_cache
        )
        return output

    def _encode_images(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the projected patches (n, patches, d) of the last but one layer, without the class token."""
        tower = self.vision_tower.vision_tower.vision_model
        hidden = tower(pixel_values=pixel_values, output_hidden_states=True).hidden_states[-2]
        projected: torch.Tensor = self.mm_projector(hidden[:, 1:])
        return projected

    def _insert_images(
        self, input_ids: torch.Tensor, mask: torch.Tensor, images: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return embeddings and mask with each image's patches in place of ``IMAGE``."""
        words = self.get_input_embeddings()(input_ids.clamp(min=0))
        positions = (input_ids == IMAGE).int().argmax(1).tolist()
        ones = mask.new_ones(images.shape[1])
        rows = zip(words, mask, images, positions, strict=True)
        joined = [
            (torch.cat([word[:at], image, word[at + 1 :]]), torch.cat([row[:at], ones, row[at + 1 :]]))
            for word, row, image, at in rows
        ]
        return torch.stack([word for word, _ in joined]), torch.stack([row for _, row in joined])


class ClipFlanT5Processor:
    """Prepares prompts with an image; called as processors of transformers are.

    Attributes:
        tokenizer: the checkpoint's tokenizer.
        image_processor: CLIP's, at the size of the tower.
    """

    chat_template = None  # the prompt is in ``generative_inputs.PROMPTS``

    def __init__(self, tokenizer: Any, image_size: int) -> None:
        self.tokenizer = tokenizer
        sides = {"height": image_size, "width": image_size}
        self.image_processor = CLIPImageProcessorPil(size={"shortest_edge": image_size}, crop_size=sides)

    def __call__(
        self, images: Sequence[Image.Image], text: Sequence[str], **options: Any
    ) -> dict[str, torch.Tensor]:
        """Return the model's inputs, padded on the right; ``options`` are those of other processors."""
        rows = [self._tokenize(prompt) for prompt in text]
        width = max(map(len, rows))
        squares = [pad_to_square(image, self.image_processor.image_mean) for image in images]
        return {
            "input_ids": torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows]),
            "pixel_values": self.image_processor(images=squares, return_tensors="pt")["pixel_values"],
        }

    def _tokenize(self, prompt: str) -> list[int]:
        """Return the tokens before and after the image, each part with its end token, as in training."""
        before, after = (self.tokenizer(part).input_ids for part in prompt.split(PLACE, 1))
        return [*before, IMAGE, *after]


def pad_to_square(image: Image.Image, mean: Sequence[float]) -> Image.Image:
    """Return an RGB image centred on a square of its longer side, in the colour of CLIP's mean."""
    from PIL import Image as PillowImage

    width, height = image.size
    side = max(width, height)
    square = PillowImage.new("RGB", (side, side), tuple(int(channel * 255) for channel in mean))
    square.paste(image, ((side - width) // 2, (side - height) // 2))
    return square


def load_clip_flant5_processor(target: str, config: Mapping[str, Any]) -> ClipFlanT5Processor:
    """Return the processor of a checkpoint.

    Raises:
        BackendError: its tokenizer is missing or damaged, or its tower is not known.
    """
    check_tower(target, config)
    tower = config.get("vision_config") or TOWERS[config["mm_vision_tower"]]
    return ClipFlanT5Processor(load_tokenizer(target), tower["image_size"])
