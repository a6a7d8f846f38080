"""Load language models that give one value per text: Vera, CoLA classifiers, causal and masked language models.

Models run in single precision, on the GPU if there is one. Padding is masked and follows the text, so that a
text's value does not depend on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from caramel.errors import BackendError
from caramel.interfaces.model import Embeddings, Identity
from caramel.models.batching import run_in_batches_by_length
from caramel.models.devices import resolve_device
from caramel.models.loading.files import TEXT, translate_load_errors
from caramel.models.transformers.transformers_dual import compute_distinct_rows, get_token_ids, pad_token_ids
from caramel.models.transformers.transformers_files import build_identity, load_pretrained, load_tokenizer
from caramel.runtime.last_result import keep_last, stamp_files

if TYPE_CHECKING:
    import torch

# Vera stores its linear layer in rows of the word embeddings that T5 does not use.
WEIGHT, BIAS, TEMPERATURE = 32099, 32098, 32097
VERA_LENGTH = 128  # maximum number of tokens, as its authors truncate texts
LENGTH = 512  # maximum number of tokens of a text for the other models
ACCEPTABLE = 1  # CoLA's label of an acceptable sentence
Inputs = Mapping[str, Any]
Row = tuple[int, ...]


class LoadedTextModel(NamedTuple):
    """A loaded model."""

    identity: Identity
    values: Callable[[Sequence[str]], Embeddings]  # texts -> (n,)


@keep_last(lambda *, model_type, target: stamp_files(target))
def open_model(*, model_type: str, target: str) -> LoadedTextModel:
    """Return the model, on the GPU if there is one, else on the CPU.

    The last model stays loaded until its files change.

    Raises:
        BackendError: the model is broken, or its files do not fit together. It is tried on a text.
        ResourceError: the model does not fit into memory.
    """
    with translate_load_errors(target):
        model = OPEN[model_type](target, resolve_device("auto"))
        if np.isnan(model.values([TEXT])).any():
            raise BackendError(
                f"{model_type}:{target} gives NaN for a text: its weights are broken. Give another checkpoint."
            )
        return model


def _open_vera(target: str, device: str) -> LoadedTextModel:
    from transformers import T5EncoderModel

    model = load_pretrained(T5EncoderModel, target, device=device)
    tokenizer = load_tokenizer(target)
    table = model.get_input_embeddings().weight.detach()
    temperature = float(table[TEMPERATURE, 0]) if len(table) > WEIGHT else 0.0
    if not temperature > 0:
        raise BackendError(
            f"vera:{target} is a T5 encoder, but not Vera: rows {TEMPERATURE} to {WEIGHT} of its {len(table)} word "
            f"embeddings hold no linear layer with a temperature above 0. Give liujch1998/vera."
        )

    def compute_plausibility(inputs: Inputs) -> torch.Tensor:
        last = inputs["attention_mask"].sum(1) - 1
        hidden = model(**inputs).last_hidden_state
        hidden = hidden[_build_row_index(hidden), last]
        logit: torch.Tensor = hidden @ table[WEIGHT] + table[BIAS, 0]
        return (logit / temperature).sigmoid()

    return _build_text_model("vera", model, tokenizer, device, compute_plausibility, VERA_LENGTH)


def _open_cola(target: str, device: str) -> LoadedTextModel:
    from transformers import AutoModelForSequenceClassification

    model = load_pretrained(AutoModelForSequenceClassification, target, device=device)
    labels = [str(model.config.id2label.get(i, i)) for i in range(model.config.num_labels)]
    if len(labels) != 2 or labels[ACCEPTABLE].lower().startswith(("un", "not")):
        raise BackendError(
            f"cola:{target} has labels {labels}. A CoLA classifier has two labels; the second is for acceptable "
            f"sentences. Give a CoLA classifier such as textattack/distilbert-base-uncased-CoLA."
        )

    def compute_acceptability(inputs: Inputs) -> torch.Tensor:
        probabilities: torch.Tensor = model(**inputs).logits.softmax(-1)[:, ACCEPTABLE]
        return probabilities

    return _build_text_model("cola", model, load_tokenizer(target), device, compute_acceptability, LENGTH)


def _open_causal(target: str, device: str) -> LoadedTextModel:
    from transformers import AutoModelForCausalLM

    model = load_pretrained(AutoModelForCausalLM, target, device=device)
    tokenizer = load_tokenizer(target)
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if start is None:
        raise BackendError(
            f"causal_lm:{target}: its tokenizer has neither a beginning-of-text token nor an end-of-text token. "
            f"State bos_token in its tokenizer_config.json."
        )

    def compute_likelihood(inputs: Inputs) -> torch.Tensor:
        logs = model(**inputs).logits[:, :-1].float().log_softmax(-1)
        token_logs = logs.gather(-1, inputs["input_ids"][:, 1:, None])[..., 0]
        counted = inputs["attention_mask"][:, 1:]
        count = counted.sum(1)
        means: torch.Tensor = (token_logs * counted).sum(1) / count.clamp(min=1)
        return means.masked_fill(count == 0, -np.inf)

    return _build_text_model("causal_lm", model, tokenizer, device, compute_likelihood, LENGTH, start=start)


def _build_text_model(
    model_type: str,
    model: Any,
    tokenizer: Any,
    device: str,
    forward: Callable[[Inputs], torch.Tensor],
    length: int,
    start: int | None = None,
) -> LoadedTextModel:
    """Return a model that gives one value per text in one pass.

    Args:
        model_type: type of the model; a key of ``OPEN``.
        model: the model, on its device.
        tokenizer: the checkpoint's tokenizer.
        device: cpu, cuda or cuda:N.
        forward: ``input_ids`` and ``attention_mask`` -> (n,).
        length: maximum number of tokens of a text.
        start: token that begins every text, in place of the tokenizer's special tokens.
    """
    import torch

    length = _limit_length(model, tokenizer, length)

    def tokenize_texts(texts: Sequence[str]) -> list[Row]:
        if start is None:
            return get_token_ids(tokenizer, texts, length)
        cut = {"truncation": True, "max_length": length - 1, "add_special_tokens": False}
        return [(start, *row) for row in tokenizer(list(texts), **cut)["input_ids"]]

    def run_forward(inputs: Inputs) -> torch.Tensor:
        with torch.inference_mode():
            return forward({k: v.to(device) for k, v in inputs.items()})

    def compute_values(texts: Sequence[str]) -> Embeddings:
        return compute_distinct_rows(
            tokenize_texts(texts),
            lambda part: pad_token_ids(part, tokenizer.pad_token_id),
            run_forward,
            batch_size=None,
            device=device,
            name=str(tokenizer.name_or_path),
        )

    return LoadedTextModel(_compute_identity(model_type, model, tokenizer, device, length), compute_values)


def _open_masked(target: str, device: str) -> LoadedTextModel:
    import torch
    from transformers import AutoModelForMaskedLM

    model = load_pretrained(AutoModelForMaskedLM, target, device=device)
    tokenizer = load_tokenizer(target)
    if tokenizer.mask_token_id is None:
        raise BackendError(
            f"masked_lm:{target}: its tokenizer has no mask token. Give a masked language model."
        )
    length = _limit_length(model, tokenizer, LENGTH)

    def mask_tokens(items: Sequence[tuple[Row, int]]) -> dict[str, torch.Tensor]:
        rows = [(*row[:at], tokenizer.mask_token_id, *row[at + 1 :]) for row, at in items]
        hidden = {"place": [at for _, at in items], "token": [row[at] for row, at in items]}
        return {
            **pad_token_ids(rows, tokenizer.pad_token_id),
            **{k: torch.tensor(v) for k, v in hidden.items()},
        }

    def predict_tokens(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        positions, token, ids, mask = (
            inputs[name].to(device) for name in ("place", "token", "input_ids", "attention_mask")
        )
        with torch.inference_mode():
            logits: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits[
                _build_row_index(ids), positions
            ]
            return logits.float().log_softmax(-1)[_build_row_index(ids), token]

    def compute_values(texts: Sequence[str]) -> Embeddings:
        cut = {"truncation": True, "max_length": length, "return_special_tokens_mask": True}
        encoded = tokenizer(list(texts), **cut)
        rows = [tuple(row) for row in encoded["input_ids"]]
        special_masks = dict(zip(rows, encoded["special_tokens_mask"], strict=True))
        distinct = sorted(special_masks, key=lambda row: (len(row), row))
        items = [
            (row, at) for row in distinct for at, special in enumerate(special_masks[row]) if not special
        ]
        lengths = [len(row) for row, _ in items]
        logs = (
            run_in_batches_by_length(
                items, lengths, mask_tokens, predict_tokens, batch_size=None, device=device, name=target
            )
            if items
            else np.zeros(0)
        )
        return _compute_row_means(rows, [row for row, _ in items], logs)

    return LoadedTextModel(_compute_identity("masked_lm", model, tokenizer, device, length), compute_values)


def _compute_row_means(rows: Sequence[Row], owners: Sequence[Row], logs: Any) -> Embeddings:
    """Return the mean of the logs of each row, (n,); −∞ for a row without logs."""
    row_index = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    owner = np.array([row_index[row] for row in owners], np.int64)
    count = np.bincount(owner, minlength=len(row_index))
    total = np.bincount(owner, logs, len(row_index))
    means = np.where(count > 0, total / np.maximum(count, 1), -np.inf)
    result: Embeddings = means[[row_index[row] for row in rows]].astype(np.float32)
    return result


def _build_row_index(rows: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.arange(len(rows), device=rows.device)


def _limit_length(model: Any, tokenizer: Any, length: int) -> int:
    """Return the maximum number of tokens of a text: ``length``, or less if the model or tokenizer allows less."""
    room = getattr(model.config, "max_position_embeddings", None) or length
    return int(min(length, room, tokenizer.model_max_length))


def _compute_identity(model_type: str, model: Any, tokenizer: Any, device: str, length: int) -> Identity:
    return build_identity(model_type, model, [tokenizer], precision="fp32", device=device, length=length)


OPEN: Mapping[str, Callable[[str, str], LoadedTextModel]] = {
    "vera": _open_vera,
    "cola": _open_cola,
    "causal_lm": _open_causal,
    "masked_lm": _open_masked,
}
