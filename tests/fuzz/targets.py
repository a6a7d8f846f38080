"""What is fuzzed: every reader and command, each with a valid input and the oracles of its result."""

from __future__ import annotations

from collections.abc import Callable

import corpus
import projects
import releases
import served
from harness import Target
from oracles import pictures_decode, refused_what_is_broken, same_pairs, stays_inside, whole_captions
from oracles_of_results import (
    a_changed_pin_is_refused,
    infinite_scores_are_refused,
    only_what_the_lock_names_is_pinned,
    params_stay_valid,
    replies_do_not_poison,
    scenes_are_whole,
    scores_are_finite,
    share_of_verdicts,
    weights_are_those_of_the_card,
)

# Fields that name images; benchmarks whose names are numbers, or the last part of a link, are not here.
NAMES = ("filename", "image", "negative_image", "image_path", "image_file", "file_name")
NAMES += tuple(f"image{sign}{n}" for sign in ("", "_") for n in range(3))
BLIND = ("--scorer", "length", "--folds", "2")
FAST = ("--bootstrap", "100")
# Rows that the audit takes for each row of the files; of the others it is not one number.
ROWS = {
    "sugarcrepe": 1,
    "sugarcrepe_pp": 1,
    "winoground": 1,
    "colorswap": 1,
    "eqben": 1,
    "cola": 1,
    "natural_bench": 1,
}
ROWS |= {"bivlc": 1, "vg_relation": 1, "vg_attribution": 1, "vl_checklist": 1, "coco_spatial_one": 1}
ROWS |= {"coco_spatial_two": 1, "gqa_spatial_one": 1, "gqa_spatial_two": 1, "whatsup_a": 3, "whatsup_b": 3}
NOT_AUDITED = ("crepe_retrieval", "zero_shot", "svo_probes", "coco_retrieval", "flickr30k_retrieval")


def _inside(name: str) -> tuple[str, ...]:
    return () if name in ("cola", "mmvp") else NAMES


def _audits() -> list[Target]:
    found = []
    for suffix in ("csv", "json", "jsonl", "parquet"):
        oracles = (
            refused_what_is_broken,
            whole_captions(factor=1),
            same_pairs(),
            stays_inside("filename", "image", "negative_image"),
        )
        command = ("audit", f"data/mine.{suffix}", "--out", "out", *BLIND)
        found.append(
            Target(f"audit .{suffix}", corpus.named(suffix), command, (f"data/mine.{suffix}",), oracles, 4)
        )
    for name, writers in releases.BENCHMARKS.items():
        if name in NOT_AUDITED:
            continue
        for n, write in enumerate(writers):
            whole = whole_captions("a photo of " if name == "mmvp" else "", ROWS.get(name))
            oracles = (
                refused_what_is_broken,
                whole,
                stays_inside(*_inside(name), first=name == "vl_checklist"),
            )
            command = ("audit", "data", "--out", "out", *BLIND)
            found.append(Target(f"audit {name}{' files' * n}", write, command, TABLES, oracles))
    return found


TABLES = tuple(f"data/**/*.{suffix}" for suffix in ("csv", "json", "jsonl", "parquet", "txt"))


def _evals() -> list[Target]:
    found = []
    for name, writers in releases.BENCHMARKS.items():
        for n, write in enumerate(writers):
            command = (
                "eval",
                "--model",
                "counting:4",
                "--benchmark",
                name,
                "--data",
                "data",
                "--out",
                "out",
                "--dry-run",
            )
            oracles = (
                refused_what_is_broken,
                stays_inside(*_inside(name), first=name == "vl_checklist"),
                pictures_decode,
            )
            found.append(Target(f"eval {name}{' files' * n}", write, command, oracles=oracles, weight=1.5))
    return found


