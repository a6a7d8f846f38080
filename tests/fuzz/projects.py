"""Small valid inputs that are no benchmark: runs, pins, and projects."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import corpus
from corpus import ROWS, caption, negative, paraphrase, put
from harness import PIPELINES
from stored_images import stored

from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.scenes import Scene, SceneObject
from caramel.utils.resampling import Bootstrap

HERE = Path()


ROOT = PIPELINES.parent


LOOKED_AT = (
    "params.yaml",
    "requirements.lock",
    ".dvc/config",
    "dvc.lock",
    "dvc.yaml",
    "mlruns/mlflow.db",
    "work/timings.jsonl",
)


def nothing() -> None:
    """No input at all."""


def write(table: Table, rows: Any, path: str) -> None:
    write_table(table, build_frame(table, rows), path)


def corpus_file() -> None:
    corpus.named("csv")()
    put_text("more/c.txt", "".join(f"{caption(n)}\n" for n in range(20)))


def pool_file() -> None:
    corpus.named("csv")()
    rows = [f"{caption(n)} again,{caption(n + 1)}" for n in range(40, 60)]
    put_text("more/rows.csv", "\n".join(["caption,negative_caption", *rows]))


def put_text(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def training(suffix: str) -> Callable[[], None]:
    def made() -> None:
        corpus.named("csv")()
        if suffix == "txt":
            put_text("more/t.txt", "".join(f"{caption(n)}\n" for n in range(8)))
        else:
            put(f"t.{suffix}", [{"url": f"u{n}", "caption": caption(n)} for n in range(8)], Path("more"))

    return made


def parses() -> None:
    """Trees of all captions, flat."""
    corpus.named("csv")()
    lines = []
    for text in (f(n) for n in range(ROWS) for f in (caption, negative, paraphrase)):
        words = text.replace(",", " ,").replace(".", " .").split()
        lines.append(f"(ROOT (S {' '.join(f'(X {word})' for word in words)}))\n")
    put_text("more/p.txt", "".join(lines))


def refined(count: int = ROWS) -> None:
    """Tables ``pairs``, ``negatives`` and ``paraphrases``."""
    common = {"scene": None, "split": "test", "source": "world"}
    made = {"type": "swap", "subtype": "swap_obj", "generator": "world", "seed": 1, "attempt": 1}
    pairs = [
        {"pair_id": f"p{n}", "image_id": f"i{n // 2}", "caption": caption(n), **common} for n in range(count)
    ]
    negatives = [
        {"negative_id": f"p{n}:0", "pair_id": f"p{n}", "negative_caption": negative(n), **made}
        for n in range(count)
    ]
    write(PAIRS, pairs, "data/pairs.parquet")
    write(NEGATIVES, negatives, "data/negatives.parquet")
    seconds = [
        {"pair_id": f"p{n}", "caption2": paraphrase(n), "generator": "world", "attempts": 1}
        for n in range(count)
    ]
    write(PARAPHRASES, seconds, "data/paraphrases.parquet")


def instances() -> None:
    """Tables ``instances`` and ``images``, and the shards of these."""
    names = [f"i{n}" for n in range(2 * ROWS)]
    size = {"width": 16, "height": 12, "source": "world", "split": "test"}
    files = [{"image_id": n, "data": corpus.picture(k, "PNG"), **size} for k, n in enumerate(names)]
    stored(Path("data/images.parquet"), files)
    kind = {"type": "replace", "subtype": "replace_obj", "split": "test"}
    rows = [
        {
            "instance_id": f"p{n}",
            "image_id": names[n],
            "negative_image_id": names[ROWS + n],
            "caption": caption(n),
        }
        | {"caption2": paraphrase(n), "negative_caption": negative(n), **kind}
        for n in range(ROWS)
    ]
    write(INSTANCES, rows, "data/instances.parquet")


def scenes() -> None:
    """Tables ``pairs``, with scenes of one object, and ``images``."""
    instances()
    Path("data/instances.parquet").unlink()
    scene = Scene((SceneObject("ball", "red", "small", 0, 0),), "white").to_json()
    common = {"scene": scene, "split": "test", "source": "world"}
    rows = [
        {"pair_id": f"p{n}", "image_id": f"i{n // 2}", "caption": caption(n), **common} for n in range(ROWS)
    ]
    write(PAIRS, rows, "data/pairs.parquet")


def verdicts(suffix: str) -> Callable[[], None]:
    def made() -> None:
        rows = [
            {
                "id": n,
                "filename": f"{n % 5}.jpg",
                "model": "m",
                "subset": "['swap_obj', 'a']" if n % 2 else "swap_obj",
                "correct": str(n % 3 > 0),
            }
            for n in range(12)
        ]
        put(f"v.{suffix}", rows)

    return made


def scores(suffix: str) -> Callable[[], None]:
    def made() -> None:
        rows = [
            {"id": n, "filename": f"{n % 5}.jpg", "model": "m", "s_c0_i0": n / 9, "s_c1_i0": 0.5}
            for n in range(12)
        ]
        put(f"v.{suffix}", rows)

    return made


def detections() -> None:
    """A file of BiVLC's detectors."""
    rows = [
        {"text_pred": (n % 7) / 7, "img_pred": (n % 5) / 5, "label": float(label)}
        for label in (0, 1)
        for n in range(9)
    ]
    put("v.csv", rows)


