"""The stage ``filter_images`` as profile ``files`` has it: a CLIP judge whose threshold is calibrated."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest
from annotated import decided
from annotation_tasks import list_keys
from filter_inputs import write_filter_inputs

from caramel import cli
from caramel.annotation.content import hash_candidates, hash_judged
from caramel.config import schema
from caramel.config.profiles import write_profile
from caramel.errors import DataError
from caramel.io.image_store import ImageStore
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.catalogue import TABLES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(world, files, clip_folder, tmp_path, monkeypatch):
    """Return a function that runs a stage on the small world, all of whose images are of the val split."""
    write_filter_inputs(world, files, clip_folder, tmp_path)
    write_profile("files", {}, tmp_path)
    monkeypatch.chdir(tmp_path)

    def stage(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "pipelines" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, name)(schema.load_config())

    return stage


def test_profile_files_measures_its_threshold_and_says_what_it_reaches(run) -> None:
    run("filter_images")
    metrics = json.loads(Path("data/filter_images/metrics.json").read_text())
    asked, found = metrics["threshold"], metrics["threshold"]["calibration"]
    pairs, negatives = (
        read_table(TABLES[name], f"data/refine/{name}.parquet") for name in ("pairs", "negatives")
    )
    known = pairs[(pairs["split"] == "val") & pairs["pair_id"].isin(negatives["pair_id"])]
    assert found["images"] == known["image_id"].nunique() >= 30
    assert asked["faithfulness_threshold"] == found["threshold"]
    assert asked["faithful_from"] >= 0.5
    assert 0 < found["precision"] <= 1
    assert 0 < found["recall"] <= 1
    choices = read_table(CHOICES, "data/filter_images/choices.parquet")
    assert (choices.dropna(subset="chosen_by")["faithful"] >= found["threshold"]).all()


def test_what_is_kept_lies_where_it_was_drawn(run, files) -> None:
    run("filter_images")
    index = Path("data/filter_images/images.parquet")
    kept = read_table(IMAGES, index)
    assert set(kept["shard"]) == {"../synthesize/images/00000.parquet"}
    pictures = ImageStore(index, kept)
    assert len(pictures) > 0
    assert {*map(pictures.read_verified, pictures)} <= {*files.values()}


def test_too_few_images_to_measure_on_stop_the_gate_on_captions_before_anything_is_trained(run) -> None:
    pairs = read_table(PAIRS, "data/refine/pairs.parquet")
    write_table(PAIRS, pairs.assign(split="train"), "data/refine/pairs.parquet")
    with pytest.raises(DataError, match=r"their number is 0.* or set filter_images.faithfulness_threshold"):
        run("validate_captions")


def hash_shown() -> tuple[dict[str, str], dict[str, str]]:
    """Return the content of the items of tasks ``choose`` and ``fits``, of the only candidate of each negative."""
    drawn, source = (read_table(IMAGES, f"data/{stage}/images.parquet") for stage in ("synthesize", "scenes"))
    candidates = read_table(CANDIDATES, "data/synthesize/candidates.parquet")
    sha256, positive = (dict(zip(t["image_id"], t["sha256"], strict=True)) for t in (drawn, source))
    rows = candidates.merge(
        read_table(NEGATIVES, "data/refine/negatives.parquet")[["negative_id", "pair_id"]]
    ).merge(read_table(PAIRS, "data/refine/pairs.parquet"), on="pair_id", suffixes=("", "_positive"))
    of_fits = {
        row.negative_id: hash_judged([row.caption], [positive[row.image_id_positive], sha256[row.image_id]])
        for row in rows.itertuples()
    }
    return hash_candidates(candidates, drawn), of_fits


def test_people_choose_the_images_and_their_agreement_stands_beside_the_figures(run) -> None:
    names = sorted(read_table(CANDIDATES, "data/synthesize/candidates.parquet")["negative_id"])
    people = {"judge": "people", "second_judge": "clip", "faithfulness_threshold": "0.5"}
    people |= {"keep_ambiguous": "[]"}
    sets = {f"filter_images.{key}": value for key, value in people.items()}
    write_profile("files", sets | {"synthesize.grid_judge": "clip"}, Path())
    with pytest.raises(DataError, match=r"decisions.parquet' is missing.*caramel annotate make choose"):
        run("filter_images")
    chosen, ambiguous = names[:10], names[:3]
    of_choose, of_fits = hash_shown()
    verdicts = {name: "both" if name in ambiguous else "positive" for name in chosen}
    decisions = [
        decided("choose", {name: "0" if name in chosen else "none" for name in names}, contents=of_choose),
        decided("fits", verdicts, contents=of_fits),
    ]
    path = Path("inputs/annotations/images/decisions.parquet")
    write_table(DECISIONS, pd.concat([decisions[0].iloc[1:], decisions[1]]), path)
    with pytest.raises(
        DataError, match=r"(?s)not decided on 1 of 20 images in task 'choose'.*annotate make choose"
    ):
        run("filter_images")
    write_table(DECISIONS, pd.concat([decisions[0], decisions[1].iloc[:-2]]), path)
    with pytest.raises(DataError, match=r"not decided on 2 of 7 images in task 'fits'"):
        run("filter_images")
    split = {"votes": {"0": 1, "none": 1}}  # people who disagreed, about other images and about none of these
    outdated = [decided("choose", {"gone": "0"}, **split), decided("fits", {names[10]: "both"}, **split)]
    write_table(DECISIONS, pd.concat([*decisions, *outdated]), path)
    run("filter_images")
    choices = read_table(CHOICES, "data/filter_images/choices.parquet").dropna(subset="chosen_by")
    assert sorted(choices["negative_id"]) == names[3:10]
    assert set(choices["chosen_by"]) == {"people"}
    metrics = json.loads(Path("data/filter_images/metrics.json").read_text())
    assert metrics["people"]["choose"]["krippendorff_alpha"] == 1.0
    assert metrics["people"]["fits"]["items"] == 10
    assert {task: record["outdated"] for task, record in metrics["people"].items()} == {
        "choose": 1,
        "fits": 1,
    }
    assert metrics["second_judge"]["name"] == "clip"  # its precision and recall are against people


def annotate(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["annotate", *arguments])
    assert not ended.value.code


def answer_in_csv(task: str, choose) -> None:
    """Have two people answer a task as CSV: ``choose`` returns the number of an option for a row."""
    annotate("export", f"{task}.db", "--to", "csv", "--out", task)
    rows = pd.read_csv(f"{task}/items.csv", dtype=str, keep_default_na=False)
    item_ids = {key: item_id for item_id, key in list_keys(Path(f"{task}.db")).items()}
    known = rows.assign(item_id=rows["item_key"].map(item_ids)).to_dict("records")
    for name in ("ada", "bob"):
        answers = [str(choose(row)) for row in known]
        rows.assign(annotator=name, answer=answers, seconds="3").to_csv(f"{name}_{task}.csv", index=False)
        annotate("import", f"{task}.db", f"{name}_{task}.csv")
    annotate("answers", f"{task}.db", "--out", f"{task}.parquet")


def test_from_candidates_to_images_that_people_chose_by_commands_alone(run) -> None:
    pytest.importorskip("caramel.annotation.store")
    path = "inputs/annotations/images/decisions.parquet"
    candidates = read_table(CANDIDATES, "data/synthesize/candidates.parquet")
    wanted = sorted(candidates["negative_id"])[:12]
    # The fixture's drawn images are the pairs' own; people must see two different ones.
    turned = candidates.assign(image_id=[*candidates["image_id"][1:], candidates["image_id"].iloc[0]])
    write_table(CANDIDATES, turned, "data/synthesize/candidates.parquet")
    index = Path("data/scenes/images.parquet")
    source = ImageStore(index, read_table(IMAGES, index))
    rows = read_table(NEGATIVES, "data/refine/negatives.parquet").merge(
        read_table(PAIRS, "data/refine/pairs.parquet"), on="pair_id"
    )
    image_of = dict(zip(rows["negative_id"], rows["image_id"], strict=True))

    annotate("make", "choose", "--out", "choose.db", "--overlap", "2")
    answer_in_csv("choose", lambda row: 1 if row["item_id"] in wanted else 2)
    annotate("agreement", "choose.parquet")
    annotate("decide", "choose.parquet", "--out", path)
    annotate("make", "fits", "--chosen", path, "--out", "fits.db", "--overlap", "2")

    def find_positive(row) -> int:
        """Return the option with the pair's own image; 3 is both."""
        if row["item_id"] == wanted[0]:
            return 3
        return 1 if Path("fits", row["option_1"]).read_bytes() == source[image_of[row["item_id"]]] else 2

    answer_in_csv("fits", find_positive)
    annotate("decide", "choose.parquet", "fits.parquet", "--out", path)
    people = {
        "judge": "people",
        "second_judge": "null",
        "faithfulness_threshold": "0.5",
        "keep_ambiguous": "[]",
    }
    sets = {f"filter_images.{key}": value for key, value in people.items()}
    write_profile("files", sets | {"synthesize.grid_judge": "clip"}, Path())
    run("filter_images")
    choices = read_table(CHOICES, "data/filter_images/choices.parquet").dropna(subset="chosen_by")
    assert sorted(choices["negative_id"]) == wanted[1:]


