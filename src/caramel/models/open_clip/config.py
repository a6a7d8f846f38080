"""Assemble an open_clip model with the tokenizer and the preprocessing of its config, as open_clip does."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from caramel.errors import BackendError
from caramel.io.files import compute_file_hash
from caramel.models.loading.files import TEXT, translate_load_errors
from caramel.models.loading.state_dicts import get_first_line
from caramel.models.open_clip.pixel_cache import ResizeAndCrop
from caramel.models.open_clip.token_cache import Vocabulary, load_simple_tokenizer

if TYPE_CHECKING:
    import torch
    from PIL import Image

LARGEST_SIDE = 2**14  # largest side in pixels of a model's input
# A folder with any of these files contains a tokenizer of transformers.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")

LARGEST_VOCABULARY = 2**24  # bytes, uncompressed; open_clip's own has 3 million
ENTRIES = 49408  # tokens of open_clip's own vocabulary, which is OpenAI's


@dataclass(frozen=True)
class Clip:
    """A model in memory with its tokenizer and preprocessing."""

    model: Any  # an open_clip model: encode_image, encode_text, logit_scale
    tokenize: Callable[[list[str]], torch.Tensor]  # (n, context length)
    to_pixels: Callable[[Image.Image], Image.Image]  # resize and crop
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    config: Mapping[str, Any]  # with all of the preprocessing, including defaults
    vocabulary: str | None  # hash of the tokenizer's own files, None for open_clip's own
    padding: int = 0  # id of the padding token


class Tokenizer(NamedTuple):
    """A function from texts to tokens, and facts about the tokens."""

    tokenize: Callable[[list[str]], torch.Tensor]
    content: str | None
    padding: int
    highest: int  # id of the last token of its vocabulary


def complete_config(config: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the config with all of its preprocessing, as JSON.

    As in open_clip, missing keys have OpenAI's values (bicubic, shortest side, its mean and standard
    deviation), and the size is the image tower's.
    """
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    size = {"size": model.visual.image_size}
    preprocess = merge_preprocess_dict(PreprocessCfg(), {**config.get("preprocess_cfg", {}), **size})
    whole: dict[str, Any] = json.loads(json.dumps({**config, "preprocess_cfg": preprocess}))
    return whole


def assemble_clip(model: Any, config: Mapping[str, Any], vocabulary: Path | None) -> Clip:
    """Return the model with the tokenizer and the preprocessing of its config.

    Args:
        model: an open_clip model.
        config: ``{"model_cfg": …, "preprocess_cfg": …}``.
        vocabulary: path of ``bpe.txt.gz``, used if it exists. A tokenizer of transformers is read from the
            same folder if there is one, else from the hub or its cache. None: there is no folder.

    Raises:
        BackendError: the tokenizer is not available or samples tokens at random, the config does not state at
            which token a text is pooled, or the preprocessing is invalid.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = complete_config(config, model)
    _check_size(config["preprocess_cfg"]["size"])
    try:
        preprocess = PreprocessCfg(**config["preprocess_cfg"])
        transform = image_transform_v2(preprocess, is_train=False)
    except (AssertionError, TypeError, ValueError) as error:
        raise BackendError(
            f"open_clip rejects the preprocessing {config['preprocess_cfg']!r}: interpolation must be "
            f"bicubic or bilinear, resize_mode shortest, longest or squash."
        ) from error

    size = config["preprocess_cfg"]["size"]
    resize_and_crop = ResizeAndCrop(
        json.dumps(config["preprocess_cfg"], sort_keys=True),
        math.prod(size) if isinstance(size, list) else size**2,
        transform.transforms[:-2],  # all but the last two (to tensor, normalise), which are done in batches
    )
    tokenizer = build_tokenizer(config, vocabulary)
    mean, std = tuple(preprocess.mean), tuple(preprocess.std)
    return Clip(
        model, tokenizer.tokenize, resize_and_crop, mean, std, config, tokenizer.content, tokenizer.padding
    )


def _check_size(size: Any) -> None:
    """Raise a BackendError if images cannot be resized to the model's image size."""
    sides = size if isinstance(size, list) else [size]
    if len(sides) not in (1, 2) or not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in sides):
        raise BackendError(f"The model's image size is {size!r}: it must be from 1 to {LARGEST_SIDE} pixels.")


def build_tokenizer(config: Mapping[str, Any], vocabulary: Path | None) -> Tokenizer:
    """Return the tokenizer of a config; arguments and errors as in ``assemble_clip``, without the preprocessing."""
    text = config["model_cfg"].get("text_cfg", {})
    tokenizer = _create_tokenizer(text, vocabulary)
    _check_pooling(text, tokenizer)
    return tokenizer


