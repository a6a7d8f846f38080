"""Tiny, untrained open_clip models of the classes and towers that there are, and files in their real formats."""

import json
import shutil
from pathlib import Path
from typing import Any

TEXTS = [
    "A red car.",
    "There is a small blue house to the left of a green tree, and a dog is asleep in front of it.",
    "A cup!% of tea",  # its fourth token has the id 0, which is also that of padding
    "Two cats",
]
VISION = {"image_size": 48, "layers": 1, "width": 32, "head_width": 16, "patch_size": 24}
TEXT = {"context_length": 40, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
CUSTOM = {"embed_dim": 32, "quick_gelu": False, "custom_text": True, "vision_cfg": VISION}

CONFIGS: dict[str, dict[str, Any]] = {
    "clip": {"embed_dim": 32, "quick_gelu": True, "vision_cfg": VISION, "text_cfg": TEXT},
    "resnet": {
        "embed_dim": 32,
        "quick_gelu": True,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": TEXT,
    },
    "custom": {**CUSTOM, "text_cfg": TEXT},
    "custom blocks": {**CUSTOM, "text_cfg": {**TEXT, "qk_norm": True, "scale_fc": True}},
    # MetaCLIP 2: pooled at the end token by its id, which is not the highest one.
    "eos": {**CUSTOM, "custom_text": False, "text_cfg": {**TEXT, "pool_type": "eos", "eos_id": 3}},
    "coca": {
        "embed_dim": 32,
        "quick_gelu": False,
        "custom_text": True,
        "vision_cfg": {
            **VISION,
            "attentional_pool": True,
            "attn_pooler_heads": 2,
            "attn_pooler_queries": 4,
            "output_tokens": True,
        },
        "text_cfg": {**TEXT, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {
            "context_length": 40,
            "vocab_size": 49408,
            "width": 32,
            "heads": 2,
            "layers": 1,
            "attn_pooler_heads": 2,
        },
    },
    # SigLIP: a tower of timm, and a text tower that looks both ways and is pooled at the last column.
    "siglip": {
        **CUSTOM,
        "init_logit_bias": -10,
        "vision_cfg": {
            "image_size": 48,
            "timm_model_name": "test_vit",
            "timm_model_pretrained": True,  # never fetched: the weights are in the checkpoint
            "timm_pool": "avg",
            "timm_proj": "linear",
        },
        "text_cfg": {
            **TEXT,
            "no_causal_mask": True,
            "proj_bias": True,
            "pool_type": "last",
            "norm_kwargs": {"eps": 1e-6},
        },
    },
    # MobileCLIP: looks both ways, pooled at the end token.
    "both ways": {**CUSTOM, "text_cfg": {**TEXT, "no_causal_mask": True}},
}


def build(kind: str, **changes: Any) -> Any:
    """Return the model of a kind; equal weights at each call."""
    return build_config({**CONFIGS[kind], **changes})


def build_config(model_cfg: dict[str, Any]) -> Any:
    import torch

    from caramel.models.open_clip.checkpoints import build_model

    torch.manual_seed(0)
    model = build_model({"model_cfg": model_cfg}, "test").eval()
    with torch.no_grad():
        for weight in model.parameters():  # far from the initial values, where all texts look alike
            weight.add_(torch.randn_like(weight) * 0.05)
    return model


def roberta_config(folder: Path) -> dict[str, Any]:
    """Return the config of a CLIP with a text tower and a tokenizer of transformers, both in the folder."""
    from transformers import RobertaConfig

    RobertaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        pad_token_id=1,
    ).save_pretrained(folder / "tower")
    write_tokenizer(folder / "words")
    text = {
        "hf_model_name": str(folder / "tower"),
        "hf_tokenizer_name": str(folder / "words"),
        "hf_pooler_type": "mean_pooler",
        "context_length": 20,
    }
    return {"embed_dim": 32, "quick_gelu": True, "vision_cfg": VISION, "text_cfg": text}


def write_tokenizer(folder: Path) -> Path:
    """Write a tokenizer of words whose padding has id 1 and whose end token has id 2."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return folder


def write_hub(cache: Path, repo: str, files: dict[str, Path]) -> None:
    """Write a repository as the hub's cache has it."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    for name, path in files.items():
        shutil.copy(path, snapshot / name)


def write_json(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path
