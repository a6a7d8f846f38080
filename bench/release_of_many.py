"""Measure a release of many images: `python bench/release_of_many.py [--images 100000]`.

JPEGs of 256 pixels, about 23 kB each, as in ``image_store.py``. A tenth of them, in pairs, are the instances
of the test split. The others, in pairs, are training rows with a negative and its image. Printed are seconds
and peak memory of the release in its own process, the number of files and their size.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import click
import pandas as pd
from image_store import draw_jpegs, iter_files, write_store

from caramel.release.pin import compute_dvc_hash, create_pin
from caramel.release.publishing.build import ReleaseResult, build_release
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import write_table
from caramel.schemas.training import TRAINING


def write_project(root: Path, images: int) -> None:
    """Write a project with a number of images, pinned as v1."""
    data = root / "data" / "assemble"
    data.mkdir(parents=True)
    write_store(data, iter_files(draw_jpegs(), images))
    tested = images // 20  # instances with two images each
    names = [f"{n:08}" for n in range(images)]
    instances = [
        (
            f"i{n}:swap_obj",
            names[2 * n],
            f"A {n}.",
            f"Also {n}.",
            f"Not {n}.",
            names[2 * n + 1],
            "swap",
            "swap_obj",
            "test",
            None,
        )
        for n in range(tested)
    ]
    training = [
        (f"t{n}", names[2 * n], f"A {n}.", None, [f"Not {n}."], [names[2 * n + 1]], ["swap_obj"], "train")
        for n in range(tested, images // 2)
    ]
    write_table(
        INSTANCES,
        pd.DataFrame(instances, columns=[*INSTANCES.columns]),
        data / "instances.parquet",
    )
    write_table(TRAINING, pd.DataFrame(training, columns=[*TRAINING.columns]), data / "training.parquet")
    outs = [{"path": "data/assemble", "md5": compute_dvc_hash(data)}]
    lock = {"schema": "2.0", "stages": {"all": {"cmd": "x", "outs": outs}}}
    (root / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    (root / "params.yaml").write_text("{}", encoding="utf-8")
    create_pin("v1", root)


def _measure_release(
    root: Path, answer: multiprocessing.queues.Queue[tuple[float, float, ReleaseResult]]
) -> None:
    clock = time.perf_counter()
    released = build_release("v1", root, out=root / "release")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer.put((time.perf_counter() - clock, peak, released))


@click.command(epilog="Example: python bench/release_of_many.py --images 100000 --work /data/tmp")
@click.option("--images", default=10_000, show_default=True, help="Number of JPEGs.")
@click.option(
    "--work", type=click.Path(path_type=Path), help="Folder for the files, which are removed at the end."
)
def main(images: int, work: Path | None) -> None:
    """Print the cost of the release."""
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        root = Path(scratch)
        write_project(root, images)
        held = sum(path.stat().st_size for path in (root / "data").rglob("*") if path.is_file())
        context = multiprocessing.get_context("spawn")
        answer = context.Queue()
        child = context.Process(target=_measure_release, args=(root, answer))
        child.start()
        seconds, peak, released = answer.get()
        child.join()
    print(
        f"{images:,} images, {held / 1e6:,.0f} MB: {seconds:.1f} s, peak memory {peak:,.0f} MiB, "
        f"{len(released.files)} files, {released.bytes / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    main()
