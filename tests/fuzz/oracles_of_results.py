"""What must hold of results, projects and stages: each function yields what is silently wrong."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.parquet as pq
from harness import Oracle, Seen
from independent import (
    DATA,
    Unreadable,
    csv_rows,
    inputs,
    leaves,
    names_in,
    numbers_in,
    parquet_rows,
    plain,
    rows_of,
    strings_in,
)


def scores_are_finite(seen: Seen) -> Iterator[str]:
    """No file of our scores with an infinite score, an empty name or a key that stands twice is taken."""
    if seen.code:
        return
    for name, data in seen.files.items():
        if PurePosixPath(name).name != "similarities.parquet":
            continue
        try:
            rows = parquet_rows(data)
        except Unreadable as error:
            yield f"took a table although {error}"
            return
        if any(math.isinf(number) for row in rows for number in numbers_in(row)):
            yield "took an infinite score"
        keys = [tuple(row.get(name) for name in ("instance_id", "model", "benchmark")) for row in rows]
        if any(part is not None and not isinstance(part, str) for key in keys for part in key):
            yield "took a name that is no text"
            return
        if len(set(keys)) < len(keys):
            yield "took a key that stands twice"
        if any(part is None for key in keys for part in key):
            yield "took a row without a name"


def infinite_scores_are_refused(seen: Seen) -> Iterator[str]:
    """No score of others is infinite."""
    if seen.code:
        return
    for name, data in inputs(seen, DATA):
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
        rows = [row for name, data in inputs(seen, DATA) for row in rows_of(name, data)]
    except Unreadable:
        return
    if any(not isinstance(row, dict) or "correct" not in row or "model" not in row for row in rows):
        return
    said = [str(row["correct"]).strip().lower() for row in rows if str(row["model"]) == "m"]
    right, wrong = sum(text in TRUE for text in said), sum(text in FALSE for text in said)
    try:
        found = csv_rows(out.read_bytes())
    except Unreadable as error:
        yield f"wrote a table although {error}"
        return
    for row in found if right + wrong else ():
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
        if name.startswith("pins/") and data != old and plain(data) != plain(old or b""):
            yield "believed a changed pin"
    if any(name not in seen.files for name in seen.valid if name.startswith("data/")):
        yield "called missing data the pinned version"


def only_what_is_pinned_is_got(seen: Seen) -> Iterator[str]:
    """``get`` puts files into its folder that the pin names, of the version that was pinned, or none."""
    got = {p for p in (seen.box / "out").rglob("*") if p.is_file() and ".caramel-get" not in p.parts}
    if seen.code:
        if got:
            yield "left files of a version that it refused"
        return
    whole = {data for name, data in seen.valid.items() if "/cache/" in name}
    for path in got - {seen.box / "out/pins/v1.json"}:
        if path.read_bytes() not in whole:
            yield f"gave another {path.name}"
    if plain((seen.box / "out/pins/v1.json").read_bytes()) != plain(seen.valid["project/pins/v1.json"]):
        yield "believed a changed pin"


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

    card, weights = (
        seen.files.get("data/model/caramel.json"),
        seen.files.get("data/model/open_clip_model.safetensors"),
    )
    if seen.code or card is None or weights is None:
        return
    told = plain(card)
    if (
        isinstance(told, dict)
        and told.get("weights_sha256") is not None  # null states none
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


def scenes_are_whole(seen: Seen) -> Iterator[str]:
    """Each caption of the pairs stands in the file, whole, and rows are kept or rejected."""
    pairs = seen.box / "data/scenes/pairs.parquet"
    if seen.code or not pairs.is_file():
        return
    try:
        mine = {name: rows_of(name, data) for name, data in inputs(seen, ("own/",))}
    except Unreadable as error:
        yield f"took a file although {error}"
        return
    known = set(strings_in(list(mine.values())))
    if any(row["caption"] not in known for row in pq.read_table(pairs).to_pylist()):
        yield "a caption is not in the file, whole"
    out = seen.box / "data/scenes"
    kept, rejected = (pq.read_metadata(out / f"{name}.parquet").num_rows for name in ("pairs", "rejects"))
    flat = {name: rows for name, rows in mine.items() if not name.endswith("captions.json")}
    if flat and kept + rejected != sum(map(len, flat.values())):
        yield f"kept {kept} and rejected {rejected} of {sum(map(len, flat.values()))} rows"
    if any(
        leaves(text) for text in names_in(list(mine.values()), ("filename", "file_name"))
    ) and "captions" in str(list(mine)):
        yield "took a name that leaves its folder"


def captions_are_whole(seen: Seen) -> Iterator[str]:
    """Each caption alone stands in the file, whole, and each is kept or rejected."""
    out = seen.box / "data/scenes"
    if seen.code or not (out / "pairs.parquet").is_file():
        return
    ((name, data),) = [(name, data) for name, data in seen.files.items() if name.startswith("own/")]
    text = data.decode("utf-8-sig")
    if name.endswith(".txt"):
        given = io.StringIO(text, newline=None).read().split("\n")
        given = given[:-1] if given[-1] == "" else given
    else:
        given = [one["raw"] for image in json.loads(text)["images"] for one in image["sentences"]]
    rows = pq.read_table(out / "pairs.parquet").to_pylist()
    if not {row["caption"] for row in rows} <= {caption.strip() for caption in given}:
        yield "a caption is not in the file, whole"
    rejected = pq.read_metadata(out / "rejects.parquet").num_rows
    if len(rows) + rejected != len(given):
        yield f"kept {len(rows)} and rejected {rejected} of {len(given)} captions"


def kept_or_rejected(seen: Seen) -> Iterator[str]:
    """Each row of the file is in the refined table or among the rejects, and the JSON files hold what was kept."""
    out = seen.box / "out"
    if seen.code or not (out / "refined.parquet").is_file():
        return
    kept, rejected = (pq.read_metadata(out / f"{name}.parquet").num_rows for name in ("refined", "rejects"))
    try:
        rows = sum(len(rows_of(name, data)) for name, data in inputs(seen, ("data/mine",)))
    except Unreadable:
        return  # another oracle's
    if rows and kept + rejected != rows:
        yield f"kept {kept} and rejected {rejected} of {rows} rows"
