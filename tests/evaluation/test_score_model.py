"""What a model in memory does on a benchmark is what `caramel eval` says of it on disk; and the model stays as it was."""

from __future__ import annotations

import copy
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pandas as pd
import pytest
import small_transformers
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, CLIPProcessor

import caramel
from caramel import cli
from caramel.errors import BackendError, ConfigError, DataError
from caramel.evaluation.score_model import LoadedBenchmark

COLOURS = ("red", "blue", "green", "black")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small SugarCrepe++ whose captions and images repeat, with texts that a tokenizer takes for one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "sugarcrepe_pp"
    folder.mkdir(parents=True)
    for subtype in ("replace_att", "swap_att"):
        rows = [
            {
                "id": n,
                "filename": f"{n % 6}.png",
                "caption": f"A {COLOURS[n % 4]} car and a {COLOURS[(n + 1) % 4]} dog.",
                "caption2": f"The {COLOURS[n % 4]} car and a {COLOURS[(n + 1) % 4]} dog on it.",
                # The same to a tokenizer that lower-cases: a tie.
                "negative_caption": f"a {COLOURS[n % 4]} CAR and a {COLOURS[(n + 1) % 4]} dog."
                if n % 5 == 0
                else f"A {COLOURS[(n + 2) % 4]} dog and a {COLOURS[n % 4]} car.",
            }
            for n in range(24)
        ]
        (folder / f"{subtype}.json").write_text(json.dumps(rows))
    for n in range(6):  # images 0 and 5 have the same content
        pixels = np.random.default_rng(n % 5).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        (folder / f"{n}.png").write_bytes(file.getvalue())
    return folder.parent


@pytest.fixture
def benchmark(data: Path) -> LoadedBenchmark:
    return caramel.load_benchmark("sugarcrepe_pp", data)


@pytest.fixture
def folder(clip_folder: Path, tmp_path: Path) -> Path:
    """An open_clip checkpoint whose vectors differ, as open_clip itself writes it to disk."""
    from caramel.models.open_clip.checkpoints import load_checkpoint, save_checkpoint

    clip = load_checkpoint(clip_folder, "cpu")
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in clip.model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    vocabulary = (clip_folder / "bpe.txt.gz").read_bytes()
    out = tmp_path / "checkpoint"
    return save_checkpoint(out, clip.model, config=clip.config, vocabulary=vocabulary, card={"name": "t"})


