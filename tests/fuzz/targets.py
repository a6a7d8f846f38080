"""What is fuzzed: every reader and command, each with a valid input and the oracles of its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import annotation_answers
import corpus
import graphs
import hostile
import people
import projects
import releases
import scored
import served
import strangers
from harness import Oracle, Target
from oracles import pictures_decode, refused_what_is_broken, same_pairs, stays_inside, whole_captions
from oracles_of_results import (
    a_changed_pin_is_refused,
    captions_are_whole,
    infinite_scores_are_refused,
    kept_or_rejected,
    only_what_is_pinned_is_got,
    only_what_the_lock_names_is_pinned,
    params_stay_valid,
    replies_do_not_poison,
    scenes_are_whole,
    scores_are_finite,
    share_of_verdicts,
    weights_are_those_of_the_card,
)

# Fields that name images; benchmarks whose names are numbers, or the last part of a link, are not here.
NAMES = ("filename", "image", "negative_image", "image_path", "image_file", "file_name", "filepath")
NAMES += tuple(f"image{sign}{n}" for sign in ("", "_") for n in range(3))
# Rows that the audit takes for each row of the files; of the others it is not one number.
ROWS = {"sugarcrepe": 1, "sugarcrepe_pp": 1, "winoground": 1, "colorswap": 1, "eqben": 1, "cola": 1}
ROWS |= {"natural_bench": 1, "bivlc": 1, "vg_relation": 1, "vg_attribution": 1, "vl_checklist": 1}
ROWS |= {"coco_spatial_one": 1, "coco_spatial_two": 1, "gqa_spatial_one": 1, "gqa_spatial_two": 1}
ROWS |= {"whatsup_a": 3, "whatsup_b": 3, "negbench_mcq": 3}
NOT_AUDITED = ("crepe_retrieval", "zero_shot", "svo_probes", "coco_retrieval", "flickr30k_retrieval")
NOT_AUDITED += ("negbench_retrieval",)
JOINED = ("conme", "natural_bench_questions")  # a caption is made of two fields
TABLES = tuple(f"data/**/*.{suffix}" for suffix in ("csv", "json", "jsonl", "parquet", "txt"))
REPLIES = ("inputs/replies/replies.parquet", "work/replies/replies.sqlite", "params.yaml")
NOTHING = ("nothing",)  # no file is mutated
OWN = (
    "code/",
    "dvc.yaml",
    "pipelines/",
    "expectations/",
    "params/",
    "requirements.lock",
    "work/",
)  # of a project of one's own

PEOPLE = "annotate"
INSTANCES = "--instances data/instances.parquet --out out"
BLIND = "--out out --scorer length --folds 2"
AUDIT = f"audit data/mine.csv {BLIND}"
REFINE = (
    "refine data/mine.csv --out out --scorer length --attacker casing --method adversarial --folds 2 --cell 1"
)
SELECT = "select data/mine.csv --out out --scorer length --folds 2"
EVAL = "eval --model {model} --benchmark {name} --data {data} --out out --n-bootstrap 100"
METRICS = "metrics --benchmark sugarcrepe --out out --n-bootstrap 100"
COMPARE = "compare data/a data/b --out out --n-bootstrap 100"
RELEASE = "release v1 --out out --no-audit"
RELEASE_MODEL = "release-model base --out out"
RUNS = "runs v1 --out runs.csv"
GET = "get project@v1 --out out"
COPY = "tracking copy data/mlruns data/other"
EXPORT = "tracking export data/mlruns wandb://team/project --dry-run"
TABLE = "table data/a --benchmark sugarcrepe --out out.md --n-bootstrap 100"
EXPLORE = "explore results/a results/b --data data --out out.html"
FIGURES = "crepe figures --out out --n-bootstrap 100"


def _target(name: str, write: Callable[[], None], command: str, *oracles: Oracle, **more: object) -> Target:
    return Target(name, write, tuple(command.split()), oracles=oracles, **more)  # type: ignore[arg-type]


def _names(name: str) -> Oracle:
    """Return the oracle of a benchmark's file names."""
    fields = () if name in ("cola", "mmvp") else NAMES
    return stays_inside(*fields, first=name == "vl_checklist")


