"""Section of the graph that builds CREPE's sets, ``pipelines/crepe/dvc.yaml``."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from caramel.config.fields import Count, Positive, Section, Seed


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
    max_connections: Positive
    max_requests: Positive | None
    min_examples: Positive
    seed: Seed

    @model_validator(mode="after")
    def _check_entailment(self) -> Self:
        """The swaps of sentences are checked as published; those of the template need no model."""
        if self.writer is not None and self.entailment is None:
            raise ValueError(
                "writer is set, so entailment must name a folder of a natural language inference model, such as "
                "roberta-large-mnli, or be 'none' for no check"
            )
        return self
