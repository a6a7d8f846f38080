import io
import json
import os
import pickle
import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_clips import (
    CONFIGS,
    TEXT,
    TEXTS,
    build,
    build_config,
    roberta_config,
    write_hub,
    write_json,
    write_tokenizer,
)

from caramel.errors import BackendError
from caramel.models.open_clip.checkpoints import CONFIG, WEIGHTS, build_model, save_checkpoint
from caramel.models.open_clip.encoder import ClipEncoder, decode_images, normalise_pixels
from caramel.models.open_clip.loader import (
    adopt_pretrained,
    list_open_clip_problems,
    load_open_clip,
    open_target,
)

KINDS = ["clip", "resnet", "custom", "coca", "siglip"]
OPENAI_MEAN = [0.48145466, 0.4578275, 0.40821073]


@pytest.fixture(scope="module", autouse=True)
def names(tmp_path_factory):
    """Tiny architectures under names of their own, as open_clip registers them.

    ``tiny-<kind>`` states its activation; ``twin`` does not and has a twin ``twin-quickgelu``; ``alone``
    does not and has none.
    """
    import open_clip

    folder = tmp_path_factory.mktemp("configs")
    silent = {key: value for key, value in CONFIGS["clip"].items() if key != "quick_gelu"}
    configs = {f"tiny-{kind}": CONFIGS[kind] for kind in KINDS}
    configs |= {"twin": silent, "twin-quickgelu": {**silent, "quick_gelu": True}, "alone": silent}
    for name, config in configs.items():
        write_json(folder / f"{name}.json", config)
    open_clip.add_model_config(folder)


@pytest.fixture(scope="module")
def models():
    return {kind: build(kind) for kind in KINDS}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, which is out of reach."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def tag(monkeypatch):
    """A published tag ``twin-quickgelu:mine`` of repository me/tiny."""
    from open_clip import pretrained

    published = {
        "hf_hub": "me/tiny/",
        "mean": (0.1, 0.2, 0.3),
        "std": (0.5, 0.5, 0.5),
        "interpolation": "bilinear",
        "resize_mode": "squash",
        "quick_gelu": True,
    }
    for name in ("twin", "twin-quickgelu"):
        monkeypatch.setitem(pretrained._PRETRAINED, name, {"mine": published})


def load(target):
    return load_open_clip(str(target), device="cpu", precision="fp32", name="tiny")


def text_vectors(model):
    """Return the model's own vectors of ``TEXTS``, from all columns."""
    from open_clip.tokenizer import SimpleTokenizer

    with torch.inference_mode():
        return model.encode_text(SimpleTokenizer(context_length=40)(TEXTS), normalize=True).numpy()


def saved(model, path, wrap=lambda state: state):
    state = {name: value.clone() for name, value in model.state_dict().items()}
    if path.suffix == ".safetensors":
        save_file(wrap(state), path)
    else:
        torch.save(wrap(state), path)
    return path


def parallel(state):
    return {f"module.{name}": value for name, value in state.items()}


