"""Small language models with random weights, saved in their real formats: functions that return a folder, and a count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caramel.models.llm.causal import CausalLanguageModel

WORDS = [
    "a",
    "the",
    "dog",
    "cat",
    "on",
    "under",
    "red",
    "blue",
    "car",
    "two",
    "men",
    "runs",
    "sits",
    "and",
    "holds",
    "big",
    "small",
    "ball",
    "purple",
]
BERT_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", *"abcdefghijklmnopqrstuvwxyz"]
VERA_VOCABULARY = 32128  # rows of T5's word embeddings; Vera keeps its layer in the last of use
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXTS = [
    "a dog",
    "the red car.",
    "a cat sits on the big red car",
    "two men and a dog under the small blue ball.",
    "The RED car.",
    "runs",
    "",
    "two two two men",
]


def bert_tokenizer(kind: str = "BertTokenizer") -> Any:
    import transformers

    return getattr(transformers, kind)(vocab={word: i for i, word in enumerate(dict.fromkeys(BERT_WORDS))})


def saved(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def seeded() -> None:
    import torch

    torch.manual_seed(0)


def vera_folder(folder: Path, temperature: float = 2.0, rows: int = VERA_VOCABULARY) -> Path:
    """Write a T5 encoder whose word embeddings hold a linear layer and a temperature, as Vera's do."""
    import torch
    from transformers import T5Config, T5EncoderModel, T5Tokenizer

    pieces = [
        "<pad>",
        "</s>",
        "<unk>",
        "▁",
        *(f"▁{word}" for word in WORDS),
        *"abcdefghijklmnopqrstuvwxyzRED.",
    ]
    tokenizer = T5Tokenizer(vocab=[(piece, -1.0) for piece in dict.fromkeys(pieces)], extra_ids=0)
    seeded()
    config = T5Config(
        vocab_size=rows,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        feed_forward_proj="gated-gelu",
    )
    config.initializer_factor = 3.0  # large, so that every token shows in the last one's state
    model = T5EncoderModel(config)
    with torch.no_grad():
        if rows == VERA_VOCABULARY:
            model.shared.weight[32099] = torch.randn(16) / 4
            model.shared.weight[32098, 0] = 0.3
            model.shared.weight[32097, 0] = temperature
    return saved(folder, model, tokenizer)


def cola_folder(folder: Path, **config: Any) -> Path:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    tokenizer = bert_tokenizer("DistilBertTokenizer")
    seeded()
    sizes = {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "initializer_range": 0.5}
    made = DistilBertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes, **config)
    return saved(folder, DistilBertForSequenceClassification(made), tokenizer)


def gpt2_folder(folder: Path, n_positions: int = 64, **tokens: Any) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

    letters = [*map(chr, range(33, 127)), "Ġ", "<|endoftext|>"]
    tokenizer = GPT2Tokenizer(vocab={piece: i for i, piece in enumerate(letters)}, merges=[], **tokens)
    seeded()
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    ends = {"bos_token_id": end, "eos_token_id": end}
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=n_positions, n_embd=32, n_layer=2, n_head=4, **ends
    )
    config.initializer_range = 0.5
    return saved(folder, GPT2LMHeadModel(config), tokenizer)


def masked_folder(folder: Path) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = bert_tokenizer()
    seeded()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=0.5, **SIZES)
    return saved(folder, BertForMaskedLM(config), tokenizer)


def encoder_folder(folder: Path) -> Path:
    """Write a BERT encoder alone."""
    from transformers import BertConfig, BertModel

    tokenizer = bert_tokenizer()
    seeded()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SIZES)
    return saved(folder, BertModel(config), tokenizer)


def count_tokens(model: CausalLanguageModel) -> list[int]:
    """Return a list that gets the number of tokens, padding included, of each forward pass of a model."""
    counts: list[int] = []

    def count(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        counts.append((args[0] if args else kwargs["input_ids"]).numel())

    model._model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    return counts
