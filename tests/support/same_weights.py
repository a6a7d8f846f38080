"""One CLIP in two formats: a folder of open_clip, and a folder of transformers with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONTEXT = 77
PIXELS = 32
MODEL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": PIXELS, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": CONTEXT, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
# Texts of which no two libraries think alike.
ODD_TEXTS = [
    "a dog",
    "A Red CAR on the street.",
    "a dog’s bowl and a “stop” sign",
    "ﬁve ﬂuﬀy ducks",
    "Ｆｕｌｌ ｗｉｄｔｈ！",
    "cafe\u0301 au lait",
    "café au lait",
    "cafÃ© au lait",
    "salt &amp; pepper &lt;b&gt; &amp;amp;",
    "a  dog \t runs\n\non\u00a0grass ",
    "🐶 and 👨‍👩‍👧",
    "ΟΔΟΣ ΣΑΣ, İstanbul, ß",
    "one — two … three – four",
    "golden_retriever",
    "½ of 3 ² ①",
    "犬が走る",
    "don't, we’ve, I'LL",
    "\u200bzero width",
    "!!!",
    "",
    "   ",
    "a dog and a cat " * 40,
    "x " * 75,
    "x " * 76,
]


def random_open_clip(quick_gelu: bool) -> Any:
    """Return an open_clip model with weights that tell texts and images apart."""
    import torch
    from open_clip.model import CLIP

    torch.manual_seed(0)
    model = CLIP(**MODEL, quick_gelu=quick_gelu).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
    return model


def save_open_clip(folder: Path, model: Any, quick_gelu: bool) -> Path:
    """Write the model as open_clip's users do, with its weights and its config alone."""
    from caramel.models.open_clip.checkpoints import save_checkpoint

    config = {"model_cfg": {**MODEL, "quick_gelu": quick_gelu}}
    return save_checkpoint(folder, model, config=config, vocabulary=None, card={"name": "same"})


def save_transformers(folder: Path, model: Any, quick_gelu: bool, **text_config: Any) -> Path:
    """Write the same weights as transformers' users do: ``CLIPModel``, ``CLIPTokenizer``, ``CLIPImageProcessor``."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    shared = {"hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
    shared |= {"hidden_act": "quick_gelu" if quick_gelu else "gelu", "projection_dim": 16}
    text = {**shared, "vocab_size": 49408, "max_position_embeddings": CONTEXT, **text_config}
    vision = {**shared, "image_size": PIXELS, "patch_size": 8}
    other = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    other.load_state_dict(renamed_weights(model.state_dict()))
    other.save_pretrained(folder)
    openai_tokenizer().save_pretrained(folder)
    size = {"height": PIXELS, "width": PIXELS}
    CLIPImageProcessor(size={"shortest_edge": PIXELS}, crop_size=size).save_pretrained(folder)
    return folder


def openai_tokenizer() -> Any:
    """Return transformers' tokenizer over OpenAI's vocabulary, which open_clip brings along."""
    from open_clip.tokenizer import SimpleTokenizer
    from transformers import CLIPTokenizer

    simple = SimpleTokenizer()
    ends = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {ends.get(piece, piece): number for piece, number in simple.encoder.items()}
    return CLIPTokenizer(vocab=vocabulary, merges=list(simple.bpe_ranks), model_max_length=CONTEXT)


def renamed_weights(state: dict[str, Any]) -> dict[str, Any]:
    """Return the weights of an open_clip CLIP by transformers' names."""
    plain = {
        "logit_scale": "logit_scale",
        "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
        "positional_embedding": "text_model.embeddings.position_embedding.weight",
        "visual.class_embedding": "vision_model.embeddings.class_embedding",
        "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
        "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    }
    found = {new: state[old] for old, new in plain.items()}
    found["text_projection.weight"] = state["text_projection"].T.contiguous()
    found["visual_projection.weight"] = state["visual.proj"].T.contiguous()
    norms = {"ln_final": "text_model.final_layer_norm", "visual.ln_pre": "vision_model.pre_layrnorm"}
    norms["visual.ln_post"] = "vision_model.post_layernorm"
    for old, new in (("transformer", "text_model"), ("visual.transformer", "vision_model")):
        block, layer = f"{old}.resblocks.0", f"{new}.encoder.layers.0"
        parts = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
        parts["attn.out_proj"] = "self_attn.out_proj"
        norms |= {f"{block}.{a}": f"{layer}.{b}" for a, b in parts.items()}
        for kind in ("weight", "bias"):
            thirds = state[f"{block}.attn.in_proj_{kind}"].chunk(3)
            for name, value in zip("qkv", thirds, strict=True):
                found[f"{layer}.self_attn.{name}_proj.{kind}"] = value.contiguous()
    for old, new in norms.items():
        found |= {f"{new}.{kind}": state[f"{old}.{kind}"] for kind in ("weight", "bias")}
    return found
