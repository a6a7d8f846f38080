"""The gates stop on every planted defect, say what and where, and pass on clean tables."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from great_expectations.execution_engine import pandas_execution_engine
from PIL import Image
from stored_images import indexed, stored

from caramel.errors import DataError, GateError
from caramel.gates import gates
from caramel.gates.suite_summaries import SuiteSummary, write_summaries
from caramel.gates.suites import validate_table
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES
from caramel.schemas.stored import StoredTable
from caramel.schemas.training import TRAINING
from caramel.utils.acceptance import Acceptance

ROOT = Path(__file__).parents[2]
SUITES = ROOT / "expectations"
Frames = dict[str, pd.DataFrame]
N = 42


def png(size: int = 4) -> bytes:
    stream = BytesIO()
    Image.new("RGB", (size, size), "red").save(stream, "PNG")
    return stream.getvalue()


def clean() -> Frames:
    """Return small tables without a defect: N pairs, each with one negative, a sixth of it in train and val."""
    splits = ["train" if i % 3 == 0 else "test" for i in range(N)]
    subtypes = [SUBTYPES[i // 3 % 7] for i in range(N)]
    pairs = [(f"p{i}", f"i{i}", f"A red cat by {i} trees.", None, splits[i], "world") for i in range(N)]
    negatives = [
        (f"p{i}:n", f"p{i}", kind.split("_")[0], kind, f"A blue cat by {i} trees.", "g", 1, 1, None)
        for i, kind in enumerate(subtypes)
    ]
    paraphrases = [(f"p{i}", f"By {i} trees there is a red cat!", "g", 1) for i in range(N)]
    instances = [
        (n[0], f"i{i}", pairs[i][2], paraphrases[i][1], n[4], f"i{i}n", n[2], n[3], splits[i], None)
        for i, n in enumerate(negatives)
        if splits[i] == "test"
    ]
    training = [
        (f"p{i}", f"i{i}", pairs[i][2], None, [n[4]], [None], [n[3]], splits[i])
        for i, n in enumerate(negatives)
        if splits[i] == "train"
    ]
    names = [f"i{i}{k}" for i in range(N) for k in ("", "n")]
    images = indexed(names, width=4, height=4).assign(split=[s for s in splits for _ in range(2)])
    scores = [
        (n[0], s, 0.5, 0.4 + 0.2 * (i % 2)) for i, n in enumerate(negatives) for s in ("ngram", "probe")
    ]
    image_scores = [
        (i[0], a, 0.5, 0.4 + 0.2 * (k % 2)) for k, i in enumerate(instances) for a in ("features", "network")
    ]
    return {
        "pairs": build_frame(PAIRS, pairs),
        "negatives": build_frame(NEGATIVES, negatives),
        "paraphrases": build_frame(PARAPHRASES, paraphrases),
        "instances": build_frame(INSTANCES, instances),
        "training": build_frame(TRAINING, training),
        "images": images,
        "files": pd.DataFrame({"image_id": names, "data": [png()] * len(names)}),
        "scores": build_frame(SCORES, scores),
        "rejected": build_frame(NEGATIVES, []),
        "image_scores": build_frame(SCORES, image_scores),
    }


def check_captions(
    t: Mapping[str, Any], docs: Path, folds: int = 5, acceptance: Acceptance = "not_refuted"
) -> list[SuiteSummary]:
    return gates.validate_captions(
        t["pairs"],
        t["negatives"],
        t["paraphrases"],
        [t["scores"]],
        t["rejected"],
        thresholds=gates.CaptionThresholds(
            min_pairs=30, blind_tolerance=0.1, acceptance=acceptance, blind_exempt=("add",)
        ),
        folds=folds,
        seed=3,
        folder=SUITES,
        docs_folder=docs,
    )


def check_benchmark(
    t: Frames,
    docs: Path,
    exempt: tuple[str, ...] = ("add",),
    folds: int = 5,
    agreement: Sequence[dict[str, object]] = (),
) -> list[SuiteSummary]:
    known = {"width": 4, "height": 4, "source": "world", "split": "test"}
    files = t["files"].assign(**known).to_dict("records")
    return gates.validate_benchmark(
        t["instances"],
        t["training"],
        t["images"],
        stored(docs / "data" / "images.parquet", files),
        t["scores"],
        t["image_scores"],
        agreement=pd.DataFrame(agreement),
        thresholds=gates.BenchmarkThresholds(
            blind_tolerance=0.1,
            acceptance="not_refuted",
            blind_exempt=exempt,
            image_tolerance=0.1,
            image_exempt=("add_obj", "add_att"),
            max_subtype_share=0.5,
            min_alpha=0.4,
            min_pairable=30,
        ),
        folds=folds,
        image_folds=4,
        folder=SUITES,
        docs_folder=docs,
    )


def test_the_rows_are_not_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Great Expectations' fingerprint of millions of texts takes gigabytes, and nobody reads it."""

    def hashed(rows: pd.DataFrame) -> str:
        raise AssertionError(f"{len(rows)} rows were hashed")

    monkeypatch.setattr(pandas_execution_engine, "hash_pandas_dataframe", hashed)
    assert validate_table(
        clean()["pairs"], SUITES / "pairs.json", docs_folder=tmp_path, parameters={"min_pairs": 1}
    )


