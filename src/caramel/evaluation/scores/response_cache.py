"""Questions to a model, and its replies: kept as they come, so that none is paid for twice.

    <store>/<hash of the model's identity>/replies/*.jsonl   one file per run, {"key": …, "reply": …, "finish": …} a line

The key is the hash of the image's content and the prompt; all else that decides a reply (endpoint, model,
temperature, seed, length) is in the identity. A run writes to a file of its own, so that several may run at
once; a line that a killed run left half-written, or that holds no reply, does not count: it is asked again. Nor does
one without ``finish``, as earlier versions wrote them: whether the reply was cut is not known.
Half a surrogate pair, which a server that cuts a reply can leave, is no character and could not be written to
any table: it is kept as U+FFFD.
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
from caramel.interfaces.model import Chooser, Question, Reply
from caramel.io.readers import try_parse_json

_HALF = re.compile("[\ud800-\udfff]")
PATIENCE = 16  # questions in a row without a reply, after which the run ends


def ask_questions(model: Chooser, questions: Mapping[str, Question], folder: Path) -> dict[str, Reply]:
    """Return key -> reply of those questions that were answered, now or before.

    Args:
        model: who is asked.
        questions: key -> question.
        folder: of the replies, which are kept as they come.

    Raises:
        BackendError: none was answered, or ``PATIENCE`` in a row were not; what came is kept.
    """
    known, broken = load_replies(folder)
    replies = {key: known[key] for key in questions if key in known}
    missing = [key for key in questions if key not in replies]
    if not missing:
        return replies
    if broken:
        tqdm.write(
            f"Broken lines in {str(folder)!r}, or lines that do not say whether the reply was cut: {broken}. "
            "What they may have answered is asked again.",
            file=sys.stderr,
        )
    silent, problem = 0, ""
    bar = tqdm(total=len(questions), initial=len(replies), desc=f"{model.name}: questions", disable=None)
    with open_reply_log(folder) as save_reply, bar:

        def record_reply(index: int, reply: Reply) -> None:
            nonlocal silent, problem
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
        f"Look at the server and its URL, then run the same command again: replies that came are kept."
    )


def load_replies(folder: Path) -> tuple[dict[str, Reply], int]:
    """Return key -> reply of all that is in the folder, and how many lines are broken."""
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
    """Give a function (key, reply) that appends to a new file of the folder; each line is out at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{uuid.uuid4().hex}.jsonl").open("w", encoding="utf-8") as file:

        def save_reply(key: str, reply: Reply) -> None:
            line = {"key": key, "reply": reply.text, "finish": reply.finish_reason}
            file.write(json.dumps(line) + "\n")
            file.flush()

        yield save_reply
