"""Measure how fast images are written and read: `python bench/image_store.py [--images 100000]`.

JPEGs of 256 pixels, about 23 kB each, are stored twice: in the shards of the image store, and in one
compressed Parquet file with row groups of 256, the former form of image tables. Printed are images per second
of wall time and CPU time for writing, random reading and sequential reading, and the memory of a separate
reading process.
"""

from __future__ import annotations

import io
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import click
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from caramel.io.image_shards import ShardWriter
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table

DISTINCT = 500  # drawn images; each file is made unique by a number at its end
SIDE = 256
GROUP = 256
OLD_READS = 300  # random reads; each reads a row group
CELL = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def draw_jpegs() -> list[bytes]:
    """Return different JPEGs of about 23 kB."""
    rng, jpegs = np.random.default_rng(0), []
    for _ in range(DISTINCT):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.int16)
        pixels = np.clip(pixels + rng.normal(0, 9, pixels.shape), 0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=85)
        jpegs.append(stream.getvalue())
    return jpegs


def iter_files(pictures: Sequence[bytes], count: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and encoded file of each image."""
    for n in range(count):
        yield f"{n:08}", pictures[n % DISTINCT] + n.to_bytes(8, "little")


def write_store(folder: Path, images: Iterator[tuple[str, bytes]]) -> None:
    """Write the images into shards with their index."""
    with ShardWriter(folder / "images") as shards:
        for name, data in images:
            shards.add_image(
                name, data, f"{name}.jpg", width=SIDE, height=SIDE, source="benchmark", split="train"
            )
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), folder / "images.parquet")


def write_old(folder: Path, images: Iterator[tuple[str, bytes]]) -> None:
    """Write the images into one compressed table."""
    schema = pa.schema([("image_id", pa.string()), ("image", CELL)])
    with pq.ParquetWriter(folder / "old.parquet", schema, compression="zstd") as writer:
        while part := list(islice(images, GROUP)):
            cells = [{"bytes": data, "path": None} for _, data in part]
            writer.write_table(pa.table([[name for name, _ in part], cells], schema=schema))


def read_store(folder: Path, numbers: Sequence[int]) -> None:
    """Read images by their ids in the index."""
    index = folder / "images.parquet"
    pictures = ImageStore(index, read_table(IMAGES, index))
    names = list(pictures)
    for number in numbers:
        assert pictures[names[number]][-8:] == number.to_bytes(8, "little")


def read_old(folder: Path, numbers: Sequence[int]) -> None:
    """Read images by their rows; the last row groups are cached."""
    with pq.ParquetFile(folder / "old.parquet") as file:

        @lru_cache(4)
        def read_group(number: int) -> pa.ChunkedArray:
            return file.read_row_group(number, columns=["image"]).column("image")

        for number in numbers:
            group_index, row = divmod(number, GROUP)
            assert read_group(group_index)[row].as_py()["bytes"][-8:] == number.to_bytes(8, "little")


LAYOUTS: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "image store": (write_store, read_store),
    "one Parquet file": (write_old, read_old),
}


def _measure_read(
    layout: str, folder: Path, numbers: Sequence[int], answer: Callable[[object], None]
) -> None:
    """Read in this process and return (seconds, CPU seconds, private MB)."""
    clock, processor = time.perf_counter(), time.process_time()
    LAYOUTS[layout][1](folder, numbers)
    taken = time.perf_counter() - clock, time.process_time() - processor
    answer((*taken, psutil.Process().memory_full_info().uss / 1e6))


def measure_in_process(layout: str, folder: Path, numbers: Sequence[int]) -> tuple[float, float, float]:
    """Return the result of ``_measure_read`` in a new process that has read nothing else."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_measure_read, args=(layout, folder, numbers, send.send))
    child.start()
    measurement: tuple[float, float, float] = receive.recv()
    child.join()
    return measurement


@click.command(epilog="Example: python bench/image_store.py --images 100000 --work /data/tmp")
@click.option("--images", default=10_000, show_default=True, help="Number of JPEGs to write.")
@click.option("--reads", default=50_000, show_default=True, help="Number of random reads from the store.")
@click.option(
    "--work", type=click.Path(path_type=Path), help="Folder for the files, which are removed at the end."
)
def main(images: int, reads: int, work: Path | None) -> None:
    """Print images per second of writing and reading, and the memory."""
    rng, pictures = np.random.default_rng(1), draw_jpegs()
    rows: list[tuple[str, str, int, float, float, float | None]] = []
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        for layout, (write, _) in LAYOUTS.items():
            folder = Path(scratch, layout)
            folder.mkdir()
            clock, processor = time.perf_counter(), time.process_time()
            write(folder, iter_files(pictures, images))
            rows.append(
                (layout, "write", images, time.perf_counter() - clock, time.process_time() - processor, None)
            )
            count = reads if layout == "image store" else OLD_READS
            at_random = rng.integers(0, images, count).tolist()
            for what, numbers in (("all", range(images)), ("random", at_random)):
                rows.append((layout, what, len(numbers), *measure_in_process(layout, folder, numbers)))
    table = pd.DataFrame(rows, columns=["layout", "what", "images", "seconds", "of processor", "private MB"])
    table.insert(5, "a second", (table["images"] / table["seconds"]).round())
    table.insert(6, "per CPU-s", (table["images"] / table["of processor"]).round())
    print(table.round(1).to_string(index=False))


if __name__ == "__main__":
    main()