def _audits() -> list[Target]:
    found = []
    for suffix in ("csv", "json", "jsonl", "parquet"):
        inside = stays_inside("filename", "image", "negative_image")
        oracles = (refused_what_is_broken, whole_captions(factor=1), same_pairs(), inside)
        command, files = f"audit data/mine.{suffix} {BLIND}", (f"data/mine.{suffix}",)
        write = corpus.named(suffix)
        found.append(_target(f"audit .{suffix}", write, command, *oracles, files=files, weight=4))
    for name, writers in releases.BENCHMARKS.items():
        whole = whole_captions("a photo of " if name == "mmvp" else "", ROWS.get(name))
        for n, write in enumerate(() if name in NOT_AUDITED else writers):
            oracles = (refused_what_is_broken, *(() if name in JOINED else (whole,)), _names(name))
            found.append(
                _target(f"audit {name}{' files' * n}", write, f"audit data {BLIND}", *oracles, files=TABLES)
            )
    return found


def _evals() -> list[Target]:
    found = []
    for name, writers in releases.BENCHMARKS.items():
        command = EVAL.format(model="counting:4", name=name, data="data --dry-run")
        for n, write in enumerate(writers):
            oracles = (refused_what_is_broken, _names(name), pictures_decode)
            found.append(_target(f"eval {name}{' files' * n}", write, command, *oracles, weight=1.5))
    blind = EVAL.format(model="blind:length", name="sugarcrepe", data="data")
    instances = EVAL.format(model="counting:4", name="instances", data="data")
    named = [
        _target(
            f"eval blind {name}",
            releases.BENCHMARKS[name][-1],
            blind.replace("sugarcrepe", name),
            files=TABLES,
        )
        for name in ("bivlc", "colorswap", "vg_relation", "vl_checklist")  # subsets that the data name
    ]
    return [
        *found,
        *named,
        _target("eval blind", corpus.sugarcrepe, blind, refused_what_is_broken, _names(""), files=TABLES),
        _target(
            "eval errata",
            corpus.errata,
            f"{blind} --errata {scored.ERRATA}",
            scored.errata_fit_the_texts,
            files=(scored.ERRATA,),
        ),
        _target(
            "detect",
            releases.BENCHMARKS["bivlc"][-1],
            "detect --model counting:4 --training data --benchmark bivlc --data data --out out --n-bootstrap 100",
            refused_what_is_broken,
            pictures_decode,
        ),
        _target("eval config", corpus.eval_config, "eval --config data/eval.yaml", files=("data/eval.yaml",)),
        _target("eval options", corpus.sugarcrepe, blind, files=NOTHING, weight=3, options=True),
        _target("eval instances", projects.instances, instances, weight=2),
        *(
            _target(f"eval {name}", projects.scenes, instances.replace("instances", name))
            for name in ("held_out_retrieval", "world_classes")
        ),
    ]


def _texts() -> list[Target]:
    """What else reads captions: further files of the audit, our tables, and the refinement."""
    csv, more = corpus.named("csv"), ("more/*",)
    corpora = f"audit data/mine.csv {BLIND} --scorer ngram --corpus more/c.txt"
    learned = f"{AUDIT} --learn-from more/rows.csv"
    parses, pictures = f"{AUDIT} --parser given:more/p.txt", f"audit data {BLIND} --images data"
    tables = REFINE.replace("data/mine.csv", "data")
    many = partial(projects.refined, corpus.MANY)
    mine = ("data/mine.csv",)
    return [
        _target("audit options", csv, AUDIT, files=NOTHING, weight=4, options=True),
        _target("audit --learn-from", projects.pool_file, learned, files=more),
        _target("audit --corpus", projects.corpus_file, corpora, files=more),
        *(
            _target(
                f"audit --training .{s}", projects.training(s), f"{AUDIT} --training more/t.{s}", files=more
            )
            for s in ("txt", "csv", "jsonl", "parquet")
        ),
        _target("audit --parser", projects.parses, parses, files=more, weight=2),
        _target("audit --images", corpus.bivlc_files, pictures, pictures_decode),
        _target("audit tables", projects.refined, f"audit data {BLIND}", whole_captions(), weight=3),
        _target("audit instances", projects.instances, f"audit data {BLIND}", whole_captions(), weight=2),
        _target("refine .csv", corpus.couples, REFINE, refused_what_is_broken, kept_or_rejected, files=mine),
        _target("refine tables", many, tables),
        _target("select .csv", corpus.couples, SELECT, refused_what_is_broken, kept_or_rejected, files=mine),
        _target("select options", corpus.couples, SELECT, files=NOTHING, weight=2, options=True),
        _target("refine options", corpus.couples, REFINE, files=NOTHING, weight=2, options=True),
    ]


