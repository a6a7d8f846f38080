"""Load embedding models based on a generative one: VLM2Vec (Jiang et al., ICLR 2025) over Qwen2-VL and Qwen2.5-VL.

The vector of an image or of a text is the normalised state of its last token after the last layer. Under a
causal mask, this token has attended to all tokens before it. The prompts are those with which the authors
trained and evaluate retrieval of captions (MSCOCO_i2t in MMEB): an image has an instruction, a caption has
none.

As in the authors' code, the tokens of an image are not enclosed in start and end markers. They have positions
like words: in one row, not in three dimensions. Images with a side of less than 28 pixels are resized to 56 ×
56.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.interfaces.model import Embeddings, Identity
from caramel.io.image_codec import decode_image
from caramel.models.batching import run_in_batches
from caramel.models.devices import disable_tf32, resolve_device, resolve_precision
from caramel.models.loading.files import translate_load_errors, validate_model
from caramel.models.transformers.transformers_dual import compute_distinct_rows, get_token_ids, pad_token_ids
from caramel.models.transformers.transformers_files import (
    build_identity,
    find_file,
    load_image_processor,
    load_pretrained,
    load_tokenizer,
)
from caramel.runtime.ray.sharded_map import map_in_threads

if TYPE_CHECKING:
    import torch

TYPES = ("qwen2_vl", "qwen2_5_vl")  # values of ``model_type`` in config.json
IMAGE = "<|image_pad|>"
PROMPT = f"{IMAGE}\nFind an image caption describing the given everyday image.\n"
SMALLEST, ENLARGED = 28, (56, 56)  # pixels
SIZE = {
    "shortest_edge": 4 * 28 * 28,
    "longest_edge": 1280 * 28 * 28,
}  # pixels of an image: the authors' defaults
SAFE = ("model.safetensors", "model.safetensors.index.json")
BATCH = {"cuda": 32, "cpu": 8}  # initial batch size in images: each has hundreds of tokens


class LastTokenEncoder:
    """A ``DualEncoder`` over a generative model of transformers.

    Args:
        model: the whole model, in evaluation mode on its device; its head is not used.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: precision of the model's weights: fp32, bf16 or fp16.
        name: name of the model in tables.
    """

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, device: str, precision: str, name: str
    ) -> None:
        self.name = name
        self._model, self._tokenizer, self._image_processor = model, tokenizer, image_processor
        self._device, self._precision = device, precision
        self._length = min(tokenizer.model_max_length, model.config.text_config.max_position_embeddings)

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the embeddings."""
        return build_identity(
            "dual",
            self._model,
            [self._tokenizer, self._image_processor],
            precision=self._precision,
            device=self._device,
            length=self._length,
            prompt=PROMPT,
            size=SIZE,
        )

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files.

        Raises:
            DataError: an image does not decode; the message gives its index in its batch.
        """
        batch_size = batch_size or BATCH.get(self._device.partition(":")[0], BATCH["cpu"])
        return run_in_batches(
            images,
            self._prepare_images,
            self._compute_unit_vectors,
            batch_size=batch_size,
            device=self._device,
        )

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d); captions share batches with captions of the same length."""
        rows = get_token_ids(self._tokenizer, texts, self._length)
        return compute_distinct_rows(
            rows,
            self._pad_token_ids,
            self._compute_unit_vectors,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )

    def _pad_token_ids(self, rows: Sequence[tuple[int, ...]]) -> dict[str, torch.Tensor]:
        """Return rows of tokens, padded on the right, where no token attends to under a causal mask."""
        return pad_token_ids(rows, self._tokenizer.pad_token_id)

    def _prepare_images(self, files: Sequence[bytes]) -> dict[str, torch.Tensor]:
        """Return the input of some images, each with the prompt."""
        import torch

        def prepare_image(numbered: tuple[int, bytes]) -> dict[str, torch.Tensor]:
            picture = decode_image(numbered[1], f"number {numbered[0]}")
            if min(picture.size) < SMALLEST:
                picture = picture.resize(ENLARGED)
            return dict(self._image_processor(picture, size=SIZE, return_tensors="pt"))

        ready = map_in_threads(prepare_image, list(enumerate(files)))
        pixels = {
            name: torch.cat([row[name] for row in ready]) for name in ("pixel_values", "image_grid_thw")
        }
        merged = self._image_processor.merge_size**2
        counts = (pixels["image_grid_thw"].prod(dim=1) // merged).tolist()
        texts = [PROMPT.replace(IMAGE, IMAGE * count) for count in counts]
        return pixels | self._pad_token_ids(get_token_ids(self._tokenizer, texts, None))

    def _compute_unit_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return unit vectors (n, d): the states of the last tokens."""
        import torch

        moved = {
            name: value.to(self._device, self._model.dtype if value.is_floating_point() else None)
            for name, value in inputs.items()
        }
        count, width = moved["input_ids"].shape
        position_ids = torch.arange(width, device=self._device).expand(3, count, width)
        with torch.no_grad(), disable_tf32():
            states = self._model.model(**moved, position_ids=position_ids, use_cache=False).last_hidden_state
        last = moved["attention_mask"].sum(dim=1) - 1
        last_states = states[torch.arange(count, device=last.device), last]
        return torch.nn.functional.normalize(last_states.float(), dim=-1)


def load_last_token(target: str, *, device: str, precision: str, name: str) -> LastTokenEncoder:
    """Return the encoder of a folder or of OWNER/REPO, whose type is one of ``TYPES``.

    Raises:
        BackendError: it is missing or damaged, is an adapter, or has no weights as safetensors.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    problems = list_last_token_problems(target)
    if problems:
        raise BackendError("\n".join(problems))
    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    with translate_load_errors(target):
        model = load_pretrained(AutoModelForImageTextToText, target, device=device, dtype=dtype)
        parts = load_tokenizer(target), load_image_processor(target)
        return validate_model(LastTokenEncoder(model, *parts, device, precision, name), target)


def list_last_token_problems(target: str) -> list[str]:
    """Return why such a checkpoint cannot be loaded: it is an adapter, or has no weights as safetensors."""
    if any(find_file(target, name) for name in SAFE):
        return []
    if find_file(target, "adapter_config.json"):
        return [
            f"{target!r} is an adapter, not a whole model. Merge it into its base with peft "
            f"(merge_and_unload) and save that with save_pretrained(), tokenizer and image processor beside it."
        ]
    return [
        f"{target!r} has no weights as safetensors: none of {', '.join(SAFE)}. Save it with save_pretrained()."
    ]
