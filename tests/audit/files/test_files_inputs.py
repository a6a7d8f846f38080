"""Every format that can be audited gives the same rows: files in the published form, written by hand."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from stored_images import stored

from caramel.audit.defects import find_defects
from caramel.audit.files.formats import FORMAT_SIGNATURES
from caramel.audit.files.inputs import COLUMNS, read_frame, read_rows
from caramel.audit.set_statistics import compute_set_statistics
from caramel.benchmarks.image_files import read_encoded_images
from caramel.errors import ContractError, DataError
from caramel.registry import BENCHMARKS
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS

DATA = os.environ.get("CARAMEL_DATA")
DOG, CAT, BIRD = "A dog on a mat.", "A cat on a mat.", "A bird on a mat."
CHOICE = "Is it a cat?"
BOX = {"bbox_x": 0, "bbox_y": 0, "bbox_w": 9, "bbox_h": 9}
PICTURE = b"the bytes of a picture"
Rows = list[dict[str, Any]]


def put(folder: Path, name: str, data: object) -> Path:
    """Write a file by its suffix: JSON, JSON Lines, CSV or Parquet."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(data))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in data))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(data), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(data[0]))
            writer.writeheader()
            writer.writerows(data)
    return path


def cell(data: bytes = PICTURE) -> dict[str, object]:
    return {"bytes": data, "path": None}


def vg(**fields: object) -> dict[str, object]:
    return {"image_id": 7, "x": 0, "y": 0, "width": 9, "height": 9, "caption": DOG, **fields}


def sugarcrepe(folder: Path) -> None:
    row = {"filename": "1.jpg", "caption": DOG, "negative_caption": CAT}
    put(folder, "swap_obj.json", {"0": row, "4": row})
    put(folder, "add_att.json", {"0": row})


def sugarcrepe_pp(folder: Path) -> None:
    row = {"id": 3, "filename": "1.jpg", "caption": DOG, "caption2": BIRD, "negative_caption": CAT}
    put(folder, "swap_obj.json", [row])


def bivlc(folder: Path) -> None:
    row = {"caption": DOG, "negative_caption": CAT, "type": "replace", "subtype": "obj"}
    put(folder, "data/test-0.parquet", [row | {"image": cell(), "negative_image": cell(b"other")}])


def winoground(folder: Path) -> None:
    row = {"id": 5, "caption_0": DOG, "caption_1": CAT, "collapsed_tag": "Object", "num_main_preds": 1}
    put(folder, "examples.jsonl", [row | {"image_0": "a", "image_1": "b"}])


def winoground_parquet(folder: Path) -> None:
    row = {"id": 5, "caption_0": DOG, "caption_1": CAT, "image_0": cell(), "image_1": cell(b"other")}
    put(folder, "data/test-0.parquet", [row])


def colorswap(folder: Path) -> None:
    row = {"id": 5, "caption_1": DOG, "caption_2": CAT, "image_1": cell(), "image_2": cell(b"other")}
    put(folder, "test-0.parquet", [row])


def eqben(folder: Path) -> None:
    row = {"image0": "eqbensd/a.png", "image1": "eqbensd/b.png", "caption0": DOG, "caption1": CAT}
    put(folder, "all_select.json", [row])


def cola(folder: Path) -> None:
    put(folder, "data/COLA_multiobjects_matching_benchmark.json", [["u/1.jpg", DOG, "u/2.jpg", CAT]])


def vismin(folder: Path) -> None:
    row = {"text_0": DOG, "text_1": CAT, "category": "counting"}
    put(folder, "data/test-00000-of-00001.parquet", [row | {"image_0": cell(), "image_1": cell(b"other")}])


def natural_bench(folder: Path) -> None:
    row = {"index": 1, "image_0": "a.jpg", "image_1": "b.jpg", "caption_0": DOG, "caption_1": CAT}
    put(folder, "metadata.json", [row])


def natural_bench_questions(folder: Path) -> None:
    row = {"Index": 4, "Question_0": "Is it a dog?", "Question_1": CHOICE}
    row |= {"Image_0_Question_0": "Yes", "Image_1_Question_0": "No", "Question_Type": "yes_no"}
    row |= {"Image_0_Question_1": "No", "Image_1_Question_1": "Yes"}
    put(folder, "data/train-0.parquet", [row | {"Image_0": cell(), "Image_1": cell(b"other")}])


def crepe_systematicity(folder: Path) -> None:
    row = vg(valid_hard_negs_atom=[CAT, CAT], valid_hard_negs_comp=[BIRD])
    for name in ("seen_compounds_in_cc12m", "unseen_compounds_in_laion"):
        put(folder, f"syst_vg_hard_negs_{name}.csv", [row])


