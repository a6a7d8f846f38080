"""Text encoders: folders of sentence-transformers are read as they say, others are pooled by their mean."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_transformers import CAPTIONS, TEXT, bert_folder, bert_tokenizer, clip_folder, saved

from caramel.errors import BackendError
from caramel.interfaces.model import DualEncoder, TextEncoder
from caramel.models.specs import missing_of, open_model
from caramel.models.transformers.sentence_modules import POOLINGS
from caramel.models.transformers.text_encoders import (
    SentenceEncoder,
    list_text_encoder_problems,
    load_text,
    parse_target,
)

TRANSFORMER, POOLING, DENSE, NORMALIZE = (
    f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", "Dense", "Normalize")
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("text") / "bert")


def load(target: Path | str, precision: str = "fp32") -> SentenceEncoder:
    """Load a folder; one of transformers alone with the mean, where no pooling is asked for."""
    place, query, settings = str(target).partition("?")
    if Path(place, "config.json").is_file() and not Path(place, "modules.json").is_file():
        settings = settings if "pooling" in settings else "&".join(filter(None, [settings, "pooling=mean"]))
        query = "?"
    return load_text(place + query + settings, device="cpu", precision=precision, name="it")


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def sentence_folder(
    bert: Path, folder: Path, pooling: dict[str, Any], *further: str, inner: str = ""
) -> Path:
    """Write a folder as sentence-transformers does: the model itself, or in the folder ``inner``."""
    shutil.copytree(bert, folder / inner, dirs_exist_ok=True)
    paths = [(TRANSFORMER, inner), (POOLING, "1_Pooling")]
    paths += [(kind, f"{i}_{kind.rpartition('.')[2]}") for i, kind in enumerate(further, 2)]
    modules = [{"idx": i, "name": str(i), "path": p, "type": kind} for i, (kind, p) in enumerate(paths)]
    write(folder / "modules.json", modules)
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension": 32, **pooling})
    write(folder / inner / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": False})
    return folder


def dense(
    folder: Path, outputs: int, activation: str | None, *, inputs: int = 32, **further: Any
) -> np.ndarray:
    """Write a Dense module and return its matrix (outputs, inputs)."""
    from safetensors.torch import save_file
    from torch import randn

    weight = randn(outputs, inputs)
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": False,
        "activation_function": activation,
    }
    write(folder / "config.json", config | further)
    save_file({"linear.weight": weight}, folder / "model.safetensors")
    return weight.numpy()


def hidden(folder: Path, text: str) -> np.ndarray:
    """Return the vectors of one text's tokens, (tokens, 32), without any padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=12)
    with torch.no_grad():
        return AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state[0].numpy()


def by_hand(rows: np.ndarray, pooling: str) -> np.ndarray:
    n = len(rows)
    return {
        "cls": lambda: rows[0],
        "lasttoken": lambda: rows[n - 1],
        "max": lambda: rows.max(0),
        "mean": lambda: sum(rows) / n,
        "mean_sqrt_len_tokens": lambda: sum(rows) / n**0.5,
        "weightedmean": lambda: sum((i + 1) * rows[i] for i in range(n)) / (n * (n + 1) / 2),
    }[pooling]()


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling_is_what_it_says_for_texts_of_any_length_in_a_batch(
    pooling: str, bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {"pooling_mode": pooling}, NORMALIZE)
    vectors = load(folder).encode_texts(CAPTIONS, None)
    assert vectors.dtype == np.float32
    expected = [unit(by_hand(hidden(bert, text), pooling)) for text in CAPTIONS]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(
        load(f"{bert}?pooling={pooling}").encode_texts(CAPTIONS[:3], 2), vectors[:3], atol=1e-5
    )


