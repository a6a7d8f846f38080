import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from paper_inputs import save_stable_diffusion
from PIL import Image
from stored_images import Taken

import caramel.sources.images.photo_edits.drawing as drawing_module
from caramel.errors import BackendError, DataError, ResourceError
from caramel.interfaces.settings import Execution
from caramel.io.image_codec import decode_center_crop
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.contracts import check_table
from caramel.sources.images.diffusion import Sampling, adopt_pipeline, call_pipeline, load_pipeline
from caramel.sources.images.generation import Drawing, build_prompts, build_rejects, generate_candidates
from caramel.sources.images.photo_edits.drawing import EditSettings, draw_edits, encode_and_decode
from caramel.sources.images.photo_edits.inputs import (
    NO_IMAGE,
    NO_MASK,
    add_edit_inputs,
    build_instruction,
    read_masks,
    split_editable,
)

SIZE = 16
CLASSES = {
    "inpaint": "StableDiffusionInpaintPipeline",
    "instruct": "StableDiffusionInstructPix2PixPipeline",
}


@pytest.fixture(scope="module")
def editors(generator_folder, tmp_path_factory):
    """Return the generator folder of an in-painting and of an instruction pipeline."""
    folder = tmp_path_factory.mktemp("editors")
    for method, name in CLASSES.items():
        save_stable_diffusion(folder / name, generator_folder, name)
        adopt_pipeline(pretrained=str(folder / name), out=folder / method)
    return {method: folder / method for method in CLASSES}


@pytest.fixture
def masks(world, tmp_path) -> dict[str, Path]:
    """Return masks of all negatives but the first, white in their left half."""
    pixels = np.zeros((48, 48), np.uint8)
    pixels[:, :24] = 255
    Image.fromarray(pixels).save(tmp_path / "left.png")
    rows = pd.DataFrame({"negative_id": world[1].negatives["negative_id"][1:], "filename": "left.png"})
    rows.to_csv(tmp_path / "masks.csv", index=False)
    return read_masks(tmp_path)


def edit(world, folder, editor, method, masks, tmp_path, **changes):
    source, negatives = world[0], world[1].negatives.iloc[1:4]
    images = {name: folder[name] for name in source.pairs["image_id"]}
    asked = add_edit_inputs(
        build_prompts(negatives, source.pairs, source.pairs, method=method, prompt_suffix="", seed=3),
        images,
        masks if method == "inpaint" else None,
        method=method,
        image_size=SIZE,
        folder=tmp_path / "inputs",
    )
    drawing = Drawing(
        generator=str(editor),
        seed=7,
        image_size=SIZE,
        batch_size=2,
        device="cpu",
        execution=Execution("inline", tmp_path / "work", 1.0),
        edit=EditSettings(method, changes.get("positives", "reencoded"), 1.5),
    )
    taken = Taken()
    splits = dict.fromkeys(negatives["negative_id"], "val")
    candidates = generate_candidates(
        asked, splits, drawing, candidates=2, until=None, shard_size=2, sampling=Sampling(2.0, 2), put=taken
    )
    return candidates, taken


@pytest.mark.parametrize("method", CLASSES)
@pytest.mark.parametrize("positives", ["reencoded", "edited"])
def test_each_candidate_comes_with_a_positive_image_of_the_same_pipeline(
    world, files, editors, masks, method, positives, tmp_path
) -> None:
    candidates, taken = edit(world, files, editors[method], method, masks, tmp_path, positives=positives)
    check_table(CANDIDATES, candidates, "test")
    assert len(candidates) == 6
    assert {*taken.files} == {*candidates["image_id"], *candidates["positive_image_id"]}
    pixels = {name: decode_center_crop(data, name, SIZE) for name, data in taken.files.items()}
    first, second = (pixels[name] for name in candidates["image_id"][:2])
    assert not np.array_equal(first, second), "two candidates start from the same noise"
    one, other = (pixels[name] for name in candidates["positive_image_id"][:2])
    assert np.array_equal(one, other) == (positives == "reencoded")
    again, _ = edit(world, files, editors[method], method, masks, tmp_path / "again", positives=positives)
    pd.testing.assert_frame_equal(candidates, again)