def crepe_productivity(folder: Path) -> None:
    for kind, negative in (("atom", CAT), ("swap", BIRD), ("negate", f"No {DOG}")):
        put(folder, f"{kind}/prod_vg_hard_negs_{kind}_complexity_4.csv", [vg(hard_negs=[negative])])


def vg_relation(folder: Path) -> None:
    captions = {"true_caption": DOG, "false_caption": CAT, "relation_name": "on"}
    put(folder, "visual_genome_relation.json", [{"image_path": "1.jpg", **BOX, **captions}])


def vg_attribution(folder: Path) -> None:
    captions = {"true_caption": DOG, "false_caption": CAT}
    common, rare = (
        {"image_path": "1.jpg", **BOX, **captions, "attributes": [n, "red"]} for n in ("old", "new")
    )
    put(folder, "visual_genome_attribution.json", [rare, *[common] * 25])


def coco_order(folder: Path) -> None:
    put(folder, "coco_order.json", [{"image_path": "1.jpg", "caption_options": [DOG, CAT, DOG, BIRD]}])


def vl_checklist(folder: Path) -> None:
    put(folder, "Relation/vg/action.json", [["VG_100K/1.jpg", {"POS": [DOG], "NEG": [CAT]}]])


def valse(folder: Path) -> None:
    row = {"image_file": "v7w_1.jpg", "caption": DOG, "foil": CAT, "mturk": {"caption": 3}}
    put(folder, "counting-hard.json", {"a": row, "b": row | {"mturk": {"caption": 1}}})


def whatsup_a(folder: Path) -> None:
    options = [f"A mug {word} a table." for word in ("on", "under", "left of", "right of")]
    row = {"image_path": "data/controlled_images/mug_on_table.jpeg", "caption_options": options}
    put(folder, "controlled_images_dataset.json", [row])


def coco_spatial_two(folder: Path) -> None:
    put(folder, "coco_qa_two_obj.json", [[139, "A dog left of a cat", "A dog right of a cat"]])


def mmvp(folder: Path) -> None:
    rows = [{"Question ID": n, "Type": "Color", "Statement": t} for n, t in ((1, "red"), (2, "blue"))]
    put(folder, "Questions.csv", rows)


def conme(folder: Path) -> None:
    row = {
        "image": "1.jpg",
        "base_question": "What is there?",
        "correct_option": DOG,
        "incorrect_option": CAT,
    }
    put(folder, "replace-rel.csv", [row])


def negbench_mcq(folder: Path) -> None:
    captions = {f"caption_{n}": text for n, text in enumerate((CAT, DOG, BIRD, "No dog."))}
    row = {"image_path": "data/1.jpg", "correct_answer": 1, **captions, "correct_answer_template": "positive"}
    put(folder, "images/synthetic_mcq_llama3.1_rephrased.csv", [row])


def spec(folder: Path) -> None:
    put(folder, "data/count/image2text.json", [{"query": "a.jpg", "keys": [CAT, DOG, BIRD], "label": 1}])
    put(folder, "data/count/text2image.json", [{"query": DOG, "keys": ["a.jpg", "b.jpg"], "label": 0}])


