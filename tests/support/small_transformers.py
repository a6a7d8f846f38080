"""Small checkpoints of transformers with random weights, saved in their real format.

Each function writes model, tokenizer and image processor into a folder and returns it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

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
    "of",
    "in",
    "man",
]
CAPTIONS = [
    "a dog",
    "the red car",
    "two men",
    "a cat sits on the big red car",
    "a man holds a small ball in the car and the dog runs under two cat",
    "the blue car and a red dog on the ball",
]
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    # Large, so that what a tower should not see would be seen in its vectors.
    "initializer_range": 0.5,
    "initializer_factor": 20.0,
}
VISION = {**TEXT, "image_size": 32, "patch_size": 8}


def picture(seed: int, size: tuple[int, int] = (40, 32)) -> bytes:
    """Return a PNG of noise, of so many columns and rows."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def bert_tokenizer(*further: str, **settings: Any) -> Any:
    from transformers import BertTokenizer

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS,
        *further,
        ".",
        *"abcdefghijklmnopqrstuvwxyz",
    ]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return BertTokenizer(vocab=vocabulary, **settings)


def clip_tokenizer() -> Any:
    from transformers import CLIPTokenizer

    letters = sorted(set("".join(WORDS)) | set(".,"))
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], model_max_length=77)


def unigram_tokenizer() -> Any:
    from transformers import XLMRobertaTokenizer

    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS), "<mask>"]
    return XLMRobertaTokenizer(vocab=[(piece, -1.0) for piece in pieces], model_max_length=77)


def sentencepiece_tokenizer(folder: Path) -> Any:
    """Return SigLIP's own kind of tokenizer, over a SentencePiece model learnt from the captions."""
    import sentencepiece
    from transformers import SiglipTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CAPTIONS * 20),
        model_prefix=str(folder / "learnt"),
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    return SiglipTokenizer(str(folder / "learnt.model"))


def gemma_tokenizer() -> Any:
    """Return SigLIP 2's own kind of tokenizer, over single letters."""
    from transformers import Siglip2Tokenizer

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *"abcdefghijklmnopqrstuvwxyz."]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return Siglip2Tokenizer(vocab=vocabulary, merges=[], padding_side="right", model_max_length=64)


def saved(folder: Path, model: Any, *parts: Any) -> Path:
    """Write model, tokenizer and image processor into the folder."""
    for part in (model.eval(), *parts):
        part.save_pretrained(folder)
    return folder


def _random() -> None:
    import torch

    torch.manual_seed(0)


def clip_folder(folder: Path) -> Path:
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    tokenizer = clip_tokenizer()
    _random()
    ends = {"eos_token_id": 2, "bos_token_id": 0}  # wrong, as in the published checkpoints
    text = {**TEXT, **ends, "vocab_size": len(tokenizer), "max_position_embeddings": 77}
    config = CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=20.0)
    side = {"shortest_edge": 32}
    processor = CLIPImageProcessor(size=side, crop_size={"height": 32, "width": 32})
    return saved(folder, CLIPModel(config), tokenizer, processor)


def siglip_folder(folder: Path) -> Path:
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    tokenizer = sentencepiece_tokenizer(folder)
    _random()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 64, "projection_size": 32}
    config = SiglipConfig(text_config=text, vision_config=VISION)
    processor = SiglipImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, SiglipModel(config), tokenizer, processor)


def siglip2_folder(folder: Path) -> Path:
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model

    tokenizer = gemma_tokenizer()
    _random()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 64, "projection_size": 32}
    vision = {**TEXT, "num_patches": 16, "patch_size": 8}
    config = Siglip2Config(text_config=text, vision_config=vision)
    processor = Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    return saved(folder, Siglip2Model(config), tokenizer, processor)


def siglip2_square_folder(folder: Path) -> Path:
    """Write a SigLIP 2 of one resolution: its model is SigLIP's, its tokenizer is Gemma's and knows capitals."""
    from transformers import GemmaTokenizer, SiglipConfig, SiglipImageProcessor, SiglipModel

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *"abcdefghijklmnopqrstuvwxyz.AD"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = GemmaTokenizer(vocab=vocabulary, merges=[], padding_side="right", model_max_length=64)
    _random()
    ends = {"bos_token_id": 2, "eos_token_id": 1}
    text = {**TEXT, **ends, "vocab_size": len(tokenizer), "max_position_embeddings": 64}
    config = SiglipConfig(text_config={**text, "projection_size": 32}, vision_config=VISION)
    processor = SiglipImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, SiglipModel(config), tokenizer, processor)


