"""The table of a study's cells."""

from __future__ import annotations

from caramel.schemas.contracts import COUNT, FLOAT, INT, TEXT, UNIT, Column, Table

STUDY = Table(
    "study",
    ("variant", "finetune", "scenes", "generator", "base", "subset", "metric"),
    {
        "variant": Column(TEXT, "training method, or `base`"),
        "finetune": Column(TEXT, "seed of fine-tuning; empty for the base"),
        "scenes": Column(INT, "draw of the scenes, from 0", range=COUNT),
        "generator": Column(INT, "generator within that draw, from 0", range=COUNT),
        "base": Column(INT, "base within that draw, from 0", range=COUNT),
        "subset": Column(TEXT, "as in `metrics`"),
        "metric": Column(TEXT, "metric, in lower case"),
        "value": Column(FLOAT, "fraction of instances that are hits, in [0, 1]", null=True, range=UNIT),
        "n": Column(INT, "scored instances", range=COUNT),
    },
)
