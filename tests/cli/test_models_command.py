"""`caramel models` lists checkpoints that caramel's families load, and the rosters take their sources from that list."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from caramel.models.specs import parse_spec
from caramel.registry import FAMILIES
from caramel.report.reproduction.checkpoints import read_checkpoints, read_roster, select_checkpoints
from caramel.report.reproduction.roster import read_models

Call = Callable[..., tuple[int, str, str]]
LISTED = read_checkpoints()
TAGS = [spec for spec, item in LISTED.items() if item.families == ("open_clip",) and "{" not in spec]


@pytest.mark.parametrize("spec", LISTED)
def test_a_spec_is_of_a_family_that_exists(spec: str) -> None:
    assert parse_spec(spec.replace("{checkpoints}", "folder")).family in LISTED[spec].families
    assert {*LISTED[spec].families} <= {*FAMILIES.targets}


@pytest.mark.parametrize("spec", TAGS)
def test_tag_and_activation_are_those_of_open_clip(spec: str) -> None:
    from open_clip.pretrained import get_pretrained_cfg

    name, _, tag = spec.partition(":")
    published = get_pretrained_cfg(name, tag)
    assert published, spec
    assert LISTED[spec].quick_gelu == bool(published.get("quick_gelu")) == ("quickgelu" in name)


@pytest.mark.parametrize(
    "spec", ["RN50-quickgelu:openai", "ViT-B-32:laion2b_s34b_b79k", "ViT-B-16-SigLIP:webli"]
)
def test_the_size_is_that_of_the_architecture(spec: str) -> None:
    import open_clip
    import torch

    with torch.device("meta"):
        model = open_clip.create_model(spec.partition(":")[0], pretrained_hf=False, device="meta")
    assert LISTED[spec].params == round(sum(weight.numel() for weight in model.parameters()) / 1e6)


def test_a_roster_repeats_no_source_and_every_spec_but_a_servers_is_listed() -> None:
    entries = read_roster("models.yaml")
    for name, model in read_models().items():
        if model.spec in LISTED:
            assert "source" not in entries[name]
            assert model.source == LISTED[model.spec].source
        else:
            assert not model.spec or model.spec.startswith("chat:")


def test_models_are_selected_by_family_and_size(call: Call) -> None:
    code, out, err = call("models", "--family", "text", "--min-size", "100", "--max-size", "120")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "spec",
        "text:BAAI/bge-base-en-v1.5",
        "text:thenlper/gte-base",
        "text:sentence-transformers/all-mpnet-base-v2",
    ]
    unknown = [item for spec, item in LISTED.items() if spec.startswith("text:") and item.params is None]
    assert f"{len(unknown)} of unknown size are left out." in err


def test_a_family_selects_its_own_specs_of_a_checkpoint_of_several(call: Call) -> None:
    code, out, _ = call("models", "--family", "itm", "--json")
    assert code == 0
    models = json.loads(out)["models"]
    assert len(models) >= 3
    assert all(model["spec"].startswith("itm:") and "itm" in model["families"] for model in models)


def test_without_a_filter_all_are_listed_each_in_a_line(call: Call) -> None:
    assert (
        len(call("models")[1].splitlines())
        == 1 + len(LISTED)
        == 1 + len(select_checkpoints(None, None, None)[0])
    )
    assert set(select_checkpoints("open_clip", None, None)[0]) >= {*TAGS}


def test_an_unknown_family_lists_the_choices(call: Call) -> None:
    code, _, err = call("models", "--family", "open-clip")
    assert code == 1
    assert "Did you mean 'open_clip'?" in err