def test_an_edit_depends_on_its_source_image_and_on_its_mask(editors, tmp_path) -> None:
    pipeline, options = load_pipeline(editors["inpaint"], "cpu", "inpaint")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        Image.fromarray(rng.integers(0, 256, (SIZE, SIZE, 3), np.uint8)).save(tmp_path / f"{name}.png")
    for name, part in (("left", np.s_[:, :8]), ("right", np.s_[:, 8:])):
        mask = np.zeros((SIZE, SIZE), np.uint8)
        mask[part] = 255
        Image.fromarray(mask).save(tmp_path / f"{name}.png")
    files = [("one", "left"), ("two", "left"), ("one", "right")]
    rows = [
        {
            "prompt": "a car",
            "positive": "a ball",
            "source_file": f"{tmp_path}/{s}.png",
            "mask_file": f"{tmp_path}/{m}.png",
        }
        for s, m in files
    ]
    drawn = draw_edits(
        pipeline,
        options,
        rows,
        [1, 1, 1],
        edit=EditSettings("inpaint", "edited", 1.5),
        sampling=Sampling(2.0, 2),
        image_size=SIZE,
        batch_size=3,
    )
    images = [image for pair in drawn for image in pair]
    assert len({image.tobytes() for image in images}) == 6


def test_one_folder_loads_as_a_drawing_and_as_an_in_painting_pipeline(generator_folder, tmp_path) -> None:
    save_stable_diffusion(tmp_path / "sd", generator_folder)
    adopt_pipeline(pretrained=str(tmp_path / "sd"), out=tmp_path / "adopted")
    loaded = [type(load_pipeline(tmp_path / "adopted", "cpu", m)[0]).__name__ for m in ("draw", "inpaint")]
    assert loaded == ["StableDiffusionPipeline", "StableDiffusionInpaintPipeline"]
    with pytest.raises(
        BackendError, match=r"StableDiffusionPipeline, which takes no instructions.*'inpaint'"
    ):
        load_pipeline(tmp_path / "adopted", "cpu", "instruct")


def test_a_pipeline_without_an_autoencoder_cannot_re_encode() -> None:
    with pytest.raises(BackendError, match=r"object has no autoencoder.*'edited'"):
        encode_and_decode(object(), [])


def test_re_encoding_computes_as_drawing_does_and_says_what_to_do_without_memory() -> None:
    states = []

    class Full:
        device, dtype, decode = torch.device("cpu"), torch.float16, None

        def to(self, dtype):
            states.append(dtype)

        def encode(self, pixels):
            states.append(torch.backends.cudnn.conv.fp32_precision)
            raise torch.OutOfMemoryError("out of memory")

    pipeline = SimpleNamespace(
        vae=Full(), image_processor=SimpleNamespace(preprocess=lambda images: torch.zeros(2, 3))
    )
    before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    try:
        with pytest.raises(
            ResourceError, match=r"A batch of size 2 does not fit.*Lower `synthesize\.batch_size`"
        ):
            encode_and_decode(pipeline, [None, None])
    finally:
        torch.backends.cudnn.conv.fp32_precision = before
    assert states == [torch.float32, "ieee", torch.float16]


def test_a_negative_without_a_mask_or_without_an_image_is_a_reject_that_says_so(world, files, masks) -> None:
    pairs, negatives = world[0].pairs, world[1].negatives
    gone = pairs.set_index("pair_id").loc[negatives["pair_id"].iloc[-1], "image_id"]
    images = {name: files[name] for name in pairs["image_id"] if name != gone}
    editable, reasons = split_editable(negatives, pairs, images, masks)
    assert reasons[negatives["negative_id"].iloc[0]] == NO_MASK
    assert reasons[negatives["negative_id"].iloc[-1]] == NO_IMAGE
    rejects = build_rejects(negatives, editable, reasons)
    assert dict(zip(rejects["id"], rejects["reason"], strict=True)) == reasons
    with pytest.raises(DataError, match=r"None of \d+ negative captions can be edited: no mask"):
        split_editable(negatives, pairs, files, {})


