"""Rows with every field, and the oddities, that published files have; the captions are made up."""

import json
from pathlib import Path
from typing import Any

import pytest

from caramel.benchmarks.readers import aro, negbench, retrieval, valse, vl_checklist, whatsup
from caramel.interfaces.benchmark import Rankings


def put(folder: Path, file: str, content: Any) -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_relation_of_visual_genome_is_read_and_its_region_may_reach_out_of_the_image(
    tmp_path: Path,
) -> None:
    row = {
        "image_id": "2414605",
        "true_caption": "the fence is to the left of the cow",
        "false_caption": "the cow is to the left of the fence",
        "relation_info": {"object": "155367", "name": "to the left of"},
        "primary_object_id": "155381",
        "primary_object_name": "fence",
        **{"bbox_x": 5, "bbox_y": 13, "bbox_w": 496, "bbox_h": 319},  # of an image 500 pixels wide
        "relation_name": "to the left of",
        "image_path": "2414605.jpg",
    }
    task = aro.VG_RELATION.load_rows(put(tmp_path, "visual_genome_relation.json", [row, row]), tmp_path)
    assert task.rows["subsets"].tolist() == [["to the left of"]] * 2
    assert task.rows["caption"].tolist() == ["the fence is to the left of the cow"] * 2
    assert [image.box for image in task.images] == [(5, 13, 501, 332)]


@pytest.mark.parametrize(
    ("benchmark", "file", "name", "true", "others", "preposition"),
    [
        (
            whatsup.WHATSUP_A,
            "controlled_images_dataset.json",
            "controlled_images/tin-of-red-beans_under_shelf.jpeg",
            "A tin of red beans under a shelf",
            ("on a shelf", "to the left of a shelf", "to the right of a shelf"),
            "under",
        ),
        (
            whatsup.WHATSUP_A,
            "controlled_images_dataset.json",
            "controlled_images/spade_on_shelf.jpeg",
            "A spade on a shelf",
            ("under a shelf", "to the left of a shelf", "to the right of a shelf"),
            "on",
        ),
        (
            whatsup.WHATSUP_B,
            "controlled_clevr_dataset.json",
            "controlled_clevr/spade_in-front_of_tin.jpeg",
            "A spade in front of a tin",
            ("behind a tin", "to the left of a tin", "to the right of a tin"),
            "in-front_of",
        ),
        (
            whatsup.WHATSUP_B,
            "controlled_clevr_dataset.json",
            "controlled_clevr/spade_right_of_tin.jpeg",
            "A spade to the right of a tin",
            ("in front of a tin", "behind a tin", "to the left of a tin"),
            "right_of",
        ),
    ],
)
def test_a_controlled_image_is_read_by_its_name(
    benchmark: Any, file: str, name: str, true: str, others: tuple[str, ...], preposition: str, tmp_path: Path
) -> None:
    options = [true, *(f"A spade {other}" for other in others)]
    row = {"image_path": f"data/{name}", "caption_options": options}
    task = benchmark.load_rows(put(tmp_path, file, [row]), tmp_path)
    assert isinstance(task, Rankings)
    assert task.rows["subsets"].tolist() == [[preposition]]
    assert [task.texts[place] for place in task.rows["true"][0]] == [(true,)]
    assert task.rows["image_id"].tolist() == [Path(name).name]


def test_valses_pieces_have_fields_of_their_own(tmp_path: Path) -> None:
    """A valid foil of each, and one of ``actant-swap`` for which one annotator alone chose the caption."""
    votes = {"foil": 1, "caption": 2, "other": 0}
    plural = {
        **{"dataset": "coco2017", "original_split": "val", "dataset_idx": 610162},
        **{"image_file": "000000425227.jpg", "linguistic_phenomena": "plurals"},
        **{"foil_method": "checklist method, change NP to PL", "classes": "kite", "classes_foil": "kites"},
        "grammaticality_scores": [0.83],
        "nli_scores": {"entail": [0.01], "neutral": [0.06], "contradict": [0.92], "pred": ["contradict"]},
        **{"orig_caption": "a kite above a hill", "caption": "Exactly one kite above a hill"},
        **{"mturk": votes, "foil": "A number of kites above a hill"},
    }
    swap = {
        **{"dataset": "SWiG", "original_split": "test", "dataset_idx": "digging_5.jpg"},
        **{"linguistic_phenomena": "actions", "image_file": "digging_5.jpg", "caption": "A dog digs a hole."},
        **{"classes": "dog", "classes_foil": "hole", "mturk": votes, "foil": "A hole digs a dog."},
    }
    dialogue = {
        **{"dataset": "VisDial_v1.0", "original_split": "val", "linguistic_phenomena": "coreference"},
        **{"image_file": "VisualDialog_val2018_000000284024.jpg", "only_caption": "a cow in a field"},
        **{"caption": "a cow in a field. is it a calf? no.", "classes": "no", "classes_foil": "yes"},
        **{"mturk": votes, "foil": "a cow in a field. is it a calf? yes."},
    }
    put(tmp_path, "plurals.json", {"plurals:coco2017:610162": plural})
    unsure = swap | {"mturk": {"foil": 0, "caption": 1, "other": 2}}
    put(tmp_path, "actant-swap.json", {"actions_test_0": swap, "actions_test_3": unsure})
    put(tmp_path, "coreference-hard.json", {"coref_test_0": dialogue})
    rows = valse.BENCHMARK.load_rows(tmp_path, tmp_path).rows
    assert rows["instance_id"].tolist() == ["plurals-0", "actant-swap-0", "coreference-hard-0"]
    assert rows["caption"].tolist() == [row["caption"] for row in (plural, swap, dialogue)]
    assert rows["negative_caption"].tolist() == [row["foil"] for row in (plural, swap, dialogue)]