ALL, PHOTO = ("all", "all"), "a photo of "
# Writer, format, and (pair_id, image_id, type, subtype, caption, negative) of the rows; None: whatever it is.
FORMATS: list[tuple[Callable[[Path], None], str, list[tuple[str | None, ...]]]] = [
    (
        sugarcrepe,
        "sugarcrepe",
        [
            ("swap_obj-0", "1.jpg", "swap", "swap_obj", DOG, CAT),
            ("swap_obj-4", "1.jpg", "swap", "swap_obj", DOG, CAT),
            ("add_att-0", "1.jpg", "add", "add_att", DOG, CAT),
        ],
    ),
    (sugarcrepe_pp, "sugarcrepe_pp", [("swap_obj-3", "1.jpg", "swap", "swap_obj", DOG, CAT)]),
    (bivlc, "bivlc", [("bivlc-0", None, "replace", "replace_obj", DOG, CAT)]),
    (winoground, "winoground", [("winoground-5", "a.png", "all", "object", DOG, CAT)]),
    (winoground_parquet, "winoground", [("winoground-5", None, *ALL, DOG, CAT)]),
    (colorswap, "colorswap", [("colorswap-5", None, *ALL, DOG, CAT)]),
    (eqben, "eqben", [("eqben-0", "eqbensd/a.png", "all", "eqbensd", DOG, CAT)]),
    (cola, "cola", [("cola-0", "1.jpg", *ALL, DOG, CAT)]),
    (vismin, "vismin", [("vismin-0", None, "all", "counting", DOG, CAT)]),
    (natural_bench, "natural_bench", [("natural_bench-1", "a.jpg", *ALL, DOG, CAT)]),
    (
        natural_bench_questions,
        "natural_bench_questions",
        [
            ("natural_bench-4-0", None, "all", "yes_no", "Is it a dog? Yes", "Is it a dog? No"),
            ("natural_bench-4-1", None, "all", "yes_no", f"{CHOICE} No", f"{CHOICE} Yes"),
        ],
    ),
    (
        crepe_systematicity,
        "crepe_systematicity",
        [
            ("cc12m/sc/atom-0-0", "7", "atom", "atom", DOG, CAT),
            ("cc12m/sc/atom-0-1", "7", "atom", "atom", DOG, CAT),
            ("cc12m/sc/comp-0-0", "7", "comp", "comp", DOG, BIRD),
        ],
    ),
    (
        crepe_productivity,
        "crepe_productivity",
        [
            ("atom/n4-0-0", "7", "atom", "atom/n4", DOG, CAT),
            ("swap/n4-0-0", "7", "swap", "swap/n4", DOG, BIRD),
            ("negate/n4-0-0", "7", "negate", "negate/n4", DOG, f"No {DOG}"),
        ],
    ),
    (vg_relation, "vg_relation", [("relation-0", "1.jpg", "all", "on", DOG, CAT)]),
    (
        vg_attribution,
        "vg_attribution",
        [
            ("attribution-0", "1.jpg", "all", "other", DOG, CAT),
            *[(f"attribution-{n}", "1.jpg", "all", "old_red", DOG, CAT) for n in range(1, 26)],
        ],
    ),
    (
        coco_order,
        "coco_order",
        [("coco_order-0-0", "1.jpg", *ALL, DOG, CAT), ("coco_order-0-1", "1.jpg", *ALL, DOG, BIRD)],
    ),
    (
        vl_checklist,
        "vl_checklist",
        [("Relation_action_vg-0", "vg/VG_100K/1.jpg", "relation", "relation_action", DOG, CAT)],
    ),
    (valse, "valse", [("counting-hard-0", "v7w_1.jpg", "counting", "counting-hard", DOG, CAT)]),
    (
        whatsup_a,
        "whatsup_a",
        [
            (f"0-{n}", "mug_on_table.jpeg", "all", "on", "A mug on a table.", f"A mug {word} a table.")
            for n, word in enumerate(("under", "left of", "right of"))
        ],
    ),
    (
        coco_spatial_two,
        "coco_spatial_two",
        [("0", "000000000139.jpg", "all", "left", "A dog left of a cat", "A dog right of a cat")],
    ),
    (
        conme,
        "conme",
        [
            (
                "replace_rel-0",
                "1.jpg",
                "all",
                "replace_rel",
                f"What is there? {DOG}",
                f"What is there? {CAT}",
            ),
        ],
    ),
    (
        negbench_mcq,
        "negbench_mcq",
        [
            (f"synthetic-0-{n}", "data/1.jpg", "all", "synthetic", DOG, negative)
            for n, negative in enumerate((CAT, BIRD, "No dog."))
        ],
    ),
    (
        spec,
        "spec",
        [
            (f"count/i2t-0-{n}", "count/a.jpg", "all", "i2t/count", DOG, negative)
            for n, negative in enumerate((CAT, BIRD))
        ],
    ),
    (mmvp, "mmvp", [("1-2", "Color/1.jpg", "all", "Color", f"{PHOTO}red", f"{PHOTO}blue")]),
]


@pytest.mark.parametrize(("write", "name", "expected"), FORMATS, ids=[w.__name__ for w, _, _ in FORMATS])
def test_a_benchmark_is_known_by_its_files_and_gives_its_captions_and_negatives(
    tmp_path: Path, write: Callable[[Path], None], name: str, expected: list[tuple[str | None, ...]]
) -> None:
    write(tmp_path)
    found = read_rows(tmp_path)
    assert found.format == name
    assert list(found.rows.columns) == list(COLUMNS)
    rows = found.rows[["pair_id", "image_id", "type", "subtype", "caption", "negative_caption"]]
    for row, wanted in zip(rows.itertuples(index=False), expected, strict=True):
        assert [value for value, want in zip(row, wanted, strict=True) if want is not None] == [
            want for want in wanted if want is not None
        ]
    assert found.rows["caption2"].tolist() == ([BIRD] if name == "sugarcrepe_pp" else [None] * len(rows))