def _results() -> list[Target]:
    """What reads the scores of instances."""
    found = [
        _target(
            f"metrics .{s}",
            projects.verdicts(s),
            f"{METRICS} data/v.{s}",
            refused_what_is_broken,
            share_of_verdicts,
            weight=2.5,
        )
        for s in ("csv", "json", "jsonl", "parquet")
    ]
    found += [
        _target(
            f"metrics scores .{s}",
            projects.scores(s),
            f"{METRICS} data/v.{s}",
            refused_what_is_broken,
            infinite_scores_are_refused,
            weight=1.5,
        )
        for s in ("csv", "jsonl")
    ]
    ours, ran, plain = (
        scores_are_finite,
        ("data/*/similarities.parquet",),
        {"files": NOTHING, "options": True},
    )
    two = TABLE.replace("data/a", "data/a data/b")
    return [
        *found,
        _target(
            "metrics similarities",
            partial(projects.runs, "a"),
            f"{METRICS} data/a",
            ours,
            files=ran,
            weight=3,
        ),
        _target("metrics answers", projects.answers, f"{METRICS} data/a", files=("data/a/*",), weight=2),
        _target(
            "metrics detections",
            projects.detections,
            f"{METRICS} data/v.csv",
            refused_what_is_broken,
            files=("data/v.csv",),
        ),
        _target(
            "metrics chosen",
            projects.chosen,
            f"{METRICS} data/positive-first/gpt4v-swap_obj.json data/negative-first/gpt4v-swap_obj.json",
            refused_what_is_broken,
            files=("data/*/*.json",),
        ),
        _target("metrics options", projects.verdicts("csv"), f"{METRICS} data/v.csv", weight=2, **plain),
        _target("compare", projects.runs, COMPARE, ours, files=ran, weight=4),
        _target("compare options", projects.runs, COMPARE, weight=2, **plain),
        _target("table", projects.runs, two, ours, files=ran, weight=2),
        _target("table answers", projects.answers, TABLE, files=("data/a/*",), weight=2),
        _target("table options", projects.runs, two, weight=2, **plain),
        _target("explore", scored.results, EXPLORE, ours, files=("results/*/*.parquet",), weight=2),
        _target("explore options", scored.results, EXPLORE, **plain),
        *(
            _target(
                f"{name} errata",
                scored.results,
                f"{command} --errata {scored.ERRATA}",
                scored.errata_fit_the_texts,
                files=(scored.ERRATA,),
            )
            for name, command in (
                ("table", two.replace("data/", "results/") + " --data data"),
                ("explore", f"{EXPLORE} --benchmark sugarcrepe"),
            )
        ),
        _target("annotate agreement", people.answers, f"{PEOPLE} agreement data/fits.parquet", weight=2),
        _target(
            "annotate decide", people.answers, f"{PEOPLE} decide data/fits.parquet --out d.parquet", weight=2
        ),
        _target(
            "annotate options", people.answers, f"{PEOPLE} agreement data/fits.parquet", weight=2, **plain
        ),
        _target("annotate baseline", people.baseline, f"{PEOPLE} baseline data/base.parquet {INSTANCES}"),
        _target("models options", projects.nothing, "models --family text --max-size 100", **plain),
        _target("benchmarks options", projects.nothing, "benchmarks sugarcrepe", **plain),
    ]