def _create_tokenizer(text: Mapping[str, Any], vocabulary: Path | None) -> Tokenizer:
    """Return the tokenizer of a text config."""
    from open_clip.tokenizer import DEFAULT_CONTEXT_LENGTH

    length = text.get("context_length", DEFAULT_CONTEXT_LENGTH)
    options = dict(text.get("tokenizer_kwargs") or {})
    if options.get("reduction_mask"):
        raise BackendError(
            f"tokenizer_kwargs has reduction_mask {options['reduction_mask']!r}, with which open_clip trains "
            f"on a random sample of the tokens of a long text. Remove it: a long text is then truncated."
        )
    if vocabulary is not None and vocabulary.exists():
        with translate_load_errors(str(vocabulary)):
            _check_vocabulary(vocabulary)
            merges = Vocabulary(compute_file_hash(vocabulary), str(vocabulary))
            custom = load_simple_tokenizer(merges, length, json.dumps(options))
        if custom.vocab_size != text.get("vocab_size", ENTRIES):
            raise BackendError(
                f"{str(vocabulary)!r} has {custom.vocab_size} tokens, but the config of the model states "
                f"{text.get('vocab_size', ENTRIES)}: it is damaged, or belongs to another model. Create or "
                f"download it again."
            )
        return Tokenizer(custom, merges.content, 0, custom.vocab_size - 1)
    if text.get("hf_tokenizer_name"):
        return _load_hf_tokenizer(get_tokenizer_source(text, vocabulary), length, options, text)
    with translate_load_errors(f"tokenizer_kwargs {options!r}"):
        default = load_simple_tokenizer(None, length, json.dumps(options))
    if has_own_vocabulary(text):
        raise BackendError(
            f"The config states {text['vocab_size']} tokens, but open_clip's own vocabulary has "
            f"{default.vocab_size}: the model has a vocabulary of its own, and {vocabulary} is missing."
        )
    return Tokenizer(default, None, 0, default.vocab_size - 1)


def _check_vocabulary(path: Path) -> None:
    """Raise a BackendError if the uncompressed file is larger than any vocabulary: it would fill the memory."""
    with gzip.open(path) as stream:
        if len(stream.read(LARGEST_VOCABULARY + 1)) > LARGEST_VOCABULARY:
            raise BackendError(
                f"{str(path)!r} contains more than {LARGEST_VOCABULARY:,} bytes, which no vocabulary does. "
                f"Create or download it again."
            )


def has_own_vocabulary(text: Mapping[str, Any]) -> bool:
    """Return whether a text config belongs to a model with its own ``bpe.txt.gz``."""
    return not text.get("hf_tokenizer_name") and text.get("vocab_size", ENTRIES) < ENTRIES


def get_tokenizer_source(text: Mapping[str, Any], vocabulary: Path | None) -> str:
    """Return the folder or the hub name of a tokenizer of transformers."""
    folder = vocabulary.parent if vocabulary is not None else None
    if folder is not None and any((folder / file).is_file() for file in TOKENIZER_FILES):
        return str(folder)
    return str(text["hf_tokenizer_name"])


def _load_hf_tokenizer(
    source: str, length: int, options: Mapping[str, Any], text: Mapping[str, Any]
) -> Tokenizer:
    """Return a tokenizer of transformers with open_clip's cleaning and context length."""
    from open_clip.tokenizer import HFTokenizer

    if "trust_remote_code" in options:
        raise BackendError(
            f"The config of tokenizer {source!r} asks to run code from the hub (trust_remote_code), "
            f"which is refused. Remove it from tokenizer_kwargs."
        )
    mode = text.get("tokenizer_mode")
    with translate_load_errors(source):
        try:
            hf_tokenizer = HFTokenizer(
                source, length, tokenizer_mode=mode, trust_remote_code=False, **options
            )
        except (OSError, ValueError, ImportError) as error:
            raise BackendError(
                f"Tokenizer {source!r} is not available: {get_first_line(error)}. Set HF_HUB_OFFLINE=0 to "
                f"download it from the hub."
            ) from error
    inner = hf_tokenizer.tokenizer
    padding = 0 if inner.pad_token_id is None else inner.pad_token_id
    return Tokenizer(hf_tokenizer, _hash_tokenizer(inner), padding, max(inner.get_vocab().values()))


def _check_pooling(text: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Raise a BackendError if it is not known at which token texts should be pooled.

    By default open_clip pools at the token of a text with the highest id. That is the end token, unless
    tokens were added to the vocabulary: a text would then be pooled at its first added token.
    """
    if text.get("hf_model_name") or text.get("embed_cls"):
        return  # pooled by transformers' tower, or at a class token
    with translate_load_errors("the tokenizer"):
        row: list[int] = tokenizer.tokenize([TEXT])[0].tolist()
    tokens = f"the tokens of {TEXT!r} are {[number for number in row if number != tokenizer.padding]}"
    if text.get("pool_type") == "eos" and text.get("eos_id", 2) not in row:
        raise BackendError(
            f"text_cfg pools a text at the token {text.get('eos_id', 2)}, but the tokenizer ends no text "
            f"with it: {tokens}. Every text would be pooled at its start. Set 'eos_id' to the end token."
        )
    if "pool_type" not in text and max(row) < tokenizer.highest:
        raise BackendError(
            f"text_cfg has no 'pool_type', so open_clip pools a text at its highest token, but the tokenizer "
            f"has higher tokens than the end token, up to {tokenizer.highest}: {tokens}. Set "
            f'"pool_type": "eos" and the end token as "eos_id", or "pool_type": "argmax" if it was trained '
            f"with the highest."
        )


def _hash_tokenizer(tokenizer: Any) -> str:
    """Return a hash of a tokenizer of transformers, without the lengths that are set at each call."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    state = json.loads(fast.to_str()) if fast is not None else tokenizer.get_vocab()
    stable_state = {key: value for key, value in state.items() if key not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(stable_state, sort_keys=True).encode()).hexdigest()
