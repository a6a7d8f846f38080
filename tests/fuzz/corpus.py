"""Small valid inputs in the layout of the releases: what is shared, and data sets of pairs.

Each function writes into the current folder: files and images below ``data/``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ROWS = 6
MANY = 96


NOUNS = ("dog", "cat", "horse", "bird", "boat", "kite", "table", "truck")


DATA = Path("data")


def caption(n: int) -> str:
    return f"A {NOUNS[n % 8]}, number {n}, stands on a mat."


def negative(n: int) -> str:
    return f"A {NOUNS[(5 * n + 3) % 8]}, number {n}, stands on a mat."


def paraphrase(n: int) -> str:
    return f"On a mat stands a {NOUNS[n % 8]}, number {n}."


def picture(n: int, kind: str = "JPEG") -> bytes:
    """An encoded picture of its own colours."""
    image = Image.linear_gradient("L").resize((16, 12))
    out = io.BytesIO()
    Image.merge("RGB", (image, image.point(lambda v: (v * 7 + 31 * n) % 256), image.rotate(180))).save(
        out, kind
    )
    return out.getvalue()


def images(names: Sequence[str], folder: Path = DATA) -> None:
    for n, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(n, "PNG" if path.suffix == ".png" else "JPEG"))


def put(name: str, rows: Any, folder: Path = DATA) -> None:
    """Write rows by the suffix of the name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def named(suffix: str, **more: Any) -> Callable[[], None]:
    """A file with named columns, ``data/mine.SUFFIX``."""

    def write() -> None:
        rows = [
            {"id": n, "filename": f"{n % 4}.jpg", "caption": caption(n), "negative_caption": negative(n)}
            | {"caption2": paraphrase(n), "subtype": ("obj", "att")[n % 2], "type": "replace", **more}
            for n in range(ROWS)
        ]
        put(f"mine.{suffix}", rows)
        images([f"{n}.jpg" for n in range(4)])

    return write


def couples() -> None:
    """``data/mine.csv`` with as many rows as a refinement needs."""
    rows = [
        {
            "filename": f"{n // 2}.jpg",
            "caption": caption(n),
            "negative_caption": negative(n),
            "type": "replace",
        }
        | {"subtype": ("obj", "att")[n % 2]}
        for n in range(MANY)
    ]
    put("mine.csv", rows)


def sugarcrepe() -> None:
    row = [
        {"filename": f"{n % 4:012}.jpg", "caption": caption(n), "negative_caption": negative(n)}
        for n in range(ROWS)
    ]
    put("swap_obj.json", {str(n): row[n] for n in range(3)})
    put("add_att.json", {str(n): row[n] for n in range(3, ROWS)})
    images([f"{n:012}.jpg" for n in range(4)])


def errata() -> None:
    """SugarCrepe, with an instance that is excluded and one that is corrected."""
    sugarcrepe()
    row = {"benchmark": "sugarcrepe", "release": "r", "field": "negative_caption", "reason": "r"}
    put(
        "errata.jsonl",
        [
            {**row, "instance": "swap_obj-0", "from": negative(0), "exclude": True},
            {**row, "instance": "swap_obj-1", "from": negative(1), "to": "Other words."},
        ],
    )


def eval_config() -> None:
    """SugarCrepe, with a file of the options of an evaluation."""
    sugarcrepe()
    lines = ["model: [blind:length, a=blind:length]", "benchmark: [sugarcrepe]", "data: data", "out: out"]
    lines += ["n-bootstrap: 100", "limit: 9", "dry-run: false", ""]
    (DATA / "eval.yaml").write_text("\n".join(lines))


def sugarcrepe_pp() -> None:
    rows = [
        {"id": n, "filename": f"{n % 4:012}.jpg", "caption": caption(n), "caption2": paraphrase(n)}
        | {"negative_caption": negative(n)}
        for n in range(ROWS)
    ]
    put("replace_obj.json", rows[:3])
    put("swap_att.json", rows[3:])
    images([f"{n:012}.jpg" for n in range(4)])


def _cells(n: int) -> tuple[dict[str, object], dict[str, object]]:
    return {"bytes": picture(2 * n, "PNG"), "path": None}, {"bytes": picture(2 * n + 1, "PNG"), "path": None}


def bivlc() -> None:
    rows = [
        {"caption": caption(n), "negative_caption": negative(n), "type": "replace", "subtype": "obj"}
        for n in range(ROWS)
    ]
    pairs = [dict(zip(("image", "negative_image"), _cells(n), strict=True)) for n in range(ROWS)]
    put("test-00000-of-00001.parquet", [row | pair for row, pair in zip(rows, pairs, strict=True)])


def bivlc_files() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "negative_image": f"n{n}.jpg",
            "caption": caption(n),
            "negative_caption": negative(n),
        }
        | {"type": "swap", "subtype": "att"}
        for n in range(ROWS)
    ]
    put("test.jsonl", rows)
    images([row[name] for row in rows for name in ("image", "negative_image")])


def winoground() -> None:
    rows = []
    for n in range(ROWS):
        first, second = _cells(n)
        row = {
            "id": n,
            "caption_0": caption(n),
            "caption_1": negative(n),
            "image_0": first,
            "image_1": second,
        }
        rows.append(row | {"collapsed_tag": "Object", "num_main_preds": 1})
    put("data/test-00000-of-00001.parquet", rows)


def winoground_files() -> None:
    rows = [
        {"id": n, "image_0": f"ex_{n}_img_0", "image_1": f"ex_{n}_img_1", "caption_0": caption(n)}
        | {"caption_1": negative(n), "collapsed_tag": "Both", "num_main_preds": 2}
        for n in range(ROWS)
    ]
    put("examples.jsonl", rows)
    images([f"images/{row[name]}.png" for row in rows for name in ("image_0", "image_1")])


def colorswap() -> None:
    rows = []
    for n in range(ROWS):
        first, second = _cells(n)
        rows.append(
            {"id": n, "caption_1": caption(n), "caption_2": negative(n), "image_1": first, "image_2": second}
        )
    put("test-00000-of-00001.parquet", rows)


def colorswap_files() -> None:
    rows = [
        {"id": n, "caption_1": caption(n), "caption_2": negative(n), "image_1": f"images/{n}_1.png"}
        | {"image_2": f"images/{n}_2.png", "image_source": "midjourney", "caption_source": "human"}
        for n in range(ROWS)
    ]
    put("test.json", rows)
    images([row[name] for row in rows for name in ("image_1", "image_2")])


def eqben() -> None:
    rows = [
        {
            "image0": f"eqbensd/{n}_0.png",
            "image1": f"eqbensd/{n}_1.png",
            "caption0": caption(n),
            "caption1": negative(n),
        }
        for n in range(ROWS)
    ]
    put("all_select.json", rows)
    images([row[name] for row in rows for name in ("image0", "image1")])


def cola() -> None:
    link = "https://example.test/{}.jpg"
    rows = [[link.format(2 * n), caption(n), link.format(2 * n + 1), negative(n)] for n in range(ROWS)]
    put("COLA_multiobjects_matching_benchmark.json", rows)
    images([f"{n}.jpg" for n in range(2 * ROWS)])


def natural_bench() -> None:
    rows = [
        {
            "index": n,
            "image_0": f"{n}_0.jpg",
            "image_1": f"{n}_1.jpg",
            "caption_0": caption(n),
            "caption_1": negative(n),
        }
        for n in range(ROWS)
    ]
    put("metadata.json", rows)
    images([f"images/{row[name]}" for row in rows for name in ("image_0", "image_1")])