def _projects() -> list[Target]:
    """What reads the project's own files."""
    config = {"rewrites": ("params.yaml",), "weight": 3}
    params = ("params/*.yaml", "params.yaml")
    data = ("data/**/*", "dvc.lock", "params.yaml")
    pins = ("data/**/*", "pins/*")
    copied = {"rewrites": ("data/mlruns/", "data/other/")}
    named, believed = only_what_the_lock_names_is_pinned, a_changed_pin_is_refused
    return [
        _target("config use", projects.params, "config use mine", params_stay_valid, files=params, **config),
        _target(
            "config use --set",
            projects.params,
            "config use default --set @SET@",
            params_stay_valid,
            files=NOTHING,
            **config,
        ),
        _target("study", projects.params, "study --profile mine --dry-run", files=params, weight=2),
        _target("study options", projects.params, "study --dry-run", files=NOTHING, options=True),
        _target("pin", projects.made, "pin v1", named, files=data, weight=2),
        _target("pin options", projects.made, "pin v2", files=NOTHING, options=True),
        _target("verify", projects.pinned, "verify v1", believed, files=pins, weight=4),
        _target("get", projects.kept, GET, only_what_is_pinned_is_got, files=("project/**/*",), weight=4),
        _target("diff", projects.pinned, "diff v1 v1", files=("pins/*",)),
        _target("diff options", projects.pinned, "diff v1 v1", files=NOTHING, options=True),
        _target(
            "release", projects.releasable, RELEASE, files=("release.yaml", "pins/*", "data/**/*"), weight=2
        ),
        _target("release options", projects.releasable, RELEASE, files=NOTHING, options=True),
        _target(
            "release-model",
            served.releasable_model,
            RELEASE_MODEL,
            files=("release.yaml", "pins/*", "data/base/*"),
        ),
        _target("release-model options", served.releasable_model, RELEASE_MODEL, files=NOTHING, options=True),
        _target("runs", projects.pinned_with_run, RUNS, files=("pins/*", "mlruns/*"), rewrites=("mlruns/",)),
        _target(
            "runs options", projects.pinned_with_run, RUNS, files=NOTHING, options=True, rewrites=("mlruns/",)
        ),
        _target("get options", projects.kept, GET, files=NOTHING, options=True),
        _target("doctor", projects.whole, "doctor", files=projects.LOOKED_AT, weight=3, codes=(0, 1)),
        _target("tracking copy", projects.tracked, COPY, files=("data/mlruns/**/*",), **copied),
        _target("tracking options", projects.tracked, COPY, files=NOTHING, options=True, **copied),
        _target("tracking export", projects.tracked, EXPORT, files=("data/mlruns/**/*",), **copied),
        _target("tracking export options", projects.tracked, EXPORT, files=NOTHING, options=True, **copied),
        _target(
            "estimate-cost", served.replies, "estimate-cost", files=REPLIES, rewrites=REPLIES[1:2], weight=2
        ),
        _target(
            "batch read",
            served.batch_answers,
            "batch read answers.jsonl",
            files=("answers.jsonl",),
            rewrites=REPLIES[1:2],
        ),
        _target(
            "batch write options",
            served.batch_answers,
            "batch write --out requests.jsonl --limit 2",
            files=NOTHING,
            options=True,
            rewrites=REPLIES[1:2],
        ),
        _target("timings", projects.timings, "timings", files=("work/timings.jsonl",), weight=2),
        _target("timings options", projects.timings, "timings", files=NOTHING, options=True),
        _target(
            "estimate-cost options",
            served.replies,
            "estimate-cost --sample 2",
            files=NOTHING,
            options=True,
            rewrites=REPLIES[1:2],
        ),
        _target("verify options", projects.pinned, "verify v1", files=NOTHING, options=True),
        _target("new options", projects.nothing, "new out", files=NOTHING, options=True),
        _target(
            "upgrade", projects.own_project, "upgrade", files=("code/*", "dvc.yaml"), rewrites=OWN, weight=0.5
        ),
        _target(
            "upgrade options",
            projects.own_project,
            "upgrade",
            files=NOTHING,
            options=True,
            rewrites=OWN,
            weight=0.5,
        ),
        _target(
            "register options",
            served.releasable_model,
            "register base --name mine",
            files=NOTHING,
            options=True,
            codes=(0, 1),
            rewrites=("mlruns/",),
        ),
    ]