def test_a_mask_must_match_its_image_and_have_a_white_pixel(world, files, tmp_path) -> None:
    row = build_prompts(
        world[1].negatives.head(1),
        world[0].pairs,
        world[0].pairs,
        method="inpaint",
        prompt_suffix="",
        seed=1,
    )
    for size, words in ((20, "20 × 20 pixels, but its image"), (48, "is black")):
        Image.fromarray(np.zeros((size, size), np.uint8)).save(tmp_path / "mask.png")
        with pytest.raises(DataError, match=words):
            add_edit_inputs(
                row,
                files,
                {row[0]["negative_id"]: tmp_path / "mask.png"},
                method="inpaint",
                image_size=SIZE,
                folder=tmp_path,
            )


def test_a_table_of_masks_that_is_broken_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(DataError, match=r"has no masks\.csv.*'instruct'"):
        read_masks(tmp_path)
    table = tmp_path / "masks.csv"
    table.write_text("negative_id,filename\na,a.png\n")
    with pytest.raises(DataError, match=r"1 files that are missing:\n.*a\.png"):
        read_masks(tmp_path)
    table.write_text("negative_id,filename\na,a.png\na,b.png\n")
    with pytest.raises(DataError, match="'a' has a mask in an earlier row"):
        read_masks(tmp_path)
    table.write_text("negative_id,filename\na,../a.png\n")
    with pytest.raises(DataError, match="filename"):
        read_masks(tmp_path)


@pytest.mark.parametrize(
    ("positive", "negative", "instruction"),
    [
        (
            "A red car on a road.",
            "A blue car on a road.",
            'Replace "red" with "blue", so that the image shows: A blue car on a road',
        ),
        ("A car.", "A car beside a dog.", 'Add "beside a dog", so that the image shows: A car beside a dog'),
        ("Two old cars.", "Two cars.", 'Remove "old", so that the image shows: Two cars'),
        (
            "A dog and a red cat.",
            "A cat and a red dog.",
            "Change the image so that it shows: A cat and a red dog",
        ),
    ],
)
def test_an_instruction_states_the_words_that_change(positive, negative, instruction) -> None:
    assert build_instruction(positive, negative) == instruction


def test_people_see_the_caption_and_the_pipeline_gets_the_instruction(
    world, files, editors, masks, tmp_path, monkeypatch
) -> None:
    texts = []

    def record(pipeline, prompts, generators, **arguments):
        texts.extend(prompts)
        return call_pipeline(pipeline, prompts, generators, **arguments)

    monkeypatch.setattr(drawing_module, "call_pipeline", record)
    candidates, _ = edit(world, files, editors["instruct"], "instruct", masks, tmp_path)
    negatives = world[1].negatives.set_index("negative_id")["negative_caption"]
    assert candidates["prompt"].tolist() == negatives.loc[candidates["negative_id"]].tolist()
    assert all("the image" in text for text in texts)


def test_inputs_are_stored_once_for_equal_images(world, files, tmp_path) -> None:
    negatives = world[1].negatives
    same = negatives[negatives["pair_id"] == negatives["pair_id"].iloc[0]]
    rows = build_prompts(same, world[0].pairs, world[0].pairs, method="instruct", prompt_suffix="", seed=1)
    done = add_edit_inputs(rows, files, None, method="instruct", image_size=SIZE, folder=tmp_path)
    assert len(done) > 1
    assert len({row["source_file"] for row in done}) == len([*tmp_path.iterdir()]) == 1
    assert json.dumps([row["instruction"] for row in done])
