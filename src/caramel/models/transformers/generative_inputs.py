"""Build batches for a generative model: prompts with an image, followed by the replies that are scored.

The reply is not generated: its tokens are given, and the model returns how likely each is after all tokens
before it. Prompts come from the checkpoint's chat template if it has one, else from ``PROMPTS``. A space
separates prompt and reply unless the prompt ends with one. The reply's tokens are those that extend the
prompt's when both are tokenized together. A tokenizer that has another token for a word after a space (▁Yes
beside Yes) thus gets the token that it would generate itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError

if TYPE_CHECKING:
    import torch
    from PIL import Image

# model_type -> prompt for checkpoints without a chat template: the prompt of their training.
_USER = "USER: <image>\n{} ASSISTANT:"
_IM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
_QWEN = _IM + "<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = {
    "llava": _USER,
    "llava_next": _USER,
    "llava_onevision": "<|im_start|>user <image>\n{}<|im_end|><|im_start|>assistant\n",
    "instructblip": "{}",  # its processor puts the image before the text
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "clip_t5": (
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
        "detailed, and polite answers to the user's questions. USER: <image>\n{} ASSISTANT: "
    ),
}


@dataclass(frozen=True)
class Batch:
    """Input of a forward pass, and the positions of the replies in its output.

    Attributes:
        inputs: keyword arguments of the model, on the CPU.
        rows: (t,) row in the batch of each token of a reply.
        columns: (t,) its index among the positions whose logits are returned.
        tokens: (t,) the token itself.
    """

    inputs: dict[str, torch.Tensor]
    rows: torch.Tensor
    columns: torch.Tensor
    tokens: torch.Tensor


def build_prompt(
    processor: Any, model_type: str, question: str, examples: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the prompt of a user's turn: an image and the question, which may be empty.

    Args:
        processor: the checkpoint's processor.
        model_type: its model type.
        question: the question.
        examples: (question, reply) of earlier turns, each with an image of its own.

    Raises:
        BackendError: there are examples, and the checkpoint has no chat template.
    """
    if not processor.chat_template:
        if examples:
            raise BackendError(
                f"A checkpoint of type {model_type!r} without a chat template cannot be shown examples. Ask it in a "
                "wording without them."
            )
        return PROMPTS[model_type].format(question)
    turns = []
    for text, reply in (*examples, (question, None)):
        text_content = [{"type": "text", "text": text}] if text else []
        turns.append({"role": "user", "content": [{"type": "image"}, *text_content]})
        if reply is not None:
            turns.append({"role": "assistant", "content": [{"type": "text", "text": reply}]})
    return str(processor.apply_chat_template(turns, add_generation_prompt=True))


def build_decoder_batch(
    processor: Any,
    images: Sequence[Image.Image],
    prompts: Sequence[str],
    replies: Sequence[str],
    *,
    end: bool,
) -> Batch:
    """Return the batch of a decoder-only model, in which each reply follows its prompt.

    Rows are padded on the right, whatever the tokenizer's default is. Under a causal mask no token then
    attends to padding, and every position is the same as in a batch of one.

    Args:
        processor: the checkpoint's processor.
        images: one per prompt.
        prompts: n prompts.
        replies: n replies.
        end: whether the token that ends a reply belongs to it.
    """
    import torch

    data = _prepare_inputs(processor, images, prompts)
    real = data.pop("attention_mask").bool()
    given = [ids[mask].tolist() for ids, mask in zip(data["input_ids"], real, strict=True)]
    tails = [
        _tokenize_reply(processor.tokenizer, p, r, end=end) for p, r in zip(prompts, replies, strict=True)
    ]
    starts = [len(ids) - cut for ids, (cut, _) in zip(given, tails, strict=True)]
    rows = [ids[:at] + tail for ids, at, (_, tail) in zip(given, starts, tails, strict=True)]
    inputs = data | {
        "input_ids": _pad_rows(rows, processor.tokenizer.pad_token_id or 0),
        "attention_mask": _pad_rows([[1] * len(row) for row in rows], 0),
    }
    if "mm_token_type_ids" in data:  # marks the tokens of an image: a reply has none
        token_types = [k[mask].tolist() for k, mask in zip(data["mm_token_type_ids"], real, strict=True)]
        parts = zip(token_types, starts, tails, strict=True)
        inputs["mm_token_type_ids"] = _pad_rows([k[:at] + [0] * len(tail) for k, at, (_, tail) in parts], 0)
    first, width = min(starts), inputs["input_ids"].shape[1]
    # The logits at a position predict the next token. Those before the first reply are not computed.
    inputs["logits_to_keep"] = torch.arange(first - 1, width - 1)
    return _build_batch(inputs, [tail for _, tail in tails], [at - first for at in starts])


def build_encoder_decoder_batch(
    processor: Any,
    images: Sequence[Image.Image],
    prompts: Sequence[str],
    replies: Sequence[str],
    *,
    end: bool,
) -> Batch:
    """Return the batch of an encoder-decoder, whose decoder writes the reply; see ``build_decoder_batch``."""
    tokenizer = processor.tokenizer
    tokens = [_set_end_token(tokenizer, tokenizer(reply).input_ids, end=end) for reply in replies]
    inputs = _prepare_inputs(processor, images, prompts) | {"labels": _pad_rows(tokens, -100)}
    return _build_batch(inputs, tokens, [0] * len(tokens))


def _prepare_inputs(processor: Any, images: Sequence[Image.Image], prompts: Sequence[str]) -> dict[str, Any]:
    """Return the model's inputs for the prompts alone."""
    data = dict(
        processor(
            images=list(images), text=list(prompts), padding=True, padding_side="right", return_tensors="pt"
        )
    )
    # A Q-Former has a limited number of positions for a question; the language model reads all of it.
    for name in ("qformer_input_ids", "qformer_attention_mask"):
        if name in data:
            data[name] = data[name][:, : processor.qformer_tokenizer.model_max_length]
    return data


def _tokenize_reply(tokenizer: Any, prompt: str, reply: str, *, end: bool) -> tuple[int, list[int]]:
    """Return how many of the prompt's tokens the reply changes, and the tokens from there on.

    It changes none unless the tokenizer merges the end of the prompt and the start of the reply into one
    token. That token is scored with the reply.
    """
    before = tokenizer(prompt).input_ids
    space = "" if not prompt or prompt[-1].isspace() else " "
    joint_tokens = tokenizer(prompt + space + reply).input_ids
    pairs = zip(before, joint_tokens, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(joint_tokens)))
    return len(before) - same, _set_end_token(tokenizer, joint_tokens[same:], end=end)


def _set_end_token(tokenizer: Any, tokens: Sequence[int], *, end: bool) -> list[int]:
    """Return the tokens of a reply with, or without, the end token."""
    last = tokenizer.eos_token_id
    bare = list(tokens[:-1] if tokens and tokens[-1] == last else tokens)
    return [*bare, last] if end and last is not None else bare


def _build_batch(inputs: dict[str, Any], replies: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
    import torch

    positions = [(i, start + j) for i, start in enumerate(starts) for j in range(len(replies[i]))]
    rows, columns = torch.tensor(positions, dtype=torch.int64).reshape(-1, 2).T
    return Batch(inputs, rows, columns, torch.tensor([token for reply in replies for token in reply]))


def _pad_rows(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Return the rows (n, longest), padded on the right."""
    import torch

    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=torch.int64)