def _stages() -> list[Target]:
    """Stage scripts, run as DVC runs them."""
    found = [
        _target(
            f"stage scenes {name}",
            served.own(write),
            "stage scenes",
            scenes_are_whole,
            files=("own/**/*",),
            weight=4,
        )
        for name, write in served.SOURCES.items()
    ]
    found += [
        _target(
            f"stage scenes {name} alone",
            served.own(write, "captions"),
            "stage scenes",
            captions_are_whole,
            files=("own/*",),
            weight=2,
        )
        for name, write in served.CAPTIONS_ALONE.items()
    ]
    params, pairs = served.own(served.SOURCES["captions.csv"]), "data/scenes/pairs.parquet"
    scores = {"files": ("data/negatives/*.parquet", pairs), "rewrites": ("data/scores/",)}
    joined = {"files": served.ASSEMBLED, "rewrites": ("data/assemble/",)}
    return [
        *found,
        _target("stage scenes params", params, "stage scenes", files=("params.yaml",), weight=3),
        _target("stage negatives", served.stage_negatives, "stage negatives", files=(pairs,), weight=2),
        _target("stage scores", served.synthetic_project, "stage scores", weight=1.5, **scores),
        _target("stage assemble", served.synthetic_project, "stage assemble", weight=2, **joined),
    ]


def _models() -> list[Target]:
    """Checkpoints, and the replies of a chat endpoint."""
    on_set = partial(EVAL.format, data="data/set")
    clip = on_set(model="open_clip:data/model", name="sugarcrepe")
    chat = on_set(model="chat:m@@URL@", name="sugarcrepe")
    again = replies_do_not_poison(served.heal)
    card = weights_are_those_of_the_card
    found = [
        _target("model open_clip", served.open_clip, clip, card, files=("data/model/*",), weight=4),
        _target("chat", served.chat, chat, again, files=("server/*",), weight=4, serve=served.serve),
    ]
    for family, write in served.MODELS.items():
        name = "sugarcrepe_pp" if family == "text" else "sugarcrepe"
        command = on_set(model=f"{family}:data/model", name=name)
        found.append(_target(f"model {family}", write, command, files=("data/model/**/*",), weight=2))
    return found


def _graphs() -> list[Target]:
    """What makes CREPE's sets of scene graphs, a thesaurus and a corpus."""
    index = "crepe index data/corpus.csv --graphs data/vg --out out"
    places = f"{graphs.SET} --index data/index --name mine"
    return [
        _target("crepe index", graphs.corpus_and_graphs, index),
        _target("crepe index options", graphs.corpus_and_graphs, index, files=NOTHING, options=True),
        _target(
            "crepe check-parser",
            graphs.annotated_captions,
            "crepe check-parser data/annotated.csv --parser phrases --out out.csv",
        ),
        _target("crepe systematicity", graphs.indexed, f"crepe systematicity {places}", weight=2),
        _target(
            "crepe figures",
            scored.crepe_results,
            f"{FIGURES} data --frequencies data/frequencies_in_x.csv --imagenet data/imagenet.csv",
            weight=2,
        ),
        _target("crepe figures answers", scored.crepe_answers, f"{FIGURES} --answers data/answers.parquet"),
        _target(
            "crepe figures options", scored.crepe_results, f"{FIGURES} data", files=NOTHING, options=True
        ),
        _target("crepe productivity", graphs.corpus_and_graphs, f"crepe productivity {graphs.SET}", weight=2),
        _target(
            "crepe productivity options",
            graphs.corpus_and_graphs,
            f"crepe productivity {graphs.SET}",
            files=NOTHING,
            options=True,
        ),
    ]


