"""Small language models are taught, in their folders, which of two sets of texts is the plausible one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

STEPS, RATE = 60, 3e-3
VERA_LAYER, VERA_BIAS = 32099, 32098  # rows of T5's word embeddings where Vera keeps them


def teach(auto: str, loss: Callable[..., Any], folder: Path, plausible: list[str], others: list[str]) -> None:
    """Train the checkpoint of a folder by a loss of (model, tokens, labels, generator): label 1 is plausible."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, auto).from_pretrained(folder).train()
    texts = [*plausible, *others]
    tokens = (
        tokenizer(texts, return_tensors="pt", padding=True)
        if tokenizer.pad_token
        else _padded(tokenizer, texts)
    )
    labels = torch.tensor([1] * len(plausible) + [0] * len(others))
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model, tokens, labels, generator).backward()
        optimizer.step()
    model.eval().save_pretrained(folder)


def _padded(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Return texts behind the token that begins one, of a tokenizer that has none to pad with."""
    import torch

    rows = [torch.tensor([tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask}


def _likelihood(model: Any, tokens: Any, labels: Any, generator: Any) -> Any:
    good = labels == 1
    ids, mask = tokens["input_ids"][good], tokens["attention_mask"][good]
    return model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss


def _masked(model: Any, tokens: Any, labels: Any, generator: Any) -> Any:
    import torch

    good = labels == 1
    ids, mask = tokens["input_ids"][good], tokens["attention_mask"][good]
    hidden = (torch.rand(ids.shape, generator=generator) < 0.3) & (mask == 1)
    asked = ids.masked_fill(hidden, 4)  # [MASK] of ``small_language_models``
    return model(input_ids=asked, attention_mask=mask, labels=ids.masked_fill(~hidden, -100)).loss


def _class(model: Any, tokens: Any, labels: Any, generator: Any) -> Any:
    return model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], labels=labels).loss


def _plausibility(model: Any, tokens: Any, labels: Any, generator: Any) -> Any:
    import torch

    table = model.get_input_embeddings().weight
    mask = tokens["attention_mask"]
    hidden = model(input_ids=tokens["input_ids"], attention_mask=mask).last_hidden_state
    last = hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    logit = last @ table[VERA_LAYER] + table[VERA_BIAS, 0]
    return torch.nn.functional.binary_cross_entropy_with_logits(logit, labels.float())


TEACHERS: dict[str, Callable[[Path, list[str], list[str]], None]] = {
    "vera": partial(teach, "T5EncoderModel", _plausibility),
    "cola": partial(teach, "AutoModelForSequenceClassification", _class),
    "causal_lm": partial(teach, "AutoModelForCausalLM", _likelihood),
    "masked_lm": partial(teach, "AutoModelForMaskedLM", _masked),
}
