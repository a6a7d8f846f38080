"""A released model is the run's model to whoever loads it: by open_clip, by transformers, and by caramel."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import released_projects
import torch
from same_weights import ODD_TEXTS
from tiny_clips import CONFIGS
from transformers import CLIPModel, CLIPProcessor

from caramel.errors import CaramelError, ConfigError, DataError
from caramel.models.open_clip.checkpoints import build_model, load_checkpoint, save_checkpoint
from caramel.models.open_clip.loader import load_open_clip
from caramel.models.transformers.dual import load_dual
from caramel.release.publishing.escaping import escape_markdown
from caramel.release.publishing_models import model_release
from caramel.release.publishing_models.model_release import TEXTS, _build_test_image, release_model
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame, write_table

SQUASHED = {
    "squash-1": {"resize_mode": "squash"},
    "longest-1": {"interpolation": "bilinear", "resize_mode": "longest"},
}
RETAINED = "model,variant,measure,value\nbase,base,i2t_1,0.5\ntrohn_img-3,trohn_img,i2t_1,0.25\n"


def figures() -> Any:
    rows = [("trohn_img-3", "caramel", "all", "group", 0.5, 0.25, 0.75, 6, 0, 0)]
    return build_frame(METRICS, rows)


def checkpoint(form: str, folder: Path, **preprocess: str) -> None:
    """Write an untrained model with open_clip's own vocabulary."""
    torch.manual_seed(0)
    config = {"model_cfg": copy.deepcopy(CONFIGS[form]), "preprocess_cfg": preprocess}
    save_checkpoint(
        folder, build_model(config, form), config=config, vocabulary=None, card={"variant": "infonce"}
    )