WRITTEN = {
    "bare.pt": lambda state: state,
    "trained.pt": lambda state: {"epoch": 3, "name": "x", "state_dict": parallel(state), "optimizer": {}},
    "model.bin": lambda state: {"model_state_dict": state, "step": 1},
    "model.pth": lambda state: {"model": parallel(state)},
    "lightning.ckpt": lambda state: {"state_dict": state, "lr": [0.1]},
    "weights.safetensors": lambda state: state,
    "parallel.safetensors": parallel,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_weights_gives_the_vectors_of_the_model_it_was_saved_from(name, models, tmp_path) -> None:
    path = saved(models["clip"], tmp_path / name, WRITTEN[name])
    assert list_open_clip_problems(f"tiny-clip:{path}") == []
    ours = load(f"tiny-clip:{path}").encode_texts(TEXTS, 2)
    assert np.allclose(ours, text_vectors(models["clip"]), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_is_loaded_and_scored_as_open_clip_does(kind, models, files, tmp_path) -> None:
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from PIL import Image

    model = models[kind]
    encoder = load(f"tiny-{kind}:{saved(model, tmp_path / 'w.safetensors')}")
    assert type(encoder._clip.model) is type(model)
    transform = image_transform_v2(PreprocessCfg(size=model.visual.image_size), is_train=False)
    pictures = torch.stack([transform(Image.open(io.BytesIO(data))) for data in list(files.values())[:3]])
    with torch.inference_mode():
        theirs = model.encode_image(pictures, normalize=True).numpy()
    images, texts = encoder.encode_images(list(files.values())[:3], 8), encoder.encode_texts(TEXTS, 8)
    assert np.allclose(images, theirs, atol=1e-6)
    assert np.allclose(texts, text_vectors(model), atol=1e-6)
    assert images.shape == (3, 32)
    assert np.allclose(np.linalg.norm(images, axis=1), 1, atol=1e-6)


def test_the_cosine_orders_pairs_as_the_sigmoid_of_siglip_does(models, tmp_path) -> None:
    from open_clip.tokenizer import SimpleTokenizer

    model = models["siglip"]
    assert model.logit_bias is not None
    pictures = torch.rand(5, 3, 48, 48)
    with torch.inference_mode():
        logits, _ = model.get_logits(pictures, SimpleTokenizer(context_length=40)(TEXTS))
        cosines = model.encode_image(pictures, normalize=True) @ torch.from_numpy(text_vectors(model)).T
    assert torch.equal(logits.flatten().argsort(), cosines.flatten().argsort())


@pytest.mark.parametrize("kind", ["clip", "custom"])
def test_half_precision_weights_are_loaded_as_fp32(kind, models, tmp_path) -> None:
    half = {name: value.half() for name, value in models[kind].state_dict().items()}
    torch.save(half, tmp_path / "half.pt")
    found = load(f"tiny-{kind}:{tmp_path / 'half.pt'}")
    assert {value.dtype for value in found._clip.model.state_dict().values()} == {torch.float32}
    assert np.allclose(found.encode_texts(TEXTS, 8), text_vectors(models[kind]), atol=1e-2)


def test_weights_in_the_names_of_earlier_versions_are_loaded(models, tmp_path) -> None:
    state = {name.removeprefix("text."): value for name, value in models["custom"].state_dict().items()}
    state["logit_scale"] = state["logit_scale"].reshape(1)
    torch.save(state, tmp_path / "old.pt")
    ours = load(f"tiny-custom:{tmp_path / 'old.pt'}").encode_texts(TEXTS, 8)
    assert np.allclose(ours, text_vectors(models["custom"]), atol=1e-6)


class Code:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", ["state_dict", "args"])
def test_a_pickle_with_code_is_refused_and_nothing_of_it_runs(zipped, place, models, tmp_path) -> None:
    held = {"state_dict": models["clip"].state_dict(), place: Code(tmp_path / "ran")}
    path = tmp_path / "evil.pt"
    torch.save(held, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(BackendError, match=r"refused: the file contains 'posix.mkdir'.*None of it was run"):
        load(f"tiny-clip:{path}")
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)  # or it would prove nothing
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_bare_pickle_with_code_does_not_run(protocol, tmp_path) -> None:
    (tmp_path / "w.bin").write_bytes(pickle.dumps(Code(tmp_path / "ran"), protocol))
    with pytest.raises(BackendError, match="refused" if protocol else "damaged"):
        load(f"tiny-clip:{tmp_path / 'w.bin'}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors", "legacy.pt"])
@pytest.mark.parametrize("kept", [0, 1, 100, 5000, -100])
def test_a_file_that_was_cut_off_is_a_clear_error(name, kept, models, tmp_path) -> None:
    if name == "legacy.pt":
        torch.save(models["clip"].state_dict(), tmp_path / name, _use_new_zipfile_serialization=False)
    else:
        saved(models["clip"], tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:kept])
    with pytest.raises(BackendError, match=r"are damaged: .+ Create or download them again"):
        load(f"tiny-clip:{tmp_path / name}")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_file_that_is_something_else_is_a_clear_error(name, tmp_path) -> None:
    (tmp_path / name).write_text("<!DOCTYPE html><html>Not found</html>")
    with pytest.raises(BackendError, match="are damaged"):
        load(f"tiny-clip:{tmp_path / name}")


def test_a_torchscript_archive_is_refused_and_the_tag_named(tmp_path) -> None:
    path = tmp_path / "ViT-B-32.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), path)
    with pytest.raises(BackendError, match=r"TorchScript.*not run.*'ViT-B-32-quickgelu:openai'"):
        load(f"tiny-clip:{path}")


@pytest.mark.parametrize("held", [{"epoch": 1, "weights": {}}, [torch.zeros(1)], {}, {"model": {"a": 1}}])
def test_a_file_without_a_state_dict_is_a_clear_error(held, tmp_path) -> None:
    torch.save(held, tmp_path / "w.pt")
    with pytest.raises(BackendError, match=r"contain no state dict.*state_dict, model_state_dict, model"):
        load(f"tiny-clip:{tmp_path / 'w.pt'}")