def test_every_registered_benchmark_is_known_or_cannot_be_told_from_other_files() -> None:
    hidden = {"sugarcrepe_pp", "crepe_retrieval", "zero_shot", "instances_source"}
    hidden |= {"held_out_retrieval", "world_classes"}
    assert set(BENCHMARKS) - set(FORMAT_SIGNATURES) == hidden
    assert set(FORMAT_SIGNATURES) - set(BENCHMARKS) == {"tables"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("svo_probes", {"sentence": DOG, "pos_image_id": 1, "neg_image_id": 2, "subj_neg": True}),
        ("coco_retrieval", None),
    ],
)
def test_benchmarks_without_hard_negatives_are_refused(tmp_path: Path, name: str, data: Any) -> None:
    if data:
        put(tmp_path, "svo_probes.csv", [data | {"verb_neg": False, "obj_neg": False}])
    else:
        image = {"split": "test", "filename": "1.jpg", "sentences": [{"raw": DOG}]}
        put(tmp_path, "dataset_coco.json", {"images": [image]})
    with pytest.raises(DataError, match=f"{name}. Its captions have no hard negatives"):
        read_rows(tmp_path)


def test_a_folder_of_nothing_known_lists_what_was_looked_for(tmp_path: Path) -> None:
    put(tmp_path, "notes.json", [])
    with pytest.raises(DataError, match="no data set of a known format") as error:
        read_rows(tmp_path)
    for name in FORMAT_SIGNATURES:
        assert f"\n  - {name}: " in str(error.value)
    assert "negative_caption; optional caption2" in str(error.value)
    with pytest.raises(DataError, match="does not exist"):
        read_rows(tmp_path / "nowhere")
    (tmp_path / "notes.md").touch()
    with pytest.raises(DataError, match=r"notes.md' has an unknown format"):
        read_rows(tmp_path / "notes.md")


def test_a_broken_file_of_a_known_format_has_its_own_error(tmp_path: Path) -> None:
    put(tmp_path / "a", "swap_obj.json", {"0": {"filename": "1.jpg", "caption": DOG}})
    with pytest.raises(DataError, match="no field 'negative_caption'"):
        read_rows(tmp_path / "a")
    put(tmp_path / "b", "test.jsonl", [{"image": "1.jpg"}])
    with pytest.raises(DataError, match="no field 'negative_image'"):
        read_rows(tmp_path / "b")
    (tmp_path / "b" / "test-0.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a Parquet file"):
        read_rows(tmp_path / "b")
    put(tmp_path / "c", "instances.parquet", [{"caption": DOG}])
    with pytest.raises(ContractError, match="instances"):
        read_rows(tmp_path / "c")


def test_of_several_formats_in_one_folder_one_must_be_named(tmp_path: Path) -> None:
    whatsup_a(tmp_path)
    coco_spatial_two(tmp_path)
    with pytest.raises(DataError, match="several formats: whatsup_a, coco_spatial_two"):
        read_rows(tmp_path)
    assert read_rows(tmp_path, name="coco_spatial_two").format == "coco_spatial_two"
    with pytest.raises(DataError, match="holds no mmvp"):
        read_rows(tmp_path, name="mmvp")
    with pytest.raises(DataError, match="no format 'other'"):
        read_rows(tmp_path, name="other")


def test_images_are_named_where_they_are_at_hand(tmp_path: Path) -> None:
    winoground(tmp_path)
    found = read_rows(tmp_path)
    assert found.rows[["image", "negative_image"]].iloc[0].tolist() == [None, None]
    assert not found.images
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(PICTURE)
    found = read_rows(tmp_path, images=tmp_path / "pictures")
    assert found.rows["negative_image"].tolist() == [None]
    (key,) = found.rows["image"]
    assert read_encoded_images([found.images[key]]) == [PICTURE]


def test_images_inside_of_a_release_can_be_read(tmp_path: Path) -> None:
    bivlc(tmp_path)
    found = read_rows(tmp_path)
    keys = found.rows[["image", "negative_image"]].iloc[0]
    assert read_encoded_images([found.images[key] for key in keys]) == [PICTURE, b"other"]


def instances(folder: Path) -> None:
    row = {"image_id": "a", "caption": DOG, "caption2": None, "negative_caption": CAT, "split": "val"}
    kinds = {"type": "add", "subtype": "add_obj"}
    rows = [{"instance_id": f"a:{n}", **row, **kinds, "negative_image_id": n} for n in ("b", None)]
    write_table(INSTANCES, build_frame(INSTANCES, rows), folder / "instances.parquet")


