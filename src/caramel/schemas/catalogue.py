"""List all tables by name."""

from __future__ import annotations

from collections.abc import Mapping

from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.contracts import Table
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.llm import REPLIES, VERDICTS
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.schemas.scores import SCORES
from caramel.schemas.study import STUDY
from caramel.schemas.training import TRAINING

TABLES: Mapping[str, Table] = {
    t.name: t
    for t in (
        IMAGES,
        PAIRS,
        NEGATIVES,
        PARAPHRASES,
        REJECTS,
        SCORES,
        CANDIDATES,
        CHOICES,
        INSTANCES,
        TRAINING,
        SIMILARITIES,
        ANSWERS,
        REPLIES,
        VERDICTS,
        METRICS,
        STUDY,
        ANNOTATIONS,
        DECISIONS,
    )
}