def align_folder(folder: Path) -> Path:
    from transformers import AlignConfig, AlignModel, EfficientNetImageProcessor

    tokenizer = bert_tokenizer()
    _random()
    vision = {
        "image_size": 32,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "kernel_sizes": [3],
        "in_channels": [32],
        "out_channels": [16],
        "strides": [1],
        "num_block_repeats": [1],
        "expand_ratios": [1],
        "hidden_dim": 16,
    }
    config = AlignConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer)}, vision_config=vision, projection_dim=16
    )
    processor = EfficientNetImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, AlignModel(config), tokenizer, processor)


def altclip_folder(folder: Path) -> Path:
    from transformers import AltCLIPConfig, AltCLIPModel, CLIPImageProcessor

    tokenizer = unigram_tokenizer()
    _random()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 90, "project_dim": 32}
    config = AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return saved(folder, AltCLIPModel(config), tokenizer, processor)


def flava_folder(folder: Path) -> Path:
    """Write FLAVA as it is published: the model of its pre-training."""
    from transformers import FlavaConfig, FlavaForPreTraining, FlavaImageProcessor

    tokenizer = bert_tokenizer()
    _random()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 80}
    config = FlavaConfig(
        text_config=text,
        image_config=VISION,
        multimodal_config=TEXT,
        image_codebook_config={
            "num_groups": 2,
            "num_blocks_per_group": 1,
            "hidden_size": 8,
            "vocab_size": 16,
        },
        hidden_size=32,
        projection_dim=16,
    )
    processor = FlavaImageProcessor(size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32})
    return saved(folder, FlavaForPreTraining(config), tokenizer, processor)


DUAL = {
    "clip": clip_folder,
    "siglip": siglip_folder,
    "siglip2": siglip2_folder,
    "align": align_folder,
    "altclip": altclip_folder,
    "flava": flava_folder,
}


def blip_folder(folder: Path, head: str = "BlipForImageTextRetrieval", words: str = "") -> Path:
    """Write BLIP with its two further tokens, [DEC] and [ENC], which its tokenizer does not list.

    Args:
        folder: where to.
        head: class of transformers.
        words: further words of its tokenizer.
    """
    import transformers
    from transformers import BlipConfig, BlipImageProcessor

    tokenizer = bert_tokenizer(*words.split())
    _random()
    text = {**TEXT, "vocab_size": len(tokenizer) + 2, "bos_token_id": len(tokenizer), "pad_token_id": 0}
    text |= {"max_position_embeddings": 48, "encoder_hidden_size": 32, "sep_token_id": 3}
    config = BlipConfig(text_config=text, vision_config=VISION, image_text_hidden_size=16)
    processor = BlipImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, getattr(transformers, head)(config), tokenizer, processor)


def blip2_folder(folder: Path) -> Path:
    import torch
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessor

    tokenizer = bert_tokenizer()
    _random()
    qformer = {**TEXT, "vocab_size": len(tokenizer), "encoder_hidden_size": 32, "max_position_embeddings": 48}
    config = Blip2Config(
        vision_config=VISION,
        qformer_config={**qformer, "use_qformer_text_input": True, "cross_attention_frequency": 1},
        text_config={"model_type": "opt", "vocab_size": 10, "hidden_size": 32, "num_hidden_layers": 1},
        num_query_tokens=4,
        image_text_hidden_size=16,
    )
    model = Blip2ForImageTextRetrieval(config)
    torch.nn.init.normal_(model.query_tokens)
    processor = BlipImageProcessor(size={"height": 32, "width": 32})
    return saved(folder, model, tokenizer, processor)


def vilt_folder(folder: Path, head: str = "ViltForImageAndTextRetrieval") -> Path:
    """Write ViLT, whose images keep their own sizes, with a head of this class."""
    import torch
    import transformers
    from transformers import ViltConfig, ViltImageProcessor

    tokenizer = bert_tokenizer()
    _random()
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 40}
    config = ViltConfig(**{**VISION, **sizes}, max_image_length=-1)
    model = getattr(transformers, head)(config)
    torch.nn.init.normal_(model.vilt.embeddings.position_embeddings)
    torch.nn.init.normal_(model.vilt.embeddings.cls_token)
    processor = ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    return saved(folder, model, tokenizer, processor)


ITM = {"blip": blip_folder, "blip-2": blip2_folder, "vilt": vilt_folder}


def bert_folder(folder: Path, **settings: Any) -> Path:
    """Write a BERT encoder alone, without an image processor."""
    from transformers import BertConfig, BertModel

    tokenizer = bert_tokenizer(**settings)
    _random()
    config = BertConfig(**TEXT, vocab_size=len(tokenizer), max_position_embeddings=64)
    return saved(folder, BertModel(config), tokenizer)
