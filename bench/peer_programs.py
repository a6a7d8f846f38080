"""Score SugarCrepe with one program, and write verdicts and costs as JSON; ``peers.py`` runs it.

    python bench/peer_programs.py PROGRAM DATA MODEL OUT --threads N --batch-size N --workers N

DATA has ``val2017/*.jpg`` and SugarCrepe's seven files, MODEL is an open_clip folder. Each program runs twice in
one process, with all that it can keep between runs. Neither imports nor the loading of the model are timed. Processor
seconds are those of all threads and of ended child processes, such as workers that decode images. Processor seconds in
forward are those of the calling thread: with one thread, all.

What is adapted so that the programs run without network and with the same weights:

- CLIP_benchmark: nothing; the model is ``local-dir:MODEL``. It returns means alone, so verdicts are computed from the
  vectors that its model returned, as it does, and their mean is compared with its own.
- MTEB: the weights are read from ``local-dir:`` instead of ``hf-hub:``, by the loader of its CLIP ViT-B/32 without the
  check for open_clip 2.31, so that all programs use one version. The task's dataset is built from DATA in the form of
  ``mteb/SUGARCREPE_fmt`` instead of being downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SUBTYPES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


class TimedModel:
    """Calls a model's two encoders, and keeps their seconds, their numbers of rows and their vectors."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seconds = self.processor_seconds = 0.0
        self.images: list[Any] = []
        self.texts: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def encode_image(self, pixels: Any) -> Any:
        """Return the vectors of images."""
        return self._call(self.model.encode_image, pixels, self.images)

    def encode_text(self, tokens: Any) -> Any:
        """Return the vectors of texts."""
        return self._call(self.model.encode_text, tokens, self.texts)

    def _call(self, encode: Any, rows: Any, vectors: list[Any]) -> Any:
        start, thread_start = time.perf_counter(), time.thread_time()
        out = encode(rows)
        self.seconds += time.perf_counter() - start
        self.processor_seconds += time.thread_time() - thread_start
        vectors.append(out)
        return out


class Stopwatch:
    """Adds up the wall and processor seconds of its blocks."""

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = 0.0

    def __enter__(self) -> None:
        self._start, self._processor_start = time.perf_counter(), sum(os.times()[:4])

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._start
        self.processor_seconds += sum(os.times()[:4]) - self._processor_start


def list_subtypes(data: Path) -> list[str]:
    """Return the subtypes that have a file."""
    return [name for name in SUBTYPES if (data / f"{name}.json").exists()]


def list_instances(data: Path) -> list[tuple[str, dict[str, str]]]:
    """Return (key, row) of all instances, file by file."""
    return [
        (f"{name}-{key}", row)
        for name in list_subtypes(data)
        for key, row in json.loads((data / f"{name}.json").read_text()).items()
    ]


def run_caramel(data: Path, model: str, work: Path, batch_size: int, workers: int) -> list[dict[str, Any]]:
    """Return the runs of caramel: images are checked, everything is scored, and vectors are kept in a store.

    It finds its batch size itself, and decodes in threads.
    """
    import evaluation

    from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe
    from caramel.models.specs import open_model

    spec = f"model=open_clip:{model}"
    task = read_sugarcrepe(data, data)
    keys = task.rows["instance_id"].tolist()
    open_model(spec, "cpu", "fp32")  # it stays loaded: loading does not count for any program
    runs = []
    for _ in range(2):
        with (watch := Stopwatch()):
            rows, took = evaluation.score_batched(task, spec, work / "store")
        hits = (rows["s_c0_i0"] > rows["s_c1_i0"]).tolist()
        margins = (rows["s_c0_i0"] - rows["s_c1_i0"]).tolist()
        forward = took["seconds"] * took["forward_share"], took["forward_processor_seconds"]
        counts = {name: took[f"{name}_encoded"] for name in ("images", "texts")}
        run = describe_run(keys, hits, watch, forward, **counts)
        runs.append(run | {"margins": margins})
    return runs


