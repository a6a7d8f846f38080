"""What must hold of a command that took its input: each function yields what is silently wrong.

They read the files on their own, with the standard library and Arrow, and nothing of caramel.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from harness import Files, Oracle, Seen
from PIL import Image

DATA = ("data/",)
FORMATS = {"JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO"}


class Unreadable(Exception):
    """A file that no reader can take."""


def _twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key of an object stands twice")
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_twice)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON: {type(error).__name__}") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("no UTF-8") from None


def _csv(data: bytes) -> list[dict[str, str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(_text(data), newline=""), strict=True) if row]
    except csv.Error:
        raise Unreadable("no CSV") from None
    if not rows:
        raise Unreadable("a CSV file without a header")
    header = rows[0]
    if len(set(header)) < len(header):
        raise Unreadable("a column's name stands twice")
    if any(not name.strip() for name in header):
        raise Unreadable("a column without a name")
    if any(len(row) != len(header) for row in rows[1:]):
        raise Unreadable("a row is longer or shorter than the header")
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def _parquet(data: bytes) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        raise Unreadable("no Parquet") from None
    if len(set(table.column_names)) < table.num_columns:
        raise Unreadable("a column stands twice")
    return [dict(row) for row in table.to_pylist()]


def rows_of(name: str, data: bytes) -> list[Any]:
    """Return the rows of a file; raise ``Unreadable`` if it must be refused."""
    suffix = PurePosixPath(name).suffix
    if suffix == ".csv":
        return list(_csv(data))
    if suffix == ".parquet":
        return list(_parquet(data))
    if suffix == ".jsonl":
        return [_json(line) for line in _text(data).split("\n") if line.strip()]
    if suffix == ".json":
        value = _json(_text(data))
        return (
            list(value.values())
            if isinstance(value, dict)
            else list(value)
            if isinstance(value, list)
            else [value]
        )
    return []


def _inputs(seen: Seen, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for name, data in seen.files.items():
        if name.startswith(tuple(names)) and PurePosixPath(name).suffix in (
            ".csv",
            ".json",
            ".jsonl",
            ".parquet",
        ):
            yield name, data


def refused_what_is_broken(seen: Seen) -> Iterator[str]:
    """A file that breaks the rules of its format is not taken."""
    if seen.code == 0:
        for name, data in _inputs(seen, DATA):
            try:
                rows_of(name, data)
            except Unreadable as error:
                yield f"took a file although {error} (.{name.rpartition('.')[2]})"


def strings_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value, also those of Python lists that are written as text."""
    if isinstance(value, str):
        yield value
        if value.startswith("["):
            try:
                yield from strings_in(ast.literal_eval(value))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def whole_captions(prefix: str = "", factor: int | None = None, out: str = "out/rows.parquet") -> Oracle:
    """Return an oracle: each caption that was taken stands in the input, whole, and no row is lost or added.

    Args:
        prefix: that the reader puts before captions.
        factor: rows taken for each row of the input; None: not looked at.
        out: table of what was taken.
    """

    def captions(seen: Seen) -> Iterator[str]:
        if seen.code or not (seen.box / out).is_file():
            return
        taken = pq.read_table(seen.box / out).to_pylist()
        try:
            rows = [row for name, data in _inputs(seen, DATA) for row in rows_of(name, data)]
        except Unreadable:
            return  # another oracle's
        known = set(strings_in(rows))
        for row in taken:
            for column in ("caption", "caption2", "negative_caption"):
                text = row.get(column)
                if text and str(text).removeprefix(prefix) not in known and text not in known:
                    yield f"{column} is not in the file, whole"
                    return
        if factor is not None and len(taken) != factor * len(rows):
            yield f"took {len(taken)} of {len(rows)} rows"

    return captions


def same_pairs(columns: tuple[str, str] = ("caption", "negative_caption")) -> Oracle:
    """Return an oracle: the couples of caption and negative are those of the rows, each as often."""

    def couples(seen: Seen) -> Iterator[str]:
        out = seen.box / "out/rows.parquet"
        if seen.code or not out.is_file():
            return
        try:
            rows = [row for name, data in _inputs(seen, DATA) for row in rows_of(name, data)]
        except Unreadable:
            return
        wanted = Counter(tuple(row.get(c) or "" for c in columns) for row in rows if isinstance(row, dict))
        taken = Counter(
            (row["caption"] or "", row["negative_caption"] or "") for row in pq.read_table(out).to_pylist()
        )
        if wanted != taken:
            yield "other couples than the file's"

    return couples


