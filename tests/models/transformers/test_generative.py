"""Scores of generative models against a plain forward pass over one pair at a time."""

import functools
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_generative import SAVED, save_llava

from caramel.errors import BackendError, DataError
from caramel.interfaces.model import Matcher
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers.generative import draw_noise_images, list_generative_problems
from caramel.models.transformers.generative_inputs import PROMPTS, build_decoder_batch
from caramel.models.transformers.transformers_files import MODEL_TYPES

NAMES = tuple(SAVED)
TEXTS = ("a dog.", "two red cubes and one blue ball", "A man rides a horse along the beach, unseen before")
QUESTION = 'Does this figure show "{}"? Please answer yes or no.'
LLAVA = ("USER: <image>\n{} ASSISTANT:", "USER: <image>\nASSISTANT:", " ")
QWEN = (
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n",
    "",
)
# Prompt with a question, prompt without one, what stands between prompt and reply.
ASKED = {"llava": LLAVA, "qwen": QWEN, "instr": ("Question: {}", "", " ")}


def picture(width: int, height: int, seed: int) -> bytes:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


IMAGES = (picture(60, 40, 0), picture(33, 95, 1))
IMAGE_OF, TEXT_OF = np.repeat(np.arange(2), 3), np.tile(np.arange(3), 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("generative")
    return {name: save(base / name) for name, save in SAVED.items()}


def opened(family: str, folder: Path, precision: str = "fp32") -> Matcher:
    open_model.cache_clear()
    model = open_model(f"m={family}:{folder}", "cpu", precision)
    assert isinstance(model, Matcher)
    return model


def scores(model: Matcher, batch: int | None = None) -> np.ndarray:
    return model.match_pairs(IMAGES, TEXTS, IMAGE_OF, TEXT_OF, batch)


@functools.cache
def plain_parts(folder: Path) -> tuple[Any, Any]:
    """Return processor and model of a checkpoint as transformers loads them; the oracle only calls them."""
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(folder)
    processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return processor, AutoModelForImageTextToText.from_pretrained(folder).eval()


def oracle(name: str, folder: Path, family: str, image: bytes, text: str) -> float:
    """Return the score of one pair from its definition: no batch, no padding, all logits."""
    import torch

    processor, model = plain_parts(folder)
    with_question, without, space = ASKED[name[:5].replace("qwen2", "qwen")]
    if family == "vqascore":
        prompt = with_question.format(QUESTION.format(text))
        reply = "yes" if name.startswith("instructblip") else "Yes"
    else:
        prompt, reply = without, text
    tokenizer = processor.tokenizer
    data = {"images": Image.open(io.BytesIO(image)), "return_tensors": "pt"}
    asked = processor(text=[prompt], **data)
    if name == "instructblip-t5":
        tokens = tokenizer(reply).input_ids
        assert tokens[-1] == tokenizer.eos_token_id
        tokens = tokens[:-1] if family == "vqascore" else tokens
        inputs = {**asked, "decoder_input_ids": torch.tensor([[0, *tokens]])}
        first = 0
    else:
        whole = processor(text=[prompt + (space if prompt else "") + reply], **data)
        ids = whole["input_ids"][0].tolist() + ([] if family == "vqascore" else [tokenizer.eos_token_id])
        first = asked["input_ids"].shape[1] - 1
        assert ids[: first + 1] == asked["input_ids"][0].tolist()
        tokens = ids[first + 1 :]
        inputs = {**whole, **{k: v for k, v in asked.items() if k.startswith("qformer")}}
        inputs |= {
            "input_ids": torch.tensor([ids]),
            "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        }
        if "mm_token_type_ids" in whole:
            image_token = model.config.image_token_id
            inputs["mm_token_type_ids"] = (inputs["input_ids"] == image_token).long()
    with torch.inference_mode():
        logs = model(**inputs).logits[0].double().log_softmax(-1)
    each = [float(logs[first + i, token]) for i, token in enumerate(tokens)]
    return sum(each) if family == "vqascore" else sum(each) / len(each)


@pytest.mark.parametrize("family", ["vqascore", "vgptscore"])
@pytest.mark.parametrize("name", NAMES)
def test_scores_of_a_mixed_batch_are_those_of_plain_forward_passes(name, family, folders):
    found = scores(opened(family, folders[name]))
    pairs = zip(IMAGE_OF, TEXT_OF, strict=True)
    expected = [oracle(name, folders[name], family, IMAGES[i], TEXTS[t]) for i, t in pairs]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    # The image matters, and so does the text; differences are far above the tolerance.
    assert np.abs(found[:3] - found[3:]).max() > 1e-3
    assert np.ptp(found[:3]) > 1e-3


@pytest.mark.parametrize("family", ["vqascore", "vgptscore_blind"])
@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_a_batch_and_the_padding_side_change_nothing(name, family, folders):
    model = opened(family, folders[name])
    alone = scores(model, 1)
    for batch in (2, 5, None):
        np.testing.assert_allclose(scores(model, batch), alone, rtol=0, atol=1e-5)
    for side in ("left", "right"):
        model._processor.tokenizer.padding_side = side
        np.testing.assert_allclose(scores(model), alone, rtol=0, atol=1e-5)


def test_an_answer_of_several_tokens_has_the_product_of_their_probabilities(folders):
    # With the oracle above, which sums over all of them.
    tokenizer = opened("vqascore", folders["instructblip-t5"])._processor.tokenizer
    assert len(tokenizer("yes", add_special_tokens=False).input_ids) > 1


def test_a_token_across_the_end_of_the_prompt_is_scored_with_the_reply(folders):
    processor = opened("vqascore", folders["llava"])._processor
    processor.tokenizer.add_tokens(["ASSISTANT: Yes"])
    pictures = [Image.open(io.BytesIO(IMAGES[0])).convert("RGB")]
    batch = build_decoder_batch(processor, pictures, ["USER: <image> ASSISTANT:"], ["Yes"], end=False)
    whole = processor(images=pictures, text=["USER: <image> ASSISTANT: Yes"], return_tensors="pt")
    assert batch.inputs["input_ids"].tolist() == whole["input_ids"].tolist()
    scored = processor.tokenizer.convert_ids_to_tokens(batch.tokens.tolist())
    assert scored[-1] == "ASSISTANT: Yes"
    # Its logits are those of the position before it.
    assert batch.inputs["logits_to_keep"].tolist()[-1] == whole["input_ids"].shape[1] - 2
    assert batch.columns.tolist() == list(range(len(scored)))


@pytest.mark.parametrize("name", NAMES)
def test_the_blind_correction_subtracts_the_mean_likelihood_over_noise_images(name, folders):
    plain = opened("vgptscore", folders[name])
    size = getattr(plain._model.config.vision_config, "image_size", 336)
    noise = draw_noise_images(size)
    below = [plain.match_pairs([image], TEXTS, np.zeros(3, int), np.arange(3), None) for image in noise]
    prior = [math.log(sum(math.exp(each[t]) for each in below) / len(noise)) for t in range(3)]
    corrected = scores(opened("vgptscore_blind", folders[name]))
    np.testing.assert_allclose(corrected, scores(plain) - np.tile(prior, 2), rtol=0, atol=1e-5)
    alone = scores(opened("vgptscore_noise", folders[name]))
    np.testing.assert_allclose(alone, np.tile(prior, 2), rtol=0, atol=1e-5)


def test_a_text_without_image_has_one_score_whatever_it_is_scored_with(folders):
    # So that two images tie exactly, in whatever shard of the pairs they stand.
    model = opened("vgptscore_noise", folders["qwen2_vl"], "bf16")
    alone = [model.match_pairs(IMAGES, TEXTS, np.array([0]), np.array([t]), None)[0] for t in range(3)]
    assert scores(model).tolist() == alone * 2


def test_noise_is_gaussian_and_always_the_same():
    files = draw_noise_images(64)
    assert files == draw_noise_images(64)
    assert len(set(files)) == 3
    values = np.stack([np.asarray(Image.open(io.BytesIO(file)), float) / 255 for file in files])
    assert values.shape == (3, 64, 64, 3)
    assert values.mean() == pytest.approx(0.5, abs=0.01)
    assert values.std() == pytest.approx(0.25, abs=0.02)


def test_scores_tell_apart_what_a_model_is_almost_sure_of(folders):
    model = opened("vqascore", folders["llava"])
    yes = model._processor.tokenizer.convert_tokens_to_ids("▁Yes")

    def surer(layer, inputs, logits):
        logits[..., yes] += 30
        return logits

    hook = model._model.lm_head.register_forward_hook(surer)
    found = scores(model)
    hook.remove()
    assert ((found < 0) & (found > -1e-6)).all()
    assert len(set(found.tolist())) == len(found)


def test_a_checkpoint_without_a_chat_template_is_asked_as_its_authors_did(folders, tmp_path):
    bare = save_llava(tmp_path / "bare", template=False)
    assert not (bare / "chat_template.jinja").exists()
    # The vocabulary is learned anew; its own oracle applies.
    found = scores(opened("vqascore", bare))
    expected = [
        oracle("llava", bare, "vqascore", IMAGES[i], TEXTS[t]) for i, t in zip(IMAGE_OF, TEXT_OF, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_there_is_a_prompt_for_every_type_that_is_taken():
    assert set(PROMPTS) == set(MODEL_TYPES["vgptscore"])


def test_a_question_longer_than_the_q_former_reads_is_scored(folders):
    model = opened("vqascore", folders["instructblip-t5"])
    text = " ".join(["two red cubes"] * 60)
    assert np.isfinite(model.match_pairs(IMAGES[:1], [text], np.zeros(1, int), np.zeros(1, int), None)).all()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_scores_are_near_the_full_ones(name, folders):
    full, half = (scores(opened("vgptscore", folders[name], kind)) for kind in ("fp32", "bf16"))
    assert 0 < np.abs(full - half).max() < 0.3


def test_no_pairs_have_no_scores(folders):
    none = np.zeros(0, int)
    assert opened("vgptscore_blind", folders["llava"]).match_pairs([], [], none, none, None).shape == (0,)


def test_an_image_that_does_not_decode_is_named(folders):
    with pytest.raises(DataError, match="number 1"):
        opened("vqascore", folders["llava"]).match_pairs(
            [IMAGES[0], b"no image"], TEXTS, np.array([0, 1]), np.array([0, 0]), None
        )


def test_the_identity_names_weights_rule_and_noise_and_no_path(folders):
    families = ("vqascore", "vgptscore", "vgptscore_blind", "vgptscore_noise")
    texts = [json.dumps(opened(family, folders["llava"]).identity, sort_keys=True) for family in families]
    assert len(set(texts)) == len(families)
    assert texts[0] == json.dumps(opened("vqascore", folders["llava"]).identity, sort_keys=True)
    assert str(folders["llava"]) not in texts[0]
    assert "Does this figure show" in texts[0]
    other = json.dumps(opened("vqascore", folders["llava_next"]).identity, sort_keys=True)
    assert other != texts[0]


def test_a_model_of_another_kind_is_sent_to_its_family(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))
    with pytest.raises(BackendError, match=r"'clip'.*dual:"):
        opened("vqascore", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(BackendError, match=r"'bert'.*llava.*qwen2_vl"):
        opened("vgptscore", tmp_path)


def test_a_checkpoint_of_an_old_format_is_refused(tmp_path):
    folder = save_llava(tmp_path / "old")
    path = folder / "processor_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "patch_size"}))
    with pytest.raises(BackendError, match=r"old transformers.*patch_size"):
        opened("vqascore", folder)


@pytest.mark.parametrize(("names", "what"), [("*processor*", "image processor"), ("tokenizer*", "tokenizer")])
def test_a_part_of_the_processor_that_is_missing_is_named(names, what, tmp_path):
    folder = save_llava(tmp_path / "part")
    for path in folder.glob(names):
        path.unlink()
    with pytest.raises(BackendError, match=f"has no {what}"):
        opened("vqascore", folder)


def test_what_is_missing_is_said_without_loading_the_model(folders, tmp_path):
    assert missing_of(f"vqascore:{folders['llava']}") == []
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava"}))
    assert any("weights" in line for line in list_generative_problems("vqascore", str(tmp_path)))
    assert list_generative_problems("vqascore", str(tmp_path / "nowhere"))
