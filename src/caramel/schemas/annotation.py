"""The table of what people answered: one row per item and annotator."""

from __future__ import annotations

import sys

from caramel.schemas.contracts import BOOL, COUNT, FLOAT, INT, TEXT, Column, Table

TASKS = ("choose", "fits", "compare", "true", "baseline", "correct", "resolve")  # kinds of questions
UNANSWERED = "unanswered"  # role of a text that nobody was shown or answered
ROLES = ("item", "gold", "qualification", UNANSWERED)  # what an item is for

ANNOTATIONS = Table(
    "annotations",
    ("item_id", "task", "annotator"),
    {
        "item_id": Column(
            TEXT,
            "judged row, by its name in its own table: negative_id (choose, fits), instance_id (baseline), pair_id "
            "(correct, resolve); true: pair_id, negative_id, pair_id with `:paraphrase`, or set, query and number of the hard "
            "negative of a CREPE set; compare joins two negatives "
            "of one caption as `A|B`",
        ),
        "task": Column(TEXT, "kind of question", choices=TASKS),
        "role": Column(
            TEXT,
            "item: to be judged; gold: mixed in, with a known answer; qualification: answered first, with a known answer. "
            "unanswered: an item of task correct without an answer or reason, with empty annotator and answered_at. Agreement, "
            "decisions and baselines are computed from role item alone",
            choices=ROLES,
        ),
        "annotator": Column(TEXT, "pseudonym of the annotator"),
        "qualified": Column(
            BOOL, "false if the annotator failed the qualification; their answers count nowhere"
        ),
        "guideline": Column(TEXT, "first 16 hexadecimal digits of the SHA-256 of the instructions' text"),
        "content": Column(
            TEXT,
            "hash of the captions and images that were displayed: first 16 hexadecimal digits of a SHA-256 "
            "(annotation/content.py)",
        ),
        "answer": Column(
            TEXT,
            "answer; null if skipped. choose: number of the candidate or `none`; fits: `positive`, `negative` (image), "
            "`both`, `neither`; true: `yes`, `no`; correct and resolve: the corrected caption; compare: JSON "
            '{"plausible": A or B, "grammatical": A or B} with `first` or `second` of the item_id; baseline: JSON {"i0": "c0", '
            '"i1": "c1", "c0": "i0", "c1": "i1"}: the choice for each query, an image or a caption',
            null=True,
        ),
        "skipped": Column(TEXT, "reason why the annotator skipped the item; null if answered", null=True),
        "seconds": Column(
            FLOAT,
            "time for which the item was visible, in seconds",
            null=True,
            range=(0.0, sys.float_info.max),
        ),
        "answered_at": Column(TEXT, "time of the answer: UTC, ISO 8601"),
        "turn": Column(
            INT,
            "number of the answer in the order of answering; null if the order is unknown, as in CSV files",
            null=True,
            range=COUNT,
        ),
        "gold": Column(TEXT, "expected answer, in the form of `answer`, if known beforehand", null=True),
        "order": Column(
            TEXT,
            "answers in the order in which they were displayed, left or top first: a JSON list, or for compare and baseline a "
            "JSON object with one list per query",
        ),
    },
)
