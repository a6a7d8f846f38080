"""The tables of what language models answered, and of verdicts on captions."""

from __future__ import annotations

from caramel.schemas.contracts import BOOL, COUNT, FLOAT, FROM_ONE, INT, TEXT, Column, Table

REPLIES = Table(
    "replies",
    ("model", "prompt", "parameters", "input", "attempt"),
    {
        "reply_id": Column(TEXT, "hash of the key, in hexadecimal digits"),
        "model": Column(TEXT, "what determines its replies, as JSON"),
        "prompt": Column(TEXT, "name of the prompt and hash of its words, NAME@HASH"),
        "parameters": Column(TEXT, "temperature, seed and bounds of the request, as JSON"),
        "input": Column(TEXT, "what the prompt was asked of, and answers that did not do before, as JSON"),
        "attempt": Column(INT, "at the same text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "the reply as it came; null where none came", null=True),
        "finish_reason": Column(
            TEXT,
            "why it ended, in the server's word: stop, length …; failed where none came",
            formerly="finish",
        ),
        "input_tokens": Column(
            INT,
            "tokens that the model read; null where nobody counted",
            null=True,
            range=COUNT,
            formerly="tokens_in",
        ),
        "output_tokens": Column(
            INT,
            "tokens that it wrote; null where nobody counted",
            null=True,
            range=COUNT,
            formerly="tokens_out",
        ),
        "seconds": Column(FLOAT, "from the request to the reply; nothing depends on them", range=(0.0, 1e9)),
    },
)

_V = "verdict; null where it was not asked or cannot be told: "

VERDICTS = Table(
    "verdicts",
    ("id", "attempt"),
    {
        "id": Column(TEXT, "negative_id, or pair_id:paraphrase"),
        "attempt": Column(INT, "at this text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "what the model wrote"),
        "statement": Column(BOOL, _V + "it is no question", null=True),
        "complete": Column(BOOL, _V + "it does not break off", null=True, formerly="finished"),
        "single_sentence": Column(
            BOOL, _V + "it is one sentence and no more than was asked for", null=True, formerly="plain"
        ),
        "not_copy": Column(
            BOOL,
            _V + "it is not its caption again, nearly or in all but case and spaces",
            null=True,
            formerly="new",
        ),
        "one_change": Column(BOOL, _V + "a negative differs from its caption by one change", null=True),
        "edit_location": Column(
            BOOL, _V + "the change is where it was asked for", null=True, formerly="place"
        ),
        "subtype": Column(BOOL, _V + "what changed is a word of the asked kind", null=True),
        "novel_word": Column(
            BOOL, _V + "no caption of the image says what a negative says anew", null=True, formerly="unsaid"
        ),
        "overlap": Column(BOOL, _V + "a paraphrase shares enough words with its caption", null=True),
        "grammar": Column(BOOL, _V + "a model of grammar takes it for a sound sentence", null=True),
        "entailment": Column(
            BOOL,
            _V
            + "an entailment model: a paraphrase and its caption follow from each other, a negative does not follow",
            null=True,
        ),
        "meaning": Column(
            BOOL, _V + "the validator: a paraphrase says the same, a negative may be false", null=True
        ),
        "reason": Column(TEXT, "why it did not do; null of what was kept", null=True),
    },
)
