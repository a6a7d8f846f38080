"""The papers' own pipelines on small real files: BiVLC from SugarCrepe and COCO, TROHN from COCO."""

import json
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from paper_inputs import save_stable_diffusion, write_coco, write_sugarcrepe
from PIL import Image
from project import Project
from small_language_models import cola_folder, vera_folder

from caramel.benchmarks.readers.bivlc import read_bivlc
from caramel.io.safe_yaml import read_yaml
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.training import TRAINING

pytestmark = pytest.mark.slow

STAGES = [*read_yaml(Path(__file__).parents[2] / "dvc.yaml", "")["stages"]]

SMALL = {  # a pipeline and a CLIP without training judge at random: these runs are about the way, not the outcome
    "run.executor": "inline",
    "validate_captions.min_pairs": "5",
    "synthesize.candidates": "2",
    "synthesize.image_size": "16",
    "synthesize.batch_size": "64",
    "synthesize.grid": "{guidance: [2.0], steps: [1]}",
    "image_scores.folds": "2",
    "validate_benchmark.max_subtype_share": "1.0",
    "evaluate.n_bootstrap": "100",
}


@pytest.fixture(scope="module")
def pretrained(clip_folder, generator_folder, tmp_path_factory) -> dict[str, str]:
    """A pipeline of diffusers and a checkpoint of open_clip, tiny and untrained, by the keys that name them."""
    pipeline = save_stable_diffusion(tmp_path_factory.mktemp("pipeline") / "sd", generator_folder)
    return {"train_generator.pretrained": str(pipeline), "pretrain.pretrained": str(clip_folder)}


def run_profile(folder: Path, profile: str, **sets: str) -> Project:
    """Run all stages of a profile, and see that they write all that DVC would take."""
    project = start_profile(folder, profile, **sets)
    project.warm_all_stages()
    return project


def start_profile(folder: Path, profile: str, **sets: str) -> Project:
    """Return a new project with a profile, before its first stage."""
    folder.mkdir()
    project = Project.create(folder, lock=False)
    options = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    project.run("caramel", "config", "use", profile, *options)
    return project


def test_bivlc_is_made_from_sugarcrepe_and_coco_and_read_back(pretrained, tmp_path) -> None:
    files = write_sugarcrepe(tmp_path / "sugarcrepe", images=20, rows=20, subtypes=SUBTYPES[:7])
    sets = {
        **SMALL,
        **pretrained,
        "scenes.data_dir": str(files),
        "filter_images.faithfulness_threshold": "0.0",
    }
    project = run_profile(tmp_path / "p", "bivlc", **sets)
    data = project.folder / "data"

    def read(table, name):
        return read_table(table, data / f"{name}.parquet")

    pairs = read(PAIRS, "scenes/pairs")
    assert len(pairs) == 140
    assert set(pairs["split"]) == {"val", "test"}
    assert len(read(IMAGES, "scenes/images")) == 20
    negatives = read(NEGATIVES, "refine/negatives")
    assert negatives["negative_caption"].str.fullmatch(r"A .* of (obj|att|rel)\.").all()
    assert len(negatives) == 140, "SugarCrepe's negatives are taken as they are"
    assert read(NEGATIVES, "select_negatives/negatives").equals(negatives)
    assert read(REJECTS, "select_negatives/rejects").empty
    candidates = read(CANDIDATES, "synthesize/candidates")
    assert (candidates.groupby("negative_id").size() == 2).all()
    assert set(candidates["prompt"]) == set(negatives["negative_caption"]), "the prompt is the caption alone"
    choices = read(CHOICES, "filter_images/choices")
    chosen = choices[choices["chosen_by"].notna()]
    assert not chosen["ambiguous"].any()
    best = choices[~choices["ambiguous"]].groupby("negative_id")["faithful"].max()
    assert chosen.set_index("negative_id")["faithful"].equals(best)
    unfit = read(REJECTS, "filter_images/rejects")
    assert len(chosen) + len(unfit) == 140
    instances = read(INSTANCES, "assemble/instances")
    assert len(instances) == len(chosen) > 20
    assert instances["image_id"].duplicated().any(), "an image of SugarCrepe has several captions"
    assert read(TRAINING, "assemble/training").empty
    assert "trains no model" in (data / "finetune/SKIPPED.txt").read_text()
    assert "trains no model" in (data / "report/report.html").read_text()

    project.run("dvc", "commit", "-f", "-q", "dvc.yaml")  # without CREPE's graph, which did not run
    project.run("caramel", "pin", "v1")
    project.run("caramel", "release", "v1", "--out", "release", "--no-audit")
    released = project.folder / "release"
    with tarfile.open(released / "formats/test/images.tar") as tar:
        tar.extractall(tmp_path / "images", filter="data")
    task = read_bivlc(released / "formats/test/bivlc", tmp_path / "images")
    tested = instances[instances["split"] == "test"]
    assert sorted(task.rows["negative_caption"]) == sorted(tested["negative_caption"])