def test_a_false_phrase_of_vl_checklist_may_be_another_thing_and_of_several_the_first_counts(
    tmp_path: Path,
) -> None:
    """Where no adjective stands before the other thing its space is left."""
    object_rows = [["VG_100K/2350257.jpg", {"POS": ["kite ON roof"], "NEG": [" soup bowl"]}]]
    put(tmp_path, "Object/Location/vg_location/vg_obj_margin.json", object_rows)
    phrases = {"POS": ["a man digs with spade", "a soil"], "NEG": ["a man digs with soup", "a kite"]}
    put(tmp_path, "Object/Size/swig_size/swig_tool/swig_tool_small.json", [["digging_5.jpg", phrases]])
    rows = vl_checklist.BENCHMARK.load_rows(tmp_path, tmp_path).rows
    assert dict(zip(rows["caption"], rows["negative_caption"], strict=True)) == {
        "kite ON roof": " soup bowl",
        "a man digs with spade": "a man digs with soup",
    }
    assert rows["image_id"].tolist() == ["vg/VG_100K/2350257.jpg", "swig/digging_5.jpg"]


def test_what_a_language_model_said_beside_its_caption_is_a_caption_of_negbench(tmp_path: Path) -> None:
    head = "image_path,correct_answer,caption_0,caption_1,caption_2,caption_3,correct_answer_template"
    said = '"""Shown: a kite"" -> ""A kite""  and ""kites"" are both correct."'
    name = "data/voc2007/VOCdevkit/VOC2007/JPEGImages/004598.jpg"
    line = f'{name},0,"A kite, but no cow.","A cow, but no kite.",{said},(Your Turn!),hybrid'
    put(tmp_path, "VOC2007_mcq_llama3.1_rephrased.csv", f"{head}\n{line}\n")
    task = negbench.NEGBENCH_MCQ.load_rows(tmp_path, tmp_path)
    assert [text for (text,) in task.texts] == [
        "A kite, but no cow.",
        "A cow, but no kite.",
        '"Shown: a kite" -> "A kite"  and "kites" are both correct.',
        "(Your Turn!)",
    ]
    assert task.rows["subsets"].tolist() == [["voc2007", "voc2007/hybrid"]]


def test_cocos_annotations_hold_licences_and_captions_in_the_order_of_their_own_ids(tmp_path: Path) -> None:
    url = "http://images.example/val2017"
    images = [
        {
            **{"license": 4, "file_name": f"{n:012}.jpg", "coco_url": f"{url}/{n:012}.jpg", "height": 427},
            **{"width": 640, "date_captured": "2013-11-14 17:02:52", "flickr_url": url, "id": n},
        }
        for n in (397133, 37777)
    ]
    captions = [(37777, 38, "a kite. "), (397133, 49, "a cow"), (37777, 182, "a red kite")]
    whole = {
        "info": {"description": "COCO 2017 Dataset", "year": 2017},
        "licenses": [{"url": url, "id": 1, "name": "a licence"}],
        "images": images,
        "annotations": [{"image_id": image, "id": n, "caption": text} for image, n, text in captions],
    }
    task = retrieval.COCO.load_rows(put(tmp_path, "captions_val2017.json", whole), tmp_path)
    assert [text for (text,) in task.texts] == ["a cow", "a kite. ", "a red kite"]
    to_text = task.rows[task.rows["direction"] == "i2t"]
    assert to_text["image_id"].tolist() == ["000000397133.jpg", "000000037777.jpg"]
    assert to_text["true"].tolist() == [[0], [1, 2]]