def _others() -> list[Target]:
    audit = ("audit", "data/mine.csv", "--out", "out", *BLIND)
    csv = corpus.named("csv")
    whole = (refused_what_is_broken, whole_captions(factor=1))
    eval_blind = (
        "eval",
        "--model",
        "blind:length",
        "--benchmark",
        "sugarcrepe",
        "--data",
        "data",
        "--out",
        "out",
        *FAST,
    )
    refine = ("refine", "data/mine.csv", "--out", "out", "--scorer", "length", "--attacker", "casing", "--method", "length", "--folds", "2", "--cell", "1")  # fmt: skip
    return [
        Target("audit options", csv, audit, ("nothing",), weight=4, options=True),
        Target(
            "audit --corpus",
            projects.corpus_file,
            (*audit[:4], "--scorer", "ngram", "--folds", "2", "--corpus", "more/c.txt"),
            ("more/*",),
        ),
        *(
            Target(
                f"audit --training .{s}",
                projects.training(s),
                (*audit, "--training", f"more/t.{s}"),
                ("more/*",),
                weight=1.5,
            )
            for s in ("txt", "csv", "jsonl", "parquet")
        ),
        Target(
            "audit --parser", projects.parses, (*audit, "--parser", "given:more/p.txt"), ("more/*",), weight=2
        ),
        Target(
            "audit --images",
            corpus.bivlc_files,
            ("audit", "data", "--out", "out", *BLIND, "--images", "data"),
            oracles=(pictures_decode,),
            codes=(0, 1),
        ),
        Target(
            "audit tables",
            projects.refined,
            ("audit", "data", "--out", "out", *BLIND),
            oracles=(whole_captions(),),
            weight=3,
        ),
        Target(
            "audit instances",
            projects.instances,
            ("audit", "data", "--out", "out", *BLIND),
            oracles=(whole_captions(),),
            weight=2,
        ),
        Target("refine .csv", csv, refine, ("data/mine.csv",), (refused_what_is_broken,), 3, codes=(0, 1)),
        Target("refine tables", projects.refined, (refine[0], "data", *refine[2:]), weight=2, codes=(0, 1)),
        Target("refine options", csv, refine, ("nothing",), weight=3, options=True, codes=(0, 1)),
        Target("eval blind", corpus.sugarcrepe, eval_blind, TABLES, (*whole[:1], stays_inside(*NAMES)), 1),
        Target("eval options", corpus.sugarcrepe, eval_blind, ("nothing",), weight=3, options=True),
        Target(
            "eval instances",
            projects.instances,
            (
                "eval",
                "--model",
                "counting:4",
                "--benchmark",
                "instances",
                "--data",
                "data",
                "--out",
                "out",
                *FAST,
            ),
            weight=2,
        ),
    ]


def _results() -> list[Target]:
    metrics, compare = (
        ("metrics", "--benchmark", "sugarcrepe", "--out", "out", *FAST),
        ("compare", "data/a", "data/b", "--out", "out", *FAST),
    )
    table = ("table", "data/a", "data/b", "--benchmark", "sugarcrepe", "--out", "out.md", *FAST)
    ours = (scores_are_finite,)
    found = [
        Target(
            f"metrics .{s}",
            projects.verdicts(s),
            (*metrics, f"data/v.{s}"),
            oracles=(refused_what_is_broken, share_of_verdicts),
            weight=2.5,
        )
        for s in ("csv", "json", "jsonl", "parquet")
    ]
    found += [
        Target(
            f"metrics scores .{s}",
            projects.scores(s),
            (*metrics, f"data/v.{s}"),
            oracles=(refused_what_is_broken, infinite_scores_are_refused),
            weight=1.5,
        )
        for s in ("csv", "jsonl")
    ]
    return [
        *found,
        Target(
            "metrics similarities",
            projects.runs,
            (*metrics, "data/a"),
            ("data/a/similarities.parquet",),
            ours,
            3,
        ),
        Target("metrics answers", projects.answers, (*metrics, "data/a"), ("data/a/*",), weight=2),
        Target(
            "metrics options",
            projects.verdicts("csv"),
            (*metrics, "data/v.csv"),
            ("nothing",),
            weight=2,
            options=True,
        ),
        Target("compare", projects.runs, compare, ("data/*/similarities.parquet",), ours, 4),
        Target("compare options", projects.runs, compare, ("nothing",), weight=2, options=True),
        Target("table", projects.runs, table, ("data/*/similarities.parquet",), ours, 2),
        Target("table answers", projects.answers, (*table[:2], *table[3:]), ("data/a/*",), weight=2),
        Target("table options", projects.runs, table, ("nothing",), weight=2, options=True),
        Target(
            "benchmarks options", projects.nothing, ("benchmarks", "sugarcrepe"), ("nothing",), options=True
        ),
    ]


