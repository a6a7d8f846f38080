"""Load text encoders: folders of sentence-transformers, and any encoder of transformers.

    text:FOLDER                 or OWNER/REPO on the hub
    text:FOLDER?prefix=query: &pooling=cls     with settings, written as in a web address (%26 is &, %2B is +)

    prefix           prepended to every text; else it is the default prompt of the folder, or for E5, which
                     was trained with it, ``query: `` (Wang et al. 2022)
    template         a prompt with ``{text}`` in the text's place, for models whose prompt has words after it, such as
                     AnglE's Llama: ``Summarize sentence "{text}" in one word:"`` (Li and Li 2023); replaces prefix
    pooling          mean, cls, max, mean_sqrt_len_tokens, weightedmean or lasttoken; else as the folder states
    include_prompt   false: the prefix's tokens are not pooled; this is so for INSTRUCTOR (Su et al. 2023)

A folder without modules.json does not state its pooling, and a wrong one gives silently wrong results. It is
refused unless the spec states the pooling, which the model's card gives. E5 is an exception: its name
determines the pooling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from caramel.errors import BackendError
from caramel.interfaces.model import Embeddings, Family, Identity
from caramel.models.devices import resolve_device, resolve_precision, use_precision
from caramel.models.identity import get_package_versions, hash_weights
from caramel.models.loading.files import translate_load_errors, validate_model
from caramel.models.transformers.sentence_modules import (
    Layout,
    build_modules,
    check_poolings,
    read_layout,
    require_pooling,
)
from caramel.models.transformers.transformers_dual import compute_distinct_rows, get_token_ids, pad_token_ids
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    build_identity,
    list_checkpoint_problems,
    load_pretrained,
    load_tokenizer,
    read_model_type,
)

if TYPE_CHECKING:
    import torch

SETTINGS = ("prefix", "template", "pooling", "include_prompt")
PLACE = "{text}"  # in a template
# Only the encoder half of these is used.
T5 = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
# Models whose files do not state their settings, recognised by the last part of the folder's or repository's
# name.
E5 = re.compile(r"(multilingual-)?e5-(small|base|large)(-v2)?")
INSTRUCTOR = re.compile(r"instructor-(base|large|xl)")
Inputs = Mapping[str, Any]


class SentenceEncoder:
    """A ``TextEncoder`` over a model of transformers.

    Args:
        model: returns ``last_hidden_state``.
        tokenizer: the checkpoint's tokenizer.
        layout: how texts become vectors.
        modules: the pooling and the modules after it.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        layout: Layout,
        modules: torch.nn.Sequential,
        device: str,
        precision: str,
        name: str,
    ) -> None:
        self.name = name
        self._model, self._tokenizer, self._layout, self._modules = model, tokenizer, layout, modules
        self._device, self._precision = device, resolve_precision(precision, device)
        self._length = _compute_max_length(model.config, tokenizer, layout)
        self._skip = 0 if layout.include_prompt else _count_prefix_tokens(tokenizer, layout.prefix)

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the embeddings."""
        layout = {key: value for key, value in asdict(self._layout).items() if key != "transformer"}
        if not layout["suffix"]:  # known embeddings of texts without one keep their keys
            del layout["suffix"]
        return build_identity(
            "text",
            self._model,
            [self._tokenizer],
            precision=self._precision,
            device=self._device,
            layout=layout,
            length=self._length,
            modules=[repr(self._modules), hash_weights(self._modules)],
            versions=get_package_versions("transformers", "tokenizers", "sentence-transformers"),
        )

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d); texts share batches with texts of the same length.

        Texts with equal tokens have bitwise equal vectors, so that they tie.
        """
        ready = [f"{self._layout.prefix}{text}{self._layout.suffix}" for text in texts]
        if self._layout.lower_case:
            ready = [text.lower() for text in ready]
        return compute_distinct_rows(
            get_token_ids(self._tokenizer, ready, self._length),
            lambda rows: pad_token_ids(rows, self._tokenizer.pad_token_id),
            self._embed_inputs,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )

    def _embed_inputs(self, inputs: Inputs) -> torch.Tensor:
        import torch

        inputs = {k: v.to(self._device) for k, v in inputs.items()}
        with torch.inference_mode():
            with use_precision(self._device, self._precision):
                hidden = self._model(**inputs).last_hidden_state
            features = {
                "token_embeddings": hidden.float(),
                "attention_mask": inputs["attention_mask"],
                "prompt_length": self._skip,
            }
            return torch.nn.functional.normalize(self._modules(features)["sentence_embedding"], dim=-1)


def _compute_max_length(config: Any, tokenizer: Any, layout: Layout) -> int | None:
    """Return the largest number of tokens of a text, None if nothing states it."""
    max_positions = getattr(config, "max_position_embeddings", None)
    if max_positions and re.search("roberta|camembert|mpnet", config.model_type):
        max_positions -= config.pad_token_id + 1  # positions start after the padding's
    known = [n for n in (layout.length, tokenizer.model_max_length, max_positions) if n and n < 2**31]
    return min(known, default=None)