def changed(state, how):
    if how == "missing":
        del state["ln_final.weight"], state["logit_scale"]
    elif how == "unexpected":
        state["head.weight"] = torch.zeros(2)
    else:
        state["positional_embedding"] = torch.zeros(39, 32)
    return state


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", r"2 missing: \['logit_scale', 'ln_final.weight'\]"),
        ("unexpected", r"1 unexpected: \['head.weight'\]"),
        ("shape", r"1 of another shape: \['positional_embedding \(39, 32\) for \(40, 32\)'\]"),
    ],
)
def test_weights_that_do_not_fit_are_a_clear_error(how, message, models, tmp_path) -> None:
    path = saved(models["clip"], tmp_path / "w.pt", lambda state: changed(state, how))
    with pytest.raises(BackendError, match=message):
        load(f"tiny-clip:{path}")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tiny-clip:nowhere.pt", "file 'nowhere.pt' does not exist"),
        ("tiny-clip:some/where", "file 'some/where' does not exist"),
        ("tiny-clip:{folder}", "is a folder. Give the folder alone"),
        (
            "tiny-clip:{folder}/notes.txt",
            r"the file name must end in one of \.pt, \.pth, \.bin, \.ckpt, \.safetensors",
        ),
        ("no/such/folder", "Folder 'no/such/folder' does not exist. Expected NAME:TAG"),
        ("ViT-B32:openai", "Unknown open_clip model 'ViT-B32'.*Did you mean .*'ViT-B-32'"),
        ("ViT-B-32:laion2b_s34b_b79", "Unknown tag.*Did you mean 'laion2b_s34b_b79k'.*Tags of 'ViT-B-32'"),
        ("ViT-B-32-quickgelu:laion2b_s34b_b79k", "Unknown tag.*Models with that tag: ViT-B-32"),
        ("tiny-clip:w.pt?gelu=1", r"'\?gelu=1' is not a valid option"),
        ("hf-hub:model", "expected hf-hub:OWNER/REPO"),
        ("hf-hub:me/../model", "expected hf-hub:OWNER/REPO"),
    ],
)
def test_a_wrong_target_is_a_clear_error(target, message, tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("")
    target = target.format(folder=tmp_path)
    with pytest.raises(BackendError, match=message):
        load(target)
    if not target.endswith("notes.txt"):
        assert re.search(message, "".join(list_open_clip_problems(target)))


# --- activation ---


def test_a_bare_state_dict_needs_its_activation_and_either_spec_gives_it(models, tmp_path) -> None:
    path = saved(models["clip"], tmp_path / "w.pt")
    quick, plain = f"twin-quickgelu:{path}", f"twin:{path}?quick_gelu=false"
    with pytest.raises(BackendError, match="nothing states which activation") as told:
        load(f"twin:{path}")
    assert repr(quick) in str(told.value)
    assert repr(plain) in str(told.value)
    assert list_open_clip_problems(f"twin:{path}") == [str(told.value)]
    vectors = {
        spec: load(spec).encode_texts(TEXTS, 8) for spec in (quick, plain, f"twin:{path}?quick_gelu=true")
    }
    assert np.allclose(vectors[quick], text_vectors(models["clip"]), atol=1e-6)
    assert np.abs(vectors[quick] - vectors[plain]).max() > 1e-3
    assert np.array_equal(vectors[quick], vectors[f"twin:{path}?quick_gelu=true"])


def test_a_name_without_a_twin_takes_the_option_alone(models, tmp_path) -> None:
    path = saved(models["clip"], tmp_path / "w.pt")
    with pytest.raises(BackendError) as told:
        load(f"alone:{path}")
    assert f"'alone:{path}?quick_gelu=true' for QuickGELU" in str(told.value)
    assert f"'alone:{path}?quick_gelu=false' for GELU" in str(told.value)
    ours = load(f"alone:{path}?quick_gelu=true").encode_texts(TEXTS, 8)
    assert np.allclose(ours, text_vectors(models["clip"]), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "option", "right"),
    [
        ("twin-quickgelu", "?quick_gelu=false", "'twin:{path}?quick_gelu=false' for GELU"),
        ("tiny-custom", "?quick_gelu=true", "the config of 'tiny-custom' says GELU"),
        ("ViT-B-32-quickgelu", "?quick_gelu=false", "'ViT-B-32:{path}?quick_gelu=false' for GELU"),
    ],
)
def test_a_statement_against_the_config_is_an_error_that_names_the_right_one(
    name, option, right, tmp_path
) -> None:
    path = tmp_path / "w.pt"
    path.touch()
    with pytest.raises(BackendError, match="contradict each other") as told:
        load(f"{name}:{path}{option}")
    assert right.format(path=path) in str(told.value)


