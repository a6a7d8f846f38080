"""Train a small causal language model that answers the caption prompts about the world.

The model is an LFM2 with about a million weights at the default size, saved in the format of transformers.
Its tokenizer is trained here. Its chat template shortens the messages that every model gets. It keeps:

- the name of the task,
- the given values,
- the answers that were rejected.

It leaves out rules and worked examples, for which the context has no room: the model learns them in training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from caramel.interfaces.settings import Compute
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import LoopConfig, OptimizerConfig
from caramel.io.files import create_empty_folder
from caramel.models.devices import move_to_device, resolve_device, resolve_precision, use_precision
from caramel.sources.captions.lm_training_data import TrainingExample, sample_example
from caramel.sources.captions.prompts.prompt_files import (
    AGAIN,
    format_answer,
    list_learned_prompts,
    load_prompt,
)
from caramel.training.loop.loop import Training, build_param_groups, run_training

if TYPE_CHECKING:
    import torch

# Settings of this training that have no key in the params.
FIXED = {
    "weight_decay": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "grad_clip_norm": 1.0, "num_workers": 0,
    "micro_batch_size": None, "grad_checkpointing": False, "patience": None, "ema_decay": None,
}  # fmt: skip
PAD, END, USER, FAILED, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|again|>", "<|assistant|>"
VOCABULARY = 640  # tokens at most: the world's words, JSON's characters, and all bytes
LEARNT_FROM = 4_000  # examples that the tokenizer is learned from
LONGEST = 1024  # tokens of a conversation, at most
ROW = 256  # tokens of a row in training, unless a single example is longer
JOINED = "\u2040"  # inserted between a quotation mark and a word
HEAD = 32  # dimensions of an attention head
UNSEEN = 200  # validation examples, drawn from all prompts
IGNORED = -100  # label of a token that has no loss
CHAT_TEMPLATE = (
    "{%- set names = NAMES -%}"
    "{%- set task = messages[0]['content'].split('\\n')[0] -%}"
    "{%- set at = namespace(given=0) -%}"
    "{%- for m in messages -%}"
    "{%- if m['role'] == 'user' and not m['content'].startswith(AGAIN) -%}"
    "{%- set at.given = loop.index0 -%}{%- endif -%}{%- endfor -%}"
    "{{- names.get(task, task) -}}"
    "{%- for m in messages[at.given:] -%}"
    "{%- if loop.first -%}{{- USER + m['content'] -}}"
    "{%- elif m['role'] == 'assistant' -%}{{- FAILED + m['content'] -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- ASSISTANT -}}{%- endif -%}"
)


class PackedBatch(NamedTuple):
    """Conversations, several packed in a row. Each field has the shape (rows, length).

    Attributes:
        tokens: token ids.
        position_ids: position of each token in its conversation.
        labels: token ids of the answers, elsewhere ``IGNORED``.
    """

    tokens: torch.Tensor
    position_ids: torch.Tensor
    labels: torch.Tensor


@dataclass(frozen=True)
class CaptionModelConfig:
    """How a caption model is built and trained.

    Attributes:
        hidden_size: width of the model, a multiple of ``HEAD``.
        num_layers: number of layers, >= 2.
        loop: settings of the loop; ``batch_size`` counts examples, each a question with its answer.
        optimizer: settings of AdamW.
        compute: device and precision.
    """

    hidden_size: int
    num_layers: int
    loop: LoopConfig
    optimizer: OptimizerConfig
    compute: Compute


def train_writer(
    settings: CaptionModelConfig,
    *,
    scratch: Path,
    out: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> Curve:
    """Train the model, save it to ``out`` in a format that ``local:`` and servers load, and return its curve.

    The metrics are:

    - ``loss``: nats per token of an answer.
    - ``right``: share in [0, 1] of the tokens of answers to unseen questions that the model predicts as the
      most likely token. It is less than 1 for any model, since a question may have several right answers.

    Args:
        settings: how the model is built and trained.
        scratch: folder of the resumable state.
        out: folder of the model.
        on_points: called with the new points of the curve, for tracking.
    """
    import torch

    loop, optimizer = settings.loop, settings.optimizer
    device = resolve_device(settings.compute.device)
    precision = resolve_precision(settings.compute.precision, device)
    torch.manual_seed(loop.seed)
    tokenizer = make_tokenizer(_sample_examples([loop.seed, 0], LEARNT_FROM))
    model = move_to_device(make_model(tokenizer, settings.hidden_size, settings.num_layers), device).train()
    unseen = pack_examples(tokenizer, _sample_examples([loop.seed, 1], UNSEEN))

    def compute_loss(packed_batch: PackedBatch) -> torch.Tensor:
        with use_precision(device, precision):
            batch_loss: torch.Tensor = model(
                packed_batch.tokens.to(device),
                position_ids=packed_batch.position_ids.to(device),
                labels=packed_batch.labels.to(device),
                use_cache=False,
            ).loss
        return batch_loss

    def compute_metrics() -> dict[str, float]:
        with torch.inference_mode():
            logits = model.eval()(
                unseen.tokens.to(device), position_ids=unseen.position_ids.to(device), use_cache=False
            ).logits
        model.train()
        right = logits[:, :-1].argmax(-1).cpu() == unseen.tokens[:, 1:]
        return {"right": float(right[unseen.labels[:, 1:] != IGNORED].float().mean())}

    groups = build_param_groups([model], optimizer.weight_decay)
    adamw = torch.optim.AdamW(groups, lr=optimizer.lr, betas=optimizer.betas, eps=optimizer.eps)
    training = Training(
        {"model": model},
        adamw,
        lambda step: pack_examples(tokenizer, _sample_examples([loop.seed, 2, step], loop.batch_size)),
        compute_loss,
        loop.steps,
        optimizer.warmup_steps,
        loop.checkpoint_every,
        seed=[loop.seed],
        measure=compute_metrics,
        on_points=on_points,
        grad_clip_norm=optimizer.grad_clip_norm,
    )
    curve = run_training(training, scratch=scratch, title="train_writer")
    create_empty_folder(out)
    model.eval().save_pretrained(out)
    tokenizer.save_pretrained(out)
    return curve


def _sample_examples(seed: Sequence[int], number: int) -> list[TrainingExample]:
    rng = np.random.default_rng(seed)
    return [sample_example(rng) for _ in range(number)]


def build_chat_template() -> str:
    """Return the Jinja template that turns a conversation into the model's input text.

    A known task becomes one token; an unknown task is written out.
    """
    named = {load_prompt(name).task: f"<|{name}|>" for name in list_learned_prompts()}
    words = {"NAMES": named, "AGAIN": AGAIN, "USER": USER, "FAILED": FAILED, "ASSISTANT": ASSISTANT}
    text = CHAT_TEMPLATE
    for name, value in words.items():
        text = text.replace(f" {name} ", f" {json.dumps(value)} ").replace(
            f"({name})", f"({json.dumps(value)})"
        )
    return text


def make_tokenizer(lessons: Sequence[TrainingExample]) -> Any:
    """Return a byte-level BPE learned from examples, with the tasks' names as tokens and the chat template.

    A word is the same token after a space and after a quotation mark: after the mark, ``JOINED`` and a space
    are inserted. This helps because most of the task is to copy words from a caption into an answer.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, USER, FAILED, ASSISTANT, *(f"<|{name}|>" for name in list_learned_prompts())]
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.normalizer = normalizers.Replace(Regex(r'(?<=")(?=\w)'), f"{JOINED} ")
    bare.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(f"{JOINED} ", "")])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (text for one in lessons for text in (build_conversation(one)[-1][1], format_answer(one.answer)))
    bare.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=special[2:],
        chat_template=build_chat_template(),
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: Any, hidden_size: int, num_layers: int) -> Any:
    """Return an LFM2 with random weights; the feed-forward layers are three times as wide as ``hidden_size``.

    Convolutions over three tokens alternate with attention layers.
    """
    from transformers import Lfm2Config, Lfm2ForCausalLM

    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    return Lfm2ForCausalLM(
        Lfm2Config(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            intermediate_size=3 * hidden_size,
            block_auto_adjust_ff_dim=False,
            num_hidden_layers=num_layers,
            layer_types=[("conv", "full_attention")[i % 2] for i in range(num_layers)],
            num_attention_heads=hidden_size // HEAD,
            num_key_value_heads=hidden_size // HEAD,
            max_position_embeddings=LONGEST,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            initializer_range=hidden_size**-0.5,  # with less, a small model begins to learn late
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=pad,
        )
    )