def test_our_instances_are_read_with_and_without_their_images(tmp_path: Path) -> None:
    instances(tmp_path)
    found = read_rows(tmp_path)
    assert found.format == "instances"
    assert found.rows["pair_id"].tolist() == ["a:b", "a:None"]
    assert found.rows["split"].tolist() == ["val", "val"]
    assert found.rows["image"].tolist() == [None, None]
    size = {"width": 1, "height": 1, "source": "x", "split": "val"}
    images = [{"image_id": name, "data": name.encode(), **size} for name in ("b", "a")]
    stored(tmp_path / "images.parquet", images)
    for path in (tmp_path, tmp_path / "instances.parquet"):
        found = read_rows(path)
        assert read_encoded_images([found.images[key] for key in found.rows["image"]]) == [b"a", b"a"]
        assert found.rows["negative_image"].tolist()[1] is None
        assert read_encoded_images([found.images[found.rows["negative_image"][0]]]) == [b"b"]


def test_our_negatives_are_read_with_their_pairs_and_paraphrases(tmp_path: Path) -> None:
    pairs = [
        {"pair_id": n, "image_id": f"i{n}", "caption": DOG, "scene": None, "split": "test", "source": "x"}
        for n in "ab"
    ]
    made = {"type": "swap", "subtype": "swap_obj", "generator": "x", "seed": 1, "attempt": 1}
    negatives = [{"negative_id": f"{n}:1", "pair_id": n, "negative_caption": CAT, **made} for n in "ba"]
    second = [{"pair_id": "a", "caption2": BIRD, "generator": "x", "attempts": 1}]
    write_table(NEGATIVES, build_frame(NEGATIVES, negatives), tmp_path / "negatives.parquet")
    with pytest.raises(DataError, match=r"not pairs\.parquet"):
        read_rows(tmp_path)
    write_table(PAIRS, build_frame(PAIRS, pairs), tmp_path / "pairs.parquet")
    assert read_rows(tmp_path).rows["caption2"].tolist() == [None, None]
    write_table(PARAPHRASES, build_frame(PARAPHRASES, second), tmp_path / "paraphrases.parquet")
    found = read_rows(tmp_path)
    assert found.format == "tables"
    columns = ["pair_id", "image_id", "subtype", "caption", "caption2", "negative_caption", "split"]
    assert found.rows[columns].to_numpy().tolist() == [
        ["b:1", "ib", "swap_obj", DOG, None, CAT, "test"],
        ["a:1", "ia", "swap_obj", DOG, BIRD, CAT, "test"],
    ]
    write_table(PAIRS, build_frame(PAIRS, pairs[:1]), tmp_path / "pairs.parquet")
    with pytest.raises(DataError, match=r"not in pairs.parquet \(number of negatives: 1\)") as error:
        read_rows(tmp_path)
    assert "b:1" in str(error.value)


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_a_file_with_named_columns_is_read(tmp_path: Path, suffix: str) -> None:
    row = {"caption": DOG, "negative_caption": CAT, "caption2": "", "subtype": "obj", "score": 2.5}
    rows = [
        {"id": 1, "filename": "a.jpg", "type": "add", **row},
        {"id": 2, "filename": "b.jpg", "type": "other", **row, "caption2": BIRD, "negative_caption": ""},
    ]
    (tmp_path / "a.jpg").write_bytes(PICTURE)
    found = read_rows(put(tmp_path, f"mine.{suffix}", rows))
    assert found.format == "columns"
    picture = str(tmp_path / "a.jpg")
    assert found.rows.to_numpy().tolist() == [
        ["1", "a.jpg", "add", "add_obj", DOG, None, CAT, picture, None],
        ["2", "b.jpg", "other", "obj", DOG, BIRD, "", None, None],
    ]
    assert read_encoded_images([found.images[picture]]) == [PICTURE]


@pytest.mark.parametrize(("more", "ids"), [({}, ["x", "y"]), ({"id": 7}, ["7", "row-1"])])
def test_the_keys_of_a_json_object_are_ids_where_rows_have_none(
    tmp_path: Path, more: dict[str, Any], ids: list[str]
) -> None:
    row = {"caption": DOG, "negative_caption": CAT}
    path = put(tmp_path, "mine.json", {"x": {**row, **more}, "y": row})
    assert read_rows(path).rows["pair_id"].tolist() == ids