@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-L-14-336", "RN50", "RN50x4", "ViT-H-14", "RN101"])
def test_names_whose_weights_have_either_activation_are_refused_with_both_specs(name, tmp_path) -> None:
    path = tmp_path / "negclip.pt"
    path.touch()
    (told,) = list_open_clip_problems(f"{name}:{path}")
    assert f"'{name}-quickgelu:{path}' for QuickGELU (OpenAI's weights and all that" in told
    assert f"'{name}:{path}?quick_gelu=false' for GELU" in told
    for chosen in (f"{name}-quickgelu:{path}", f"{name}:{path}?quick_gelu=false"):
        lacking = list_open_clip_problems(chosen)
        assert not any("quick_gelu" in line for line in lacking)
        assert bool(lacking) == (name == "ViT-H-14")  # of which the preprocessing is not known either


def test_a_name_whose_published_weights_all_have_gelu_says_so_itself(tmp_path) -> None:
    import open_clip

    from caramel.models.open_clip.names import resolve_named_model

    path = tmp_path / "w.safetensors"
    path.touch()
    for name in ("ViT-B-16-SigLIP", "coca_ViT-B-32", "EVA02-B-16", "ViT-g-14"):
        assert resolve_named_model(f"{name}:{path}").config["model_cfg"]["quick_gelu"] is False
    preprocess = resolve_named_model(f"ViT-B-16-SigLIP:{path}").config["preprocess_cfg"]
    assert preprocess["mean"] == (0.5, 0.5, 0.5)
    assert preprocess["resize_mode"] == "squash"
    message = r"with different preprocessing(.|\n)*\[0\.5, 0\.5, 0\.5\].* of laion2b_s32b_b82k\nWrite '.*open_clip_config\.json'"
    with pytest.raises(BackendError, match=message):
        resolve_named_model(f"ViT-L-14:{path}?quick_gelu=false")
    stated = {
        "model_cfg": open_clip.get_model_config("ViT-L-14"),
        "preprocess_cfg": {"mean": [0.5, 0.5, 0.5]},
    }
    write_json(tmp_path / CONFIG, stated)
    found = resolve_named_model(f"ViT-L-14:{path}?quick_gelu=false").config["preprocess_cfg"]
    assert found == {"mean": [0.5, 0.5, 0.5]}


@pytest.mark.parametrize("quick", [True, False])
def test_the_config_beside_a_file_says_its_activation_and_preprocessing(quick, models, tmp_path) -> None:
    path = saved(models["clip"], tmp_path / "w.pt")
    silent = {key: value for key, value in CONFIGS["clip"].items() if key != "quick_gelu"}
    config = {"model_cfg": {**silent, "quick_gelu": quick}, "preprocess_cfg": {"mean": [0.1, 0.1, 0.1]}}
    write_json(tmp_path / CONFIG, config)
    encoder = load(f"twin:{path}")
    assert encoder.identity["config"]["model_cfg"]["quick_gelu"] is quick
    assert encoder.identity["config"]["preprocess_cfg"]["mean"] == [0.1, 0.1, 0.1]
    same = np.allclose(encoder.encode_texts(TEXTS, 8), text_vectors(models["clip"]), atol=1e-6)
    assert same is quick
    with pytest.raises(BackendError, match=f"contradict each other .*: {CONFIG} beside it says .*says "):
        load(f"twin:{path}?quick_gelu={str(not quick).lower()}")


def test_every_published_tag_has_the_activation_of_its_weights_or_names_the_config_that_has() -> None:
    import open_clip

    from caramel.models.open_clip.names import resolve_named_model

    refused = 0
    for name, tag in open_clip.list_pretrained():
        stated = open_clip.get_pretrained_cfg(name, tag).get("quick_gelu")
        try:
            found = resolve_named_model(f"{name}:{tag}")
        except BackendError as error:
            refused += 1
            right = re.search(r"Use '([^']+)'", str(error))
            assert right is not None
            assert stated is True
            assert resolve_named_model(right[1]).config["model_cfg"]["quick_gelu"] is True
            continue
        ours = found.config["model_cfg"]["quick_gelu"]
        # The table says nothing of a tower trained with QuickGELU from the start; its config does.
        assert ours is bool(stated) or (name == "roberta-ViT-B-32" and ours is True)
    assert refused > 20


def test_a_tag_and_an_option_against_it_are_an_error(cache) -> None:
    with pytest.raises(BackendError, match=r"contradict.*Leave '\?quick_gelu=false' out"):
        load("ViT-B-32-quickgelu:openai?quick_gelu=false")


def test_what_the_table_says_of_a_repository() -> None:
    from caramel.models.open_clip.activations import find_repo_quick_gelu

    assert find_repo_quick_gelu("timm/vit_base_patch32_clip_224.openai") is True
    assert find_repo_quick_gelu("laion/CLIP-ViT-B-32-laion2B-s34B-b79K") is False
    assert find_repo_quick_gelu("laion/CLIP-ViT-B-32-roberta-base-laion2B-s12B-b32k") is True
    assert find_repo_quick_gelu("jienengchen/ViTamin-S") is False
    assert find_repo_quick_gelu("me/unknown") is None