def build_conversation(taught: TrainingExample) -> tuple[tuple[str, str], ...]:
    """Return the messages that ask an example's question, as they are sent to a model.

    They have no worked examples, since the template leaves those out.
    """
    return load_prompt(taught.prompt).build_messages(taught.given, 0, taught.failed)


def pack_examples(tokenizer: Any, lessons: Sequence[TrainingExample]) -> PackedBatch:
    """Return the examples as a batch; only the answer and its end token have labels.

    A row holds as many examples as fit. Each example's positions start from 0, so that attention separates
    the examples. The convolutions see the last tokens of the example before.
    """
    import torch

    turns = [[{"role": role, "content": words} for role, words in build_conversation(one)] for one in lessons]
    prompts = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    answers = [format_answer(one.answer) + END for one in lessons]
    questions, rest = (
        tokenizer(texts, add_special_tokens=False)["input_ids"] for texts in (prompts, answers)
    )
    rows: list[list[tuple[list[int], list[int]]]] = [[]]
    room = ROW
    for question, answer in zip(questions, rest, strict=True):
        room -= len(question) + len(answer)
        if room < 0 and rows[-1]:
            rows.append([])
            room = ROW - len(question) - len(answer)
        rows[-1].append((question, answer))
    longest = max(sum(len(q) + len(a) for q, a in row) for row in rows)
    tokens = np.full((len(rows), longest), tokenizer.pad_token_id)
    labels, position_ids = np.full_like(tokens, IGNORED), np.zeros_like(tokens)
    for number, row in enumerate(rows):
        at = 0
        for question, answer in row:
            begin, end = at + len(question), at + len(question) + len(answer)
            tokens[number, at:end] = [*question, *answer]
            labels[number, begin:end] = answer
            position_ids[number, at:end] = np.arange(end - at)
            at = end
    return PackedBatch(*(torch.from_numpy(part) for part in (tokens, position_ids, labels)))