def _project() -> list[Target]:
    return [
        Target(
            "profile",
            projects.params,
            ("profile", "mine"),
            ("params/*.yaml", "params.yaml"),
            (params_stay_valid,),
            3,
            rewrites=("params.yaml",),
        ),
        Target(
            "profile --set",
            projects.params,
            ("profile", "default", "--set", "@SET@"),
            ("nothing",),
            (params_stay_valid,),
            3,
            rewrites=("params.yaml",),
        ),
        Target(
            "pin",
            projects.made,
            ("pin", "v1"),
            ("data/**/*", "dvc.lock", "params.yaml"),
            (only_what_the_lock_names_is_pinned,),
            2,
        ),
        Target("pin options", projects.made, ("pin", "v2"), ("nothing",), options=True),
        Target(
            "verify",
            projects.pinned,
            ("verify", "v1"),
            ("data/**/*", "pins/*"),
            (a_changed_pin_is_refused,),
            4,
        ),
        Target("doctor", projects.whole, ("doctor",), projects.LOOKED_AT, weight=3, codes=(0, 1)),
        Target("timings", projects.timings, ("timings",), ("work/timings.jsonl",), weight=2),
    ]


def _stages() -> list[Target]:
    stage: Callable[[str], tuple[str, ...]] = lambda name: ("stage", name)  # noqa: E731
    found = [
        Target(
            f"stage scenes {name}",
            served.own(write),
            stage("scenes"),
            ("own/**/*",),
            (scenes_are_whole,),
            4,
        )
        for name, write in served.SOURCES.items()
    ]
    return [
        *found,
        Target(
            "stage scenes params",
            served.own(served.SOURCES["captions.csv"]),
            stage("scenes"),
            ("params.yaml",),
            weight=3,
        ),
        Target(
            "stage negatives",
            served.stage_negatives,
            stage("negatives"),
            ("data/scenes/pairs.parquet",),
            weight=2,
        ),
        Target(
            "stage scores",
            served.synthetic_project,
            stage("scores"),
            ("data/negatives/*.parquet", "data/scenes/pairs.parquet"),
            weight=1.5,
            rewrites=("data/scores/",),
        ),
        Target(
            "stage assemble",
            served.synthetic_project,
            stage("assemble"),
            served.ASSEMBLED,
            weight=2,
            rewrites=("data/assemble/",),
        ),
    ]


def _models() -> list[Target]:
    def run(spec: str) -> tuple[str, ...]:
        return (
            "eval",
            "--model",
            spec,
            "--benchmark",
            "sugarcrepe",
            "--data",
            "data/set",
            "--out",
            "out",
            *FAST,
        )

    found = [
        Target(
            "model open_clip",
            served.open_clip,
            run("open_clip:data/model"),
            ("data/model/*",),
            (weights_are_those_of_the_card,),
            4,
        ),
        Target(
            "chat",
            served.chat,
            run("chat:m@@URL@"),
            ("server/*",),
            (replies_do_not_poison(served.heal),),
            4,
            serve=served.serve,
        ),
    ]
    for spec, write in served.MODELS.items():
        name = "sugarcrepe_pp" if spec.startswith("text") else "sugarcrepe"
        found.append(
            Target(
                f"model {spec}",
                write,
                tuple(name if w == "sugarcrepe" else w for w in run(f"{spec}:data/model")),
                ("data/model/**/*",),
                weight=2,
            )
        )
    return found


def targets() -> list[Target]:
    """Return all of them."""
    return [*_audits(), *_evals(), *_others(), *_results(), *_project(), *_stages(), *_models()]