def test_photographs_are_edited_within_masks_and_their_positives_take_the_same_way(
    pretrained, generator_folder, tmp_path
) -> None:
    coco = write_coco(tmp_path / "coco", images=40, captions=1)
    editor = save_stable_diffusion(tmp_path / "sd", generator_folder, "StableDiffusionInpaintPipeline")
    sets = {
        **SMALL,
        **pretrained,
        "train_generator.pretrained": str(editor),
        "scenes.source": "files",
        "scenes.data_dir": str(coco),
        "scenes.val_test_frac": "[0.5, 0.5]",
        "negatives.backend": "lexicon",
        "synthesize.method": "inpaint",
        "synthesize.masks": "inputs/masks",
        "filter_images.judge": "none",
        "filter_images.ambiguity_test": "captions",
        "filter_images.faithfulness_threshold": "0.0",
        "assemble.positives": "drawn",
    }
    project = start_profile(tmp_path / "p", "bivlc", **sets)
    data, masks = project.folder / "data", project.folder / "inputs/masks"
    project.warm_stages(*STAGES[: STAGES.index("train_generator")])
    negatives = read_table(NEGATIVES, data / "select_negatives/negatives.parquet")
    image_of = read_table(PAIRS, data / "refine/pairs.parquet").set_index("pair_id")["image_id"]
    rows = []
    for negative in negatives.iloc[2:].itertuples():  # two have no mask
        name = f"{image_of[negative.pair_id]}.png"
        rows.append({"negative_id": negative.negative_id, "filename": name})
        with Image.open(coco / "images" / image_of[negative.pair_id]) as image:
            Image.new("L", image.size, 255).save(masks / name)
    pd.DataFrame(rows).to_csv(masks / "masks.csv", index=False)
    project.warm_stages(*STAGES[STAGES.index("train_generator") : STAGES.index("validate_benchmark")])

    rejects = read_table(REJECTS, data / "synthesize/rejects.parquet")
    assert set(rejects.loc[rejects["reason"].str.contains("no mask"), "id"]) == {
        *negatives["negative_id"][:2]
    }
    instances = read_table(INSTANCES, data / "assemble/instances.parquet")
    assert len(instances) > 30
    assert instances["image_id"].str.endswith("+").all(), "positives went through the editor's autoencoder"
    figures = json.loads((data / "image_scores/figures.json").read_text())
    assert set(figures["forms"]) == {"instances", "instances_source"}, "the attackers see both positives"
    attacked = [
        record["all"]["n"] for form in figures["forms"].values() for record in form["pictures"].values()
    ]
    assert min(attacked) > 0, "there are enough images to attack"


def test_trohn_is_made_from_coco_selected_drawn_and_trained_on(pretrained, tmp_path) -> None:
    coco = write_coco(tmp_path / "coco", images=40, captions=5)
    vera, cola = (make(tmp_path / make.__name__) for make in (vera_folder, cola_folder))
    sets = {
        **SMALL,
        **pretrained,
        "scenes.data_dir": str(coco),
        "scenes.val_test_frac": "[0.25, 0.25]",
        "negatives.backend": "lexicon",  # for the language model's stored responses
        "synthesize.candidates": "1",
        "select_negatives.scorers": f"['vera:{vera}', 'cola:{cola}']",
        "select_negatives.similarity": pretrained["pretrain.pretrained"],
        "select_negatives.percentile": "30",
        "select_negatives.cell": "1.0",
        "finetune.seeds": "[11]",
        "finetune.epochs": "1",
        "finetune.batch_size": "16",
        "finetune.warmup_steps": "0",
        "evaluate.benchmarks": "[]",
    }
    project = run_profile(tmp_path / "p", "trohn", **sets)
    data = project.folder / "data"

    def read(table, name):
        return read_table(table, data / f"{name}.parquet")

    pairs, negatives = read(PAIRS, "refine/pairs"), read(NEGATIVES, "refine/negatives")
    assert len(pairs) == 200, "COCO has five captions an image"
    assert len(negatives) == len(read(NEGATIVES, "negatives/negatives")), "TROHN-Text is not refined"
    selected, rejects = (
        read(NEGATIVES, "select_negatives/negatives"),
        read(REJECTS, "select_negatives/rejects"),
    )
    assert len(selected) + len(rejects) == len(negatives)
    assert selected.equals(
        negatives[negatives["negative_id"].isin(selected["negative_id"])].reset_index(drop=True)
    )
    reasons = set(rejects["reason"].str.replace(r":.*", "", regex=True))
    assert {
        "below the percentile of its subtype under vera",
        "below the percentile of its subtype under cola",
    } <= reasons
    candidates, choices = read(CANDIDATES, "synthesize/candidates"), read(CHOICES, "filter_images/choices")
    assert sorted(candidates["negative_id"]) == sorted(selected["negative_id"]), (
        "one image of each selected caption"
    )
    assert set(choices["chosen_by"]) == {"none"}, "no judge leaves an image out"
    training = read(TRAINING, "assemble/training")
    assert set(training["pair_id"]) == set(pairs.loc[pairs["split"] != "test", "pair_id"])
    texts = training.explode("negative_captions")["negative_captions"].dropna()
    trained = negatives[negatives["pair_id"].isin(training["pair_id"])]
    assert sorted(texts) == sorted(trained["negative_caption"]), "every negative is trained on, drawn or not"
    images = training.explode("negative_image_ids")["negative_image_ids"].dropna()
    assert set(images) == {
        f"{name}#0" for name in selected["negative_id"] if name.rpartition(":")[0] in set(training["pair_id"])
    }

    in_train = training[training["split"] == "train"]
    drawn = in_train.explode("negative_image_ids")["negative_image_ids"].notna().sum()
    written = in_train.explode("negative_captions")["negative_captions"].notna().sum()
    curves = pd.read_csv(data / "finetune/curves.csv")
    steps = curves.groupby("model")["step"].max().to_dict()
    assert steps == {
        "infonce-11": len(in_train) // 16,  # all captions
        "trohn_text-11": written // 8,  # a row for each negative, without images
        "trohn_img-11": drawn // 8,  # a row for each negative with an image
    }
    assert set(curves.loc[curves["metric"] == "contrastive", "model"]) == set(steps)
    metrics = read(METRICS, "evaluate/metrics")
    assert set(metrics["model"]) >= {"base", *steps}
    assert "trohn_img" in (data / "report/report.html").read_text()