def test_judges_are_calibrated_on_a_file_of_labels_where_the_profile_says_so(run) -> None:
    candidates = read_table(CANDIDATES, "data/synthesize/candidates.parquet")
    pairs = read_table(PAIRS, "data/refine/pairs.parquet").drop_duplicates("image_id").head(60)
    labels = [
        {"image_id": image, "caption": f"{caption[:-1]}.", "fits": number % 2 == 0}
        for number, (image, caption) in enumerate(zip(pairs["image_id"], pairs["caption"], strict=True))
    ]
    drawn = read_table(IMAGES, "data/synthesize/images.parquet").set_index("image_id")["sha256"]
    name = candidates["image_id"][0]
    labels.append({"image_id": name, "caption": "A candidate.", "fits": True, "sha256": drawn[name]})
    folder = Path("inputs/annotations/images")
    folder.mkdir(parents=True, exist_ok=True)
    write_profile("files", {"filter_images.calibrate_on": "labels"}, Path())
    with pytest.raises(DataError, match=r"labels\.csv' is missing"):
        run("filter_images")
    pd.DataFrame(labels).to_csv(folder / "labels.csv", index=False)
    run("filter_images")
    metrics = json.loads(Path("data/filter_images/metrics.json").read_text())
    assert metrics["threshold"]["calibration"]["images"] == 61
