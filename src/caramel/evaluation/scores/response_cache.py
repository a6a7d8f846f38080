"""Ask a model questions and cache its responses as they arrive, so that no response is paid for twice.

    <store>/<hash of the model's identity>/replies/*.jsonl   one file per run

A line is ``{"key": …, "reply": …, "finish": …}``.
The key is the hash of the image's content and the prompt. Everything else that determines a response (endpoint,
model, temperature, seed, length) is in the identity. Each run writes its own file, so that several runs can work at
the same time.

These lines are ignored, and their questions are asked again:

- a line that a killed run left half-written
- a line without a response
- a line without ``finish``, as earlier versions wrote them, because it is unknown whether the response was truncated

Half a surrogate pair, which a server can leave when it truncates a response, is not a character and cannot be written
to any table. It is stored as U+FFFD.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from caramel.errors import BackendError
from caramel.interfaces.connections import HasConnections
from caramel.interfaces.model import Chooser, Question, Reply
from caramel.io.readers import try_parse_json

_HALF = re.compile("[\ud800-\udfff]")
PATIENCE = 16  # the run ends after this many questions in a row without a response


def ask_questions(model: Chooser, questions: Mapping[str, Question], folder: Path) -> dict[str, Reply]:
    """Return key -> response of all questions that were answered, now or earlier.

    Args:
        model: the model to ask.
        questions: key -> question.
        folder: folder of the cached responses, which are written as they arrive.

    Raises:
        BackendError: no question was answered, or ``PATIENCE`` in a row were not; received responses stay cached.
    """
    known, broken = load_replies(folder)
    replies = {key: known[key] for key in questions if key in known}
    missing = [key for key in questions if key not in replies]
    if not missing:
        return replies
    if broken:
        tqdm.write(
            f"Lines in {str(folder)!r} that are broken or do not say whether the response was truncated: {broken}. "
            "Their questions are asked again.",
            file=sys.stderr,
        )
    silent, problem = 0, ""
    bar = tqdm(total=len(questions), initial=len(replies), desc=f"{model.name}: questions", disable=None)
    with open_reply_log(folder) as save_reply, bar:

        def record_reply(index: int, reply: Reply) -> None:
            nonlocal silent, problem
            if isinstance(model, HasConnections):
                bar.set_postfix_str(f"{model.connections} connections", refresh=False)
            bar.update()
            if reply.text is not None:
                text = _HALF.sub("\ufffd", reply.text)
                replies[missing[index]] = Reply(text, finish_reason=reply.finish_reason)
                save_reply(missing[index], replies[missing[index]])
                silent = 0
                return
            silent, problem = silent + 1, reply.problem
            if silent >= PATIENCE:
                raise _build_error(model, f"{silent} questions in a row", problem)

        model.answer_questions([questions[key] for key in missing], record_reply)
    if not replies:
        raise _build_error(model, f"all {len(questions)} questions", problem)
    return replies


def _build_error(model: Chooser, which: str, problem: str) -> BackendError:
    return BackendError(
        f"Model {model.name!r} did not answer {which}; the last problem was: {problem}\n"
        f"Check the server and its URL, then run the same command again. Received responses are reused."
    )


def load_replies(folder: Path) -> tuple[dict[str, Reply], int]:
    """Return key -> response of all responses in the folder, and the number of broken lines."""
    replies: dict[str, Reply] = {}
    broken = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in filter(None, path.read_bytes().split(b"\n")):
            match try_parse_json(line):
                case {"key": str(key), "reply": str(text), "finish": str(finish)} if not _HALF.search(
                    key + text + finish
                ):
                    replies[key] = Reply(text, finish_reason=finish)
                case _:
                    broken += 1
    return replies, broken


@contextmanager
def open_reply_log(folder: Path) -> Iterator[Callable[[str, Reply], None]]:
    """Yield a function (key, response) that appends to a new file in the folder; each line is flushed at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{uuid.uuid4().hex}.jsonl").open("w", encoding="utf-8") as file:

        def save_reply(key: str, reply: Reply) -> None:
            line = {"key": key, "reply": reply.text, "finish": reply.finish_reason}
            file.write(json.dumps(line) + "\n")
            file.flush()

        yield save_reply