def test_a_negative_image_in_two_splits_is_found_without_the_image_files(tmp_path: Path) -> None:
    fields = {"id": ["a", "b", "c"], "image": ["1.jpg", "2.jpg", "3.jpg"], "split": ["train", "test", "test"]}
    texts = {"caption": [DOG] * 3, "negative_caption": [CAT] * 3}
    frame = pd.DataFrame({**fields, **texts, "negative_image": ["4.jpg", "4.jpg", "5.jpg"]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (read_rows(tmp_path / "rows.csv").rows, read_frame(frame).rows):
        assert rows["negative_image"].isna().all()
        assert find_defects(rows)["image_in_two_splits"] == ["a", "b"]


def test_a_file_of_captions_and_negatives_alone_is_enough(tmp_path: Path) -> None:
    captions = [DOG, CAT, DOG.upper()]
    rows = [{"caption": text, "negative_caption": BIRD} for text in captions]
    found = read_rows(put(tmp_path, "mine.csv", rows)).rows
    assert found["pair_id"].tolist() == ["row-0", "row-1", "row-2"]
    first, second, third = found["image_id"]
    assert first == third != second  # equal captions are not independent
    assert found[["type", "subtype"]].to_numpy().tolist() == [["all", "all"]] * 3
    assert found["caption"].tolist() == captions


def test_rows_without_a_type_are_of_another_one_than_all_rows_together(tmp_path: Path) -> None:
    names = [(None, None), ("add", "obj"), (None, "mine"), ("new", None)]
    rows = [{"type": t, "subtype": s, "caption": DOG, "negative_caption": CAT} for t, s in names]
    found = read_rows(put(tmp_path, "mine.jsonl", rows)).rows
    assert found["type"].tolist() == ["other", "add", "other", "new"]
    assert found["subtype"].tolist() == ["other", "add_obj", "mine", "new"]
    figures = compute_set_statistics(found).set_index(["subtype", "text", "about", "name"])["value"]
    assert [figures[s, "", "rows", "rows"] for s in ("other", "all")] == [1, 4]


def test_rows_of_two_data_sets_that_name_no_image_are_of_one_only_where_they_say_the_same(
    tmp_path: Path,
) -> None:
    mine, other = (
        read_rows(put(tmp_path, name, [{"caption": text, "negative_caption": BIRD} for text in texts])).rows
        for name, texts in (("mine.csv", [DOG, CAT]), ("other.csv", [CAT, BIRD]))
    )
    assert mine["image_id"].isin(other["image_id"]).tolist() == [False, True]


def named(images: list[Any], column: str = "image") -> Rows:
    return [
        {"caption": f"{DOG} {n}", "negative_caption": CAT, column: image} for n, image in enumerate(images)
    ]


def test_images_in_a_table_with_named_columns_are_named_by_their_content(tmp_path: Path) -> None:
    rows = named([cell(b"a"), cell(b"b"), cell(b"a"), None, cell(b"")])
    found = read_rows(put(tmp_path, "mine.parquet", [row | {"negative_image": PICTURE} for row in rows]))
    first, second, third, none, empty = found.rows["image_id"]
    assert first == third != second
    assert none.startswith("caption-")
    assert empty.startswith("caption-")
    keys = [key for key in found.rows["image"] if key is not None]
    assert read_encoded_images([found.images[key] for key in keys]) == [b"a", b"b", b"a"]
    assert found.rows["image"].isna().tolist() == [False, False, False, True, True]
    assert read_encoded_images([found.images[key] for key in found.rows["negative_image"]]) == [PICTURE] * 5


def test_they_are_named_by_their_paths_where_each_has_its_own(tmp_path: Path) -> None:
    one, two = ({"bytes": data, "path": f"{data.decode()}.jpg"} for data in (b"a", b"b"))
    found = read_rows(put(tmp_path, "mine.parquet", named([one, two, one]))).rows
    assert found["image_id"].tolist() == ["a.jpg", "b.jpg", "a.jpg"]
    one["path"] = two["path"]
    found = read_rows(put(tmp_path, "mine.parquet", named([one, two, one]))).rows
    assert found["image_id"].nunique() == 2
    assert "b.jpg" not in {*found["image_id"]}


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_an_image_without_bytes_is_the_file_that_its_path_names(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "a.jpg").write_bytes(PICTURE)
    cells = [{"bytes": None, "path": path} for path in ("a.jpg", "/elsewhere/b.jpg", "a.jpg")]
    if suffix == "parquet":
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.Table.from_pylist(named(cells))
        table = table.set_column(table.schema.get_field_index("image"), "image", pa.array(cells, kind))
        pq.write_table(table, tmp_path / "mine.parquet")
        path = tmp_path / "mine.parquet"
    else:
        path = put(tmp_path, "mine.jsonl", named(cells))
    found = read_rows(path)
    assert found.rows["image_id"].tolist() == ["a.jpg", "/elsewhere/b.jpg", "a.jpg"]
    assert found.rows["image"].isna().tolist() == [False, True, False]
    assert read_encoded_images([found.images[found.rows["image"][0]]]) == [PICTURE]


def test_images_in_a_frame_are_named_as_in_a_file(tmp_path: Path) -> None:
    cells = [cell(b"a"), cell(b"b"), cell(b"a"), None]
    in_file = read_rows(put(tmp_path, "mine.parquet", named(cells))).rows
    in_frame = read_frame(pd.DataFrame(named(cells))).rows
    assert in_frame["image_id"].tolist() == in_file["image_id"].tolist()


@pytest.mark.parametrize("column", ["image", "image_id", "filename", "negative_image"])
@pytest.mark.parametrize(
    "text", ["<PIL.JpegImagePlugin.JpegImageFile image mode=RGB size=5x3 at 0x7F12AB>", "[[[0 1]\n [2 3]]]"]
)
def test_what_python_writes_of_an_image_in_memory_is_no_name_of_it(
    tmp_path: Path, column: str, text: str
) -> None:
    for suffix in ("csv", "jsonl", "json", "parquet"):
        path = put(tmp_path, f"mine.{suffix}", named([text], column))
        with pytest.raises(
            DataError, match=rf"column '{column}' must be text, not .* Write the names of the images"
        ):
            read_rows(path)


def test_an_image_in_memory_in_a_frame_is_an_error_that_says_what_to_do() -> None:
    image = Image.new("RGB", (2, 2))
    with pytest.raises(DataError, match=r"row 0: column 'image' must be text, not <PIL.*decode=False"):
        read_frame(pd.DataFrame(named([image])))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("image", [1, 2]),
        ("image", {"url": "x"}),
        ("image_id", [["a"]]),
        ("negative_image", {"height": 3}),
        ("type", ["swap"]),
        ("id", {"number": 3}),
        ("subtype", b"swap"),
        ("caption2", [DOG]),
        ("split", [0]),
    ],
)
def test_a_known_column_of_another_type_is_an_error_and_not_left_out(
    tmp_path: Path, column: str, value: Any
) -> None:
    path = put(tmp_path, "mine.parquet", named([value], column))
    with pytest.raises(DataError, match=rf"column '{column}' must .*rename the column"):
        read_rows(path)


