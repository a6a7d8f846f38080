"""An open_clip model with the tokenizer and the preprocessing that its config names, as open_clip has them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from caramel.errors import BackendError
from caramel.io.files import compute_file_hash
from caramel.models.loading.files import TEXT, translate_load_errors
from caramel.models.loading.state_dicts import get_first_line

if TYPE_CHECKING:
    import torch
    from PIL import Image

LARGEST_SIDE = 2**14  # pixels of a picture as a model takes it
# Any of these makes a folder one of a tokenizer of transformers.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")

LARGEST_VOCABULARY = 2**24  # bytes, unpacked; open_clip's own has 3 million
ENTRIES = 49408  # tokens of open_clip's own vocabulary, which is OpenAI's


@dataclass(frozen=True)
class Clip:
    """A model in memory with its tokenizer and preprocessing."""

    model: Any  # an open_clip model: encode_image, encode_text, logit_scale
    tokenize: Callable[[list[str]], torch.Tensor]  # (n, context length)
    to_pixels: Callable[[Image.Image], Image.Image]  # resize and crop
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    config: Mapping[str, Any]  # with all of the preprocessing, including what is by default
    vocabulary: str | None  # hash of the tokenizer's own files, None for open_clip's own
    padding: int = 0  # id of the tokens that fill a row


class Tokenizer(NamedTuple):
    """How a model's texts become tokens."""

    tokenize: Callable[[list[str]], torch.Tensor]
    content: str | None
    padding: int
    highest: int  # number of the last token of its vocabulary


def complete_config(config: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the config with all of its preprocessing, as JSON has it.

    As in open_clip, what it leaves open is OpenAI's (bicubic, shortest side, its mean and standard
    deviation), and the size is that of the image tower.
    """
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    size = {"size": model.visual.image_size}
    preprocess = merge_preprocess_dict(PreprocessCfg(), {**config.get("preprocess_cfg", {}), **size})
    whole: dict[str, Any] = json.loads(json.dumps({**config, "preprocess_cfg": preprocess}))
    return whole


def assemble_clip(model: Any, config: Mapping[str, Any], vocabulary: Path | None) -> Clip:
    """Return the model with the tokenizer and the preprocessing that its config names.

    Args:
        model: an open_clip model.
        config: ``{"model_cfg": …, "preprocess_cfg": …}``.
        vocabulary: ``bpe.txt.gz``, used where it is there; a tokenizer of transformers is read from the
            same folder where it is there, else from the hub or its cache. None: there is no folder.

    Raises:
        BackendError: the tokenizer cannot be had or draws by lot, the config does not say at which of its tokens a
            text is pooled, or the preprocessing is none.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = complete_config(config, model)
    _check_size(config["preprocess_cfg"]["size"])
    try:
        preprocess = PreprocessCfg(**config["preprocess_cfg"])
        transform = image_transform_v2(preprocess, is_train=False)
    except (AssertionError, TypeError, ValueError) as error:
        raise BackendError(
            f"open_clip refuses the preprocessing {config['preprocess_cfg']!r}: interpolation is bicubic or "
            f"bilinear, resize_mode shortest, longest or squash."
        ) from error

    def resize_and_crop(image: Image.Image) -> Image.Image:
        # All but the last two steps, to tensor and normalise, which are done in batches.
        for step in transform.transforms[:-2]:
            image = step(image)
        return image

    tokenizer = build_tokenizer(config, vocabulary)
    mean, std = tuple(preprocess.mean), tuple(preprocess.std)
    return Clip(
        model, tokenizer.tokenize, resize_and_crop, mean, std, config, tokenizer.content, tokenizer.padding
    )


def _check_size(size: Any) -> None:
    """Raise a BackendError if pictures cannot be brought to the model's image size."""
    sides = size if isinstance(size, list) else [size]
    if len(sides) not in (1, 2) or not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in sides):
        raise BackendError(f"The model's image size is {size!r}: it must be from 1 to {LARGEST_SIDE} pixels.")


def build_tokenizer(config: Mapping[str, Any], vocabulary: Path | None) -> Tokenizer:
    """Return the tokenizer that a config names; arguments and errors as of ``assemble``, but for the preprocessing."""
    text = config["model_cfg"].get("text_cfg", {})
    tokenizer = _create_tokenizer(text, vocabulary)
    _check_pooling(text, tokenizer)
    return tokenizer


