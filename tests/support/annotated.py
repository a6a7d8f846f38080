"""Small tables of people's answers and decisions."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from stored_images import indexed

from caramel.annotation.content import hash_instances
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame

BENCH = Path(__file__).parents[2] / "bench" / "annotation_coverage.py"


def annotated(
    answers: Mapping[str, Mapping[str, str | None]],
    task: str = "fits",
    contents: Mapping[str, str] | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """Return table ``annotations``: annotator -> item -> answer, None for a skipped item.

    Args:
        contents: content of items, such as ``hash_instances`` computes it.
    """
    rows = [
        {
            "item_id": item,
            "task": task,
            "role": "item",
            "annotator": annotator,
            "qualified": True,
            "guideline": "guideline-1",
            "content": (contents or {}).get(item, f"content-of-{item}"),
            "answer": answer,
            "skipped": None if answer is not None else "unclear",
            "seconds": 4.0,
            "answered_at": f"2026-01-01T00:00:{number:02d}+00:00",
            "turn": number,
            "gold": None,
            "order": "[]",
            **columns,
        }
        for annotator, of_one in answers.items()
        for number, (item, answer) in enumerate(of_one.items())
    ]
    return build_frame(ANNOTATIONS, rows)


def build_swap_instances(count: int) -> pd.DataFrame:
    """Return table ``instances``: i0, i1 … of swap_obj in the test split, with both images."""
    rows = [
        {
            "instance_id": f"i{n}",
            "image_id": f"im{n}",
            "caption": "A.",
            "negative_caption": "B.",
            "type": "swap",
            "subtype": "swap_obj",
            "split": "test",
            "negative_image_id": f"n{n}",
        }
        for n in range(count)
    ]
    return build_frame(INSTANCES, rows)


def index_swap_images(count: int) -> pd.DataFrame:
    """Return table ``images`` of ``build_swap_instances``."""
    return indexed([*(f"im{n}" for n in range(count)), *(f"n{n}" for n in range(count))])


def hash_swap_instances(count: int) -> dict[str, str]:
    """Return the content of the items of ``build_swap_instances``."""
    return hash_instances(build_swap_instances(count), index_swap_images(count))


def decided(
    task: str,
    decisions: Mapping[str, str | None],
    votes: Mapping[str, int] | None = None,
    contents: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return table ``decisions`` of one task, each with the same votes, or with two for its decision.

    Args:
        contents: content of items; that of others is unknown.
    """
    rows = [
        {
            "item_id": item,
            "task": task,
            "question": "",
            "decision": decision,
            "method": "majority",
            "support": 1.0,
            "skipped": None,
            "votes": json.dumps(votes or {decision or "tie": 2}),
            "annotators": ["ada", "bob"],
            "guideline": "guideline-1",
            "content": (contents or {}).get(item, "unknown"),
            "decided_at": "2026-01-01T00:00:00+00:00",
        }
        for item, decision in decisions.items()
    ]
    return build_frame(DECISIONS, rows)


def load_simulation() -> ModuleType:
    """Return the module of ``bench/annotation_coverage.py``."""
    spec = importlib.util.spec_from_file_location("annotation_coverage", BENCH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
