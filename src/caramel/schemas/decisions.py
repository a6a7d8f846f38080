"""The table of what people decided, from one or more answers to each item."""

from __future__ import annotations

from caramel.schemas.annotation import TASKS
from caramel.schemas.contracts import FLOAT, TEXT, TEXTS, UNIT, Column, Table

METHODS = ("majority", "dawid_skene", "resolved")

DECISIONS = Table(
    "decisions",
    ("item_id", "task", "question"),
    {
        "item_id": Column(TEXT, "judged row, as in table `annotations`"),
        "task": Column(TEXT, "kind of question", choices=TASKS),
        "question": Column(
            TEXT, "query of a structured answer (`i0`, `plausible` …); empty for the other tasks"
        ),
        "decision": Column(
            TEXT,
            "the decided answer, as in table `annotations`; null: a tie, too few answers, or none",
            null=True,
        ),
        "method": Column(
            TEXT,
            "majority: most votes; dawid_skene: most probable given each annotator's estimated errors; resolved: a further "
            "annotator decided between different texts",
            choices=METHODS,
        ),
        "support": Column(
            FLOAT,
            "majority and resolved: fraction of the votes for the decision, or for the most frequent answers of a tie; "
            "dawid_skene: its posterior probability",
            range=UNIT,
        ),
        "skipped": Column(
            TEXT,
            "why annotators skipped a text that nobody corrected (tasks correct and resolve); null otherwise",
            null=True,
        ),
        "votes": Column(TEXT, "JSON object: number of votes of each answer"),
        "annotators": Column(TEXTS, "pseudonyms of those who answered, sorted"),
        "guideline": Column(TEXT, "version of the instructions, as in table `annotations`"),
        "content": Column(
            TEXT, "hash of the captions and images that were judged, as in table `annotations`"
        ),
        "decided_at": Column(TEXT, "time of the last answer: UTC, ISO 8601; empty without answers"),
    },
)