# --- tags and the hub ---


@pytest.mark.parametrize("target", ["twin-quickgelu:mine", "ViT-B-32-quickgelu:openai", "hf-hub:me/tiny"])
def test_what_is_not_in_the_cache_is_a_clear_error_that_says_what_to_set(target, cache, tag) -> None:
    with pytest.raises(BackendError, match="is in the local cache") as told:
        load(target)
    assert "HF_HUB_OFFLINE=0" in str(told.value)
    assert str(cache) in str(told.value)
    assert list_open_clip_problems(target) == [str(told.value)]


@pytest.mark.parametrize("target", ["twin-quickgelu:mine", "hf-hub:me/tiny"])
def test_what_can_be_fetched_is_not_missing(target, cache, tag, monkeypatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert list_open_clip_problems(target) == []
    assert not cache.exists()


@pytest.mark.parametrize("file", [WEIGHTS, "open_clip_pytorch_model.bin"])
def test_a_cached_tag_is_loaded_with_the_preprocessing_of_its_weights(
    file, cache, tag, models, tmp_path
) -> None:
    path = saved(models["clip"], tmp_path / f"w{file[file.rindex('.') :]}")
    write_hub(cache, "me/tiny", {file: path})
    assert list_open_clip_problems("twin-quickgelu:mine") == []
    encoder = load("twin-quickgelu:mine")
    assert np.allclose(encoder.encode_texts(TEXTS, 8), text_vectors(models["clip"]), atol=1e-6)
    preprocess = encoder.identity["config"]["preprocess_cfg"]
    assert preprocess["mean"] == [0.1, 0.2, 0.3]
    assert (preprocess["interpolation"], preprocess["resize_mode"]) == ("bilinear", "squash")
    assert preprocess["size"] == [48, 48]
    with pytest.raises(BackendError, match="Use 'twin-quickgelu:mine'"):
        load("twin:mine")


def test_a_broken_file_in_the_cache_is_a_clear_error(cache, tag, tmp_path) -> None:
    (tmp_path / "w").write_bytes(b"\x00" * 100)
    write_hub(cache, "me/tiny", {WEIGHTS: tmp_path / "w"})
    with pytest.raises(BackendError, match=r"cannot load .*Remove the file to download it again"):
        load("twin-quickgelu:mine")


@pytest.fixture
def folder(models, tmp_path):
    config = {"model_cfg": CONFIGS["clip"]}
    return save_checkpoint(tmp_path / "saved", models["clip"], config=config, vocabulary=None, card={})


def test_a_cached_repository_gives_the_vectors_of_its_folder(cache, folder) -> None:
    write_hub(cache, "me/tiny", {name: folder / name for name in (CONFIG, WEIGHTS)})
    assert list_open_clip_problems("hf-hub:me/tiny") == []
    ours, theirs = load("hf-hub:me/tiny"), load(folder)
    assert np.array_equal(ours.encode_texts(TEXTS, 8), theirs.encode_texts(TEXTS, 8))
    assert ours.identity == theirs.identity


def test_a_repository_with_a_vocabulary_of_its_own_brings_it_along(cache, clip_folder) -> None:
    files = {path.name: path for path in clip_folder.iterdir()}
    vocabulary = files.pop("bpe.txt.gz")
    write_hub(cache, "me/world", files)
    with pytest.raises(BackendError, match=r"bpe\.txt\.gz is in the local cache"):
        load("hf-hub:me/world")
    shutil.rmtree(cache)
    write_hub(cache, "me/world", {**files, "bpe.txt.gz": vocabulary})
    ours, theirs = load("hf-hub:me/world"), load(clip_folder)
    assert np.array_equal(ours.encode_texts(TEXTS, 8), theirs.encode_texts(TEXTS, 8))


def test_a_repository_that_does_not_state_its_activation_is_asked_of_the_table(cache, folder, tag) -> None:
    config = json.loads((folder / CONFIG).read_text())
    del config["model_cfg"]["quick_gelu"]
    write_json(folder / CONFIG, config)
    for repo in ("me/tiny", "me/other"):
        write_hub(cache, repo, {name: folder / name for name in (CONFIG, WEIGHTS)})
    assert load("hf-hub:me/tiny").identity["config"]["model_cfg"]["quick_gelu"] is True
    with pytest.raises(BackendError, match=r"nothing states.*'hf-hub:me/other\?quick_gelu=true'"):
        load("hf-hub:me/other")
    found = load("hf-hub:me/other?quick_gelu=false")
    assert found.identity["config"]["model_cfg"]["quick_gelu"] is False
    stated = "contradict each other .*: open_clip's table of weights says QuickGELU"
    with pytest.raises(BackendError, match=stated):
        load("hf-hub:me/tiny?quick_gelu=false")


# --- folders ---


@pytest.mark.parametrize("name", ["open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin"])
def test_a_folder_may_name_its_weights_as_the_hub_does(name, folder, models) -> None:
    expected = load(folder).encode_texts(TEXTS, 8)
    (folder / WEIGHTS).unlink()
    saved(models["clip"], folder / name)
    assert list_open_clip_problems(str(folder)) == []
    assert np.array_equal(load(folder).encode_texts(TEXTS, 8), expected)


def test_a_folder_takes_the_option_only_where_its_config_does_not_say(folder) -> None:
    assert list_open_clip_problems(f"{folder}?quick_gelu=true") == []
    with pytest.raises(
        BackendError, match=f"contradict each other .*: {CONFIG} says QuickGELU, .* says GELU"
    ):
        load(f"{folder}?quick_gelu=false")
    config = json.loads((folder / CONFIG).read_text())
    del config["model_cfg"]["quick_gelu"]
    write_json(folder / CONFIG, config)
    assert "nothing states which activation" in list_open_clip_problems(str(folder))[0]
    assert load(f"{folder}?quick_gelu=false").identity["config"]["model_cfg"]["quick_gelu"] is False


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_folder_that_lacks_a_file_is_told_without_loading(name, folder) -> None:
    (folder / name).unlink()
    assert f"{name} is missing" in list_open_clip_problems(str(folder))[0]


# --- text towers and tokenizers of transformers ---


@pytest.fixture
def roberta(tmp_path):
    config = roberta_config(tmp_path)
    model = build_config(config)
    clip = save_checkpoint(
        tmp_path / "roberta", model, config={"model_cfg": config}, vocabulary=None, card={}
    )
    return model, clip


def test_a_tower_of_transformers_gets_all_of_its_tokens(roberta) -> None:
    model, folder = roberta
    encoder = load(folder)
    seen = []
    encoder._clip.model.text.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    vectors = encoder.encode_texts([*TEXTS, TEXTS[0]], 1)
    assert [tokens.shape[1] for tokens in seen] == [20] * len(TEXTS)
    assert len({int((tokens != 1).sum()) for tokens in seen}) > 1
    with torch.inference_mode():
        theirs = model.encode_text(encoder._clip.tokenize(TEXTS), normalize=True).numpy()
    assert np.allclose(vectors[:-1], theirs, atol=1e-6)
    assert np.array_equal(vectors[0], vectors[-1])


def test_a_tokenizer_that_cannot_be_had_is_a_clear_error(roberta, cache) -> None:
    _, folder = roberta
    config = json.loads((folder / CONFIG).read_text())
    config["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "me/words"
    write_json(folder / CONFIG, config)
    assert "'me/words'" in list_open_clip_problems(str(folder))[0]
    with pytest.raises(BackendError, match=r"Tokenizer 'me/words' is not available.*HF_HUB_OFFLINE=0"):
        load(folder)


def test_a_text_tower_whose_config_cannot_be_had_is_a_clear_error(roberta, cache) -> None:
    _, folder = roberta
    config = json.loads((folder / CONFIG).read_text())
    config["model_cfg"]["text_cfg"]["hf_model_name"] = "me/tower"
    write_json(folder / CONFIG, config)
    assert "'me/tower'" in list_open_clip_problems(str(folder))[0]
    with pytest.raises(BackendError, match=r"text tower 'me/tower' is not available.*HF_HUB_OFFLINE=0"):
        load(folder)


@pytest.mark.parametrize("part", ["tower/config.json", "words/tokenizer_config.json"])
def test_code_that_a_text_tower_brings_along_is_refused_without_a_question(
    part, roberta, tmp_path, monkeypatch
) -> None:
    _, folder = roberta
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "y")
    path, ran = tmp_path / part, tmp_path / "ran"
    (path.parent / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass Own: ...\n")
    own = {"auto_map": {"AutoConfig": "own.Own", "AutoTokenizer": ["own.Own", None]}, "model_type": "own"}
    write_json(path, {**json.loads(path.read_text()), **own, "tokenizer_class": "Own"})
    for file in folder.glob("tokenizer*"):  # a copy; else the one that the config names is not looked at
        file.unlink()
    with pytest.raises(BackendError, match="custom code"):
        load(folder)
    assert not asked
    assert not ran.exists()


def test_a_tokenizer_that_asks_to_run_code_is_refused(roberta) -> None:
    _, folder = roberta
    config = json.loads((folder / CONFIG).read_text())
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    write_json(folder / CONFIG, config)
    with pytest.raises(BackendError, match="trust_remote_code"):
        load(folder)


def test_texts_are_cleaned_as_siglip_wants_them(tmp_path, models) -> None:
    words = write_tokenizer(tmp_path / "words")
    text = {**CONFIGS["siglip"]["text_cfg"], "hf_tokenizer_name": str(words)}
    text["tokenizer_kwargs"] = {"clean": "canonicalize"}
    config = {"model_cfg": {**CONFIGS["siglip"], "text_cfg": text}}
    folder = save_checkpoint(tmp_path / "siglip", models["siglip"], config=config, vocabulary=None, card={})
    clip = open_target(str(folder))
    tokens = clip.tokenize(["Two  CATS.", "cup"])
    assert tokens.shape == (2, 40)  # the context length of the config, all of it filled
    assert tokens[0].tolist() == clip.tokenize(["two cats"])[0].tolist()
    assert clip.padding == 1


# --- the encoder ---


def test_equal_tokens_have_equal_vectors_bit_for_bit(folder) -> None:
    encoder = load(folder)
    texts = ["A red car", *TEXTS, "a  RED car", TEXTS[1] + " now", "a red\tcar "]
    vectors = encoder.encode_texts(texts, 2)
    assert np.array_equal(vectors[0], vectors[-1])
    assert np.array_equal(vectors[0], vectors[-3])
    assert len(np.unique(vectors, axis=0)) == len(texts) - 2
    alone = np.concatenate([encoder.encode_texts([text], 1) for text in texts])
    assert np.allclose(vectors, alone, atol=1e-6)


def test_captions_of_like_length_share_a_batch_and_none_is_computed_twice(folder) -> None:
    encoder = load(folder)
    seen = []
    tower = encoder._clip.model.transformer
    tower.register_forward_pre_hook(lambda _, args: seen.append(tuple(args[0].shape[:2])))
    encoder.encode_texts([*TEXTS, *TEXTS], 1)
    assert len(seen) == len(TEXTS)
    assert seen == sorted(seen)
    assert seen[0][1] < seen[-1][1] < TEXT["context_length"]


def test_no_items_give_no_rows(folder) -> None:
    encoder = load(folder)
    assert encoder.encode_texts([], None).shape == encoder.encode_images([], None).shape == (0, 32)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_gives_nearly_the_same_vectors(precision, folder, files) -> None:
    low = load_open_clip(str(folder), device="cpu", precision=precision, name="low")
    assert np.allclose(low.encode_texts(TEXTS, 8), load(folder).encode_texts(TEXTS, 8), atol=0.03)
    images = list(files.values())[:2]
    assert np.allclose(low.encode_images(images, 8), load(folder).encode_images(images, 8), atol=0.03)


def test_an_unknown_precision_or_device_is_a_clear_error(folder) -> None:
    with pytest.raises(BackendError, match=r"precision 'half'. Choices: auto, fp32, bf16, fp16"):
        load_open_clip(str(folder), device="cpu", precision="half", name="x")
    if not torch.cuda.is_available():
        with pytest.raises(BackendError, match="Device 'cuda' cannot be used"):
            load_open_clip(str(folder), device="cuda", precision="fp32", name="x")


def test_the_identity_holds_all_that_determines_the_vectors(models, folder, roberta, clip_folder) -> None:
    from caramel.models.open_clip.config import assemble_clip

    def identity(model=None, precision="fp32", preprocess=None, **text):
        model_cfg = {**CONFIGS["clip"], "text_cfg": {**TEXT, **text}}
        config = {"model_cfg": model_cfg, "preprocess_cfg": preprocess or {}}
        clip = assemble_clip(model or models["clip"], config, None)
        return json.dumps(ClipEncoder(clip, "cpu", precision, "x").identity, sort_keys=True)

    other = build("clip")
    with torch.no_grad():
        other.ln_final.bias[0] += 1e-6
    found = [
        identity(),
        identity(other),
        identity(precision="bf16"),
        identity(preprocess={"interpolation": "bilinear"}),
        identity(preprocess={"resize_mode": "squash"}),
        identity(preprocess={"mean": [0.5, 0.5, 0.5]}),
        identity(preprocess={"std": [0.5, 0.5, 0.5]}),
        identity(tokenizer_kwargs={"clean": "canonicalize"}),
        identity(build("clip", quick_gelu=False), quick_gelu=False),
    ]
    assert len(set(found)) == len(found)
    assert identity() == identity(build("clip"))
    assert identity(preprocess={"interpolation": "bicubic", "mean": OPENAI_MEAN}) == found[0]
    assert load(folder).identity["versions"]
    assert load(folder).identity["vocabulary"] is None  # open_clip's own, named by its version
    assert load(clip_folder).identity["vocabulary"] is not None


def test_the_identity_of_a_tokenizer_of_transformers_is_its_content(roberta, tmp_path) -> None:
    _, folder = roberta
    one = load(folder)
    before = one.identity["vocabulary"]
    one.encode_texts(TEXTS, 8)  # which leaves its padding in the tokenizer
    words = tmp_path / "words"
    assert load(folder).identity["vocabulary"] == before
    text = (words / "tokenizer.json").read_text()
    (words / "tokenizer.json").write_text(text.replace('"blue"', '"bleu"'))
    assert load(folder).identity["vocabulary"] != before


@pytest.mark.parametrize("resize_mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_pixels_are_bit_for_bit_those_of_open_clip(resize_mode, interpolation, models) -> None:
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from PIL import Image

    from caramel.models.open_clip.config import assemble_clip

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 131, 3), np.uint8))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    preprocess = {"resize_mode": resize_mode, "interpolation": interpolation, "mean": (0.1, 0.2, 0.3)}
    config = {"model_cfg": CONFIGS["clip"], "preprocess_cfg": preprocess}
    clip = assemble_clip(models["clip"], config, None)
    ours = normalise_pixels(clip, torch.from_numpy(decode_images(clip, [stream.getvalue()])))
    theirs = image_transform_v2(PreprocessCfg(size=48, **preprocess), is_train=False)(image)
    assert torch.equal(ours[0], theirs)


