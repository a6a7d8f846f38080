"""The tables of an evaluation: similarities, answers and metrics."""

from __future__ import annotations

from caramel.schemas.columns import IMAGES_HASH, TEXTS_HASH
from caramel.schemas.contracts import COUNT, FLOAT, FROM_ONE, INT, TEXT, TEXTS, UNIT, Column, Table

OUTCOMES = ("right", "wrong", "none", "unparseable", "failed")  # outcomes of a prompted choice

_S = "similarity of the model, any finite number: "

SIMILARITIES = Table(
    "similarities",
    ("instance_id", "model", "benchmark"),
    {
        "instance_id": Column(TEXT, "instance"),
        "model": Column(TEXT, "model that scored it"),
        "benchmark": Column(TEXT, "benchmark of the instance"),
        "image_id": Column(TEXT, "its (positive) image: the cluster of the intervals"),
        "subsets": Column(TEXTS, "its subsets, besides `all`"),
        "texts_hash": TEXTS_HASH,
        "images_hash": IMAGES_HASH,
        # Instances with one or two images and two or three captions.
        "s_c0_i0": Column(FLOAT, _S + "positive caption, positive image", null=True),
        "s_c1_i0": Column(FLOAT, _S + "negative caption, positive image", null=True),
        "s_c2_i0": Column(FLOAT, _S + "paraphrase, positive image", null=True),
        "s_c0_i1": Column(FLOAT, _S + "positive caption, negative image", null=True),
        "s_c1_i1": Column(FLOAT, _S + "negative caption, negative image", null=True),
        "t_p1_p2": Column(FLOAT, "cosine of text embeddings P1, P2", null=True),
        "t_p1_n": Column(FLOAT, "cosine of text embeddings P1, N", null=True),
        "t_p2_n": Column(FLOAT, "cosine of text embeddings P2, N", null=True),
        # Instances that rank candidates for one query.
        "s_true": Column(FLOAT, _S + "best true candidate of the query", null=True),
        "s_other": Column(FLOAT, _S + "best false candidate of the query", null=True),
        "n_above": Column(
            INT,
            "false candidates that score higher than the best true one",
            null=True,
            range=COUNT,
            formerly="above",
        ),
        "n_tied": Column(
            INT,
            "false candidates with the same score as the best true one",
            null=True,
            range=COUNT,
            formerly="equal",
        ),
        "n_candidates": Column(
            INT, "candidates of the query, true and false", null=True, range=COUNT, formerly="candidates"
        ),
        "score_type": Column(
            TEXT,
            "rule of the model's scores: cosine, itm, vqascore …; null if unknown",
            null=True,
            formerly="scored_by",
        ),
    },
)

ANSWERS = Table(
    "answers",
    ("instance_id", "model", "benchmark", "image", "n_options", "order", "wording"),
    {
        "instance_id": Column(TEXT, "instance"),
        "model": Column(TEXT, "model that answered"),
        "benchmark": Column(TEXT, "benchmark of the instance"),
        "image_id": Column(TEXT, "its (positive) image: the cluster of the intervals"),
        "subsets": Column(TEXTS, "its subsets, besides `all`"),
        "texts_hash": TEXTS_HASH,
        "images_hash": IMAGES_HASH,
        "image": Column(TEXT, "which of its images the model saw", choices=("positive", "negative")),
        "n_options": Column(INT, "options to choose from, including `none`", range=FROM_ONE, formerly="ways"),
        "order": Column(TEXT, "the options in order: P true of the image, N false, 0 none of them"),
        "wording": Column(TEXT, "name of the question's wording"),
        "outcome": Column(TEXT, "what the reply means", choices=OUTCOMES),
        "reply": Column(TEXT, "the response as received; null if there was none", null=True),
        "finish_reason": Column(
            TEXT,
            "why the response ended, in the server's word: stop, length … (length: it was cut off, and counts as "
            "unparseable); null if there was no response or no reason",
            null=True,
            formerly="finish",
        ),
    },
)

METRICS = Table(
    "metrics",
    ("model", "benchmark", "subset", "metric"),
    {
        "model": Column(TEXT, "model that was scored"),
        "benchmark": Column(TEXT, "benchmark"),
        "subset": Column(TEXT, "`all` (micro), `macro`, or a type, a subtype, a split, a complexity …"),
        "metric": Column(TEXT, "metric, in lower case"),
        "value": Column(FLOAT, "fraction of instances that are hits, in [0, 1]", null=True, range=UNIT),
        "ci_low": Column(FLOAT, "lower end of the 95 % interval", null=True),
        "ci_high": Column(FLOAT, "upper end of the 95 % interval", null=True),
        "n": Column(INT, "scored instances", range=COUNT),
        "ties": Column(INT, "instances with a tie (they count as misses)", range=COUNT),
        "unscored": Column(
            INT, "instances with a missing or NaN score: neither right nor wrong", range=COUNT
        ),
    },
)
