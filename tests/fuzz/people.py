"""Answers of people, as `caramel annotate answers` writes them."""

from __future__ import annotations

import json

import projects
from annotated import annotated

from caramel.annotation.content import hash_instances
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table


def answers() -> None:
    """``data/fits.parquet``: three annotators and forty items."""
    options = ("positive", "negative", "both")
    rows = annotated(
        {name: {f"i{n}": options[(n * k + n // 5) % 3] for n in range(40)} for k, name in enumerate("abc")},
        order=json.dumps([*options, "neither"]),
    )
    write_table(ANNOTATIONS, rows, "data/fits.parquet")


def baseline() -> None:
    """``data/base.parquet``: answers to the queries of instances, and the instances."""
    projects.instances()
    contents = hash_instances(
        read_table(INSTANCES, "data/instances.parquet"), read_table(IMAGES, "data/images.parquet")
    )
    reply = json.dumps({"i0": "c0", "i1": "c1", "c0": "i0", "c1": "i1"})
    write_table(
        ANNOTATIONS,
        annotated({"a": dict.fromkeys(contents, reply)}, "baseline", contents),
        "data/base.parquet",
    )