def test_a_preprocessing_that_open_clip_does_not_know_is_a_clear_error(models) -> None:
    from caramel.models.open_clip.config import assemble_clip

    config = {"model_cfg": CONFIGS["clip"], "preprocess_cfg": {"interpolation": "lanczos"}}
    with pytest.raises(BackendError, match="interpolation must be bicubic or bilinear"):
        assemble_clip(models["clip"], config, None)


def test_a_config_that_open_clip_refuses_is_a_clear_error() -> None:
    config = {"model_cfg": {**CONFIGS["clip"], "text_cfg": {**TEXT, "no_such_key": 1}}}
    with pytest.raises(BackendError, match=r"open_clip rejects the model config.*no_such_key"):
        build_model(config, "mine")


# --- adoption as a base ---


def test_a_file_is_adopted_with_its_activation_and_gives_the_same_vectors(models, tmp_path) -> None:
    target = f"twin-quickgelu:{saved(models['clip'], tmp_path / 'w.pt')}"
    assert adopt_pretrained(pretrained=target, out=tmp_path / "out") == []
    ours, theirs = load(tmp_path / "out"), load(target)
    assert np.array_equal(ours.encode_texts(TEXTS, 8), theirs.encode_texts(TEXTS, 8))
    assert json.loads((tmp_path / "out" / CONFIG).read_text())["model_cfg"]["quick_gelu"] is True
    assert json.loads((tmp_path / "out" / "caramel.json").read_text())["from"] == target


