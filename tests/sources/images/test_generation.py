import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from paper_inputs import save_stable_diffusion
from stored_images import Taken

from caramel.errors import BackendError, DataError, ResourceError
from caramel.interfaces.settings import Execution
from caramel.io.image_codec import decode_center_crop
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.columns import SPLITS
from caramel.schemas.contracts import check_table
from caramel.schemas.rejects import REJECTS
from caramel.sources.images import generation
from caramel.sources.images.candidates import StopRule
from caramel.sources.images.diffusion import Sampling, adopt_pipeline, draw_images, load_pipeline
from caramel.sources.images.generation import (
    NOT_DRAWN,
    Drawing,
    build_prompts,
    build_rejects,
    choose_negatives,
    choose_settings,
    generate_candidates,
)
from caramel.sources.world.compounds import assign_split, build_mentions
from caramel.sources.world.grammar import Reading, parse_caption, realise_caption
from caramel.sources.world.scenes import Meaning, Mention, Scene, is_true_of_objects

PER_SUBTYPE = {"train": 2, "val": 1, "test": 3}


def chosen(world) -> pd.DataFrame:
    source, written = world
    return choose_negatives(written.negatives, source.pairs, per_subtype=PER_SUBTYPE, seed=1)


def draw(world, generator_folder, folder, **changes):
    settings = {"candidates": 2, "until": None, "shard_size": 2, "batch_size": 4, "method": "draw", **changes}
    rows = chosen(world).head(5)
    asked = build_prompts(
        rows, world[0].pairs, world[0].pairs, method=settings.pop("method"), prompt_suffix="", seed=3
    )
    splits = dict(zip(rows["negative_id"], rows["split"], strict=True))
    taken = Taken()
    drawing = Drawing(
        generator=str(generator_folder),
        seed=7,
        image_size=48,
        batch_size=settings.pop("batch_size"),
        device="cpu",
        execution=Execution("inline", folder, 1.0),
    )
    candidates = generate_candidates(asked, splits, drawing, sampling=Sampling(2.0, 2), put=taken, **settings)
    return candidates, taken


def test_an_image_gets_at_most_one_negative_and_a_subtype_at_most_its_number(world) -> None:
    rows = chosen(world).merge(world[0].pairs[["pair_id", "image_id"]], on="pair_id")
    assert rows["image_id"].is_unique
    counts = rows.groupby(["split", "subtype"]).size()
    assert (counts <= counts.index.get_level_values("split").map(PER_SUBTYPE)).all()


def test_a_negative_is_drawn_or_a_reject(world) -> None:
    negatives, drawn = world[1].negatives, chosen(world)
    rejects = build_rejects(negatives, drawn)
    check_table(REJECTS, rejects, "test")
    assert sorted([*rejects["id"], *drawn["negative_id"]]) == sorted(negatives["negative_id"])
    assert set(rejects["reason"]) == {NOT_DRAWN}
    text = negatives.set_index("negative_id")["negative_caption"]
    assert rejects["text"].tolist() == text[rejects["id"]].tolist()
    assert build_rejects(drawn, drawn).empty


def test_the_choice_does_not_depend_on_the_order_of_rows(world) -> None:
    source, written = world
    shuffled = written.negatives.sample(frac=1, random_state=0)
    again = choose_negatives(shuffled, source.pairs, per_subtype=PER_SUBTYPE, seed=1)
    assert again.equals(chosen(world))


def test_subtypes_that_find_no_free_image_get_none(world) -> None:
    source, written = world
    all_of_them = choose_negatives(
        written.negatives, source.pairs, per_subtype=dict.fromkeys(PER_SUBTYPE, 1000), seed=1
    )
    of = all_of_them.merge(source.pairs[["pair_id", "image_id"]], on="pair_id")
    assert of["image_id"].is_unique
    assert of["subtype"].nunique() < written.negatives["subtype"].nunique()


def test_candidates_and_images_keep_their_contracts(world, generator_folder, tmp_path) -> None:
    candidates, images = draw(world, generator_folder, tmp_path)
    check_table(CANDIDATES, candidates, "test")
    assert candidates["image_id"].tolist() == list(images.files)
    assert len(candidates) == 10
    splits = chosen(world).set_index("negative_id")["split"]
    for row, known in zip(candidates.itertuples(), images.rows, strict=True):
        assert (known["width"], known["height"], known["split"]) == (48, 48, splits[row.negative_id])
        assert known["source"] == f"synthetic ({row.generator})"
        assert decode_center_crop(images.files[row.image_id], "first", 48).shape == (48, 48, 3)