@pytest.mark.parametrize("negatives", ["true", "false"])
def test_a_resnet_is_trained_from_scratch_on_coco_with_and_without_negatives(
    negatives: str, tmp_path: Path
) -> None:
    coco = write_coco(tmp_path / "coco", images=20, captions=5)
    config = json.loads((Path(__file__).parents[2] / "params/rn50.json").read_text())
    config["vision_cfg"] |= {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8}
    config["text_cfg"] |= {"width": 32, "heads": 2, "layers": 1}
    (tmp_path / "rn.json").write_text(json.dumps({**config, "embed_dim": 16}))
    sets = {
        "scenes.data_dir": str(coco),
        "scenes.val_test_frac": "[0.25, 0.0]",
        "pretrain.model": str(tmp_path / "rn.json"),
        "pretrain.negatives": negatives,
        "pretrain.epochs": "2",
        "pretrain.batch_size": "16",
        "pretrain.warmup_steps": "1",
    }
    (tmp_path / "p").mkdir()
    project = Project.create(tmp_path / "p", lock=False)
    options = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    project.run("caramel", "config", "use", "scratch", *options)
    project.warm_stages("scenes", "train_writer", "negatives", "pretrain")
    curve = pd.read_csv(project.folder / "data/base/curves.csv")
    in_train = (read_table(PAIRS, project.folder / "data/scenes/pairs.parquet")["split"] == "train").sum()
    assert curve["step"].max() == 2 * (in_train // (8 if negatives == "true" else 16))
    assert ("accuracy" in set(curve["metric"])) == (negatives == "true")
    clip = load_checkpoint(project.folder / "data/base")
    assert clip.vocabulary is None
    assert clip.config["model_cfg"]["text_cfg"]["vocab_size"] == 49408


@pytest.mark.parametrize("profile", ["sugarcrepe_pp", "default"])
def test_the_tuning_on_sugarcrepe_pp_is_a_stage_that_writes_empty_tables_by_default(
    profile: str, clip_folder: Path, tmp_path: Path
) -> None:
    data = write_sugarcrepe(
        tmp_path / "sugarcrepe_pp", images=20, rows=10, subtypes=("replace_obj", "swap_att")
    )
    for path in data.glob("*.json"):  # in the published form: a list, with a second caption
        rows = json.loads(path.read_text()).values()
        path.write_text(
            json.dumps(
                [{"id": i, **row, "caption2": f"here is {row['caption']}"} for i, row in enumerate(rows)]
            )
        )
    sets = {
        "models": f"['{clip_folder}']",
        "data": str(tmp_path),
        "images": str(data / "images"),
        "seeds": "[1]",
    }
    sets |= {"epochs": "1", "rows": "2", "warmup_steps": "0"}
    (tmp_path / "p").mkdir()
    project = Project.create(tmp_path / "p", lock=False)
    options = [
        word for key, value in sets.items() for word in ("--set", f"finetune_sugarcrepe_pp.{key}={value}")
    ]
    project.run("caramel", "config", "use", profile, *(options if profile != "default" else []))
    project.warm_stages("finetune_sugarcrepe_pp")
    written = project.folder / "data/finetune_sugarcrepe_pp"
    metrics = read_table(METRICS, written / "metrics.parquet")
    assert metrics.empty == (profile == "default")
    assert read_table(SIMILARITIES, written / "similarities.parquet").empty == metrics.empty
    if profile != "default":
        models = {f"{clip_folder}/{variant}-1" for variant in ("frozen", "full", "lora")}
        assert set(metrics["model"]) == models
        assert {"test60/replace_obj", "test60/swap_att"} <= set(metrics["subset"])
        assert {"itt", "tot"} <= set(metrics["metric"])