def _names(value: Any, fields: Sequence[str]) -> Iterator[str]:
    """Yield the texts below the fields."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in fields and isinstance(item, str):
                yield item
            else:
                yield from _names(item, fields)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item, fields)


def stays_inside(*fields: str, first: bool = False) -> Oracle:
    """Return an oracle: a file name that leaves its folder is refused.

    Args:
        fields: that hold names.
        first: the name is the first entry of a row that is a list.
    """

    def inside(seen: Seen) -> Iterator[str]:
        if seen.code:
            return
        for name, data in _inputs(seen, DATA):
            try:
                rows = rows_of(name, data)
            except Unreadable:
                return
            found = list(_names(rows, fields))
            if first:
                found += [row[0] for row in rows if isinstance(row, list) and row and isinstance(row[0], str)]
            for text in found:
                if leaves(text):
                    yield f"took a name that leaves its folder ({'absolute' if text.startswith('/') else 'by ..'})"
                    return

    return inside


def leaves(name: str) -> bool:
    """Return whether a file's name leads out of the folder."""
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            return True
    return name.startswith("/")


def pictures_decode(seen: Seen) -> Iterator[str]:
    """Every picture of an accepted input decodes, and is of a kind that data sets have."""
    if seen.code:
        return
    for name, data in seen.files.items():
        if (
            not name.startswith("data/")
            or data == seen.valid.get(name)
            or PurePosixPath(name).suffix not in (".jpg", ".jpeg", ".png")
        ):
            continue
        try:
            with Image.open(io.BytesIO(data)) as image:
                kind = str(image.format)
                image.load()
        except Exception:  # noqa: BLE001 Pillow raises many kinds on a broken picture
            yield "took a picture that does not decode"
        else:
            if kind not in FORMATS:
                yield f"took a picture of format {kind}"


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def scores_are_finite(seen: Seen) -> Iterator[str]:
    """No file of our scores with an infinite score, an empty name or a key that stands twice is taken."""
    if seen.code:
        return
    for name, data in seen.files.items():
        if PurePosixPath(name).name != "similarities.parquet":
            continue
        try:
            rows = _parquet(data)
        except Unreadable as error:
            yield f"took a table although {error}"
            return
        if any(math.isinf(number) for row in rows for number in _numbers(row)):
            yield "took an infinite score"
        keys = [(row.get("instance_id"), row.get("model"), row.get("benchmark")) for row in rows]
        if len(set(keys)) < len(keys):
            yield "took a key that stands twice"
        if any(part is None for key in keys for part in key):
            yield "took a row without a name"


def infinite_scores_are_refused(seen: Seen) -> Iterator[str]:
    """No score of others is infinite."""
    if seen.code:
        return
    for name, data in _inputs(seen, DATA):
        try:
            rows = rows_of(name, data)
        except Unreadable:
            return
        for row in rows if all(isinstance(row, dict) for row in rows) else ():
            for key, value in row.items():
                if str(key).startswith("s_") and _float(value) in (math.inf, -math.inf):
                    yield "took an infinite score"
                    return


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


TRUE, FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")


def share_of_verdicts(seen: Seen) -> Iterator[str]:
    """The accuracy is the share of verdicts that are true."""
    out = seen.box / "out/metrics.csv"
    if seen.code or not out.is_file():
        return
    try:
        rows = [row for name, data in _inputs(seen, DATA) for row in rows_of(name, data)]
    except Unreadable:
        return
    if any(not isinstance(row, dict) or "correct" not in row or "model" not in row for row in rows):
        return
    said = [str(row["correct"]).strip().lower() for row in rows if str(row["model"]) == "m"]
    right, wrong = sum(text in TRUE for text in said), sum(text in FALSE for text in said)
    for row in _csv(out.read_bytes()) if right + wrong else ():
        if (row["model"], row["subset"], row["metric"]) != ("m", "all", "accuracy"):
            continue
        if int(row["n"]) != right + wrong or abs(float(row["value"]) - right / (right + wrong)) > 1e-6:
            yield f"accuracy {row['value']} of {row['n']}, but {right} of {right + wrong} are true"