@pytest.mark.parametrize(
    ("config", "poolings"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, ["mean"]),
        ({"pooling_mode_lasttoken": True, "pooling_mode_max_tokens": True}, ["max", "lasttoken"]),
        ({"pooling_mode_weightedmean_tokens": True}, ["weightedmean"]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ["mean_sqrt_len_tokens"]),
        ({}, ["mean"]),
        ({"pooling_mode": ["cls", "mean"]}, ["cls", "mean"]),
        # Alone it is the mean's direction; beside another its length shows.
        ({"pooling_mode": ["cls", "mean_sqrt_len_tokens"]}, ["cls", "mean_sqrt_len_tokens"]),
    ],
)
def test_older_and_joined_poolings_are_understood(
    config: dict[str, Any], poolings: list[str], bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", config)
    rows = hidden(bert, CAPTIONS[3])
    expected = unit(np.concatenate([by_hand(rows, name) for name in poolings]))
    np.testing.assert_allclose(load(folder).encode_texts(CAPTIONS, None)[3], expected, atol=1e-5)


@pytest.mark.parametrize("further", [(), (NORMALIZE,), (DENSE, NORMALIZE), (NORMALIZE, DENSE)])
@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        {"pooling_mode": ["lasttoken", "mean"]},
        {"pooling_mode": "weightedmean", "include_prompt": False},
        {"pooling_mode": ["max", "mean_sqrt_len_tokens"], "include_prompt": False},
    ],
)
def test_a_sound_folder_gives_what_sentence_transformers_itself_gives(
    pooling: dict[str, Any], further: tuple[str, ...], bert: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = sentence_folder(bert, tmp_path / "st", pooling, *further)
    width = 64 if isinstance(pooling.get("pooling_mode"), list) else 32
    if DENSE in further:
        place = folder / f"{2 + further.index(DENSE)}_Dense"
        dense(place, 8, "torch.nn.modules.activation.Tanh", inputs=width)
    prompts = {"prompts": {"query": "two "}, "default_prompt_name": "query"}
    write(folder / "config_sentence_transformers.json", prompts)
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    expected = theirs.encode(CAPTIONS, normalize_embeddings=True)
    np.testing.assert_allclose(load(folder).encode_texts(CAPTIONS, None), expected, atol=1e-5)


def test_a_folder_without_modules_is_refused_until_its_pooling_is_stated(bert: Path, tmp_path: Path) -> None:
    message = rf"{bert.name}' has no modules\.json.*{bert.name}\?pooling=mean"
    with pytest.raises(BackendError, match=message):
        load_text(str(bert), device="cpu", precision="fp32", name="it")
    (line,) = list_text_encoder_problems(str(bert))
    assert re.search(message, line)
    assert list_text_encoder_problems(f"{bert}?pooling=cls") == []
    vectors = load(f"{bert}?pooling=mean").encode_texts(CAPTIONS, None)
    np.testing.assert_allclose(vectors[0], unit(hidden(bert, CAPTIONS[0]).mean(0)), atol=1e-5)
    named = shutil.copytree(bert, tmp_path / "e5-small-v2")  # its authors take the mean
    found = load_text(f"{named}?prefix=", device="cpu", precision="fp32", name="it").encode_texts(
        CAPTIONS, None
    )
    np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_dense_and_normalize_come_in_the_order_of_the_folder(bert: Path, tmp_path: Path) -> None:
    first = sentence_folder(
        bert, tmp_path / "first", {"pooling_mode": "mean"}, NORMALIZE, DENSE, inner="0_BERT"
    )
    weight = dense(first / "3_Dense", 8, "torch.nn.modules.activation.Tanh")
    mean = hidden(bert, CAPTIONS[2]).mean(0)
    (vector,) = load(first).encode_texts(CAPTIONS[2:3], None)
    np.testing.assert_allclose(vector, unit(np.tanh(weight @ unit(mean))), atol=1e-5)
    last = sentence_folder(bert, tmp_path / "last", {"pooling_mode": "mean"}, DENSE, NORMALIZE)
    weight = dense(last / "2_Dense", 8, "torch.nn.modules.linear.Identity")
    (vector,) = load(last).encode_texts(CAPTIONS[2:3], None)
    np.testing.assert_allclose(vector, unit(weight @ mean), atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "further", "message"),
    [
        ("os.system", {}, "this one: 'os.system'"),
        ("elsewhere.Tanh", {}, "this one: 'elsewhere.Tanh'"),
        ("torch.nn.modules.activation.Hardtanh", {}, "this one: .*Hardtanh"),
        (None, {}, "this one: None"),
        ("torch.nn.modules.linear.Identity", {"use_residual": True}, "residual"),
        ("torch.nn.modules.linear.Identity", {"module_input_name": "token_embeddings"}, "pooled vector"),
        ("torch.nn.modules.linear.Identity", {"module_output_name": ["other"]}, "pooled vector"),
        ("torch.nn.modules.linear.Identity", {"out_features": 9}, "do not match"),
    ],
)
def test_a_dense_module_of_another_kind_is_refused(
    activation: str | None, further: dict[str, Any], message: str, bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {}, DENSE)
    dense(folder / "2_Dense", 8, activation, **further)
    with pytest.raises(BackendError, match=message):
        load(folder)


