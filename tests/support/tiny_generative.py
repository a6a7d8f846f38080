"""Tiny generative checkpoints with random weights, saved as transformers saves the real ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

SENTENCES = [
    'USER: \nDoes this figure show "a dog on the left of a cat"? Please answer yes or no. ASSISTANT: Yes',
    'Question: Does this figure show "two red cubes and one blue ball"? Please answer yes or no. yes no No',
    "a man rides a horse along the beach while a small brown dog runs behind them in the morning light",
]
LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] %}{{ '<image>\n' if part['type'] == 'image' else part['text'] + ' ' }}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' if part['type'] == 'image' else part['text'] }}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CLIP_VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}


def save(model: Any, processor: Any, folder: Path) -> Path:
    """Save a checkpoint after giving it weights large enough that the image and every word matter."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.ndim > 1 or name.endswith("query_tokens"):
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def trained(model: Any, trainer: Any, pre_tokenizer: Any) -> Any:
    """Return the model (of the package tokenizers) of a small vocabulary."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def llama_tokenizer() -> Any:
    """A tokenizer as Llama's: words begin with ▁, what is unknown is spelt in bytes."""
    import json

    from tokenizers import models, pre_tokenizers, trainers
    from transformers import LlamaTokenizer

    spelt = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>", *spelt])
    learned = json.loads(
        trained(models.BPE(unk_token="<unk>"), trainer, pre_tokenizers.Metaspace()).to_str()
    )["model"]
    return LlamaTokenizer(
        vocab=learned["vocab"],
        merges=[tuple(m) for m in learned["merges"]],
        pad_token="<unk>",
        add_bos_token=True,
        padding_side="left",
    )


def qwen_tokenizer() -> Any:
    """A tokenizer as Qwen2's: pieces of bytes, and special tokens around turns and images."""
    import json

    from tokenizers import models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    learned = json.loads(
        trained(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False)).to_str()
    )["model"]
    special = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    vocab = learned["vocab"] | {"<|endoftext|>": len(learned["vocab"])}
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(m) for m in learned["merges"]],
        eos_token="<|im_end|>",
        extra_special_tokens=special,
        padding_side="left",
    )


def t5_tokenizer() -> Any:
    """A tokenizer as T5's, which ends every text with </s>; some words it knows, ``yes`` it spells."""
    from transformers import T5Tokenizer

    words = sorted({word for text in SENTENCES for word in text.split() if word.isalpha() and len(word) > 3})
    signs = sorted({sign for text in SENTENCES for sign in text if not sign.isspace()})
    special = [(piece, 0.0) for piece in ("<pad>", "</s>", "<unk>")]
    pieces = [("▁", -2.0), *((sign, -3.0) for sign in signs), *((f"▁{word}", -4.0) for word in words)]
    return T5Tokenizer(vocab=[*special, *pieces], extra_ids=0)


def bert_tokenizer() -> Any:
    """A tokenizer as BERT's, for the Q-Former."""
    import json

    from tokenizers import models, pre_tokenizers, trainers
    from transformers import BertTokenizer

    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    learned = trained(models.WordPiece(unk_token="[UNK]"), trainer, pre_tokenizers.BertPreTokenizer())
    return BertTokenizer(vocab=json.loads(learned.to_str())["model"]["vocab"], model_max_length=48)


