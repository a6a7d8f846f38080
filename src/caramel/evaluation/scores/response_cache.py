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
from caramel.io.readers import json_or_none

_HALF = re.compile("[\ud800-\udfff]")
PATIENCE = 16  # questions in a row without a reply, after which the run ends


def ask(model: Chooser, questions: Mapping[str, Question], folder: Path) -> dict[str, Reply]:
    """Return key -> reply of those questions that were answered, now or before.

    Args:
        model: who is asked.
        questions: key -> question.
        folder: of the replies, which are kept as they come.

    Raises:
        BackendError: none was answered, or ``PATIENCE`` in a row were not; what came is kept.
    """
    known, broken = kept_replies(folder)
    found = {key: known[key] for key in questions if key in known}
    missing = [key for key in questions if key not in found]
    if not missing:
        return found
    if broken:
        tqdm.write(
            f"Broken lines in {str(folder)!r}, or lines that do not say whether the reply was cut: {broken}. "
            "What they may have answered is asked again.",
            file=sys.stderr,
        )
    silent, problem = 0, ""
    bar = tqdm(total=len(questions), initial=len(found), desc=f"{model.name}: questions", disable=None)
    with keeping(folder) as keep, bar:

        def heard(place: int, reply: Reply) -> None:
            nonlocal silent, problem
            bar.update()
            if reply.text is not None:
                text = _HALF.sub("\ufffd", reply.text)
                found[missing[place]] = Reply(text, finish=reply.finish)
                keep(missing[place], found[missing[place]])
                silent = 0
                return
            silent, problem = silent + 1, reply.problem
            if silent >= PATIENCE:
                raise _unanswered(model, f"{silent} questions in a row", problem)

        model.ask([questions[key] for key in missing], heard)
    if not found:
        raise _unanswered(model, f"all {len(questions)} questions", problem)
    return found


def _unanswered(model: Chooser, which: str, problem: str) -> BackendError:
    return BackendError(
        f"Model {model.name!r} did not answer {which}; the last problem was: {problem}\n"
        f"Look at the server and its URL, then run the same command again: replies that came are kept."
    )


def kept_replies(folder: Path) -> tuple[dict[str, Reply], int]:
    """Return key -> reply of all that is in the folder, and how many lines are broken."""
    found: dict[str, Reply] = {}
    broken = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in filter(None, path.read_bytes().split(b"\n")):
            match json_or_none(line):
                case {"key": str(key), "reply": str(text), "finish": str(finish)} if not _HALF.search(
                    key + text + finish
                ):
                    found[key] = Reply(text, finish=finish)
                case _:
                    broken += 1
    return found, broken


@contextmanager
def keeping(folder: Path) -> Iterator[Callable[[str, Reply], None]]:
    """Give a function (key, reply) that appends to a new file of the folder; each line is out at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{uuid.uuid4().hex}.jsonl").open("w", encoding="utf-8") as file:

        def keep(key: str, reply: Reply) -> None:
            line = {"key": key, "reply": reply.text, "finish": reply.finish}
            file.write(json.dumps(line) + "\n")
            file.flush()

        yield keep