@pytest.fixture
def open_clip_parts(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The checkpoint as open_clip loads it: model, and what belongs to it."""
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    text = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]["text_cfg"]
    tokenizer = open_clip.tokenizer.SimpleTokenizer(
        str(folder / "bpe.txt.gz"), context_length=text["context_length"]
    )
    return model.train(), {"tokenizer": tokenizer, "preprocess": preprocess}


@pytest.fixture
def transformers_parts(tmp_path: Path) -> tuple[Any, dict[str, Any], Path]:
    """A small CLIP of transformers, its processor, and its folder."""
    folder = small_transformers.clip_folder(tmp_path / "clip")
    images = AutoImageProcessor.from_pretrained(folder, backend="pil")
    processor = CLIPProcessor(images, AutoTokenizer.from_pretrained(folder))
    return CLIPModel.from_pretrained(folder).train(), {"processor": processor}, folder


def on_disk(spec: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the similarities and metrics of `caramel eval`."""
    given = f"--model model={spec} --benchmark sugarcrepe_pp --data data --out out --n-bootstrap 100"
    with pytest.raises(SystemExit) as ended:
        cli.main(["eval", *given.split(), "--device", "cpu", "--executor", "inline"])
    assert not ended.value.code
    rows = pd.read_parquet("out/similarities.parquet")
    return rows.assign(subsets=rows["subsets"].map(list)), pd.read_parquet("out/metrics.parquet")


def test_an_open_clip_model_in_memory_scores_as_its_checkpoint_on_disk(
    benchmark: LoadedBenchmark, folder: Path, open_clip_parts: tuple[Any, dict[str, Any]]
) -> None:
    model, parts = open_clip_parts
    found = caramel.score(model, benchmark, **parts, n_bootstrap=100)
    similarities, metrics = on_disk(f"open_clip:{folder}")
    pd.testing.assert_frame_equal(found.similarities, similarities, check_exact=True, check_dtype=False)
    pd.testing.assert_frame_equal(found.metrics, metrics, check_exact=True, check_dtype=False)
    assert found.metrics["ties"].max() >= 10
    assert found.overall["accuracy"] == pytest.approx(
        metrics.set_index(["subset", "metric"]).loc[("all", "accuracy"), "value"], abs=1e-6
    )


def test_a_transformers_model_in_memory_scores_as_its_checkpoint_on_disk(
    benchmark: LoadedBenchmark, transformers_parts: tuple[Any, dict[str, Any], Path]
) -> None:
    model, parts, folder = transformers_parts
    found = caramel.score(model, benchmark, **parts, n_bootstrap=100)
    similarities, metrics = on_disk(f"dual:{folder}")
    pd.testing.assert_frame_equal(found.similarities, similarities, check_exact=True, check_dtype=False)
    pd.testing.assert_frame_equal(found.metrics, metrics, check_exact=True, check_dtype=False)
    assert found.metrics["ties"].max() >= 10


def test_two_functions_score_as_the_checkpoint_that_they_use(
    benchmark: LoadedBenchmark, transformers_parts: tuple[Any, dict[str, Any], Path]
) -> None:
    model, parts, folder = transformers_parts
    model.eval()
    processor = parts["processor"]

    def encode_images(images: list[Image.Image]) -> torch.Tensor:
        return model.get_image_features(**processor(images=images, return_tensors="pt")).pooler_output

    def encode_texts(texts: list[str]) -> np.ndarray[Any, Any]:
        inputs = processor(text=texts, return_tensors="pt", padding=True, truncation=True)
        return model.get_text_features(**inputs).pooler_output.numpy()

    found = caramel.score((encode_images, encode_texts), benchmark, n_bootstrap=100)
    similarities, metrics = on_disk(f"dual:{folder}")
    # Their batches are padded to other lengths than ours, so that sums differ in the last bits.
    pd.testing.assert_frame_equal(found.similarities, similarities, atol=1e-6, rtol=0, check_dtype=False)
    pd.testing.assert_frame_equal(found.metrics, metrics, check_dtype=False)


def test_equal_vectors_of_functions_tie_exactly(benchmark: LoadedBenchmark) -> None:
    def encode_images(images: list[Image.Image]) -> list[list[float]]:
        return [np.asarray(image, float).mean(axis=(0, 1)).tolist() for image in images]

    def encode_texts(texts: list[str]) -> list[list[float]]:
        return [[3.0 * text.lower().count(letter) for letter in "aeo"] for text in texts]

    rows = caramel.score((encode_images, encode_texts), benchmark, n_bootstrap=100).similarities
    same = rows["instance_id"].str.extract(r"(\d+)$")[0].astype(int) % 5 == 0
    assert same.sum() == 10
    assert (rows.loc[same, "s_c0_i0"] == rows.loc[same, "s_c1_i0"]).all()


def test_each_distinct_image_and_text_is_encoded_once_in_batches(benchmark: LoadedBenchmark) -> None:
    batches: dict[str, list[list[Any]]] = {"images": [], "texts": []}

    def encode(kind: str) -> Callable[[list[Any]], np.ndarray[Any, Any]]:
        def encoded(items: list[Any]) -> np.ndarray[Any, Any]:
            batches[kind].append([i.tobytes() if kind == "images" else i for i in items])
            return np.ones((len(items), 3))

        return encoded

    caramel.score((encode("images"), encode("texts")), benchmark, batch_size=4, n_bootstrap=100)
    for kind, number in (("images", 5), ("texts", len(texts_of(benchmark)))):
        items = [item for batch in batches[kind] for item in batch]
        assert len(items) == len(set(items)) == number
        assert {len(batch) for batch in batches[kind][:-1]} <= {4}


def texts_of(benchmark: LoadedBenchmark) -> set[str]:
    rows = benchmark.task.rows
    return {text for name in ("caption", "caption2", "negative_caption") for text in rows[name]}


def test_the_model_and_all_random_states_are_as_before(
    benchmark: LoadedBenchmark, open_clip_parts: tuple[Any, dict[str, Any]]
) -> None:
    model, parts = open_clip_parts
    model.visual.eval()  # frozen in another mode than the rest
    modes = [part.training for part in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    other, plain = copy.deepcopy(model), caramel.score(model, benchmark, **parts, n_bootstrap=100)
    model.logit_scale.grad = torch.ones(())
    tokens = parts["tokenizer"](["a red car"])
    with torch.autocast("cpu", torch.bfloat16):
        found = caramel.score(model, benchmark, **parts, n_bootstrap=100)
        assert torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
        model.encode_text(tokens).sum().backward()  # through weights that score used, in the same autocast
    with torch.autocast("cpu", torch.bfloat16):
        other.encode_text(tokens).sum().backward()
    pd.testing.assert_frame_equal(found.similarities, plain.similarities, check_exact=True)
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert name == "logit_scale" or (one.grad is None) == (two.grad is None), name
        assert name == "logit_scale" or one.grad is None or torch.equal(one.grad, two.grad), name
    assert model.logit_scale.grad == 1
    assert [part.training for part in model.modules()] == modes
    assert True in modes
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]  # noqa: NPY002
    assert random.getstate() == states[2]


def test_a_training_is_the_same_with_and_without_scores_between_its_steps(
    benchmark: LoadedBenchmark, transformers_parts: tuple[Any, dict[str, Any], Path]
) -> None:
    _, parts, folder = transformers_parts

    def trained(scoring: bool) -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = CLIPModel.from_pretrained(folder).train()
        for part in model.modules():
            if hasattr(part, "dropout"):
                part.dropout = 0.5  # draws in training
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            texts = parts["processor"](text=["a dog", "two men"], return_tensors="pt", padding=True)
            pixels = torch.randn(2, 3, 32, 32)
            loss = model(**texts, pixel_values=pixels, return_loss=True).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if scoring:
                caramel.score(model, benchmark, **parts, n_bootstrap=100)
        return [value.detach() for value in model.parameters()]

    assert all(map(torch.equal, trained(scoring=True), trained(scoring=False)))


def test_what_a_model_keeps_of_a_scoring_pass_can_be_learnt_through(benchmark: LoadedBenchmark) -> None:
    class Keeping(torch.nn.Module):
        """An open_clip interface whose first pass leaves a tensor behind."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(3))
            self.kept: torch.Tensor | None = None

        def encode_image(self, images: torch.Tensor, normalize: bool = False) -> torch.Tensor:
            if self.kept is None:
                self.kept = torch.arange(1.0, 4.0).exp()
            return torch.nn.functional.normalize(images.mean((2, 3)) @ (self.weight * self.kept), dim=-1)

        def encode_text(self, tokens: torch.Tensor, normalize: bool = False) -> torch.Tensor:
            return torch.nn.functional.normalize(tokens[:, :3].float() @ self.weight, dim=-1)

    def tokenizer(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[text.count(letter) for letter in "aeod"] for text in texts])

    model = Keeping()
    preprocess = open_clip.transform.image_transform(8, is_train=False)
    caramel.score(model, benchmark, tokenizer=tokenizer, preprocess=preprocess, n_bootstrap=100)
    model.encode_image(torch.rand(2, 3, 8, 8)).sum().backward()
    assert model.weight.grad is not None


def test_modes_are_restored_after_an_error(
    benchmark: LoadedBenchmark, open_clip_parts: tuple[Any, dict[str, Any]]
) -> None:
    model, parts = open_clip_parts
    with torch.no_grad():
        model.visual.conv1.weight.fill_(float("nan"))
    with pytest.raises(BackendError, match="NaN or infinity"):
        caramel.score(model, benchmark, **parts)
    assert all(part.training for part in model.modules())


def test_nothing_is_written_unless_asked_and_then_what_eval_writes(
    benchmark: LoadedBenchmark, tmp_path: Path
) -> None:
    def ones(items: list[Any]) -> np.ndarray[Any, Any]:
        return np.ones((len(items), 2))

    before = sorted(tmp_path.rglob("*"))
    caramel.score((ones, ones), benchmark)
    assert sorted(tmp_path.rglob("*")) == before
    found = caramel.score((ones, ones), benchmark, name="mine", out=tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"similarities.parquet", "metrics.parquet", "metrics.csv"}
    written = pd.read_parquet(tmp_path / "out" / "similarities.parquet")
    pd.testing.assert_frame_equal(written, found.similarities, check_dtype=False)
    assert len(written) == 48
    with pytest.raises(ConfigError):
        caramel.score((ones, ones), benchmark, out=tmp_path / "data" / "sugarcrepe_pp")


def test_scoring_starts_neither_ray_nor_mlflow(data: Path) -> None:
    code = f"""
import sys, numpy as np, caramel
b = caramel.load_benchmark("sugarcrepe_pp", {str(data)!r})
ones = lambda items: np.ones((len(items), 2))
assert caramel.score((ones, ones), b, n_bootstrap=100).overall["itt"] == 0
print(sorted({{"ray", "mlflow", "dvc", "great_expectations", "diffusers"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_query_with_many_candidates_is_ranked(tmp_path: Path) -> None:
    for name, shade in (("dog", 0), ("cat", 200)):
        (tmp_path / "zero_shot" / name).mkdir(parents=True)
        for n in range(3):
            image = Image.new("RGB", (8, 8), (shade, 99, 200 - shade + n))
            image.save(tmp_path / "zero_shot" / name / f"{n}.png")
    (tmp_path / "zero_shot" / "classes.json").write_text(json.dumps({"dog": "dog", "cat": "cat"}))

    def encode_images(images: list[Image.Image]) -> np.ndarray[Any, Any]:
        return np.array([np.asarray(image, float).mean((0, 1))[[0, 2]] for image in images])

    def encode_texts(texts: list[str]) -> np.ndarray[Any, Any]:
        return np.array([[1.0, 0.0] if "cat" in text else [0.0, 1.0] for text in texts])

    found = caramel.score((encode_images, encode_texts), caramel.load_benchmark("zero_shot", tmp_path))
    assert found.overall["recall@1"] == 1


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no model": (object(), BackendError, "A object cannot be scored"),
    "a wrapped model": (type("Wrapped", (), {"module": 1})(), BackendError, r"its \.module"),
    "integers": (lambda items: np.ones((len(items), 2), int), BackendError, "floating-point"),
    "one row too few": (lambda items: np.ones((len(items) - 1, 2)), BackendError, "one row of floating"),
    "no array": (lambda items: "vectors", BackendError, "must return vectors"),
    "one axis": (lambda items: np.ones(len(items)), BackendError, r"\(n|\(\d+, d\)"),
    "not finite": (lambda items: np.full((len(items), 2), np.nan), BackendError, "NaN or infinity"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_scored_is_explained(kind: str, benchmark: LoadedBenchmark) -> None:
    model, error, message = WRONG[kind]
    given = (model, model) if callable(model) else model
    with pytest.raises(error, match=message):
        caramel.score(given, benchmark)


def test_images_and_texts_of_different_sizes_are_explained(benchmark: LoadedBenchmark) -> None:
    def of_size(size: int) -> Callable[[list[Any]], np.ndarray[Any, Any]]:
        return lambda items: np.ones((len(items), size))

    with pytest.raises(BackendError, match="2 numbers for an image and 3 for a text"):
        caramel.score((of_size(2), of_size(3)), benchmark)


def test_missing_and_wrong_parts_of_a_model_are_explained(
    benchmark: LoadedBenchmark,
    open_clip_parts: tuple[Any, dict[str, Any]],
    transformers_parts: tuple[Any, dict[str, Any], Path],
    folder: Path,
) -> None:
    model, parts = open_clip_parts
    other = transformers_parts[0]
    _, training, _ = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    for given, more, message in (
        (model, {"tokenizer": parts["tokenizer"]}, "preprocess= is missing"),
        (model, {**parts, "processor": 1}, "processor= is not used"),
        (model, {**parts, "preprocess": training}, "changes the same image at random"),
        (model, {**parts, "preprocess": lambda image: image}, "does not end in ToTensor and Normalize"),
        (other, {}, "processor= is missing"),
        (other, {"processor": parts["tokenizer"]}, "has no tokenizer|has no image_processor"),
        (model, {**parts, "name": ""}, "name=''"),
        (model, {**parts, "n_bootstrap": 10}, "n_bootstrap=10 must be a whole number from 100 to 100,000"),
        (model, {**parts, "batch_size": 0}, "batch_size=0"),
    ):
        with pytest.raises(ConfigError, match=message):
            caramel.score(given, benchmark, **more)
    with pytest.raises(BackendError, match="precision='bf16'"):
        caramel.score(model.bfloat16(), benchmark, **parts)
    assert caramel.score(model, benchmark, **parts, precision="bf16", n_bootstrap=100).overall


def test_a_benchmark_that_cannot_be_loaded_is_explained(data: Path) -> None:
    with pytest.raises(BackendError, match="Did you mean 'sugarcrepe'"):
        caramel.load_benchmark("sugarcrep", data)
    with pytest.raises(ConfigError, match="has no option 'split'"):
        caramel.load_benchmark("sugarcrepe_pp", data, split="val")
    with pytest.raises(ConfigError, match="limit=0"):
        caramel.load_benchmark("sugarcrepe_pp", data, limit=0)
    with pytest.raises(DataError):
        caramel.load_benchmark("sugarcrepe_pp", data / "nowhere")
    with pytest.raises(ConfigError, match="is not loaded"):
        caramel.score(object(), "sugarcrepe_pp")  # type: ignore[arg-type]
    (data / "sugarcrepe_pp" / "3.png").unlink()
    with pytest.raises(DataError, match=r"3\.png: missing"):
        caramel.load_benchmark("sugarcrepe_pp", data)
    assert len(caramel.load_benchmark("sugarcrepe_pp", data, limit=3)) == 3