def _create_tokenizer(text: Mapping[str, Any], vocabulary: Path | None) -> Tokenizer:
    """Return the tokenizer of a text config."""
    from open_clip.tokenizer import DEFAULT_CONTEXT_LENGTH, SimpleTokenizer

    length = text.get("context_length", DEFAULT_CONTEXT_LENGTH)
    options = dict(text.get("tokenizer_kwargs") or {})
    if options.get("reduction_mask"):
        raise BackendError(
            f"tokenizer_kwargs states reduction_mask {options['reduction_mask']!r}, with which open_clip trains on some of "
            f"the tokens of a long text, drawn by lot. Remove it: then a long text is cut."
        )
    if vocabulary is not None and vocabulary.exists():
        with translate_load_errors(str(vocabulary)):
            _check_vocabulary(vocabulary)
            custom = SimpleTokenizer(bpe_path=str(vocabulary), context_length=length, **options)
        if custom.vocab_size != text.get("vocab_size", ENTRIES):
            raise BackendError(
                f"{str(vocabulary)!r} has {custom.vocab_size} tokens, and the config of the model states "
                f"{text.get('vocab_size', ENTRIES)}: it is broken, or of another model. Make or fetch it again."
            )
        return Tokenizer(custom, compute_file_hash(vocabulary), 0, custom.vocab_size - 1)
    if text.get("hf_tokenizer_name"):
        return _load_hf_tokenizer(get_tokenizer_source(text, vocabulary), length, options, text)
    with translate_load_errors(f"tokenizer_kwargs {options!r}"):
        default = SimpleTokenizer(context_length=length, **options)
    if has_own_vocabulary(text):
        raise BackendError(
            f"The config states {text['vocab_size']} tokens, open_clip's own vocabulary has "
            f"{default.vocab_size}: the model has a vocabulary of its own, and {vocabulary} is missing."
        )
    return Tokenizer(default, None, 0, default.vocab_size - 1)


def _check_vocabulary(path: Path) -> None:
    """Raise a BackendError if the file, unpacked, is larger than any vocabulary: it would fill the memory."""
    with gzip.open(path) as stream:
        if len(stream.read(LARGEST_VOCABULARY + 1)) > LARGEST_VOCABULARY:
            raise BackendError(
                f"{str(path)!r} holds more than {LARGEST_VOCABULARY:,} bytes, which no vocabulary does. Make or "
                f"fetch it again."
            )


def has_own_vocabulary(text: Mapping[str, Any]) -> bool:
    """Return whether a text config is of a model with a ``bpe.txt.gz`` of its own."""
    return not text.get("hf_tokenizer_name") and text.get("vocab_size", ENTRIES) < ENTRIES


def get_tokenizer_source(text: Mapping[str, Any], vocabulary: Path | None) -> str:
    """Return the folder or the hub's name of a tokenizer of transformers."""
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
                f"Tokenizer {source!r} cannot be had: {get_first_line(error)}. Set HF_HUB_OFFLINE=0 to fetch it from the hub."
            ) from error
    inner = hf_tokenizer.tokenizer
    padding = 0 if inner.pad_token_id is None else inner.pad_token_id
    return Tokenizer(hf_tokenizer, _hash_tokenizer(inner), padding, max(inner.get_vocab().values()))


def _check_pooling(text: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Raise a BackendError if texts would be pooled where nothing says that they should be.

    By default open_clip pools at the highest token of a text. That is the end token, unless the vocabulary goes on
    after it: with tokens that were added, a text would be pooled at the first of them.
    """
    if text.get("hf_model_name") or text.get("embed_cls"):
        return  # pooled by the tower of transformers; at a place of its own
    with translate_load_errors("the tokenizer"):
        row: list[int] = tokenizer.tokenize([TEXT])[0].tolist()
    tokens = f"the tokens of {TEXT!r} are {[number for number in row if number != tokenizer.padding]}"
    if text.get("pool_type") == "eos" and text.get("eos_id", 2) not in row:
        raise BackendError(
            f"text_cfg pools a text at the token {text.get('eos_id', 2)}, and the tokenizer ends none with it: {tokens}. "
            f"Every text would be pooled at its start. State the end token as 'eos_id'."
        )
    if "pool_type" not in text and max(row) < tokenizer.highest:
        raise BackendError(
            f"text_cfg states no 'pool_type', so that open_clip pools a text at its highest token, and the tokenizer has "
            f"higher ones than that which ends a text, up to {tokenizer.highest}: {tokens}. State "
            f'"pool_type": "eos" and the end token as "eos_id", or "pool_type": "argmax" if it was trained '
            f"with the highest."
        )


def _hash_tokenizer(tokenizer: Any) -> str:
    """Return a hash of a tokenizer of transformers, without the lengths that are set anew at each call."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    state = json.loads(fast.to_str()) if fast is not None else tokenizer.get_vocab()
    stable_state = {key: value for key, value in state.items() if key not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(stable_state, sort_keys=True).encode()).hexdigest()