@pytest.fixture(scope="module")
def project(clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = released_projects.made(tmp_path_factory.mktemp("models"))
    data = root / "data"
    shutil.copytree(clip_folder, data / "base")
    shutil.copytree(clip_folder, data / "finetune" / "trohn_img-3")
    card = data / "finetune" / "trohn_img-3" / "caramel.json"
    card.write_text(
        json.dumps(
            json.loads(card.read_text(encoding="utf-8"))
            | {"variant": "trohn_img", "note": released_projects.NASTY}
        ),
        encoding="utf-8",
    )
    for form in ("clip", "resnet"):
        checkpoint(form, data / "finetune" / f"{form}-1")
    for name, preprocess in SQUASHED.items():
        checkpoint("clip", data / "finetune" / name, **preprocess)
    write_table(METRICS, figures(), data / "evaluate" / "metrics.parquet")
    (data / "evaluate" / "retained.csv").write_text(RETAINED, encoding="utf-8")
    released_projects.pinned(root, "v2")
    return root


def unit(vectors: Any) -> torch.Tensor:
    return torch.nn.functional.normalize(getattr(vectors, "pooler_output", vectors), dim=-1).detach()


@pytest.mark.parametrize(
    ("run", "folder"),
    [("trohn_img-3", "finetune/trohn_img-3"), ("base", "base"), ("clip-1", "finetune/clip-1")],
)
def test_its_vectors_are_those_of_the_run_by_every_library(
    run: str, folder: str, project: Path, tmp_path: Path
) -> None:
    found = release_model(run, project, out=tmp_path / "out")
    assert (found.transformers, found.why_not) == (True, "")
    out = tmp_path / "out"
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{out}")
    tokens = open_clip.get_tokenizer(f"local-dir:{out}")(list(TEXTS))
    texts, image = (
        unit(model.eval().encode_text(tokens)),
        unit(model.encode_image(preprocess(_build_test_image())[None])),
    )
    own = load_checkpoint(project / "data" / folder)
    assert torch.allclose(texts, unit(own.model.encode_text(own.tokenize(list(TEXTS)))), atol=1e-5)
    again = load_checkpoint(out)
    assert torch.equal(again.tokenize(list(TEXTS)), own.tokenize(list(TEXTS)))
    theirs, processor = CLIPModel.from_pretrained(out), CLIPProcessor.from_pretrained(out)
    given = processor(
        text=list(TEXTS), images=_build_test_image(), return_tensors="pt", padding=True, truncation=True
    )
    assert torch.allclose(unit(theirs.get_text_features(given["input_ids"])), texts, atol=1e-4)
    assert torch.allclose(unit(theirs.get_image_features(given["pixel_values"])), image, atol=1e-4)


@pytest.mark.parametrize("run", ["trohn_img-3", "base", "clip-1"])
def test_odd_texts_have_the_same_vectors_through_both_families(
    run: str, project: Path, tmp_path: Path
) -> None:
    assert release_model(run, project, out=tmp_path / "out").transformers
    loaded = {"device": "cpu", "precision": "fp32", "name": "it"}
    one, other = (load(str(tmp_path / "out"), **loaded) for load in (load_open_clip, load_dual))
    np.testing.assert_allclose(
        one.encode_texts(ODD_TEXTS, None), other.encode_texts(ODD_TEXTS, None), atol=1e-5
    )


def test_what_transformers_has_not_is_released_for_open_clip_alone(project: Path, tmp_path: Path) -> None:
    for run, why in (
        ("resnet-1", "its image tower is not a vision transformer"),
        ("squash-1", "its preprocessing has resize_mode 'squash'"),
        ("longest-1", "its preprocessing has interpolation 'bilinear' and resize_mode 'longest'"),
    ):
        found = release_model(run, project, out=tmp_path / run)
        assert found.why_not == why
        assert "config.json" not in found.files
        assert escape_markdown(why) in (tmp_path / run / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("run", SQUASHED)
def test_vectors_would_tell_preprocessing_that_transformers_has_not(
    run: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "caramel.release.publishing_models.model_release.explain_incompatibility", lambda config: ""
    )
    assert release_model(run, project, out=tmp_path / "out").why_not.startswith("its vectors would differ by")


def test_a_model_that_open_clip_loads_as_another_one_is_refused_and_no_folder_appears(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = model_release._compute_features
    monkeypatch.setattr(
        model_release, "_compute_features", lambda clip: tuple(-vectors for vectors in own(clip))
    )
    with pytest.raises(DataError, match="open_clip loads another model from the release"):
        release_model("base", project, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_data_that_a_model_is_of_is_not_written_over(project: Path) -> None:
    before = sorted(project.rglob("*"))
    with pytest.raises(ConfigError, match="inputs are never overwritten"):
        release_model("base", project, out=project / "data" / "finetune" / "new")
    assert sorted(project.rglob("*")) == before


def test_its_card_has_data_method_figures_and_losses_and_its_bytes_are_the_same(
    project: Path, tmp_path: Path
) -> None:
    release_model("trohn_img-3", project, out=tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    pin = json.loads((project / "pins" / "v2.json").read_text(encoding="utf-8"))
    for said in (
        "license: cc-by-4.0",
        f"version `v2` of {pin['created']}",
        pin["data"],
        "method `trohn_img`",
        "| activation | GELU |",
        "| `caramel` | `group` | 50.0 [25.0, 75.0] | 6 |",
        "| image to text, R@1 | 0.250 | 0.500 |",
    ):
        assert said in text
    (note,) = (line for line in text.splitlines() if "alert" in line)
    assert len(re.findall(r"(?<!\\)\|", note)) == 3, "a bar in it is no border of a cell"
    assert text.count("\n---\n") == 1, "what a checkpoint says of itself is no header"
    release_model("trohn_img-3", project, out=tmp_path / "again")
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def unpin(root: Path) -> None:
    (root / "pins" / "v2.json").unlink()


def pin_twice(root: Path) -> None:
    released_projects.pinned(root, "v3")


def link(root: Path) -> None:
    weights = root / "data" / "finetune" / "trohn_img-3" / "open_clip_model.safetensors"
    weights.unlink()
    weights.symlink_to(root.parent / "elsewhere")
    (root.parent / "elsewhere").write_bytes(b"x")


def replace(root: Path) -> None:
    shutil.copyfile(
        root / "data" / "finetune" / "clip-1" / "open_clip_model.safetensors",
        root / "data" / "finetune" / "trohn_img-3" / "open_clip_model.safetensors",
    )


@pytest.mark.parametrize(
    ("spoil", "run", "said"),
    [
        (unpin, "trohn_img-3", "No pin names data/finetune as it is on disk"),
        (pin_twice, "trohn_img-3", "Several pins name this model: v2, v3. Choose one with --pin"),
        (link, "trohn_img-3", "links that lead out of the project: open_clip_model.safetensors"),
        (replace, "trohn_img-3", "No pin names data/finetune as it is on disk"),
        (unpin, "../base", "There is no model of a run '../base'. Runs: base, clip-1"),
    ],
)
def test_a_model_of_which_nothing_says_what_it_is_is_not_released(
    spoil: Any, run: str, said: str, project: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(project, tmp_path / "spoiled"))
    spoil(root)
    with pytest.raises(CaramelError, match=said):
        release_model(run, root, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