@pytest.mark.parametrize("kinds", [["CLIPModel"], ["Transformer", "Pooling", "LSTM"], ["Transformer"]])
def test_modules_that_are_not_known_are_named(kinds: list[str], bert: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {})
    write(folder / "modules.json", [{"type": f"sentence_transformers.models.{k}", "path": ""} for k in kinds])
    with pytest.raises(BackendError, match=", ".join(kinds)):
        load(folder)


@pytest.mark.parametrize(
    "kind", ["brought_along.Pooling", "os.system", "sentence_transformers_not.models.Pooling"]
)
def test_a_module_that_a_folder_brings_along_is_refused_and_not_imported(
    kind: str, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {})
    (folder / "brought_along.py").write_text("import pathlib\npathlib.Path('imported').touch()\n")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = kind
    write(folder / "modules.json", modules)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(BackendError, match=f"consists of Transformer, {kind}"):
        load(folder)
    assert len(list_text_encoder_problems(str(folder))) == 1
    assert not Path("imported").exists()


@pytest.mark.parametrize("prefix", ["models", "base.modules.dense", "sentence_transformer.modules"])
def test_modules_are_known_by_the_name_that_any_version_gives_them(
    prefix: str, bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {}, f"sentence_transformers.{prefix}.Dense")
    weight = dense(folder / "2_Dense", 8, "torch.nn.Tanh")
    (vector,) = load(folder).encode_texts(CAPTIONS[2:3], None)
    np.testing.assert_allclose(vector, unit(np.tanh(weight @ hidden(bert, CAPTIONS[2]).mean(0))), atol=1e-5)