def test_the_rows_are_let_go_when_a_suite_has_run(tmp_path: Path) -> None:
    validate_table(
        clean()["pairs"].assign(marked=1),
        SUITES / "pairs.json",
        docs_folder=tmp_path,
        parameters={"min_pairs": 1},
    )
    gc.collect()
    frames = [found for found in gc.get_objects() if isinstance(found, pd.DataFrame)]
    assert not any("marked" in found.columns for found in frames)


class Watched:
    """A frame that notes which columns are taken together."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows, self.taken = rows, list[list[str]]()

    @property
    def columns(self) -> list[str]:
        return list(self.rows.columns)

    def __getitem__(self, names: list[str], /) -> pd.DataFrame:
        self.taken.append(names)
        return self.rows[names]


def test_expectations_on_the_same_columns_run_together_on_these_alone(tmp_path: Path) -> None:
    path = suite_file(
        tmp_path,
        UNIQUE,
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text"}},
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "text", "row_condition": "known", "condition_parser": "pandas"},
        },
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "id", "regex": "^[ab]$"}},
    )
    watched = Watched(ROWS.assign(text=["A cat.", None], known=[True, False]))
    with pytest.raises(GateError, match="not_be_null on text: 1 of 2 rows fail"):
        validate_table(watched, path, docs_folder=tmp_path)
    assert watched.taken == [["id"], ["id", "text", "known"], ["text"], ["text", "known"], ["id", "text"]]


def test_stored_tables_give_the_summary_of_their_frames(tmp_path: Path) -> None:
    t = clean()
    stored = {
        table.name: StoredTable(table, write_table(table, t[table.name], tmp_path / f"{table.name}.parquet"))
        for table in (PAIRS, NEGATIVES, PARAPHRASES)
    }
    frames = {name: one[one.columns] for name, one in stored.items()}
    for name, tables in (("frames", frames), ("stored", stored)):
        write_summaries(check_captions(t | tables, tmp_path), tmp_path / f"{name}.json")
    assert (tmp_path / "frames.json").read_bytes() == (tmp_path / "stored.json").read_bytes()


def put(table: str, row: int, column: str, value: Any) -> Callable[[Frames], None]:
    """Return a defect: one cell of one table."""

    def plant(t: Frames) -> None:
        t[table] = t[table].astype({column: "object"})
        t[table].at[row, column] = value  # one cell, whatever the value is

    return plant


def again(table: str) -> Callable[[Frames], None]:
    """Return a defect: the first row stands twice."""

    def plant(t: Frames) -> None:
        t[table] = pd.concat([t[table], t[table].head(1)], ignore_index=True)

    return plant


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[SuiteSummary], Path]:
    """What the gate found on clean captions, and the folder of its data docs; both are only read."""
    docs = tmp_path_factory.mktemp("docs")
    return check_captions(clean(), docs), docs


@pytest.fixture(scope="module")
def benchmark_passed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SuiteSummary]:
    """What the gate found on a clean benchmark that nobody annotated; it is only read."""
    return {s.suite: s for s in check_benchmark(clean(), tmp_path_factory.mktemp("docs"))}


def test_clean_captions_pass_and_the_summary_is_the_same_twice(
    passed: tuple[list[SuiteSummary], Path], tmp_path: Path
) -> None:
    for name, found in (("one", passed[0]), ("two", check_captions(clean(), tmp_path))):
        write_summaries(found, tmp_path / f"{name}.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    summary = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert list(summary) == ["blind_captions", "negatives", "pairs", "paraphrases", "text_uses"]
    findings = [finding for suite in summary.values() for finding in suite["findings"]]
    assert all(finding["success"] for finding in findings if finding["severity"] == "critical")
    assert summary["pairs"]["rows"] == N


def test_rows_too_few_for_a_claim_pass_by_name_alone_with_a_warning(
    passed: tuple[list[SuiteSummary], Path], tmp_path: Path
) -> None:
    with pytest.raises(
        GateError, match=r"Suite 'blind_captions'(?s:.*)undecided about 60.0 %: too few rows"
    ) as stopped:
        check_captions(clean(), tmp_path, acceptance="equivalence")
    assert "rows fail" not in str(stopped.value), "none of them is at fault"
    (blind,) = (s for s in passed[0] if s.suite == "blind_captions")
    shown = {f.severity: f for f in blind.findings if "blind" in f.expectation}
    assert shown["critical"].success
    assert not shown["warning"].success
    assert "undecided about 60.0 %" in shown["warning"].observed
    assert "acceptance = not_refuted has let rows pass" in shown["warning"].notes


def test_captions_that_the_rejected_rows_give_away_are_stopped(tmp_path: Path) -> None:
    """Of the scores at hand none tells, but in the rejected rows too the negative is the one that says blue."""
    t = clean()
    rejected = t["negatives"].assign(
        negative_id=t["negatives"]["negative_id"] + "2",
        negative_caption=t["negatives"]["negative_caption"].str.replace("A ", "One "),
    )
    with pytest.raises(GateError, match="Suite 'blind_captions'") as stopped:
        check_captions(t | {"rejected": rejected}, tmp_path)
    assert "probe, learned from rejected rows: 100.0 % [" in str(stopped.value)
    assert "probe, learned from rejected rows on replace: 100.0 % [" in str(stopped.value)
    assert "probe: " not in str(stopped.value)
    assert "on add" not in str(stopped.value), "an exempt type is not asked for"


def test_clean_benchmark_passes(benchmark_passed: dict[str, SuiteSummary]) -> None:
    assert set(benchmark_passed) == {
        "instances",
        "training",
        "image_uses",
        "images",
        "equal_pictures",
        "blind_benchmark",
        "attacked_images",
        "blind_images",
    }
    assert benchmark_passed["images"].rows == 2 * N


def lean_on_length(t: Frames) -> None:
    t["scores"].loc[t["scores"]["scorer"] == "probe", "negative_score"] = 0.1


def show_the_negative(t: Frames) -> None:
    t["image_scores"].loc[t["image_scores"]["scorer"] == "network", "negative_score"] = 0.1


Defects = dict[str, tuple[Callable[[Frames], None], str]]

# Defects that leave each other alone are planted together, and each must be named: what is named stops the pipeline.
CAPTION_DEFECTS: dict[str, Defects] = {
    "in cells": {
        "empty caption": (put("pairs", 3, "caption", "  "), "pair_id='p3', caption='  '"),
        "lower case": (put("pairs", 6, "caption", "a red cat."), "pair_id='p6', caption='a red cat.'"),
        "no stop": (put("pairs", 9, "caption", "A red cat"), "pair_id='p9', caption='A red cat'"),
        "two stops": (put("pairs", 12, "caption", "A red cat.."), "pair_id='p12', caption='A red cat..'"),
        "space before stop": (put("pairs", 15, "caption", "A cat ."), "pair_id='p15', caption='A cat .'"),
        "unknown split": (put("pairs", 18, "split", "dev"), "pair_id='p18', split='dev'"),
        "image in two splits": (
            put("pairs", 1, "image_id", "i0"),
            "expect_no_image_in_two_splits on image_id, split: 2 of 42",
        ),
        "pair of texts twice": (
            lambda t: t["negatives"].update({"negative_caption": ["A blue cat."] * 2, "pair_id": ["p0"] * 2}),
            "expect_no_duplicate_pair on caption, negative_caption: 2 of 42 rows fail",
        ),
        "negative says the same": (
            put("negatives", 2, "negative_caption", "A Red cat, by 2 trees."),
            "expect_caption_to_differ_from_its_negative on caption, negative_caption: 1 of 42 rows fail",
        ),
        "unknown subtype": (put("negatives", 5, "subtype", "swap_rel"), "subtype='swap_rel'"),
        "empty cell": (
            put("negatives", 7, "generator", None),
            "expect_column_values_to_not_be_null on generator: 1 of",
        ),
        "negative of no pair": (put("negatives", 8, "pair_id", "p999"), "missing_pair='p999'"),
        "wrong type": (
            put("negatives", 10, "seed", "one"),
            "expect_column_values_to_be_of_type on seed: 1 of 42",
        ),
        "unformatted negative": (
            put("negatives", 20, "negative_caption", "A dog"),
            "negative_caption='A dog'",
        ),
        "paraphrase says the same": (
            put("paraphrases", 5, "caption2", "A red cat by 5 trees!"),
            "expect_paraphrase_to_differ_from_its_caption on caption, caption2: 1 of 42 rows fail",
        ),
        "paraphrase of no pair": (put("paraphrases", 8, "pair_id", "p998"), "missing_pair='p998'"),
    },
    "in rows": {
        "blind model sees it": (lean_on_length, "probe on replace: 100.0 %"),
        "pair twice": (again("pairs"), "expect_column_values_to_be_unique on pair_id: 2 of"),
        "negative twice": (again("negatives"), "expect_column_values_to_be_unique on negative_id"),
        "paraphrase twice": (again("paraphrases"), "Suite 'paraphrases'"),
        "column lost": (
            lambda t: t.update(pairs=t["pairs"].drop(columns="source")),
            "expect_column_to_exist on source",
        ),
    },
    "in tables": {
        "too few pairs": (
            lambda t: t.update(pairs=t["pairs"].head(20)),
            "expect_table_row_count_to_be_between: 20",
        ),
        "columns turned": (
            lambda t: t.update(pairs=t["pairs"][t["pairs"].columns[::-1]]),
            "expect_column_to_exist on",
        ),
        "no negatives": (lambda t: t.update(negatives=t["negatives"].head(0)), "nothing to tell apart"),
    },
}


def not_named(check: Callable[[Frames, Path], object], defects: Defects, docs: Path) -> list[str]:
    """Return the planted defects that do not stop the gate by name."""
    t = clean()
    for plant, _ in defects.values():
        plant(t)
    with pytest.raises(GateError) as stopped:
        check(t, docs)
    return [name for name, (_, said) in defects.items() if said not in str(stopped.value)]


@pytest.mark.parametrize("where", CAPTION_DEFECTS)
def test_defects_in_the_captions_stop_the_pipeline(where: str, tmp_path: Path) -> None:
    assert not_named(check_captions, CAPTION_DEFECTS[where], tmp_path) == []


def drop_image(t: Frames) -> None:
    t["images"] = t["images"].drop(index=2 * 4)


def break_image(t: Frames) -> None:
    put("files", 3, "data", png()[:40])(t)


def lose_a_score(t: Frames) -> None:
    t["scores"] = t["scores"].drop(index=t["scores"].index[t["scores"]["negative_id"] == "p1:n"][:1])


BENCHMARK_DEFECTS: dict[str, Defects] = {
    "in cells": {
        "negative says the same": (
            put("instances", 0, "negative_caption", "a red cat by 1 trees"),
            "expect_caption_to_differ_from_its_negative on caption, negative_caption: 1 of 28 rows fail",
        ),
        "unknown image": (put("instances", 1, "negative_image_id", "i999"), "missing_image='i999'"),
        "image in train and test": (
            put("training", 0, "image_id", "i1"),
            "image_id='i1', used_in='training.image_id'",
        ),
        "training caption is its negative": (
            put("training", 0, "negative_captions", ["A red cat by 0 trees."]),
            "pair_id='p0', place=0, caption='A red cat by 0 trees.', negative_captions='A red cat by 0 trees.'",
        ),
        "trained on test": (put("training", 1, "split", "test"), "Nothing of the test split is trained on."),
        "image left out": (drop_image, "missing_image='i4'"),
        "one file in train and test": (
            put("images", 9, "sha256", indexed(["i0"])["sha256"][0]),
            "image_id='i4n', split='test', same_file_in='train: i0'",
        ),
        "broken image": (break_image, "image_id='i1n', image_ok=False"),
        "wrong size": (put("images", 5, "width", 5), "image_id='i2n', image_ok=False"),
        "blind model sees it": (lean_on_length, "probe: 100.0 %"),
        "pictures alone tell": (
            show_the_negative,
            "expect_blind_accuracy_to_be_at_most on image_id, negative_image_id: network",
        ),
        "score lost": (lose_a_score, "ngram: 1 of 20 rows have no score; ngram on replace: 1 of 12 rows"),
    },
    "in tables": {
        "one subtype is all": (
            lambda t: t.update(instances=t["instances"].assign(subtype="swap_obj")),
            "expect_subtype_share_to_be_at_most on split, subtype: 28 of 28 rows fail",
        ),
        "no scorer": (lambda t: t.update(scores=t["scores"].head(0)), "no scorer is named"),
    },
    "in all": {
        "no instances": (
            lambda t: t.update(instances=t["instances"].head(0)),
            "A benchmark has instances.",
        ),
    },
}


@pytest.mark.parametrize("where", BENCHMARK_DEFECTS)
def test_defects_in_the_benchmark_stop_the_pipeline(where: str, tmp_path: Path) -> None:
    assert not_named(check_benchmark, BENCHMARK_DEFECTS[where], tmp_path) == []


def test_exempt_types_may_be_seen_by_blind_scorers(tmp_path: Path) -> None:
    t = clean()
    seen = t["negatives"].loc[t["negatives"]["type"] == "replace", "negative_id"]
    t["scores"].loc[t["scores"]["negative_id"].isin(seen), "negative_score"] = 0.0
    with pytest.raises(GateError, match=r"on replace: 100\.0 %"):
        check_benchmark(t, tmp_path, exempt=("add",), folds=50)  # with few folds, so few rows could be luck
    check_benchmark(t, tmp_path, exempt=("add", "replace"), folds=50)


def test_where_all_types_are_exempt_there_is_nothing_to_be_seen(tmp_path: Path) -> None:
    check_benchmark(clean(), tmp_path, exempt=TYPES)


def test_exempt_subtypes_may_be_seen_by_attackers_on_pictures(tmp_path: Path) -> None:
    t = clean()
    added = t["instances"].loc[t["instances"]["type"] == "add", "instance_id"]
    t["image_scores"].loc[t["image_scores"]["negative_id"].isin(added), "negative_score"] = 0.0
    check_benchmark(t, tmp_path)


def test_a_type_of_too_few_pictures_to_attack_is_a_warning_and_no_pass(tmp_path: Path) -> None:
    t = clean()
    few = t["instances"].loc[t["instances"]["type"] == "swap", "instance_id"]
    t["image_scores"] = t["image_scores"][~t["image_scores"]["negative_id"].isin(few)]
    found = {s.suite: s for s in check_benchmark(t, tmp_path)}
    (said,) = found["attacked_images"].findings
    assert (said.success, said.severity, said.failing_rows) == (False, "warning", len(few))
    assert found["blind_images"].rows == found["attacked_images"].rows - len(few)
    assert found["blind_images"].rows == t["image_scores"]["negative_id"].nunique() - 8  # of *add*


def test_where_nothing_was_attacked_no_suite_says_that_it_passed(tmp_path: Path) -> None:
    t = clean()
    t["image_scores"] = t["image_scores"].head(0)
    found = {s.suite: s for s in check_benchmark(t, tmp_path)}
    assert "blind_images" not in found
    assert found["attacked_images"].findings[0].failing_rows == found["attacked_images"].rows > 0


@pytest.mark.parametrize(("check", "misses"), [(check_captions, 3), (check_benchmark, 1)])
def test_the_gate_reckons_with_the_folds_that_the_scores_were_made_in(
    check: Any, misses: int, tmp_path: Path
) -> None:
    t = clean()
    judged = t["instances"].rename(columns={"instance_id": "negative_id"})
    judged = judged if check is check_benchmark else t["negatives"]
    names = judged.loc[judged["type"] != "add", "negative_id"].tolist()
    missed = t["scores"]["negative_id"].isin(names[:misses])  # most are right, but surely?
    t["scores"]["negative_score"] = missed.map({True: 0.9, False: 0.1})
    check(t, tmp_path, folds=2)
    with pytest.raises(GateError, match="blind"):
        check(t, tmp_path, folds=50)


def test_a_failure_names_five_rows_and_how_many_more_and_the_page_that_is_left(tmp_path: Path) -> None:
    t = clean()
    t["pairs"]["caption"] = "no stop"
    with pytest.raises(GateError) as stopped:
        check_captions(t, tmp_path)
    said = str(stopped.value)
    assert "Suite 'pairs'" in said
    assert "expect_column_values_to_match_regex on caption: 42 of 42 rows fail" in said
    assert said.count("caption='no stop'") == 5
    assert "… and 37 more" in said
    page = tmp_path / "pairs" / "index.html"
    assert str(page) in said
    text = page.read_text(encoding="utf-8")
    assert "no stop" in text
    assert "Failed" in text


def test_all_failing_suites_are_named_at_once(tmp_path: Path) -> None:
    t = clean()
    put("pairs", 3, "caption", "a")(t)
    put("paraphrases", 3, "caption2", "a")(t)
    with pytest.raises(GateError, match=r"(?s)Suite 'pairs'.*Suite 'paraphrases'"):
        check_captions(t, tmp_path)


def test_data_docs_are_left_on_success_and_load_nothing_from_elsewhere(
    passed: tuple[list[SuiteSummary], Path],
) -> None:
    pages = list(passed[1].glob("*/index.html"))
    assert len(pages) == len(passed[0])
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.search(r"expect_\w+ \(\w+", text), "what it is on stands beside its name"
        assert "http" not in text
        assert "<script" not in text


def suite_file(tmp_path: Path, *parts: dict[str, Any], **changes: Any) -> Path:
    suite = {"name": "s", "table": "t", "key": ["id"], "expectations": list(parts), **changes}
    path = tmp_path / "s.json"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path


UNIQUE = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}
ROWS = pd.DataFrame({"id": ["a", "b"]})


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"type": "expect_colum_values_to_be_unique", "kwargs": {"column": "id"}},
            "Did you mean 'expect_column_values_to_be_unique'",
        ),
        ({"type": "expect_wonders", "kwargs": {}}, "unknown expectation type 'expect_wonders'"),
        ({"kwargs": {}}, "unknown expectation type None"),
        ({**UNIQUE, "kwargs": {"colunm": "id"}}, "extra fields not permitted"),
        ({**UNIQUE, "severity": "grave"}, "holds 2 expectations, but only 1 could be loaded"),
        ({**UNIQUE, "sevrity": "critical"}, "cannot be loaded"),
        (
            {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": {"$PARAMETER": "n"}}},
            "needs a parameter",
        ),
    ],
)
def test_a_suite_that_cannot_be_loaded_whole_is_an_error(
    part: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = suite_file(tmp_path, UNIQUE, part)
    with pytest.raises(DataError, match=r"s\.json") as stopped:
        validate_table(ROWS, path, docs_folder=tmp_path, parameters={})
    assert said in str(stopped.value)


def test_an_expectation_that_cannot_be_evaluated_fails_the_gate(tmp_path: Path) -> None:
    path = suite_file(tmp_path, {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "none"}})
    with pytest.raises(GateError, match=r'could not be evaluated.*"none" in BatchData does not exist'):
        validate_table(ROWS, path, docs_folder=tmp_path)


def test_a_warning_is_recorded_and_does_not_stop(tmp_path: Path) -> None:
    path = suite_file(tmp_path, {**UNIQUE, "severity": "warning"})
    summary = validate_table(pd.DataFrame({"id": ["a", "a"]}), path, docs_folder=tmp_path)
    assert [(f.success, f.failing_rows, f.examples) for f in summary.findings] == [
        (False, 2, ("id='a'", "id='a'"))
    ]


AGREEMENT = {"task": "choose", "krippendorff_alpha": 0.6, "ci_low": 0.5, "ci_high": 0.7, "pairable": 100}
UNKNOWN = {"krippendorff_alpha": None, "ci_low": None, "ci_high": None}


def test_people_who_agree_pass_and_without_people_there_is_nothing_to_check(
    benchmark_passed: dict[str, SuiteSummary], tmp_path: Path
) -> None:
    same = AGREEMENT | UNKNOWN | {"task": "fits"}  # all answers are the same
    assert "agreement" in {s.suite for s in check_benchmark(clean(), tmp_path, agreement=[AGREEMENT, same])}
    assert "agreement" not in benchmark_passed


def test_people_who_do_not_agree_or_were_not_compared_stop_the_gate(tmp_path: Path) -> None:
    changes: dict[str, dict[str, object]] = {
        "disagree": {"krippendorff_alpha": 0.39},
        "none": UNKNOWN | {"pairable": 0},
        "one": UNKNOWN | {"pairable": 1},
        "few": {"pairable": 29},
    }
    rows = [AGREEMENT, *(AGREEMENT | {"task": task} | change for task, change in changes.items())]
    with pytest.raises(GateError) as stopped:
        check_benchmark(clean(), tmp_path, agreement=rows)
    said = str(stopped.value)
    for column, tasks in (("krippendorff_alpha", ["disagree"]), ("pairable", ["none", "one", "few"])):
        _, here, rest = said.partition(f"on {column}: {len(tasks)} of 5 rows fail")
        assert here, column
        assert re.findall(r"task='(\w+)'", rest.partition("expect_")[0]) == tasks


def test_an_agreement_that_few_items_show_is_a_warning(tmp_path: Path) -> None:
    rows = [AGREEMENT | {"ci_low": 0.2}]
    (summary,) = (s for s in check_benchmark(clean(), tmp_path, agreement=rows) if s.suite == "agreement")
    assert [(f.columns, f.severity) for f in summary.findings if not f.success] == [(("ci_low",), "warning")]
