import gzip
import json
import shutil

import numpy as np
import pytest
from tiny_clips import CONFIGS, build, build_config, roberta_config

from caramel.errors import BackendError
from caramel.io.files import compute_file_hash
from caramel.models.open_clip.checkpoints import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    load_checkpoint,
    load_encoder,
    read_config,
    save_checkpoint,
)

TEXTS = ["A red car.", "There is a small blue house to the left of a green tree.", "A cup."]


@pytest.fixture
def copy(clip_folder, tmp_path):
    return shutil.copytree(clip_folder, tmp_path / "copy")


def encoder(folder):
    return load_encoder(folder, device="cpu", precision="fp32", name="tiny")


def test_a_saved_checkpoint_reloads_to_bit_identical_embeddings(clip_folder, copy, files) -> None:
    one, two = encoder(clip_folder), encoder(copy)
    images = list(files.values())[:5]
    assert np.array_equal(one.encode_images(images, 2), two.encode_images(images, 2))
    assert np.array_equal(one.encode_texts(TEXTS, 2), two.encode_texts(TEXTS, 2))


def test_open_clip_itself_reads_the_folder_and_agrees(clip_folder, files) -> None:
    import io

    import open_clip
    import torch
    from PIL import Image

    name = f"local-dir:{clip_folder}"
    model, _, preprocess = open_clip.create_model_and_transforms(name)
    pictures = [Image.open(io.BytesIO(data)) for data in list(files.values())[:4]]
    with torch.inference_mode():
        theirs = model.eval().encode_image(torch.stack([preprocess(p) for p in pictures]), normalize=True)
    ours = encoder(clip_folder).encode_images(list(files.values())[:4], 4)
    assert np.allclose(theirs.numpy(), ours, atol=1e-6)