@pytest.mark.parametrize("option", ["", "?quick_gelu=false"])
def test_an_adopted_folder_keeps_its_vocabulary(option, clip_folder, tmp_path) -> None:
    adopt_pretrained(pretrained=f"{clip_folder}{option}", out=tmp_path / "out")
    ours, theirs = load(tmp_path / "out"), load(clip_folder)
    assert np.array_equal(ours.encode_texts(TEXTS, 2), theirs.encode_texts(TEXTS, 2))
    assert ours.identity == theirs.identity


def test_an_adopted_tokenizer_of_transformers_lies_in_the_folder(roberta, tmp_path, cache) -> None:
    _, folder = roberta
    expected = load(folder).encode_texts(TEXTS, 8)
    adopt_pretrained(pretrained=str(folder), out=tmp_path / "out")
    shutil.rmtree(tmp_path / "words")
    assert list_open_clip_problems(str(tmp_path / "out")) == []
    assert np.array_equal(load(tmp_path / "out").encode_texts(TEXTS, 8), expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "needs pretrain.pretrained"),
        ("ViT-B-32:no-such-tag", "Tags of 'ViT-B-32'"),
        ("no-such-model:openai", "Unknown open_clip model"),
        ("ViT-B-32:openai", "Use 'ViT-B-32-quickgelu:openai'"),
    ],
)
def test_a_wrong_base_is_a_clear_error(name, message, tmp_path) -> None:
    with pytest.raises(BackendError, match=message):
        adopt_pretrained(pretrained=name, out=tmp_path)