def test_of_several_columns_of_images_the_first_that_holds_some_counts(tmp_path: Path) -> None:
    rows = [row | {"image_id": "", "filename": None} for row in named(["a.jpg", "b.jpg"])]
    found = read_rows(put(tmp_path, "mine.jsonl", rows)).rows
    assert found["image_id"].tolist() == ["a.jpg", "b.jpg"]


@pytest.mark.parametrize("forms", [(0, 1), ("True", "False"), (True, False), ("yes", "")])
def test_a_column_of_verdicts_that_is_called_image_names_no_images(tmp_path: Path, forms: Any) -> None:
    for suffix in ("csv", "jsonl"):
        with pytest.raises(
            DataError, match=r"column 'image' holds verdicts, such as .* Rename it to 'image_score'"
        ):
            read_rows(put(tmp_path, f"mine.{suffix}", named([*forms] * 3)))
    found = read_rows(put(tmp_path, "mine.csv", named([0, 1, 0], "image_id"))).rows
    assert found["image_id"].tolist() == ["0", "1", "0"]


def test_a_folder_that_holds_none_of_the_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "COCO_a.jpg").write_bytes(PICTURE)
    rows = named(["a.jpg", "b.jpg"])
    with pytest.raises(
        DataError, match=r"elsewhere' holds none of the images .*\n  - 'a.jpg'\n(.*\n)+.*Give the folder"
    ):
        read_rows(put(tmp_path, "mine.csv", rows), images=tmp_path / "elsewhere")
    with pytest.raises(DataError, match="elsewhere' holds none of the images"):
        read_frame(pd.DataFrame(rows), images=tmp_path / "elsewhere")
    sugarcrepe(tmp_path / "sugarcrepe")
    with pytest.raises(DataError, match="elsewhere' holds none of the images"):
        read_rows(tmp_path / "sugarcrepe", images=tmp_path / "elsewhere")


def test_rows_whose_images_are_not_looked_at_are_counted(tmp_path: Path) -> None:
    rows = [row | {"negative_image": f"n{n}.jpg"} for n, row in enumerate(named(["a.jpg", "b.jpg"]))]
    path = put(tmp_path, "mine.csv", rows)
    assert read_rows(path).notes == ()
    (tmp_path / "a.jpg").write_bytes(PICTURE)
    (note,) = read_rows(path, images=tmp_path).notes
    assert note.startswith("0 of 2 rows")
    assert note.endswith("images are not audited.")
    (tmp_path / "n0.jpg").write_bytes(PICTURE)
    (note,) = read_rows(path, images=tmp_path).notes
    assert note.startswith("1 of 2 rows")
    for name in ("b.jpg", "n1.jpg"):
        (tmp_path / name).write_bytes(PICTURE)
    assert read_rows(path, images=tmp_path).notes == ()