def test_edited_pairs_come_with_their_positives_and_their_plans(world, generator_folder, tmp_path) -> None:
    candidates, images = draw(world, generator_folder, tmp_path, method="edit")
    assert len(images.files) == 2 * len(candidates) == 20
    check_table(CANDIDATES, candidates, "test")
    assert {*images.files} == {*candidates["image_id"], *candidates["positive_image_id"]}
    captions = world[1].negatives.set_index("negative_id")["negative_caption"]
    splits = chosen(world).set_index("negative_id")["split"]
    for row in candidates.itertuples():
        said, scene = parse_caption(captions[row.negative_id]), Scene.from_json(row.scene)
        assert is_true_of_objects(said.whole, scene.things, exactly=True)
        assert assign_split(build_mentions(scene.things)) == splits[row.negative_id]


def test_a_caption_that_no_picture_of_its_split_shows_is_a_clear_error(world) -> None:
    rows, pairs = chosen(world).head(1), world[0].pairs
    said = parse_caption(rows["negative_caption"][0]).whole.mentions
    full = [Mention(m.noun, m.colour or "red", m.size or "small") for m in said]
    caption = realise_caption(Reading(Meaning(tuple(full)), 0))
    other = next(split for split in SPLITS if split != assign_split(full))
    wrong = pairs.assign(split=other)
    with pytest.raises(DataError, match=f"Split '{other}' allows no image of.*negatives.backend to 'world'"):
        build_prompts(
            rows.assign(negative_caption=caption), wrong, pairs, method="edit", prompt_suffix="", seed=3
        )


def test_edited_pairs_repeat_and_a_killed_run_goes_on_to_the_same_bytes(
    world, generator_folder, tmp_path
) -> None:
    whole = draw(world, generator_folder, tmp_path / "a", method="edit")[1]
    sorted((tmp_path / "a").glob("*.parquet"))[1].unlink()
    resumed = draw(world, generator_folder, tmp_path / "a", method="edit")[1]
    assert (resumed.files, resumed.rows) == (whole.files, whole.rows)


def test_captions_of_no_known_scene_cannot_be_edited(world) -> None:
    rows = chosen(world).head(1).assign(negative_caption="A dog runs.")
    with pytest.raises(DataError, match=r"drawn cell by cell, not 'A dog runs.'.*synthesize.method"):
        build_prompts(rows, world[0].pairs, world[0].pairs, method="edit", prompt_suffix="", seed=3)


def test_the_size_of_shards_does_not_change_a_picture_much(world, generator_folder, tmp_path) -> None:
    """Batches of another size may round differently; each picture has its own seed."""
    one = draw(world, generator_folder, tmp_path / "a", shard_size=1)[1]
    two = draw(world, generator_folder, tmp_path / "b", shard_size=5)[1]
    assert list(one.files) == list(two.files)
    for a, b in zip(one.files.values(), two.files.values(), strict=True):
        difference = decode_center_crop(a, "a", 48).astype(int) - decode_center_crop(b, "b", 48)
        assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("suffix", [", a photograph", " A picture.", ""])
def test_a_prompt_has_no_final_stop_before_its_suffix(world, suffix) -> None:
    rows = chosen(world).head(3)
    asked = build_prompts(rows, world[0].pairs, world[0].pairs, method="draw", prompt_suffix=suffix, seed=3)
    for caption, found in zip(rows["negative_caption"], asked, strict=True):
        assert found["caption"] == caption
        assert caption[-1] == "." != caption[-2]
        assert found["prompt"] == (caption[:-1] + suffix if suffix else caption)


def test_a_killed_run_goes_on_to_the_same_bytes(world, generator_folder, tmp_path) -> None:
    whole = draw(world, generator_folder, tmp_path / "a")[1]
    draw(world, generator_folder, tmp_path / "b")
    lost = sorted((tmp_path / "b").glob("*.parquet"))[1]
    lost.unlink()
    resumed = draw(world, generator_folder, tmp_path / "b")[1]
    assert (resumed.files, resumed.rows) == (whole.files, whole.rows)


def test_in_rounds_pictures_are_those_of_all_candidates_and_a_killed_run_goes_on_to_the_same_bytes(
    world, generator_folder, tmp_path
) -> None:
    how = {"method": "edit", "batch_size": 1, "candidates": 3}
    _, whole = draw(world, generator_folder, tmp_path / "a", **how)
    until = StopRule(allow_unmentioned_objects=False, keep_ambiguous=("add",))
    candidates, rounds = draw(world, generator_folder, tmp_path / "b", until=until, **how)
    assert candidates.groupby("negative_id").size().between(1, 3).all()
    assert rounds.files == {name: whole.files[name] for name in rounds.files}
    sorted((tmp_path / "b").glob("*.parquet"))[1].unlink()
    _, resumed = draw(world, generator_folder, tmp_path / "b", until=until, **how)
    assert (resumed.files, resumed.rows) == (rounds.files, rounds.rows)