def a_changed_pin_is_refused(seen: Seen) -> Iterator[str]:
    """``verify`` says yes only to the pin that was written, and to the data that it names."""
    if seen.code:
        return
    for name, data in seen.files.items():
        old = seen.valid.get(name)
        if name.startswith("data/") and data != old:
            yield "called changed data the pinned version"
        if name.startswith("pins/") and data != old and _plain(data) != _plain(old or b""):
            yield "believed a changed pin"
    if any(name not in seen.files for name in seen.valid if name.startswith("data/")):
        yield "called missing data the pinned version"


def _plain(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data


def only_what_the_lock_names_is_pinned(seen: Seen) -> Iterator[str]:
    """``pin`` refuses data that are not those of ``dvc.lock``."""
    changed = [n for n in seen.valid if n.startswith("data/") and seen.files.get(n) != seen.valid[n]]
    if seen.code == 0 and changed and seen.files.get("dvc.lock") == seen.valid["dvc.lock"]:
        yield "pinned data that dvc.lock does not name"


def params_stay_valid(seen: Seen) -> Iterator[str]:
    """``profile`` writes a config that is whole and finite, or leaves the file as it was."""
    path = seen.box / "params.yaml"
    before = seen.files.get("params.yaml")
    now = path.read_bytes() if path.is_file() else None
    if seen.code and before is not None and now != before:
        yield "params.yaml changed although the command failed"
    if seen.code == 0:
        text = (now or b"").decode("utf-8", "replace")
        if re.search(r"[:\[,]\s*[-+]?\.(nan|inf)\b", text, re.IGNORECASE):
            yield "wrote a number that is not finite"


def weights_are_those_of_the_card(seen: Seen) -> Iterator[str]:
    """A checkpoint whose weights are not those that its card names is refused."""
    import hashlib

    card, weights = (
        seen.files.get("data/model/caramel.json"),
        seen.files.get("data/model/open_clip_model.safetensors"),
    )
    if seen.code or card is None or weights is None:
        return
    told = _plain(card)
    if (
        isinstance(told, dict)
        and "weights_sha256" in told
        and told["weights_sha256"] != hashlib.sha256(weights).hexdigest()
    ):
        yield "loaded weights that are not those of the card"


def replies_do_not_poison(restore: Callable[[Path], None]) -> Oracle:
    """Return an oracle: after a bad reply, the same command succeeds once the server is well again."""

    def again(seen: Seen) -> Iterator[str]:
        out = seen.box / "out/answers.parquet"
        if (
            seen.code == 0
            and out.is_file()
            and any(_surrogate(row["reply"]) for row in pq.read_table(out).to_pylist())
        ):
            yield "kept a reply that is no text"
        restore(seen.box)
        second = seen.run(seen.arguments)
        if second.code:
            yield f"the next run fails as well: {second.wrong[:1] or second.said[-200:]}"

    return again


def _surrogate(text: str | None) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text or "")


def taken_by_the_stage(files: Files, box: Path) -> tuple[int, int]:
    """Return how many captions the stage ``scenes`` kept and rejected."""
    return tuple(
        pq.read_metadata(box / f"data/scenes/{name}.parquet").num_rows for name in ("pairs", "rejects")
    )  # type: ignore[return-value]


def scenes_are_whole(seen: Seen) -> Iterator[str]:
    """Each caption of the pairs stands in the file, whole, and rows are kept or rejected."""
    pairs = seen.box / "data/scenes/pairs.parquet"
    if seen.code or not pairs.is_file():
        return
    try:
        mine = {name: rows_of(name, data) for name, data in _inputs(seen, ("own/",))}
    except Unreadable as error:
        yield f"took a file although {error}"
        return
    known = set(strings_in(list(mine.values())))
    if any(row["caption"] not in known for row in pq.read_table(pairs).to_pylist()):
        yield "a caption is not in the file, whole"
    kept, rejected = taken_by_the_stage(seen.files, seen.box)
    flat = {name: rows for name, rows in mine.items() if not name.endswith("captions.json")}
    if flat and kept + rejected != sum(map(len, flat.values())):
        yield f"kept {kept} and rejected {rejected} of {sum(map(len, flat.values()))} rows"
    if any(
        leaves(text) for text in _names(list(mine.values()), ("filename", "file_name"))
    ) and "captions" in str(list(mine)):
        yield "took a name that leaves its folder"