def save_llava(folder: Path, *, template: bool = True) -> Path:
    """Save a LLaVA of four image tokens."""
    from transformers import CLIPImageProcessor, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor

    tokenizer = llama_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE if template else None,
    )
    config = LlavaConfig(
        vision_config=CLIP_VISION,
        text_config=LLAMA | {"vocab_size": len(tokenizer)},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return save(LlavaForConditionalGeneration(config), processor, folder)


def save_llava_next(folder: Path) -> Path:
    """Save a LLaVA-NeXT, which looks at parts of an image as well: as many tokens as its shape asks for."""
    from transformers import (
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessor,
        LlavaNextProcessor,
    )

    tokenizer = llama_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    grid = [[28, 56], [56, 28], [56, 56]]
    square = {"height": 28, "width": 28}
    processor = LlavaNextProcessor(
        LlavaNextImageProcessor(size={"shortest_edge": 28}, crop_size=square, image_grid_pinpoints=grid),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    config = LlavaNextConfig(
        vision_config=CLIP_VISION,
        text_config=LLAMA | {"vocab_size": len(tokenizer)},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grid,
    )
    return save(LlavaNextForConditionalGeneration(config), processor, folder)


def save_onevision(folder: Path) -> Path:
    """Save a LLaVA-OneVision over Qwen2."""
    from transformers import (
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        LlavaOnevisionImageProcessor,
        LlavaOnevisionProcessor,
        LlavaOnevisionVideoProcessor,
    )

    tokenizer = qwen_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>", "<video>"]})
    grid = [[28, 56], [56, 28], [56, 56]]
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size={"height": 28, "width": 28}, image_grid_pinpoints=grid),
        tokenizer,
        LlavaOnevisionVideoProcessor(),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=LLAVA_TEMPLATE,
    )
    config = LlavaOnevisionConfig(
        vision_config=CLIP_VISION | {"model_type": "siglip_vision_model", "vision_use_head": False},
        text_config=LLAMA | {"model_type": "qwen2", "num_key_value_heads": 2, "vocab_size": len(tokenizer)},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grid,
    )
    return save(LlavaOnevisionForConditionalGeneration(config), processor, folder)


def save_qwen(folder: Path, *, version: str = "2") -> Path:
    """Save a Qwen2-VL or a Qwen2.5-VL, whose images have as many tokens as their size asks for."""
    import transformers as t

    tokenizer = qwen_tokenizer()
    image_processor = t.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=28 * 28 * 6)
    text = {k: v for k, v in LLAMA.items() if k != "model_type"} | {
        "num_key_value_heads": 2,
        "vocab_size": len(tokenizer),
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2}
    ids = {
        name: tokenizer.convert_tokens_to_ids(token)
        for name, token in (
            ("image_token_id", "<|image_pad|>"),
            ("video_token_id", "<|video_pad|>"),
            ("vision_start_token_id", "<|vision_start|>"),
            ("vision_end_token_id", "<|vision_end|>"),
        )
    }
    if version == "2":
        vision |= {"embed_dim": 32, "mlp_ratio": 2}
        config = t.Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
        model: Any = t.Qwen2VLForConditionalGeneration(config)
        processor: Any = t.Qwen2VLProcessor(image_processor, tokenizer, t.Qwen2VLVideoProcessor())
    else:
        vision |= {
            "out_hidden_size": 32,
            "intermediate_size": 48,
            "fullatt_block_indexes": [1],
            "window_size": 56,
        }
        model = t.Qwen2_5_VLForConditionalGeneration(
            t.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
        )
        processor = t.Qwen2_5_VLProcessor(image_processor, tokenizer, t.Qwen2VLVideoProcessor())
    processor.chat_template = QWEN_TEMPLATE
    return save(model, processor, folder)


def save_instructblip(folder: Path, *, language: str = "t5") -> Path:
    """Save an InstructBLIP over T5, an encoder-decoder, or over Llama."""
    from transformers import (
        BlipImageProcessor,
        InstructBlipConfig,
        InstructBlipForConditionalGeneration,
        InstructBlipProcessor,
    )

    tokenizer = t5_tokenizer() if language == "t5" else llama_tokenizer()
    questions = bert_tokenizer()
    processor = InstructBlipProcessor(
        BlipImageProcessor(size={"height": 28, "width": 28}), tokenizer, questions, num_query_tokens=3
    )
    t5 = {
        "model_type": "t5",
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    }
    config = InstructBlipConfig(
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        qformer_config={
            "vocab_size": len(questions),
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 128,
        },
        text_config=(t5 if language == "t5" else LLAMA) | {"vocab_size": len(processor.tokenizer)},
        num_query_tokens=3,
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
    )
    return save(InstructBlipForConditionalGeneration(config), processor, folder)


SAVED: dict[str, Callable[[Path], Path]] = {
    "llava": save_llava,
    "llava_next": save_llava_next,
    "llava_onevision": save_onevision,
    "qwen2_vl": save_qwen,
    "qwen2_5_vl": lambda folder: save_qwen(folder, version="2.5"),
    "instructblip-t5": save_instructblip,
    "instructblip-llama": lambda folder: save_instructblip(folder, language="llama"),
}