def test_settings_are_chosen_on_a_grid_by_the_judge(world, generator_folder, clip_folder, tmp_path) -> None:
    asked = build_prompts(
        chosen(world).head(3),
        world[0].pairs,
        world[0].pairs,
        method="draw",
        prompt_suffix=" A picture.",
        seed=3,
    )
    found = choose_settings(
        asked,
        Drawing(
            generator=str(generator_folder),
            seed=1,
            image_size=48,
            batch_size=4,
            device="cpu",
            execution=Execution("inline", tmp_path, 1.0),
        ),
        guidance=[1.5, 3.0],
        steps=[2],
        judge="clip",
        allow_unmentioned_objects=False,
        judge_checkpoint=str(clip_folder),
    )
    assert [point["guidance"] for point in found["grid"]] == [1.5, 3.0]
    best = max(found["grid"], key=lambda point: point["fit"])
    assert found["chosen"] == {"guidance": best["guidance"], "steps": 2}
    assert len({point["fit"] for point in found["grid"]}) == 2, "the settings make no difference"


def test_the_model_of_the_grid_s_judge_is_sent_to_other_machines(world, tmp_path, monkeypatch) -> None:
    (tmp_path / "blip").mkdir()
    monkeypatch.chdir(tmp_path)
    sent = {}

    def record(trial, points, *, settings, **options):
        sent.update(settings)
        return [SimpleNamespace(result={**point, "fit": 1.0}) for point in points]

    monkeypatch.setattr(generation, "tune_grid", record)
    drawing = Drawing("generator", 1, 48, 4, "cpu", Execution("inline", tmp_path, 1.0))
    choose_settings(
        [],
        drawing,
        guidance=[1.5],
        steps=[2],
        judge="itm:blip",
        judge_checkpoint="base",
        allow_unmentioned_objects=False,
    )
    assert LocalFile("blip") in sent["judge"]


def test_a_pipeline_of_another_class_loads_and_draws_through_the_same_code(
    generator_folder, tmp_path
) -> None:
    save_stable_diffusion(tmp_path / "other", generator_folder)
    adopt_pipeline(pretrained=str(tmp_path / "other"), out=tmp_path / "adopted")
    pipeline, options = load_pipeline(tmp_path / "adopted", "cpu")
    assert type(pipeline).__name__ == "StableDiffusionPipeline"
    drawn = draw_images(pipeline, options, ["A red car."], [1], sampling=Sampling(2.0, 2), image_size=16)
    assert drawn.shape == (1, 16, 16, 3)


def test_a_missing_generator_and_an_unknown_name_are_clear_errors(tmp_path) -> None:
    with pytest.raises(BackendError, match="dvc repro train_generator"):
        load_pipeline(tmp_path, "cpu")
    adopt_pipeline(pretrained="no-such/pipeline", out=tmp_path)
    with pytest.raises(BackendError, match="no-such/pipeline"):
        load_pipeline(tmp_path, "cpu")


def test_a_generator_that_is_not_as_it_was_written_is_refused_with_what_to_run(
    generator_folder, tmp_path
) -> None:
    whole = generator_folder / "generator.json"
    copy = tmp_path / "copy"
    shutil.copytree(generator_folder, copy)
    text = whole.read_text()
    for broken in ("", text[:20], "[]", "{}", text.replace('"sha256"', '"sha"')):
        (copy / "generator.json").write_text(broken)
        with pytest.raises(
            BackendError, match=r"card .*generator.json' is broken.*dvc repro -f train_generator"
        ):
            load_pipeline(copy, "cpu")
    (copy / "generator.json").write_text(text)
    weights = next(copy.rglob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(BackendError, match="does not match its card"):
        load_pipeline(copy, "cpu")


def test_an_adopted_pipeline_that_changed_or_went_is_refused(generator_folder, tmp_path) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(generator_folder / "pipeline", theirs)
    adopt_pipeline(pretrained=str(theirs), out=tmp_path / "adopted")
    (theirs / "model_index.json").write_text((theirs / "model_index.json").read_text() + " ")
    with pytest.raises(BackendError, match=r"theirs' does not match its card .*changed or missing"):
        load_pipeline(tmp_path / "adopted", "cpu")
    shutil.rmtree(theirs)
    with pytest.raises(BackendError, match="theirs' does not match its card"):
        load_pipeline(tmp_path / "adopted", "cpu")


def test_pictures_that_do_not_fit_into_memory_say_what_to_lower(generator_folder, monkeypatch) -> None:
    pipeline, options = load_pipeline(generator_folder, "cpu")

    def full(*args, **named):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")

    monkeypatch.setattr(pipeline.transformer, "forward", full)
    with pytest.raises(
        ResourceError, match=r"A batch of size 2 does not fit into the memory of 'cpu'.*batch_size`"
    ):
        draw_images(pipeline, options, ["a car", "a ball"], [1, 2], sampling=Sampling(2.0, 1), image_size=48)


def test_a_pipeline_on_a_device_that_is_not_there_is_a_clear_error(generator_folder) -> None:
    with pytest.raises(BackendError, match=r"Device 'meteor' cannot be used"):
        load_pipeline(generator_folder, "meteor")