def _count_prefix_tokens(tokenizer: Any, prefix: str) -> int:
    """Return how many tokens a prefix has at the beginning of a text, including special tokens there."""
    if not prefix:
        return 0
    (row,) = get_token_ids(tokenizer, [prefix], None)
    return len(row) - (row[-1] in tokenizer.all_special_ids)


def parse_target(target: str) -> tuple[str, dict[str, str]]:
    """Return the folder or OWNER/REPO, and the settings after ``?``.

    Raises:
        BackendError: a setting is unknown or has no value.
    """
    checkpoint, _, query = target.partition("?")
    try:
        settings = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise BackendError(f"text:{target}: {error}. Write ?KEY=VALUE&KEY=VALUE.") from error
    unknown = [key for key in settings if key not in SETTINGS]
    if unknown:
        raise BackendError(f"text:{target}: unknown setting {unknown[0]!r}. Choices: {', '.join(SETTINGS)}.")
    if settings.get("include_prompt", "true") not in ("true", "false"):
        raise BackendError(
            f"text:{target}: include_prompt must be true or false, not {settings['include_prompt']!r}."
        )
    template = settings.get("template", PLACE)
    if template.count(PLACE) != 1 or ("template" in settings and "prefix" in settings):
        raise BackendError(
            f"text:{target}: template must hold {PLACE} once and stands without prefix, not {template!r}."
        )
    return checkpoint, settings


def build_layout(checkpoint: str, settings: Mapping[str, str]) -> Layout:
    """Return the layout from files and settings; settings take precedence. It may have no pooling.

    Raises:
        BackendError: a file is invalid, or a pooling is unknown.
    """
    layout, last = read_layout(checkpoint), Path(checkpoint).name
    if E5.fullmatch(last):
        layout = replace(layout, prefix=layout.prefix or "query: ", pooling=layout.pooling or ("mean",))
    if INSTRUCTOR.fullmatch(last):
        layout = replace(layout, include_prompt=False)
    if "prefix" in settings:
        layout = replace(layout, prefix=settings["prefix"])
    if "template" in settings:
        prefix, _, suffix = settings["template"].partition(PLACE)
        layout = replace(layout, prefix=prefix, suffix=suffix)
    if "pooling" in settings:
        layout = replace(layout, pooling=check_poolings((settings["pooling"],), checkpoint))
    if "include_prompt" in settings:
        layout = replace(layout, include_prompt=settings["include_prompt"] == "true")
    return layout


def load_text(
    target: str, *, device: str, precision: str, name: str, default_pooling: tuple[str, ...] = ()
) -> SentenceEncoder:
    """Return the text encoder of a target; see the module's docstring.

    Args:
        target, device, precision, name: as in ``Loader``.
        default_pooling: used if nothing states the pooling; empty: a missing pooling is an error.

    Raises:
        BackendError: it is missing or damaged, belongs to another family, or a setting is wrong or missing.
    """
    import transformers

    checkpoint, settings = parse_target(target)
    layout = build_layout(checkpoint, settings)
    type_name = _read_encoder_type(layout.transformer)
    layout = require_pooling(checkpoint, layout, default_pooling)
    device = resolve_device(device)
    model = load_pretrained(
        getattr(transformers, T5.get(type_name, "AutoModel")),
        layout.transformer,
        device=device,
        unneeded=("pooler.",),
    )
    modules = build_modules(checkpoint, layout).to(device)
    with translate_load_errors(checkpoint):
        parts = (model, load_tokenizer(layout.transformer), layout, modules)
        return validate_model(SentenceEncoder(*parts, device, precision, name), checkpoint)


def list_text_encoder_problems(target: str, *, default_pooling: tuple[str, ...] = ()) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it; arguments as in ``load_text``."""
    try:
        checkpoint, settings = parse_target(target)
        layout = build_layout(checkpoint, settings)
        problems = list_checkpoint_problems(layout.transformer, images=False)
        if not problems and Path(layout.transformer).is_dir():
            _read_encoder_type(layout.transformer)
            require_pooling(checkpoint, layout, default_pooling)
    except BackendError as error:
        return [str(error)]
    return problems


def _read_encoder_type(target: str) -> str:
    """Return ``model_type`` of the encoder.

    Raises:
        BackendError: config.json is invalid, or the model takes images as well.
    """
    type_name = read_model_type(target)
    others = [family for family, types in MODEL_TYPES.items() if type_name in types]
    if others:
        raise BackendError(
            f"{target!r} is a model of type {type_name!r}, which takes images as well. Write {others[0]}:{target}."
        )
    return type_name


TEXT_ENCODER = Family(
    "text",
    "text",
    "FOLDER",
    "text encoders: SugarCrepe++'s text-only score",
    load=load_text,
    missing=list_text_encoder_problems,
)
