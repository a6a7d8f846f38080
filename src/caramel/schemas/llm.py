"""The tables of language models' replies, and of verdicts on their captions."""

from __future__ import annotations

from caramel.schemas.contracts import BOOL, COUNT, FLOAT, FROM_ONE, INT, TEXT, Column, Table

REPLIES = Table(
    "replies",
    ("model", "prompt", "parameters", "input", "attempt"),
    {
        "reply_id": Column(TEXT, "hash of the key, in hexadecimal digits"),
        "model": Column(TEXT, "properties that determine the model's replies, as JSON"),
        "prompt": Column(TEXT, "name of the prompt and hash of its words, NAME@HASH"),
        "parameters": Column(TEXT, "temperature, seed and limits of the request, as JSON"),
        "input": Column(
            TEXT,
            "input of the prompt, earlier answers that were rejected, and the number of malformed ones, as JSON",
        ),
        "attempt": Column(INT, "attempt at the same text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "the response as received; null if there was none", null=True),
        "finish_reason": Column(
            TEXT,
            "why the response ended, in the server's word: stop, length …; failed if there was none",
            formerly="finish",
        ),
        "input_tokens": Column(
            INT,
            "tokens that the model read; null if not counted",
            null=True,
            range=COUNT,
            formerly="tokens_in",
        ),
        "output_tokens": Column(
            INT,
            "tokens that the model wrote; null if not counted",
            null=True,
            range=COUNT,
            formerly="tokens_out",
        ),
        "seconds": Column(FLOAT, "time from request to response; nothing depends on it", range=(0.0, 1e9)),
    },
)

_V = "verdict; null if it was not checked or cannot be told: "

VERDICTS = Table(
    "verdicts",
    ("id", "attempt"),
    {
        "id": Column(TEXT, "negative_id, or pair_id:paraphrase"),
        "attempt": Column(INT, "attempt at this text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "what the model wrote"),
        "statement": Column(BOOL, _V + "it is not a question", null=True),
        "complete": Column(
            BOOL, _V + "it does not end in the middle of a sentence", null=True, formerly="finished"
        ),
        "single_sentence": Column(
            BOOL,
            _V + "it is one sentence, with nothing beyond the requested text",
            null=True,
            formerly="plain",
        ),
        "not_copy": Column(
            BOOL,
            _V + "it is not a copy of its caption: nearly equal, or equal but for case and spaces",
            null=True,
            formerly="new",
        ),
        "one_change": Column(BOOL, _V + "a negative differs from its caption by one change", null=True),
        "edit_location": Column(
            BOOL, _V + "the change is at the requested location", null=True, formerly="place"
        ),
        "subtype": Column(BOOL, _V + "the changed word is of the requested type", null=True),
        "novel_word": Column(
            BOOL,
            _V + "no caption of the image contains what a negative newly says",
            null=True,
            formerly="unsaid",
        ),
        "known_words": Column(
            BOOL,
            _V + "dictionaries have every word that a negative newly says",
            null=True,
        ),
        "not_implied": Column(
            BOOL,
            _V + "the change is no synonym, more general word or exchange that leaves a negative true",
            null=True,
        ),
        "overlap": Column(BOOL, _V + "a paraphrase shares enough words with its caption", null=True),
        "grammar": Column(BOOL, _V + "a grammar model considers it a correct sentence", null=True),
        "entailment": Column(
            BOOL,
            _V
            + "an entailment model: a paraphrase and its caption entail each other, a negative is not entailed",
            null=True,
        ),
        "meaning": Column(
            BOOL, _V + "the validator: a paraphrase means the same, a negative may be false", null=True
        ),
        "reason": Column(TEXT, "why it was rejected; null if it was kept", null=True),
    },
)
