"""Small releases of public benchmarks: those of `caramel eval --mock`, and a SugarCrepe with captions of the test's own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from caramel.evaluation.mock.releases import RELEASES, write_release, write_rows

__all__ = ["RELEASES", "put", "write_release", "write_sugarcrepe"]
put = write_rows


def write_sugarcrepe(folder: Path, captions: Mapping[str, Sequence[tuple[str, str]]], images: int) -> None:
    """Write a file for each subtype, of (caption, negative caption); rows take turns at so many images, 000000000000.jpg on."""
    folder.mkdir(parents=True, exist_ok=True)
    for subtype, pairs in captions.items():
        rows = {
            str(n): {
                "filename": f"{n % images:012}.jpg",
                "caption": caption,
                "negative_caption": negative,
            }
            for n, (caption, negative) in enumerate(pairs)
        }
        (folder / f"{subtype}.json").write_text(json.dumps(rows))
