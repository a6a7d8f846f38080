"""A checkpoint in CLIP-FlanT5's own format is scored as its authors' code does, an image and a reply at a time."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from caramel.errors import BackendError
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers.clip_flant5 import ClipFlanT5, ClipFlanT5Config, pad_to_square
from caramel.models.transformers.generative import QUESTION
from caramel.models.transformers.generative_inputs import PROMPTS
from caramel.models.transformers.vision_towers import CLIP_FLANT5, TOWERS

WORDS = [
    "Yes",
    "No",
    "a",
    "dog",
    "cat",
    "red",
    "Does",
    "this",
    "figure",
    "show",
    "Please",
    "answer",
    "yes",
    "or",
    "no",
    "USER",
    "ASSISTANT",
]
TOWER = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14, "projection_dim": 16,
}  # fmt: skip
T5 = {"d_model": 24, "d_kv": 6, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}
CAPTIONS = ["a dog", "a red cat", "a cat or a dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small checkpoint with the names of the released files: a named tower and a config without its shape."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("flan")
    vocabulary = {word: n for n, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = ClipFlanT5Config(**T5, vocab_size=len(vocabulary), vision_config=TOWER, decoder_start_token_id=0)
    torch.manual_seed(0)
    model = ClipFlanT5(config)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_file(
        state | {"embed_tokens.weight": state["shared.weight"].clone()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    written = {**config.to_dict(), "model_type": CLIP_FLANT5, "mm_vision_tower": "small/tower"}
    written.pop("vision_config")
    written |= {
        "mm_projector_type": "mlp2x_gelu",
        "mm_vision_select_layer": -2,
        "mm_vision_select_feature": "patch",
    }
    (folder / "config.json").write_text(json.dumps(written))
    return folder


@pytest.fixture(autouse=True)
def known_tower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOWERS, "small/tower", TOWER)  # type: ignore[arg-type]
    open_model.cache_clear()


def encode(seed: int, size: tuple[int, int]) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def score_alone(folder: Path, image: bytes, caption: str) -> float:
    """Compute log P(Yes) of one pair step by step, with T5's encoder and decoder called apart."""
    from transformers import AutoTokenizer, CLIPImageProcessorPil

    model = ClipFlanT5.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    opened = pad_to_square(Image.open(io.BytesIO(image)).convert("RGB"), processor.image_mean)
    pixels = processor(images=[opened], return_tensors="pt")["pixel_values"]
    tower = model.vision_tower.vision_tower.vision_model
    before, after = PROMPTS[CLIP_FLANT5].format(QUESTION.format(caption)).split("<image>")
    with torch.no_grad():
        patches = model.mm_projector(
            tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-2][0, 1:]
        )
        parts = [model.shared(torch.tensor(tokenizer(part).input_ids)) for part in (before, after)]
        hidden = model.encoder(inputs_embeds=torch.cat([parts[0], patches, parts[1]])[None]).last_hidden_state
        decoded = model.decoder(input_ids=torch.tensor([[0]]), encoder_hidden_states=hidden).last_hidden_state
        decoded = decoded * model.config.d_model**-0.5 if model.config.tie_word_embeddings else decoded
        logits = model.lm_head(decoded)[0, 0].double()
    return float(logits.log_softmax(0)[tokenizer.convert_tokens_to_ids("Yes")])


def test_scores_are_those_of_one_pair_at_a_time(folder: Path) -> None:
    model = open_model(f"vqascore:{folder}", "cpu", "fp32")
    images = [encode(0, (40, 28)), encode(1, (28, 50))]
    pairs = [(i, t) for i in range(2) for t in range(3)]
    image_of, text_of = (np.array(column) for column in zip(*pairs, strict=True))
    found = model.match_pairs(images, CAPTIONS, image_of, text_of, 4)  # type: ignore[union-attr]
    expected = [score_alone(folder, images[i], CAPTIONS[t]) for i, t in pairs]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len({round(score, 5) for score in found.tolist()}) == 6  # image and caption both matter