def chosen() -> None:
    """Answers of GPT-4V as released: a folder per order of the options."""
    for place, folder in enumerate(("positive-first", "negative-first")):
        rows = {}
        for n in range(6):
            right = (n + place) % 3 > 0
            said = {
                "free_form_answer": f"({1 + (right == bool(place))})",
                "multiple_choice_answer": caption(n) if right else negative(n),
            }
            rows[str(n)] = {"answer": said, "caption": caption(n), "negative_caption": negative(n)}
            rows[str(n)] |= {"filename": f"{n % 4}.jpg", "correct": right}
        put(f"{folder}/gpt4v-swap_obj.json", {**rows, "accuracy": 0.5} if place else rows)


def runs(names: str = "ab") -> None:
    """Runs of ``caramel eval`` on the same instances, a folder each."""
    for k, name in enumerate(names):
        rows = [
            {"instance_id": f"x{n}", "model": name, "benchmark": "sugarcrepe", "image_id": f"{n % 7}.jpg"}
            | {"subsets": ["swap", "swap_obj"], "s_c0_i0": ((n + k) % 5) / 5, "s_c1_i0": 0.4}
            for n in range(14)
        ]
        write(SIMILARITIES, rows, f"data/{name}/similarities.parquet")


def answers() -> None:
    """A run of a model that answers in words: ``answers`` and ``metrics``."""
    from caramel.evaluation.results.answers import summarise_answers
    from caramel.registry import BENCHMARKS

    rows = [
        {"instance_id": f"x{n}", "model": "chat", "benchmark": "sugarcrepe", "image_id": f"{n % 3}.jpg"}
        | {
            "subsets": ["swap", "swap_obj"],
            "image": "positive",
            "n_options": 2,
            "order": order,
            "wording": "plain",
        }
        | {"outcome": ("right", "wrong")[n % 2], "reply": "A"}
        for n in range(6)
        for order in ("PN", "NP")
    ]
    frame = build_frame(ANSWERS, rows)
    write_table(ANSWERS, frame, "data/a/answers.parquet")
    found = summarise_answers(frame, {"sugarcrepe": BENCHMARKS["sugarcrepe"]}, bootstrap=Bootstrap(100, 0))
    write_table(METRICS, found, "data/a/metrics.parquet")


def params() -> None:
    """The profiles of the project, and one of its own."""
    shutil.copytree(ROOT / "params", "params", dirs_exist_ok=True)
    shutil.copy("params/default.yaml", "params.yaml")
    put_text(
        "params/mine.yaml",
        "profile: mine\nscenes: {train: 20}\npretrain:\n  lr: 0.01\nfinetune:\n  search:\n    draws: 3\n    seed: 1\n    seeds: [4, 5]\n"
        "    asha: {first: 1, factor: 2}\n    space: {trohn_text: {lr: {loguniform: [0.001, 0.1]}, batch_size: [8, 16], "
        "lora.rank: {choice: [2, 4]}}}\nevaluate:\n  models: []\n",
    )