@pytest.mark.parametrize(
    ("suffix", "rows", "message"),
    [
        ("csv", [{"caption": DOG, "foil": CAT}], "lacks the columns ['negative_caption']"),
        ("parquet", [{"caption": DOG, "foil": CAT}], "lacks the columns ['negative_caption']"),
        (
            "jsonl",
            [{"caption": DOG, "negative_caption": 5}],
            "line 1: column 'negative_caption' must be text",
        ),
        ("jsonl", [{"caption": "\ud800", "negative_caption": CAT}], "line 1: field 'caption' contains half"),
        ("jsonl", [[DOG, CAT]], "must be an object of fields"),
        ("json", [], "holds no row"),
        ("csv", [{"id": "x", "caption": DOG, "negative_caption": CAT}] * 2, "(number of duplicates: 1)"),
        *(
            (
                "json",
                [{column: t, "caption": DOG, "negative_caption": CAT} for t in (mean, "a")],
                f"{column!r} has the value {mean!r} among others",
            )
            for column in ("type", "subtype")
            for mean in ("all", "macro")
        ),
    ],
)
def test_a_wrong_file_with_named_columns_is_an_error(
    tmp_path: Path, suffix: str, rows: Rows, message: str
) -> None:
    path = put(tmp_path, f"mine.{suffix}", rows)
    with pytest.raises(DataError) as error:
        read_rows(path)
    assert message in str(error.value)


@pytest.mark.parametrize("column", ["image", "filename", "negative_image"])
@pytest.mark.parametrize("name", ["../secret.png", "{root}/secret.png"])
def test_a_named_image_outside_of_the_folder_is_an_error(tmp_path: Path, column: str, name: str) -> None:
    (tmp_path / "secret.png").touch()
    row = {"caption": DOG, "negative_caption": CAT, column: name.format(root=tmp_path)}
    path = put(tmp_path / "data", "mine.jsonl", [row])
    with pytest.raises(DataError, match=rf"line 1: field '{column}' must name a file inside"):
        read_rows(path)


def test_ids_of_images_that_cannot_be_files_are_only_ids(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b").touch()
    (tmp_path / "c").touch()
    rows = [{"image_id": name, "caption": DOG, "negative_caption": CAT} for name in ("/m/01", "b", "../c")]
    found = read_rows(put(tmp_path / "data", "mine.jsonl", rows))
    assert found.rows["image_id"].tolist() == ["/m/01", "b", "../c"]
    assert found.rows["image"].notna().tolist() == [False, True, False]


def test_a_name_of_white_space_alone_is_missing(tmp_path: Path) -> None:
    row = {"caption": DOG, "negative_caption": CAT, "id": " ", "type": "\n", "subtype": "", "filename": " "}
    found = read_rows(put(tmp_path, "mine.json", [row])).rows.iloc[0]
    assert (found["pair_id"], found["type"], found["subtype"]) == ("row-0", "all", "all")
    assert found["image_id"].startswith("caption-")
    assert found["image"] is None


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_caption_with_a_comma_is_kept_or_refused_and_never_cut(tmp_path: Path, form: str) -> None:
    rows = [{"caption": "A dog, brown and big", "negative_caption": "A cat, brown"}]
    found = read_rows(put(tmp_path, f"mine.{form}", rows)).rows
    assert found[["caption", "negative_caption"]].to_numpy().tolist() == [[*rows[0].values()]]
    (tmp_path / "raw.csv").write_text("caption,negative_caption\nA dog, brown and big,A cat, brown\n")
    with pytest.raises(DataError, match=r"row 1 \(line 2\) has 4 fields, but the header has 2"):
        read_rows(tmp_path / "raw.csv")


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("sugarcrepe", "sugarcrepe", 7511),
        ("sugarcrepe_pp", "sugarcrepe_pp", 4757),
        ("sugarcrepe_unrefined", "sugarcrepe", 17478),
    ],
)
def test_the_public_files_are_read_whole(name: str, form: str, count: int) -> None:
    found = read_rows(Path(str(DATA)) / name)
    assert (found.format, len(found.rows)) == (form, count)
    one = read_rows(Path(str(DATA)) / name / "swap_obj.json")
    assert one.format == form
    expected = found.rows[found.rows["subtype"] == "swap_obj"].reset_index(drop=True)
    assert one.rows.equals(expected)