@pytest.mark.parametrize("family", ["vgptscore", "vgptscore_blind", "vgptscore_noise"])
def test_its_other_scores_are_finite(folder: Path, family: str) -> None:
    model = open_model(f"{family}:{folder}", "cpu", "fp32")
    found = model.match_pairs([encode(0, (30, 30))], CAPTIONS, np.zeros(3, int), np.arange(3), None)  # type: ignore[union-attr]
    assert np.isfinite(found).all()
    assert model.identity["family"] == family  # type: ignore[union-attr]


def test_an_unknown_tower_and_a_missing_part_are_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing_of(f"vqascore:{folder}") == []
    monkeypatch.delitem(TOWERS, "small/tower")  # type: ignore[attr-defined]
    (problem,) = missing_of(f"vqascore:{folder}")
    assert "'mm_vision_tower' is 'small/tower', whose shape is not known" in problem
    with pytest.raises(BackendError, match="Known: openai/clip-vit-large-patch14-336"):
        open_model(f"vqascore:{folder}", "cpu", "fp32")


def test_images_are_padded_to_a_square_in_the_mean_colour() -> None:
    square = pad_to_square(Image.new("RGB", (2, 4), "red"), [0.5, 0.25, 0.0])
    assert square.size == (4, 4)
    assert [square.getpixel((x, 0)) for x in range(4)] == [
        (127, 63, 0),
        (255, 0, 0),
        (255, 0, 0),
        (127, 63, 0),
    ]


# Names of the tensors, a layer each, as the authors' classes give them: T5 of transformers, and LLaVA's CLIPVisionTower,
# whose CLIPVisionModel held a vision_model. They are written out so that a newer transformers cannot rename them.
T5_NAMES = """
encoder.block.N.layer.0.SelfAttention.{q,k,v,o}.weight encoder.block.N.layer.0.layer_norm.weight
encoder.block.N.layer.0.SelfAttention.relative_attention_bias.weight encoder.block.N.layer.1.layer_norm.weight
encoder.block.N.layer.1.DenseReluDense.{wi_0,wi_1,wo}.weight encoder.final_layer_norm.weight
decoder.block.N.layer.0.SelfAttention.{q,k,v,o}.weight decoder.block.N.layer.0.layer_norm.weight
decoder.block.N.layer.0.SelfAttention.relative_attention_bias.weight decoder.block.N.layer.1.layer_norm.weight
decoder.block.N.layer.1.EncDecAttention.{q,k,v,o}.weight decoder.block.N.layer.2.layer_norm.weight
decoder.block.N.layer.2.DenseReluDense.{wi_0,wi_1,wo}.weight decoder.final_layer_norm.weight
shared.weight encoder.embed_tokens.weight decoder.embed_tokens.weight lm_head.weight
mm_projector.{0,2}.{weight,bias}
"""
TOWER_NAMES = """
embeddings.class_embedding embeddings.patch_embedding.weight embeddings.position_embedding.weight
pre_layrnorm.{weight,bias} post_layernorm.{weight,bias}
encoder.layers.N.self_attn.{q_proj,k_proj,v_proj,out_proj}.{weight,bias}
encoder.layers.N.layer_norm1.{weight,bias} encoder.layers.N.layer_norm2.{weight,bias}
encoder.layers.N.mlp.fc1.{weight,bias} encoder.layers.N.mlp.fc2.{weight,bias}
"""


def expand_names(text: str) -> set[str]:
    """Return the words of a text with their braces expanded, as a shell does."""
    names = text.split()
    while any("{" in name for name in names):
        names = [
            name.replace("{" + group + "}", part, 1)
            for name in names
            for group in [name.partition("{")[2].partition("}")[0]]
            for part in group.split(",")
        ]
    return set(names)


def test_the_tensors_have_the_names_of_the_released_files() -> None:
    settings = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "vocab_size": 20}
    config = ClipFlanT5Config(**settings, vision_config=TOWER, decoder_start_token_id=0)
    names = {
        re.sub(r"(block|layers)\.\d+\.", r"\1.N.", name)
        for name in ClipFlanT5(config).state_dict(keep_vars=True)
    }
    tower = {f"vision_tower.vision_tower.vision_model.{name}" for name in expand_names(TOWER_NAMES)}
    assert names == expand_names(T5_NAMES) | tower
