"""Follow CLIP's authors in pooling and crop, where transformers differs on the same weights and no file states it.

**Pooling.** transformers pools at the first token whose id is ``text_config.eos_token_id``. Configs from an
old transformers state 2, whatever the id is; for 2 it pools at the highest id in a text. That is the end
token of OpenAI's vocabulary, until tokens are added to it. A text is then pooled at its first added token,
and what follows is never read. With an id that no text contains, every text is pooled at its start, and all
texts have the same vector.

Here a text is pooled at the tokenizer's end token. If no tokens were added, this gives transformers' own
vector.

**Crop.** The part of an image beyond the crop is cut off at both ends. If it is an odd number of pixels,
CLIP's authors and open_clip round half of it to an even number, and transformers rounds it down. For every
fourth length the crop therefore differs by a pixel. Here CLIP's authors are followed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.models.loading.files import TEXT

if TYPE_CHECKING:
    import torch

LEGACY = 2  # stated by old configs for any tokenizer


def find_end_token(config: Any, tokenizer: Any, name: str) -> int:
    """Return the id of the token at which a text is pooled.

    Args:
        config: config of a CLIP of transformers.
        tokenizer: the checkpoint's tokenizer.
        name: name of the model, for messages.

    Raises:
        BackendError: the tokenizer does not end a text with its end token, or config and tokenizer contradict
            each other.
    """
    stated, end = config.text_config.eos_token_id, tokenizer.eos_token_id
    row = tokenizer(TEXT)["input_ids"]
    if end is None or end not in row:
        raise BackendError(
            f"Model {name!r}: its tokenizer does not end texts with an end token (eos_token "
            f"{tokenizer.eos_token!r}; the tokens of {TEXT!r} are {row}), but CLIP pools a text there. Save "
            f"the tokenizer that it was trained with."
        )
    if stated == LEGACY:
        _check_legacy(tokenizer, end, name)
    elif stated != end:
        raise BackendError(
            f"Model {name!r}: config.json states {stated!r} as eos_token_id of text_config, but its "
            f"tokenizer ends texts with {end} ({tokenizer.eos_token!r}). transformers would pool a text at "
            f"{stated!r}, or at its start where it has none. If it was trained to be pooled at the end "
            f'token, set "eos_token_id": {end} in text_config; otherwise '
            f"save the tokenizer that it was trained with."
        )
    return int(end)


def _check_legacy(tokenizer: Any, end: int, name: str) -> None:
    """Raise a BackendError unless the end token is the highest id except for added tokens."""
    added = set(tokenizer.added_tokens_decoder)
    above = [number for number in tokenizer.get_vocab().values() if number > end and number not in added]
    if end == LEGACY or above:
        raise BackendError(
            f"Model {name!r}: config.json states {LEGACY} as eos_token_id of text_config, with which "
            f"transformers pools a text at its highest token; {len(above):,} tokens of the vocabulary are above "
            f"the one that ends a text, {end} ({tokenizer.eos_token!r}). The token at "
            f"which it was trained to be pooled is therefore unknown. "
            + (
                f'If it was the end token, set "eos_token_id": {end} in text_config'
                if end != LEGACY
                else "transformers treats 2 in this way, even where it is the end token"
            )
            + ". Otherwise score it as a pair of functions: caramel.score((encode_images, encode_texts), …)."
        )


def crop_as_clip(image_processor: Any) -> Any:
    """Return a copy of a CLIP's image processor that crops as CLIP's authors do.

    Processors of other classes are returned unchanged.
    """
    if not type(image_processor).__name__.startswith("CLIPImageProcessor"):
        return image_processor

    def center_crop(image: Any, size: Any, **further: Any) -> Any:
        """Return an image (…, height, width) cropped to a size; a smaller one is padded as transformers does."""
        spare = image.shape[-2] - size.height, image.shape[-1] - size.width
        if min(spare) < 0:
            return image_processor.center_crop(image, size, **further)
        top, left = (round(pixels / 2) for pixels in spare)
        return image[..., top : top + size.height, left : left + size.width]

    copied = copy.copy(image_processor)
    copied.center_crop = center_crop
    return copied


def pool_at_end(model: Any, inputs: Mapping[str, Any], end: int) -> torch.Tensor:
    """Return the projected states (n, d) of the first end token of each text.

    Args:
        model: a CLIP of transformers.
        inputs: ``input_ids`` and ``attention_mask``, both (n, width).
        end: from ``find_end_token``.
    """
    import torch

    hidden = model.text_model(**inputs).last_hidden_state
    columns = (inputs["input_ids"] == end).int().argmax(dim=1)
    projected: torch.Tensor = model.text_projection(
        hidden[torch.arange(len(hidden), device=hidden.device), columns]
    )
    return projected