def test_vectors_are_unit_vectors_in_the_order_asked_for(clip_folder) -> None:
    model = encoder(clip_folder)
    together, alone = model.encode_texts(TEXTS, 8), [model.encode_texts([t], 1)[0] for t in TEXTS]
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert np.allclose(together, np.stack(alone), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_vector_does_not_depend_on_what_is_encoded_with_it(threads, clip_folder, files) -> None:
    """To the last bit: what a store holds already decides what is encoded together."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        same_alone_and_together(clip_folder, files)
    finally:
        torch.set_num_threads(before)


def same_alone_and_together(clip_folder, files) -> None:
    """Assert that images and texts have equal vectors in batches of any size."""
    model = encoder(clip_folder)
    texts = [f"A {size} {thing} left of a {other}." for size in ("red", "big", "blue") for thing in ("car", "cup", "house")
             for other in ("tree", "dog", "lamp")]  # fmt: skip
    texts = [
        " ".join([text, *["cat"] * (number % 23)]) for number, text in enumerate(texts)
    ]  # of many lengths
    for encode, items in ((model.encode_texts, texts), (model.encode_images, [*files.values()][:20])):
        whole = encode(items, 64)
        assert len(whole) > 16
        for count in (1, 2, 3, 5, 7, 11, 17):
            assert np.array_equal(encode(items[-count:], 64), whole[-count:])


def test_a_config_that_does_not_state_its_activation_is_refused(copy) -> None:
    config = json.loads((copy / CONFIG).read_text())
    del config["model_cfg"]["quick_gelu"]
    (copy / CONFIG).write_text(json.dumps(config))
    with pytest.raises(BackendError, match="quick_gelu"):
        load_checkpoint(copy)


def test_a_missing_folder_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(BackendError, match="is missing"):
        load_checkpoint(tmp_path)


def test_truncated_weights_are_a_clear_error(copy) -> None:
    (copy / WEIGHTS).write_bytes((copy / WEIGHTS).read_bytes()[:1000])
    with pytest.raises(BackendError, match="damaged"):
        load_checkpoint(copy)


def test_a_broken_config_is_a_clear_error(copy) -> None:
    (copy / CONFIG).write_text("{")
    with pytest.raises(BackendError, match="damaged"):
        load_checkpoint(copy)


def test_weights_that_do_not_fit_the_config_are_a_clear_error(copy) -> None:
    config = json.loads((copy / CONFIG).read_text())
    config["model_cfg"]["vision_cfg"]["layers"] = 2
    (copy / CONFIG).write_text(json.dumps(config))
    with pytest.raises(BackendError, match="do not match"):
        load_checkpoint(copy)


def test_a_config_without_towers_is_a_clear_error(copy) -> None:
    (copy / CONFIG).write_text(json.dumps({"model_cfg": {"embed_dim": 3}}))
    with pytest.raises(BackendError, match="no 'model_cfg' with vision_cfg and text_cfg"):
        load_checkpoint(copy)


def test_a_vocabulary_that_was_left_behind_is_a_clear_error(copy) -> None:
    (copy / VOCABULARY).unlink()
    with pytest.raises(BackendError, match=r"vocabulary of its own, and .*bpe\.txt\.gz is missing"):
        load_checkpoint(copy)


@pytest.mark.parametrize("stated", [{}, {"mean": [0.1, 0.2, 0.3], "resize_mode": "longest", "fill_color": 7}])
def test_a_checkpoint_states_all_of_its_preprocessing(stated, clip_folder, tmp_path, files) -> None:
    clip = load_checkpoint(clip_folder)
    config = {"model_cfg": clip.config["model_cfg"], "preprocess_cfg": stated}
    vocabulary = (clip_folder / VOCABULARY).read_bytes()
    out = save_checkpoint(tmp_path / "out", clip.model, config=config, vocabulary=vocabulary, card={})
    written = json.loads((out / CONFIG).read_text())["preprocess_cfg"]
    assert written == {
        "size": [48, 48],
        "mode": "RGB",
        "mean": [0.48145466, 0.4578275, 0.40821073],
        "std": [0.26862954, 0.26130258, 0.27577711],
        "interpolation": "bicubic",
        "resize_mode": "shortest",
        "fill_color": 0,
        **stated,
    }
    again = load_checkpoint(out)
    assert again.mean == tuple(written["mean"])
    assert again.config["preprocess_cfg"] == written
    images = list(files.values())[:2]
    same = np.array_equal(
        encoder(out).encode_images(images, 2), encoder(clip_folder).encode_images(images, 2)
    )
    assert same is (stated == {})


def test_the_card_names_the_weights(clip_folder) -> None:
    card = json.loads((clip_folder / CARD).read_text())
    assert card == {"name": "tiny", "weights_sha256": compute_file_hash(clip_folder / WEIGHTS)}


def test_weights_that_are_not_those_of_the_card_are_refused(clip_folder, tmp_path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(clip_folder, folder)
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1  # one bit of the last weight: the file can be read
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(BackendError, match=r"do not match .*caramel.json'"):
        load_checkpoint(folder)
    (folder / CARD).unlink()
    load_checkpoint(folder)
    for broken in ("{", "[]", "[" * 100_000):
        (folder / CARD).write_text(broken)
        with pytest.raises(BackendError, match=r"caramel.json' is damaged"):
            load_checkpoint(folder)


@pytest.mark.parametrize("kind", ["clip", "resnet", "coca", "siglip"])
def test_every_class_reloads_to_bit_identical_embeddings(kind, tmp_path, files) -> None:
    model, config = build(kind), {"model_cfg": CONFIGS[kind]}
    one = save_checkpoint(tmp_path / "one", model, config=config, vocabulary=None, card={})
    clip = load_checkpoint(one)
    two = save_checkpoint(
        tmp_path / "two", clip.model, config=clip.config, vocabulary=None, card={}, tokenizer=clip.tokenize
    )
    images = list(files.values())[:3]
    assert np.array_equal(encoder(one).encode_images(images, 2), encoder(two).encode_images(images, 2))
    assert np.array_equal(encoder(one).encode_texts(TEXTS, 2), encoder(two).encode_texts(TEXTS, 2))
    assert compute_file_hash(one) == compute_file_hash(two)


def test_a_tokenizer_of_transformers_lies_in_the_folder_and_open_clip_reads_it(tmp_path) -> None:
    import open_clip

    config = roberta_config(tmp_path)
    first = save_checkpoint(
        tmp_path / "first", build_config(config), config={"model_cfg": config}, vocabulary=None, card={}
    )
    clip = load_checkpoint(first)
    expected = encoder(first).encode_texts(TEXTS, 2)
    out = save_checkpoint(
        tmp_path / "out", clip.model, config=clip.config, vocabulary=None, card={}, tokenizer=clip.tokenize
    )
    shutil.rmtree(tmp_path / "words")
    assert np.array_equal(encoder(out).encode_texts(TEXTS, 2), expected)
    theirs = open_clip.get_tokenizer(f"local-dir:{out}")
    assert theirs(TEXTS).tolist() == clip.tokenize(TEXTS).tolist()


def changed(folder, section, **values):
    """Change a section of the folder's config, such as ``model_cfg.text_cfg``."""
    config = json.loads((folder / CONFIG).read_text())
    part = config
    for key in filter(None, section.split(".")):
        part = part[key]
    part.update(values)
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("", {"preprocess_cfg": [1]}),
        ("", {"preprocess_cfg": "x"}),
        ("preprocess_cfg", {"mean": [0.5, 0.5]}),
        ("preprocess_cfg", {"mean": 0.5}),
        ("preprocess_cfg", {"mean": [0.5, "0.5", 0.5]}),
        ("preprocess_cfg", {"mean": [0.5, float("nan"), 0.5]}),
        ("preprocess_cfg", {"std": [0.5, 0, 0.5]}),
        ("preprocess_cfg", {"std": [1, True, 1]}),
        ("model_cfg", {"quick_gelu": "yes"}),
        ("model_cfg", {"quick_gelu": 1}),
        ("model_cfg", {"embed_dim": -3}),
        ("model_cfg.vision_cfg", {"patch_size": 0}),
        ("model_cfg.vision_cfg", {"layers": []}),
        ("model_cfg.text_cfg", {"vocab_size": "many"}),
        ("model_cfg.text_cfg", {"vocab_size": -1}),
        ("model_cfg.text_cfg", {"context_length": True}),
        ("model_cfg.text_cfg", {"tokenizer_kwargs": [1]}),
        ("model_cfg.text_cfg", {"hf_model_name": 7}),
        ("model_cfg.text_cfg", {"hf_model_name": "me/tower"}),  # and no tokenizer for it
        ("model_cfg.text_cfg", {"norm_kwargs": {"eps": ""}}),
    ],
)
def test_a_config_of_wrong_values_is_refused(section, values, copy) -> None:
    with pytest.raises(BackendError, match="copy"):
        encoder(changed(copy, section, **values))


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("model_cfg", {"embed_dim": 10**9}),
        ("model_cfg.vision_cfg", {"width": 10**9, "head_width": 10**9}),
        ("model_cfg.vision_cfg", {"layers": 10**9}),
        ("model_cfg.vision_cfg", {"image_size": 10**9}),
        ("model_cfg.text_cfg", {"width": 10**6}),
        ("model_cfg.text_cfg", {"layers": 10**9}),
        ("model_cfg.text_cfg", {"vocab_size": 10**9}),
        ("model_cfg.text_cfg", {"context_length": 10**6}),
    ],
)
def test_a_config_of_a_model_that_the_weights_cannot_fill_is_refused_before_it_is_allocated(
    section, values, copy
) -> None:
    with pytest.raises(BackendError, match=r"copy.*bytes of weights can hold"):
        encoder(changed(copy, section, **values))