def test_pickled_weights_of_a_dense_module_are_read_as_long_as_they_are_tensors(
    bert: Path, tmp_path: Path
) -> None:
    import torch

    folder = sentence_folder(bert, tmp_path / "st", {}, DENSE)
    weight = torch.from_numpy(dense(folder / "2_Dense", 8, "torch.nn.modules.activation.Tanh"))
    expected = load(folder).encode_texts(CAPTIONS, None)
    (folder / "2_Dense/model.safetensors").unlink()
    torch.save({"linear.weight": weight}, folder / "2_Dense/pytorch_model.bin")
    np.testing.assert_array_equal(load(folder).encode_texts(CAPTIONS, None), expected)
    torch.save({"linear.weight": weight, "code": Path("code")}, folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(BackendError, match="which is code and not weights"):
        load(folder)
    (folder / "2_Dense/pytorch_model.bin").unlink()
    with pytest.raises(BackendError, match=r"2_Dense"):
        load(folder)


def test_a_repository_in_the_cache_is_read_offline_though_not_all_of_it_was_fetched(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    folder = sentence_folder(bert, tmp_path / "st", {"pooling_mode": "mean"}, DENSE, NORMALIZE)
    dense(folder / "2_Dense", 8, "torch.nn.modules.activation.Tanh")
    write(folder / "config_sentence_transformers.json", {})
    expected = load(folder).encode_texts(CAPTIONS, None)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "cache/models--owner--repo"
    shutil.copytree(folder, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("0" * 40)
    np.testing.assert_array_equal(load("owner/repo").encode_texts(CAPTIONS, None), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["complex", "sparse", "meta"])
def test_weights_of_a_dense_module_are_dense_and_real(kind: str, bert: Path, tmp_path: Path) -> None:
    import torch

    folder = sentence_folder(bert, tmp_path / "st", {}, DENSE)
    weight = torch.from_numpy(dense(folder / "2_Dense", 8, "torch.nn.modules.activation.Tanh"))
    (folder / "2_Dense/model.safetensors").unlink()
    made = {"complex": weight + 1j, "sparse": weight.to_sparse(), "meta": weight.to("meta")}
    torch.save({"linear.weight": made[kind]}, folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(BackendError, match=r"2_Dense"):
        load(folder)


def test_texts_are_cut_at_the_folders_own_length(bert: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {"pooling_mode": "mean"})
    long = "the dog sits on the red car and the cat runs under a ball"
    vectors = load(folder).encode_texts([long, " ".join(long.split()[:10])], None)
    np.testing.assert_array_equal(vectors[0], vectors[1])  # 12 tokens, two of which are special
    longer = load(bert).encode_texts([long, " ".join(long.split()[:10])], None)
    assert np.abs(longer[0] - longer[1]).max() > 0.01


def test_lower_casing_is_done_where_the_folder_asks_for_it(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "cased", do_lower_case=False)
    cased = load(folder).encode_texts(["A dog", "a dog"], None)
    assert np.abs(cased[0] - cased[1]).max() > 0.01
    folder = sentence_folder(folder, tmp_path / "st", {})
    write(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": True})
    lower = load(folder).encode_texts(["A dog", "a dog"], None)
    assert lower[0].tobytes() == lower[1].tobytes() == cased[1].tobytes()


def test_a_prefix_stands_before_every_text(bert: Path) -> None:
    vectors = load(f"{bert}?prefix=two cat: ").encode_texts(CAPTIONS, None)
    expected = load(bert).encode_texts([f"two cat: {text}" for text in CAPTIONS], None)
    np.testing.assert_array_equal(vectors, expected)
    assert np.abs(vectors - load(bert).encode_texts(CAPTIONS, None)).max() > 0.01


def test_a_template_puts_words_before_and_after_every_text(bert: Path) -> None:
    vectors = load(f"{bert}?template=two {{text}} cat&pooling=mean").encode_texts(CAPTIONS, None)
    written_out = load(f"{bert}?pooling=mean").encode_texts([f"two {text} cat" for text in CAPTIONS], None)
    np.testing.assert_array_equal(vectors, written_out)
    plain, other = (
        load(f"{bert}?pooling=mean").identity,
        load(f"{bert}?template={{text}} a&pooling=mean").identity,
    )
    assert plain != other


def test_the_default_prompt_of_a_folder_is_its_prefix(bert: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {})
    config = {"prompts": {"query": "the red ", "other": "a "}, "default_prompt_name": None}
    write(folder / "config_sentence_transformers.json", config)
    plain = load(bert).encode_texts(["the red dog", "dog"], None)
    np.testing.assert_allclose(load(folder).encode_texts(["dog"], None)[0], plain[1], atol=1e-6)
    write(folder / "config_sentence_transformers.json", config | {"default_prompt_name": "query"})
    np.testing.assert_allclose(load(folder).encode_texts(["dog"], None)[0], plain[0], atol=1e-6)
    np.testing.assert_allclose(load(f"{folder}?prefix=").encode_texts(["dog"], None)[0], plain[1], atol=1e-6)
    write(folder / "config_sentence_transformers.json", config | {"default_prompt_name": "doc"})
    with pytest.raises(BackendError, match="'doc' is not in 'prompts'"):
        load(folder)


def test_the_prefix_may_be_left_out_of_the_pooling(bert: Path) -> None:
    rows = hidden(bert, "the red dog runs")[3:]  # without [CLS] the red
    target = f"{bert}?prefix=the red &include_prompt=false"
    mean = load(target).encode_texts(["dog runs", *CAPTIONS], None)[0]
    np.testing.assert_allclose(mean, unit(rows.mean(0)), atol=1e-5)
    first = load(f"{target}&pooling=cls").encode_texts(["dog runs"], None)[0]
    np.testing.assert_allclose(first, unit(rows[0]), atol=1e-5)


def test_models_whose_files_do_not_say_it_are_known_by_name(bert: Path, tmp_path: Path) -> None:
    for name, prefix in (("e5-base-v2", "query: "), ("multilingual-e5-large", "query: "), ("my-e5-base", "")):
        folder = shutil.copytree(bert, tmp_path / name)
        assert load(folder)._layout.prefix == prefix
    assert load(f"{tmp_path / 'e5-base-v2'}?prefix=passage: ")._layout.prefix == "passage: "
    folder = shutil.copytree(bert, tmp_path / "instructor-large")
    assert load(f"{folder}?prefix=the ")._skip == 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("prefx=a", "unknown setting 'prefx'. Choices: prefix, template, pooling, include_prompt"),
        ("pooling=median", "unknown pooling 'median'"),
        ("include_prompt=no", "must be true or false, not 'no'"),
        ("prefix", "KEY=VALUE"),
        ("template=a text", "template must hold {text} once"),
        ("template={text} {text}", "template must hold {text} once"),
        ("template={text} b&prefix=a", "stands without prefix"),
    ],
)
def test_a_wrong_setting_is_explained(query: str, message: str, bert: Path) -> None:
    with pytest.raises(BackendError, match=message):
        load(f"{bert}?{query}")
    assert message.split(".")[0] in list_text_encoder_problems(f"{bert}?{query}")[0]


def test_settings_are_written_as_in_a_web_address() -> None:
    found = parse_target("some/model?prefix=Instruct: a %26 b?\nQuery: &pooling=cls")
    assert found == ("some/model", {"prefix": "Instruct: a & b?\nQuery: ", "pooling": "cls"})


def test_texts_of_equal_tokens_have_equal_vectors_bit_for_bit(bert: Path) -> None:
    vectors = load(bert).encode_texts([CAPTIONS[4], "A  DOG", *CAPTIONS], 2)
    assert vectors[1].tobytes() == vectors[2].tobytes()
    assert vectors[0].tobytes() == vectors[6].tobytes()


def test_an_encoder_without_its_pooler_will_do_and_one_without_a_layer_will_not(
    bert: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(bert, tmp_path / "part")
    state = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in state.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(
        load(folder).encode_texts(CAPTIONS, None), load(bert).encode_texts(CAPTIONS, None)
    )
    kept = {name: value for name, value in kept.items() if "layer.1.output" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match=r"encoder\.layer\.1\.output"):
        load(folder)


def test_of_t5_the_encoder_is_taken(tmp_path: Path) -> None:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = bert_tokenizer()
    torch.manual_seed(0)
    config = T5Config(vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = T5ForConditionalGeneration(config)
    folder = saved(tmp_path / "t5", model, tokenizer)
    (vector,) = load(folder).encode_texts(["two men"], None)
    ids = torch.tensor([tokenizer("two men")["input_ids"]])
    with torch.no_grad():
        expected = model.encoder(input_ids=ids).last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(vector, unit(expected), atol=1e-5)


def test_a_roberta_is_cut_where_its_positions_end(tmp_path: Path) -> None:
    from transformers import RobertaConfig, RobertaModel

    tokenizer = bert_tokenizer()
    config = RobertaConfig(**TEXT, vocab_size=len(tokenizer), max_position_embeddings=20, pad_token_id=0)
    folder = saved(tmp_path / "roberta", RobertaModel(config), tokenizer)
    vectors = load(folder).encode_texts(["a dog on the car " * 20, "a dog"], None)
    assert np.isfinite(vectors).all()
    assert load(folder)._length == 19


def test_a_decoder_without_a_padding_token_gives_its_last_token(tmp_path: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaModel

    tokenizer = bert_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    folder = saved(tmp_path / "llama", LlamaModel(config), tokenizer)
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    write(folder / "tokenizer_config.json", stated | {"pad_token": None})
    vectors = load(f"{folder}?pooling=lasttoken").encode_texts(CAPTIONS, None)
    expected = [unit(hidden(folder, text)[-1]) for text in CAPTIONS[:4]]
    np.testing.assert_allclose(vectors[:4], expected, atol=1e-5)


def test_a_model_of_images_and_texts_is_named_with_its_own_family(tmp_path: Path) -> None:
    folder = clip_folder(tmp_path / "clip")
    with pytest.raises(BackendError, match=f"takes images as well. Write dual:{folder}"):
        load(f"{folder}?pooling=cls")


def test_a_model_of_images_and_texts_is_told_without_loading(tmp_path: Path) -> None:
    folder = clip_folder(tmp_path / "clip")
    (line,) = list_text_encoder_problems(f"{folder}?pooling=cls")
    assert line.endswith(f"Write dual:{folder}.")


def test_the_identity_is_of_the_content_and_the_settings(bert: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bert, tmp_path / "copy")
    first = load(bert)
    first.encode_texts(CAPTIONS, None)
    assert json.dumps(first.identity) == json.dumps(load(copy).identity)
    others = [load(f"{bert}?{query}").identity for query in ("pooling=cls", "prefix=a ", "pooling=mean")]
    others.append(load(bert, "bf16").identity)
    assert [json.dumps(o) == json.dumps(first.identity) for o in others] == [False, False, True, False]


def test_the_identity_tells_the_version_of_sentence_transformers(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caramel.models import identity

    before, version = load(bert).identity, identity.metadata.version
    monkeypatch.setattr(
        identity.metadata, "version", lambda p: "0" if p == "sentence-transformers" else version(p)
    )
    assert load(bert).identity != before


def test_the_identity_tells_the_weights_of_a_dense_module(bert: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {}, DENSE)
    found = []
    for _ in range(2):
        dense(folder / "2_Dense", 8, "torch.nn.modules.linear.Identity")
        found.append(json.dumps(load(folder).identity))
    assert found[0] != found[1]


def test_a_spec_opens_it(bert: Path, tmp_path: Path) -> None:
    open_model.cache_clear()
    model = open_model(f"mine=text:{bert}?prefix=query: &pooling=mean", "cpu", "fp32")
    assert isinstance(model, TextEncoder)
    assert not isinstance(model, DualEncoder)
    assert model.name == "mine"
    assert missing_of(f"text:{bert}?pooling=mean") == []
    folder = sentence_folder(bert, tmp_path / "st", {}, inner="0_Transformer")
    (folder / "0_Transformer/tokenizer.json").unlink()
    assert missing_of(f"text:{folder}") == [f"no tokenizer in {str(folder / '0_Transformer')!r}"]
    open_model.cache_clear()


@pytest.mark.parametrize("path", ["../other", "/tmp/other", "1_Pooling/../../other", 7, None, ["1_Pooling"]])
def test_a_module_outside_the_folder_is_refused(path: object, bert: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {})
    shutil.copytree(folder / "1_Pooling", tmp_path / "other")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    write(folder / "modules.json", modules)
    with pytest.raises(BackendError, match=r"'path' is .* must be a folder within it"):
        load(folder)
    assert len(list_text_encoder_problems(str(folder))) == 1


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": 7}, "'pooling_mode' is 7"),
        ("1_Pooling/config.json", {"pooling_mode": []}, "'pooling_mode' is"),
        ("1_Pooling/config.json", {"pooling_mode": [["cls"]]}, "'pooling_mode' is"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": "no"}, "'pooling_mode_cls_token' is 'no'"),
        ("1_Pooling/config.json", {"include_prompt": "false"}, "'include_prompt' is 'false'"),
        ("sentence_bert_config.json", {"max_seq_length": "12"}, "'max_seq_length' is '12'"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "'max_seq_length' is 0"),
        ("sentence_bert_config.json", {"max_seq_length": True}, "'max_seq_length' is True"),
        ("sentence_bert_config.json", {"do_lower_case": "false"}, "'do_lower_case' is 'false'"),
        ("config_sentence_transformers.json", {"default_prompt_name": []}, "not in 'prompts'"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q", "prompts": ["q"]},
            "not in 'prompts'",
        ),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q", "prompts": {"q": 7}},
            "must be the text of a prompt",
        ),
    ],
)
def test_settings_of_wrong_types_are_refused(
    name: str, values: dict[str, object], message: str, bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {})
    write(folder / name, values)
    with pytest.raises(BackendError, match=message):
        load(folder)
    assert len(list_text_encoder_problems(str(folder))) == 1


@pytest.mark.parametrize(
    "changes", [{"out_features": 10**12}, {"in_features": -1}, {"out_features": "8"}, {"bias": 1}]
)
def test_a_dense_layer_is_as_large_as_its_weights(
    changes: dict[str, object], bert: Path, tmp_path: Path
) -> None:
    folder = sentence_folder(bert, tmp_path / "st", {}, "Dense")
    dense(folder / "2_Dense", 8, "torch.nn.modules.activation.Tanh", **changes)
    with pytest.raises(BackendError, match=r"2_Dense.*(do not match|weights can hold)|'bias' is 1"):
        load(folder)
