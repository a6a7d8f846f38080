"""Mutations of JSON: a place anywhere in it gets another value, or is lost, doubled or renamed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from mutations_of_text import (
    TEXTS,
    Draw,
    encoded,
    mutate_text,
    new_text,
    place_in,
    text_of,
)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON as its pairs, so that a key can stand in it twice."""


def _slots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in it."""
    found = [path]
    items = (
        enumerate(v for _, v in value)
        if isinstance(value, Pairs)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for place, item in items:
        found += _slots(item, (*path, place))
    return found


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for place in path:
        value = value[place][1] if isinstance(value, Pairs) else value[place]
    return value


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    parent = _at(value, path[:-1])
    parent[path[-1]] = (parent[path[-1]][0], new) if isinstance(parent, Pairs) else new
    return value


class Raw(str):
    """A piece of JSON text as it is."""


def emit(value: Any) -> str:
    """Return JSON text of a value that may hold ``Pairs`` and ``Raw``."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(k)}: {emit(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(emit(v) for v in value) + "]"
    return json.dumps(value)


def new_value(draw: Draw, old: Any) -> Any:
    """Return a value of another kind, or an odd one of the same."""
    if isinstance(old, str) and draw(st.booleans()):
        return new_text(draw, old)
    odd = draw(st.integers(0, 12))
    return (
        None, True, 0, -1, 1.5, "", [], Pairs(), [old], Pairs([("a", old)]),
        Raw(draw(st.sampled_from(("NaN", "Infinity", "-Infinity", "1e400", "1" * 5000, "-0", "1" + "0" * 308, "9007199254740993")))),
        Raw("[" * draw(st.sampled_from((50, 1500, 100_000)))),
        Raw(_nested(draw(st.sampled_from((50, 900, 100_000))))),
    )[odd]  # fmt: skip


def _nested(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def mutate_value(draw: Draw, value: Any) -> Any:
    """Change one place of a JSON value; objects are ``Pairs``."""
    path = draw(st.sampled_from(_slots(value)))
    here = _at(value, path)
    kind = draw(st.sampled_from(("value", "value", "delete", "twice", "rename", "empty", "swap", "wrap")))
    if kind == "value" or not isinstance(here, list):
        return _put(value, path, new_value(draw, here))
    if not here:
        return _put(value, path, new_value(draw, here))
    place = place_in(draw, len(here) - 1)
    if kind == "delete":
        del here[place]
    elif kind == "twice":
        here.insert(place_in(draw, len(here)), here[place])
    elif kind == "rename" and isinstance(here, Pairs):
        here[place] = (
            draw(st.sampled_from((*TEXTS[:30], here[place][0].upper(), here[place][0] + " "))),
            here[place][1],
        )
    elif kind == "empty":
        return _put(value, path, Pairs() if isinstance(here, Pairs) else [])
    elif kind == "swap":
        return _put(
            value,
            path,
            [v for _, v in here]
            if isinstance(here, Pairs)
            else Pairs([(str(n), v) for n, v in enumerate(here)]),
        )
    else:
        return _put(value, path, [here])
    return value


def mutate_json(draw: Draw, data: bytes) -> bytes:
    """Change a place of a JSON file, or of one line of JSON Lines."""
    text = text_of(data)
    if (text or "").count("[" * 40):  # nested already
        return mutate_text(draw, data)
    try:
        value = json.loads(text or "", object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return mutate_text(draw, data)
    return encoded(emit(mutate_value(draw, value)))


def mutate_jsonl(draw: Draw, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = place_in(draw, len(lines) - 1)
    lines[at] = mutate_json(draw, lines[at])
    return b"\n".join(lines)