def test_a_vocabulary_that_is_broken_or_of_another_model_is_refused(copy) -> None:
    whole = (copy / VOCABULARY).read_bytes()
    lines = gzip.decompress(whole).split(b"\n")
    wrong = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "no gzip": b"[[[[",
        "flipped": whole[:40] + bytes([whole[40] ^ 255]) + whole[41:],
        "no text": gzip.compress(b"\xff\xfe" * 40),
        "fewer merges": gzip.compress(b"\n".join(lines[:-5])),
        "more merges": gzip.compress(b"\n".join([*lines, b"q x", b"q z"])),
        "a bomb": gzip.compress(bytes(2**25)),
    }
    for what, data in wrong.items():
        (copy / VOCABULARY).write_bytes(data)
        with pytest.raises(BackendError, match=VOCABULARY):
            pytest.fail(f"{what} was taken: {encoder(copy)}")
    (copy / VOCABULARY).unlink()
    (copy / VOCABULARY).mkdir()
    with pytest.raises(BackendError, match=VOCABULARY):
        encoder(copy)


def test_a_tokenizer_that_is_null_is_none(clip_folder, tmp_path) -> None:
    config = json.loads((clip_folder / CONFIG).read_text())
    config["model_cfg"]["text_cfg"] |= {"hf_model_name": None, "hf_tokenizer_name": None}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    assert read_config(tmp_path / CONFIG)["model_cfg"] == config["model_cfg"]