def params_file(**sections: dict[str, Any]) -> None:
    """``params.yaml`` with some values changed."""
    from ruamel.yaml import YAML

    whole = YAML(typ="safe").load(ROOT / "params" / "default.yaml")
    for name, values in sections.items():
        whole[name] |= values
    with Path("params.yaml").open("w", encoding="utf-8") as stream:
        YAML().dump(whole, stream)


def made() -> None:
    """Data and the ``dvc.lock`` that names them."""
    from caramel.release.pin import compute_dvc_hash

    refined()
    Path("data/model").mkdir()
    put_text("data/model/config.json", "{}")
    shutil.copy(ROOT / "params" / "default.yaml", "params.yaml")
    outs = ("data/pairs.parquet", "data/negatives.parquet", "data/paraphrases.parquet", "data/model")
    lock = ["schema: '2.0'", "stages:"]
    story = ["stages:"]
    for n, out in enumerate(outs):
        lock += [f"  s{n}:", "    cmd: 'true'", "    outs:", f"    - path: {out}", "      hash: md5"]
        lock += [f"      md5: {compute_dvc_hash(Path(out))}", "      size: 1"]
        story += [f"  s{n}:", "    cmd: 'true'", "    outs:", f"    - {out}"]
    put_text("dvc.lock", "\n".join(lock) + "\n")
    put_text("dvc.yaml", "\n".join(story) + "\n")


def pinned() -> None:
    from caramel.release.pin import create_pin

    made()
    create_pin("v1", HERE)


def pinned_with_run() -> None:
    """A pinned project, and a tracked run that read its data."""
    from caramel.runtime.mlflow import tracking

    pinned()
    here = {"DVC_ROOT": str(Path.cwd())}
    read = ["data/pairs.parquet"]
    with (
        patch.dict(os.environ, here),
        tracking.run("one", key="one", params={"seed": 7}, data=read, tags={"stage": "finetune"}),
    ):
        pass


def own_project() -> None:
    """A project that uses caramel as an installed package."""
    from caramel.project.create import create_project

    create_project(Path())


def releasable() -> None:
    from released_projects import made

    made(HERE)


def kept() -> None:
    """A project elsewhere, pinned, whose data is in its cache alone."""
    from remote_projects import cached

    pinned()
    cached(HERE)
    put_text(".dvc/config", "[core]\n    analytics = false\n")
    Path("project").mkdir()
    for name in ("pins", ".dvc"):
        shutil.move(name, Path("project", name))
    shutil.rmtree("data")


def whole() -> None:
    """A project that ``doctor`` has nothing to say of."""
    made()
    put_text(
        ".dvc/config",
        "[core]\n    no_scm = true\n    remote = far\n['remote \"far\"']\n    url = /tmp/far\n    verify = true\n",
    )
    shutil.copy(ROOT / "requirements.lock", "requirements.lock")
    timings()
    Path("inputs/zero_shot").mkdir(parents=True)
    Path("mlruns").mkdir()
    with sqlite3.connect("mlruns/mlflow.db") as store:
        store.execute("CREATE TABLE runs (run_uuid TEXT, status TEXT)")
        store.executemany("INSERT INTO runs VALUES (?, ?)", [(str(n), "FINISHED") for n in range(9)])
    store.close()


def timings() -> None:
    rows = [
        {"stage": name, "profile": "smoke", "seconds": 1.5, "peak_mb": 300}
        for name in ("scenes", "negatives", "scores")
    ]
    put("timings.jsonl", rows, Path("work"))


def tracked() -> None:
    """Two stores of runs, the second without the runs of the first."""
    import mlflow

    from caramel.runtime.mlflow import tracking
    from caramel.runtime.mlflow.store import get_store_uri

    Path("data/other").mkdir(parents=True)
    get_store_uri(Path("data/other"))
    shutil.copytree("data/other", "data/mlruns")
    client = mlflow.MlflowClient(get_store_uri(Path("data/mlruns")))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id
    for n in range(3):
        run = client.create_run(experiment, run_name=f"n{n}").info.run_id
        client.log_param(run, "lr", n)
        client.log_metric(run, "loss", n, step=n)
        client.log_text(run, caption(n), "notes/text.txt")
        client.set_terminated(run)
