"""The rosters name a model, or a reason, for every published row, and the score of a model is that of its row."""

from pathlib import Path

import pytest

from caramel.errors import ConfigError
from caramel.evaluation.scores.published_wordings import PUBLISHED_WORDINGS
from caramel.models.specs import get_score_type, parse_spec
from caramel.models.transformers.blip_answers import WORDINGS
from caramel.registry import BENCHMARKS, FAMILIES
from caramel.report.published_rows import read_published_rows
from caramel.report.reproduction.roster import (
    RosterModel,
    build_slug,
    find_table,
    list_tables,
    read_models,
    read_papers,
    resolve_models,
)

ROWS = read_published_rows()
MODELS = read_models()
SPECS = {name: model.spec for name, model in resolve_models(Path("weights"), ()).items() if model.spec}
# Scores of published rows that no family of caramel has, and why.
UNCLAIMED = {
    "": "people",
    "detector": "computed from result files of detectors",
    "likelihood": "of Open CapPa, whose weights are for JAX",
    "itm_decision": "the decision of a matching head of weights of their own format",
}


def test_every_published_model_is_in_the_roster_and_no_other() -> None:
    members = {member for model in MODELS.values() for member in model.mean_of}
    assert set(ROWS["model"]) == MODELS.keys() - (members - set(ROWS["model"]))


def test_the_score_of_every_published_row_is_claimed_by_the_family_of_its_model() -> None:
    claimed = {FAMILIES[name].score for name in FAMILIES} | {f"choice_{w}" for w in PUBLISHED_WORDINGS}
    claimed |= {f"yes_no_{wording}" for wording in WORDINGS}
    assert not UNCLAIMED.keys() & claimed
    assert set(ROWS["score"]) == (set(ROWS["score"]) & claimed) | UNCLAIMED.keys()
    for model, rows in ROWS.groupby("model"):
        (score,) = set(rows["score"])
        names = MODELS[str(model)].mean_of or (str(model),)
        for name in names:
            if name in SPECS:
                assert get_score_type(SPECS[name]) == score, model
            else:
                assert MODELS[name].unavailable, name


def test_vgptscore_of_noise_is_the_papers_blind_row() -> None:
    blind = ROWS[ROWS["model"].str.endswith(", VGPTScore Blind")]
    assert len(blind) == 60
    assert set(blind["score"]) == {"vgptscore_noise"}
    assert "vgptscore_blind" not in set(ROWS["score"])


@pytest.mark.parametrize("name", SPECS)
def test_specs_are_of_known_families_and_tags(name: str) -> None:
    import open_clip

    spec = parse_spec(f"{build_slug(name)}={SPECS[name]}")
    assert spec.name == build_slug(name)
    architecture, _, tag = spec.target.partition(":")
    if spec.family == "open_clip" and tag and "/" not in tag:
        assert (architecture, tag) in open_clip.list_pretrained()


def test_names_stay_distinct_as_parts_of_paths() -> None:
    assert len({build_slug(name) for name in MODELS}) == len(MODELS)


@pytest.mark.parametrize("key", read_papers())
def test_a_papers_benchmarks_are_known_and_have_a_source(key: str) -> None:
    paper = read_papers()[key]
    used = set(ROWS["benchmark"][ROWS["paper"] == paper.paper])
    assert used == paper.benchmarks.keys() <= {*BENCHMARKS}
    for model, files in paper.released.items():
        assert files.keys() <= set(
            ROWS["benchmark"][(ROWS["paper"] == paper.paper) & (ROWS["model"] == model)]
        )


def test_tables_hold_all_cells_of_the_papers() -> None:
    counts = {table.name: len(table.cells) for key in read_papers() for table in list_tables(key)}
    assert sum(counts.values()) == len(ROWS)
    assert counts["sugarcrepe:T8"] == 190
    assert counts["sugarcrepe_pp:T2"] == 135
    assert counts["crepe:T16"] == 126
    assert counts["bivlc:T5"] == 10


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sugarcrepe", "Write PAPER:TABLE"),
        ("winoground:T1", "papers: sugarcrepe, sugarcrepe_pp, crepe, bivlc"),
        ("sugarcrepe:T99", "not among the tables of sugarcrepe"),
        ("bivlc:T7", "agreement of annotators"),
    ],
)
def test_a_table_that_cannot_be_reproduced_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_table(name)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("CLIP RN50", "is not NAME=SPEC"),
        ("CLIP RN5=ViT-B-32:openai", "CLIP RN50"),
        ("BLIP=itm:folder", "'itm', the published figures of 'BLIP' by cosine"),
    ],
)
def test_a_wrong_override_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_models(Path("weights"), [override])


def test_an_override_replaces_the_spec_of_its_model_alone() -> None:
    models = resolve_models(Path("weights"), ["ALBEF=dual:albef", "All-MiniLM-L6-v2=text:mini?pooling=mean"])
    assert models["ALBEF"].spec == "dual:albef"
    assert models["All-MiniLM-L6-v2"].spec == "text:mini?pooling=mean"
    assert models["NegCLIP"].spec == "ViT-B-32-quickgelu:weights/negclip.pth"


def test_a_model_of_the_roster_has_exactly_one_origin() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        RosterModel(spec="a:b", source="c", unavailable="d")
    with pytest.raises(ValueError, match="has a source"):
        RosterModel(spec="a:b")


def test_no_table_sends_a_key_and_requests_to_a_service_that_nobody_named() -> None:
    chat = [model.spec for model in read_models().values() if model.spec.startswith("chat:")]
    assert {parse_spec(spec).target.split("@")[1].split(":")[1] for spec in chat} == {"//127.0.0.1"}
    spec = "chat:gpt-4o@https://api.openai.com/v1#wording=gpt4o_1"
    model = resolve_models(Path("checkpoints"), [f"GPT-4o, prompt 1={spec}"])["GPT-4o, prompt 1"]
    assert (model.spec, model.unavailable) == (spec, "")
