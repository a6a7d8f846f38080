"""Structured mutations of files by their suffix; what is drawn comes from hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from mutations_of_json import mutate_json, mutate_jsonl
from mutations_of_paths import mutate_number, mutate_paths, mutate_settings, mutate_specials
from mutations_of_rows import mutate_csv, mutate_yaml
from mutations_of_tables import mutate_image, mutate_parquet
from mutations_of_text import (
    ABSOLUTE,
    Draw,
    mutate_bytes,
    mutate_text,
)
from specials import make_special

Mutator = Callable[[Draw, bytes], bytes]


BY_SUFFIX: dict[str, tuple[Mutator, ...]] = {
    ".csv": (mutate_csv, mutate_csv, mutate_csv, mutate_text, mutate_bytes),
    ".json": (mutate_json, mutate_json, mutate_json, mutate_text, mutate_bytes),
    ".jsonl": (mutate_jsonl, mutate_jsonl, mutate_jsonl, mutate_text, mutate_bytes),
    ".parquet": (mutate_parquet, mutate_parquet, mutate_parquet, mutate_bytes),
    ".yaml": (mutate_yaml, mutate_yaml, mutate_yaml, mutate_text, mutate_bytes),
    ".lock": (mutate_yaml, mutate_text, mutate_bytes),
    ".paths": (mutate_paths,),
    ".specials": (mutate_specials,),
    ".numbers": (mutate_number,),
    **dict.fromkeys(
        (".settings", "config"), (mutate_settings, mutate_settings, mutate_settings, mutate_bytes)
    ),
    ".txt": (mutate_text, mutate_text, mutate_bytes),
    **dict.fromkeys((".jpg", ".jpeg", ".png"), (mutate_image, mutate_image, mutate_bytes)),
}


BUILT = (".paths", ".settings", ".specials", ".numbers")  # of what the command reads something is made


def mutate_file(draw: Draw, path: Path, outside: Path) -> str:
    """Mutate a file in place; return what was done."""
    if draw(st.integers(0, 24)) == 0 and path.suffix not in BUILT:
        return _replace_file(draw, path, outside)
    mutate = draw(st.sampled_from(BY_SUFFIX.get(path.suffix or path.name, (mutate_bytes, mutate_text))))
    data = mutate(draw, path.read_bytes()).replace(ABSOLUTE.encode(), str(outside).encode())
    path.write_bytes(data)
    return mutate.__name__


def _replace_file(draw: Draw, path: Path, outside: Path) -> str:
    """Put something else in the place of a file."""
    special = ("fifo", "null", "socket")
    kind = draw(st.sampled_from(("delete", "folder", "link", "dangling", "loop", "empty", *special)))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "empty":
        path.touch()
    elif kind in special:
        make_special(kind, path)
    return kind
