"""A card says what is known of a model, and of an adopted one that it is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import released_projects

from caramel.release.publishing.contents import VersionContents
from caramel.release.publishing.metadata import About
from caramel.release.publishing_models.model_card import ModelFacts, write_model_card
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame, write_table

CONFIG = {"model_cfg": {"quick_gelu": False}, "preprocess_cfg": {}}
ADOPTED = {"pretrain": {"backend": "pretrained", "pretrained": "ViT-B-32:openai", "steps": 800}}
TRAINED = {"pretrain": {"backend": "open_clip", "pretrained": None, "steps": 800}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = released_projects.made(tmp_path_factory.mktemp("project"))
    rows = [
        ("m", "caramel", "all", "group", 0.766, 0.75, 0.78, 6, 0, 0),
        ("m", "caramel", "all", "detector", 0.766, None, None, 6, 0, 0),
    ]
    write_table(METRICS, build_frame(METRICS, rows), root / "data" / "evaluate" / "metrics.parquet")
    released_projects.pinned(root, "v2")
    return root


def card(project: Path, params: dict[str, Any], said: dict[str, Any], out: Path) -> str:
    contents = VersionContents("v2", project)
    pinned = contents.pinned.model_copy(update={"params": params})
    write_model_card(ModelFacts("m", pinned, contents, said, CONFIG, About(), ""), out)
    return (out / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("params", "variant", "said", "not_said"),
    [
        (
            TRAINED,
            None,
            [
                "A CLIP trained with caramel on version `v2`",
                "test split were not in its training data",
                "`steps`",
            ],
            [],
        ),
        (
            TRAINED,
            "negclip",
            ["A CLIP, fine-tuned with caramel on version `v2`", "test split were not in its training data"],
            [],
        ),
        (
            ADOPTED,
            None,
            ["`ViT-B-32:openai`, adopted as the base of version `v2`", "so it is unknown"],
            ["trained with caramel", "were not in its training data", "`steps`"],
        ),
        (
            ADOPTED,
            "negclip",
            [
                "fine-tuned with caramel from `ViT-B-32:openai` on version `v2`",
                "the training data of `ViT-B-32:openai`",
            ],
            ["were not in its training data"],
        ),
        (
            {},
            "negclip",
            ["the training data of its base", "so it is unknown"],
            ["were not in its training data"],
        ),
    ],
)
def test_the_test_split_is_said_to_be_unseen_only_by_what_was_trained_here(
    params: dict[str, Any],
    variant: str | None,
    said: list[str],
    not_said: list[str],
    project: Path,
    tmp_path: Path,
) -> None:
    text = card(project, params, {"variant": variant} if variant else {}, tmp_path)
    assert all(words in text for words in said)
    assert not any(words in text for words in not_said)


def test_figures_of_one_column_have_one_unit(project: Path, tmp_path: Path) -> None:
    text = card(project, TRAINED, {}, tmp_path)
    assert "| `caramel` | `group` | 76.6 [75.0, 78.0] | 6 |" in text
    assert "| `caramel` | `detector` | 76.6 | 6 |" in text
