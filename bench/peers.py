"""Compare caramel with CLIP_benchmark's ``sugar_crepe`` and MTEB's ``SugarCrepe``: same data, same weights.

    python -m venv work/peers && work/peers/bin/pip install clip-benchmark mteb open_clip_torch
    python bench/peers.py --python work/peers/bin/python

The captions are SugarCrepe's, the images are drawn here under the real names, and the model is open_clip's ViT-B/32
with random weights; neither changes timings. The three programs run by turns, each in a process of its own, on the
instances of a sample of images. ``peer_programs.py`` says what is adapted. All run in fp32 on the processor. The others
run with each given batch size and number of workers. MTEB's loader of images has batches of one.

Prints one JSON object: for each program and setting the medians over rounds of seconds, of seconds in forward and of
seconds of the second run, as wall and as processor time, and the ratio to caramel's of the same round; and the instances
whose verdict differs from caramel's. Only processor seconds are comparable on a machine that does other work, and those in
forward are complete with ``--threads 1``. caramel's numbers of encoded rows include those that fill short batches. Nothing
is downloaded. With the default sample on two idle cores it takes about five minutes.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from evaluation import SIZE, save_random_checkpoint, write_images
from peer_programs import PROGRAMS, SUBTYPES

Run = dict[str, Any]


def write_sample(captions: Path, data: Path, images: int) -> None:
    """Write SugarCrepe's files with the instances of a sample of images, and draw the images."""
    files = {name: json.loads((captions / f"{name}.json").read_text()) for name in SUBTYPES}
    names = sorted({row["filename"] for rows in files.values() for row in rows.values()})
    chosen = {names[i] for i in np.random.default_rng(0).choice(len(names), images, replace=False)}
    data.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        some = {key: row for key, row in rows.items() if row["filename"] in chosen}
        if some:
            (data / f"{name}.json").write_text(json.dumps(some))
    write_images(sorted(chosen), data / "val2017", SIZE)


def run_program(
    name: str, python: str, data: Path, model: Path, threads: int, batch_size: int, workers: int
) -> list[Run]:
    """Return the two runs of a program in a new process."""
    out = data / f"{name}.out"
    command = [python, str(Path(__file__).parent / "peer_programs.py"), name, str(data), str(model), str(out)]
    command += ["--threads", str(threads), "--batch-size", str(batch_size), "--workers", str(workers)]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    runs: list[Run] = json.loads(out.read_text())
    return runs


def summarise_program(rounds: list[list[Run]], ours: list[list[Run]]) -> dict[str, Any]:
    """Return the medians of a program's rounds, and what differs from caramel's verdicts."""
    expected = ours[0][0]["verdicts"]
    verdicts = rounds[0][0]["verdicts"]
    return {
        "accuracy": round(float(np.mean([*verdicts.values()])), 4),
        "different_verdicts": [key for key in expected if verdicts[key] != expected[key]],
        "instances": len(verdicts),
        "images_encoded": rounds[0][0]["images"],
        "texts_encoded": rounds[0][0]["texts"],
        "processor": summarise_seconds(rounds, ours, "processor_seconds", "forward_processor_seconds"),
        "wall": summarise_seconds(rounds, ours, "seconds", "forward"),
    }


def summarise_seconds(
    rounds: list[list[Run]], ours: list[list[Run]], whole: str, forward: str
) -> dict[str, Any]:
    """Return the medians of a program's seconds, of one kind, and their ratio to caramel's in each round."""
    first, second = ([runs[number][whole] for runs in rounds] for number in (0, 1))
    count = len(rounds[0][0]["verdicts"])
    own = [runs[0][whole] for runs in ours]
    return {
        "instances_per_second": round(median(count / seconds for seconds in first), 1),
        "seconds": round(median(first), 1),
        "seconds_in_forward": round(median(runs[0][forward] for runs in rounds), 1),
        "second_run_seconds": round(median(second), 2),
        "times_caramel": [round(a / b, 2) for a, b in zip(first, own, strict=True)],
    }


@click.command()
@click.option("--python", required=True, help="Interpreter of an environment with the peers.")
@click.option(
    "--captions", type=click.Path(exists=True, path_type=Path), help="Default: $CARAMEL_DATA/sugarcrepe."
)
@click.option("--work", default="work/bench-peers", type=click.Path(path_type=Path), help="Scratch folder.")
@click.option("--images", default=78, show_default=True, help="Images whose instances are scored.")
@click.option("--rounds", default=3, show_default=True, help="Turns of each program.")
@click.option("--threads", default=os.cpu_count(), show_default=True, help="Threads of each program.")
@click.option(
    "--batch-size",
    "batch_sizes",
    default=[64],
    multiple=True,
    show_default=True,
    help="The others'; repeatable.",
)
@click.option(
    "--workers",
    default=[1],
    multiple=True,
    show_default=True,
    help="The others' processes that load; repeatable.",
)
def main(
    python: str,
    captions: Path | None,
    work: Path,
    images: int,
    rounds: int,
    threads: int,
    batch_sizes: tuple[int, ...],
    workers: tuple[int, ...],
) -> None:
    """Run the programs by turns and print the comparison; see the module's docstring."""
    data = work.absolute() / f"data-{images}"
    write_sample(captions or Path(os.environ["CARAMEL_DATA"], "sugarcrepe"), data, images)
    save_random_checkpoint(work / "model", "ViT-B-32")
    settings = [*itertools.product(batch_sizes, workers)]
    programs = [("caramel", *settings[0])]  # which finds its own
    programs += [(name, *setting) for name in PROGRAMS if name != "caramel" for setting in settings]
    runs: dict[tuple[str, int, int], list[list[Run]]] = {program: [] for program in programs}
    for _ in range(rounds):
        for name, batch_size, count in programs:
            interpreter = sys.executable if name == "caramel" else python
            two_runs = run_program(
                name, interpreter, data, work.absolute() / "model", threads, batch_size, count
            )
            runs[name, batch_size, count].append(two_runs)
    ours = runs[programs[0]]
    result = {
        name if name == "caramel" else f"{name} batch_size={batch_size} workers={count}": summarise_program(
            runs[name, batch_size, count], ours
        )
        for name, batch_size, count in programs
    }
    smallest = min(map(abs, ours[0][0]["margins"]))
    print(json.dumps({"threads": threads, "smallest_margin": smallest, **result}, indent=2))


if __name__ == "__main__":
    main()