def _strangers() -> list[Target]:
    """Repositories of strangers, servers that are none of MLflow's, and projects in folders of odd names."""
    made_of = (hostile.VERSION, "*.settings")
    settings = (".git/config", ".git/HEAD", ".gitattributes", ".dvc/config")
    served_runs = {
        "serve": hostile.serve_tracking,
        "environment": {"CARAMEL_TRACKING_URI": "@URL@", **hostile.IMPATIENT},
    }
    odd = {"files": NOTHING, "odd": True}
    return [
        _target(
            "get repository",
            hostile.stranger,
            "get repository/.git --out out",
            hostile.only_data_is_got,
            files=made_of,
            build=hostile.build,
            weight=2,
        ),
        *(
            _target(
                f"{command.split()[0]} repository",
                hostile.watched_repository,
                command,
                files=settings,
                codes=(0, 1) if command == "doctor" else (0,),
            )
            for command in ("verify v1", "diff v1", "pin v2", "doctor")
        ),
        _target(
            "get special",
            strangers.emptied,
            GET,
            only_what_is_pinned_is_got,
            files=(strangers.LEFT,),
            build=strangers.leave_special_files,
        ),
        _target(
            "eval registered",
            strangers.registry,
            EVAL.format(model="models:/tuned/1", name="sugarcrepe", data="data/set --dry-run"),
            strangers.only_its_own_folder_is_written,
            files=("server/*", strangers.NUMBER),
            # In the sandbox, where it is seen what is written: elsewhere the store of all inputs is one.
            serve=strangers.serve_registry,
            environment={**served_runs["environment"], "DVC_ROOT": "."},
        ),
        _target(
            "doctor addresses",
            strangers.addressed,
            "doctor",
            files=("dvc.yaml", "data.dvc", ".dvc/config"),
            codes=(0, 1),
            build=strangers.name_server,
            serve=strangers.note_requests,
            environment={strangers.URL: "@URL@"},
        ),
        _target("runs server", hostile.tracked_elsewhere, RUNS, files=("server/*",), weight=2, **served_runs),
        _target("runs folder", projects.pinned_with_run, RUNS, rewrites=("mlruns/",), **odd),
        _target("tracking folder", projects.tracked, COPY, rewrites=("data/",), **odd),
        _target("doctor folder", projects.whole, "doctor", codes=(0, 1), **odd),
        _target("get folder", projects.kept, GET, only_what_is_pinned_is_got, **odd),
        _target("release folder", projects.releasable, RELEASE, **odd),
        _target("audit folder", corpus.named("csv"), AUDIT, whole_captions(factor=1), **odd),
    ]


def _annotations() -> list[Target]:
    """What people answered elsewhere, and the tables that tasks are made from."""
    own = ("task.db", "task.db-wal", "task.db-shm")
    made = "annotate make choose --gold data/gold.csv --out task.db"
    return [
        *(
            _target(f"annotate import {name}", write, f"annotate import task.db data/{file}", rewrites=own)
            for name, write, file in (
                ("page", annotation_answers.page_answers, "a1.json"),
                ("csv", annotation_answers.csv_answers, "items.csv"),
                ("label studio", annotation_answers.label_studio_answers, "export.json"),
            )
        ),
        _target("annotate make", annotation_answers.gold, made, files=("data/gold.csv", "data/synthesize/*.parquet")),
        _target("annotate make crepe", scored.crepe_sets_of_people, "annotate make crepe --images vg --out task.db",
                files=("data/**/*.csv", "vg/*"), weight=2),
        _target("annotate answers", annotation_answers.page_answers, "annotate answers task.db --out out.parquet",
                files=("task.db",), rewrites=own),
    ]  # fmt: skip


def targets() -> list[Target]:
    """Return all of them."""
    parts = (
        _audits,
        _evals,
        _texts,
        _results,
        _projects,
        _stages,
        _models,
        _graphs,
        _strangers,
        _annotations,
    )
    return [target for part in parts for target in part()]
