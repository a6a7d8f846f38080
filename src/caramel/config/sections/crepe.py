"""Section of the graph that builds CREPE's sets, ``pipelines/crepe/dvc.yaml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from caramel.config.fields import Connections, Count, Distinct, Positive, Section, Seed


class Crepe(Section):
    """CREPE's systematicity and productivity sets, from scene graphs and a training corpus."""

    graphs: str
    corpus: str
    column: str
    corpus_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
    parser: str
    words: str
    correct_spelling: bool
    sensible: str | None
    min_area: Count
    per_complexity: Positive
    walks: Annotated[int, Field(ge=1, le=100)]
    writer: str | None
    entailment: str | None
    max_connections: Connections
    max_requests: Positive | None
    min_examples: Positive
    models: Annotated[tuple[str, ...], Distinct]
    images: str
    seed: Seed