def run_clip_benchmark(
    data: Path, model: str, work: Path, batch_size: int, workers: int
) -> list[dict[str, Any]]:
    """Return the runs of CLIP_benchmark in fp32, subtype by subtype as its users run it."""
    import torch
    from clip_benchmark.datasets.builder import build_dataset, get_dataset_collate_fn
    from clip_benchmark.metrics import image_caption_selection
    from clip_benchmark.models.open_clip import load_open_clip

    loaded, transform, tokenizer = load_open_clip(f"local-dir:{model}", None)
    loaded.eval()
    keys = [key for key, _ in list_instances(data)]
    runs = []
    for _ in range(2):
        hits: list[bool] = []
        timed, watch = TimedModel(loaded), Stopwatch()
        for subtype in list_subtypes(data):
            timed.images, timed.texts = [], []
            name = f"sugar_crepe/{subtype}"
            with watch:
                dataset = build_dataset(
                    name, root=str(data), transform=transform, task="image_caption_selection"
                )
                loader = torch.utils.data.DataLoader(
                    dataset,
                    batch_size=batch_size,
                    num_workers=workers,
                    collate_fn=get_dataset_collate_fn(name),
                )
                scores = image_caption_selection.evaluate(timed, loader, tokenizer, "cpu", amp=False)
            images, texts = (
                torch.nn.functional.normalize(torch.cat(vectors), dim=-1)
                for vectors in (timed.images, timed.texts)
            )
            closest = (images[:, None] @ texts.view(len(images), 2, -1).mT)[:, 0].argmax(1)
            assert abs(float((closest == 0).float().mean()) - scores["text_acc"]) < 1e-6
            hits += (closest == 0).tolist()
        forward = timed.seconds, timed.processor_seconds
        runs.append(describe_run(keys, hits, watch, forward, images=len(hits), texts=2 * len(hits)))
    return runs


def run_mteb(data: Path, model: str, work: Path, batch_size: int, workers: int) -> list[dict[str, Any]]:
    """Return the runs of MTEB, with its cache of results."""
    import datasets
    import mteb
    import open_clip
    import torch

    create, get_tokenizer = open_clip.create_model_and_transforms, open_clip.get_tokenizer
    open_clip.create_model_and_transforms = lambda name, **named: create(f"local-dir:{model}", **named)
    open_clip.get_tokenizer = lambda name, **named: get_tokenizer(f"local-dir:{model}", **named)
    meta = mteb.get_model_meta("laion/CLIP-ViT-B-32-laion2B-s34B-b79K")
    loaded = meta.loader(meta.name, revision=meta.revision, device="cpu")
    loaded.mteb_model_meta = meta
    clip = loaded.model
    task = mteb.get_task("SugarCrepe")
    instances = list_instances(data)
    columns = {
        "images": [str(data / "val2017" / row["filename"]) for _, row in instances],
        **{name: [row[name] for _, row in instances] for name in ("caption", "negative_caption")},
    }
    table = datasets.Dataset.from_dict(columns).cast_column("images", datasets.Image())
    cache = mteb.ResultCache(work / "cache")
    runs = []
    for _ in range(2):
        task.dataset, task.data_loaded = datasets.DatasetDict({"test": table}), True
        loaded.model = timed = TimedModel(clip)
        with (watch := Stopwatch()):
            result = mteb.evaluate(
                loaded,
                task,
                cache=cache,
                encode_kwargs={"batch_size": batch_size, "show_progress_bar": False},
                co2_tracker=False,
                show_progress_bar=False,
                prediction_folder=work / "predictions",
                num_proc=workers,
            )
        (path,) = (work / "predictions").rglob("*.json")
        scores = torch.tensor(json.loads(path.read_text())["default"]["test"])[:, 0]
        hits = (scores.argmax(1) == 0).tolist()
        assert abs(sum(hits) / len(hits) - result.task_results[0].get_score()) < 1e-6
        counts = {name: sum(map(len, getattr(timed, name))) for name in ("images", "texts")}
        forward = timed.seconds, timed.processor_seconds
        runs.append(describe_run([key for key, _ in instances], hits, watch, forward, **counts))
    return runs


def describe_run(
    keys: list[str],
    hits: list[bool],
    watch: Stopwatch,
    forward: tuple[float, float],
    *,
    images: int,
    texts: int,
) -> dict[str, Any]:
    """Return a run's verdicts and costs; ``forward``: wall and processor seconds inside the two encoders."""
    return {
        "verdicts": dict(zip(keys, map(bool, hits), strict=True)),
        "seconds": watch.seconds,
        "processor_seconds": watch.processor_seconds,
        "forward": forward[0],
        "forward_processor_seconds": forward[1],
        "images": images,
        "texts": texts,
    }


PROGRAMS = {"caramel": run_caramel, "clip_benchmark": run_clip_benchmark, "mteb": run_mteb}


def main() -> None:
    """Run one program; see the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("data", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    for option in ("--threads", "--batch-size", "--workers"):
        parser.add_argument(option, type=int, required=True)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as work:
        runs = PROGRAMS[given.program](given.data, given.model, Path(work), given.batch_size, given.workers)
    given.out.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
