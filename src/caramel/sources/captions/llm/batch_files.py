"""Exchange requests and responses with a server as files in the format of OpenAI's Batch API.

``vllm run-batch`` and OpenAI's Batch API answer such files, without a connection for each request. A text
takes several requests, each of which depends on the response to the one before. So the steps are repeated
until no request is left: write the requests that wait, have them answered, read the answers.

The format is JSON Lines, described at https://platform.openai.com/docs/api-reference/batch. A row of requests
has ``custom_id``, ``method``, ``url`` and ``body``; a row of answers has ``custom_id``, ``response``
(``status_code`` and ``body``) and ``error``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import ConfigError, DataError
from caramel.interfaces.language_model import ModelOutput, Request
from caramel.interfaces.writer import Part
from caramel.io.files import write_atomically
from caramel.io.readers import iter_lines, load_json
from caramel.models.chat.responses import Response, parse_error_message
from caramel.models.llm.chat import ChatLanguageModel, parse_completion
from caramel.sources.captions.llm.budget import Budget, Usage
from caramel.sources.captions.llm.conversation import Script
from caramel.sources.captions.llm.response_cache import ReplyKey, ReplyStore, open_replies
from caramel.sources.captions.llm.scheduler import Scheduler
from caramel.sources.captions.llm.settings import (
    LanguageModelSettings,
    import_replies,
    load_judges,
    load_writer,
)
from caramel.sources.captions.llm.validator import (
    check_validator,
    measure_validator,
    plan_gold_scripts,
    select_gold_items,
)
from caramel.sources.captions.llm.writer import STORE, plan_scripts, run_scripts

URL = "/v1/chat/completions"
SCRIPTS = 10_000  # scripts whose requests are in memory at a time
NO_CAPS = Budget(0.0, 0.0, None, None, None)
SHOWN = 3  # failed rows that an error names
FOREIGN = (
    "Read the answers to the file that `caramel batch write` wrote last, with the params, prompts and captions "
    "that it was written with."
)


_Pending = tuple[ChatLanguageModel, ReplyKey, Request]


class BatchCounts(NamedTuple):
    """Numbers of responses in a file that was read, and of requests that it leaves."""

    stored: int
    known: int  # rows whose responses were stored before
    unanswered: int  # requests that waited, and still do


def write_batch_file(
    path: Path,
    pairs: pd.DataFrame,
    *,
    seed: int,
    max_attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    limit: int,
    store: Path = STORE,
) -> int:
    """Write the requests that wait for a response, and return their number; none: no file is written.

    Args:
        path: file to write.
        pairs, seed, max_attempts, parts, model, store: as in ``language_negatives``.
        limit: largest number of requests.

    Raises:
        BackendError: the validator's verdict is required and no better than chance.
        ConfigError: the model has no chat endpoint, or two models write the parts.
        ResourceError: the requests exceed a cap of the budget, or another run has the store open.
    """
    settings = LanguageModelSettings(**model)
    _check_models(settings, parts)

    number = 0

    def write_rows(temporary: Path) -> None:
        nonlocal number
        with temporary.open("w", encoding="utf-8") as file:
            for server, key, request in rows:
                body = server.build_body(request)
                row = {"custom_id": key.reply_id, "method": "POST", "url": URL, "body": body}
                file.write(json.dumps(row) + "\n")
                number += 1

    with open_replies(store) as replies:
        import_replies(replies, settings.replies)
        spent = Usage(settings.budget)
        pending = _iter_pending(pairs, parts, seed, max_attempts, settings, replies, limit, spent)
        first = next(pending, None)
        if first is not None:
            rows = chain([first], pending)
            write_atomically(path, write_rows)
    return number


def read_batch_file(
    path: Path,
    pairs: pd.DataFrame,
    *,
    seed: int,
    max_attempts: int,
    parts: Collection[Part],
    model: Mapping[str, Any],
    store: Path = STORE,
) -> BatchCounts:
    """Store the responses in a file of answers, and return their numbers.

    Args:
        path: file of answers.
        pairs, seed, max_attempts, parts, model, store: as in ``language_negatives``.

    Raises:
        BackendError, ConfigError: as in ``write_batch_file``.
        DataError: the file is not one of answers, has an id twice, or has an id that is no request of these
            params; then nothing is stored. Or rows have no response; then all others are stored.
        ResourceError: another run has the store open.
    """
    settings = LanguageModelSettings(**model)
    _check_models(settings, parts)
    outputs = read_outputs(path)
    with open_replies(store) as replies:
        import_replies(replies, settings.replies)
        spent = Usage(NO_CAPS)
        pending = {
            key.reply_id: key
            for _, key, _ in _iter_pending(pairs, parts, seed, max_attempts, settings, replies, None, spent)
        }
        foreign = [name for name in outputs if name not in pending and not replies.has_reply(name)]
        if foreign:
            raise DataError(
                f"{str(path)!r}: {len(foreign):,} of {len(outputs):,} rows, such as custom_id {foreign[0]!r}, "
                f"answer no request. {FOREIGN}"
            )
        answered = {name: output for name, output in outputs.items() if output.text is not None}
        new = answered.keys() & pending.keys()
        for name in sorted(new):
            replies.put_reply(pending[name], answered[name])
    failed = [f"{name}: {output.problem}" for name, output in outputs.items() if output.text is None]
    if failed:
        examples = "\n".join(failed[:SHOWN])
        raise DataError(
            f"{str(path)!r}: {len(failed):,} of {len(outputs):,} rows have no response, such as\n{examples}\n"
            f"The other {len(answered):,} are stored. `caramel batch write` writes the failed ones again."
        )
    return BatchCounts(len(new), len(answered) - len(new), len(pending) - len(new))


def read_outputs(path: Path) -> dict[str, ModelOutput]:
    """Return id -> response of a file of answers; the text of a failed row is None.

    Raises:
        DataError: it is not such a file, or has an id twice.
    """
    outputs: dict[str, ModelOutput] = {}
    for number, line in enumerate(iter_lines(path), 1):
        where = f"{str(path)!r}, line {number}"
        row = load_json(line, where) if line.strip() else None
        if row is None:
            continue
        match row:
            case {"custom_id": str(name), "response": _} | {"custom_id": str(name), "error": _}:
                pass
            case {"custom_id": _, "body": _}:
                raise DataError(f"{where} is a request, not an answer. Give the server's output.")
            case _:
                raise DataError(
                    f"{where} is no row of a batch's output: custom_id, response and error are expected, not "
                    f"{line.strip()!r:.100}."
                )
        if name in outputs:
            raise DataError(f"{where}: custom_id {name!r} has two rows. Remove the wrong one.")
        outputs[name] = _parse_row(row)
    if not outputs:
        raise DataError(f"{str(path)!r} has no rows. Give the output of a batch.")
    return outputs


def _parse_row(row: Mapping[str, Any]) -> ModelOutput:
    """Return the response in a row of answers; without one, the text is None."""
    match row.get("response"):
        case {"status_code": int(status), "body": body}:
            response = Response(status, {}, json.dumps(body).encode())
        case _:
            response = Response(0, {}, b"no response")
    output = None if row.get("error") else parse_completion(response)
    if output is not None:
        return output
    problem = json.dumps(row["error"]) if row.get("error") else parse_error_message(response)
    return ModelOutput(None, "failed", problem=f"status {response.status}: {problem:.200}")


def _iter_pending(
    pairs: pd.DataFrame,
    parts: Collection[Part],
    seed: int,
    max_attempts: int,
    settings: LanguageModelSettings,
    replies: ReplyStore,
    limit: int | None,
    spent: Usage,
) -> Iterator[_Pending]:
    """Yield up to ``limit`` requests that wait for a response (None: all), each once, with their model.

    The texts with known answers come alone: until they are answered, no text is written. Then a validator that is
    no better than chance is an error or is not used, as in a run.
    """
    ids = set[str]()
    judges = load_judges(settings, replies)
    writers = {part: load_writer(settings, part, replies) for part in parts}
    request_settings = {
        part: settings.build_request_settings(one.name, seed) for part, one in writers.items()
    }
    items = {
        part: select_gold_items(pairs, part, settings, request_settings[part], seed, replies)
        for part in parts
    }

    def iter_pending(part: Part, scripts: Sequence[Callable[[], Script]]) -> Iterator[_Pending]:
        server = writers[part].open()
        assert isinstance(server, ChatLanguageModel)
        for start in range(0, len(scripts), SCRIPTS):
            some = scripts[start : start + SCRIPTS]
            scheduler = Scheduler(
                (begin() for begin in some),
                len(some),
                request_settings=dataclasses.replace(request_settings[part], max_connections=len(some)),
                judges=judges,
                store=replies,
                spent=spent,
                title=part,
            )
            number = len(some) if limit is None else limit - len(ids)
            for key, request in scheduler.collect_requests(number):
                if key.reply_id not in ids:
                    ids.add(key.reply_id)
                    yield server, key, request
            if limit is not None and len(ids) >= limit:
                return

    for part in parts:
        yield from iter_pending(part, [*plan_gold_scripts(part, items[part]).values()])
    if ids:
        return
    rules = {}
    for part in parts:  # all responses are stored, and were counted above
        uncapped = Usage(NO_CAPS)
        run = partial(run_scripts, writers[part], request_settings[part], settings, replies, uncapped)
        rules[part] = check_validator(
            measure_validator(part, items[part], run), settings.build_rules(max_attempts)
        )
    for part in parts:
        plan = plan_scripts(pairs, part, seed, settings.subtypes, rules[part])
        yield from iter_pending(part, [*plan.values()])


def _check_models(settings: LanguageModelSettings, parts: Collection[Part]) -> None:
    """Raise a ConfigError unless one model behind a chat endpoint writes all parts."""
    specs = {settings.get_writer_spec(part) for part in parts}
    if len(specs) > 1:
        raise ConfigError(
            f"A batch file is for one model, but negatives.language_model names {' and '.join(sorted(specs))}. "
            f"Give --part negatives or --part paraphrases."
        )
    if not all(spec.startswith("chat:") for spec in specs):
        raise ConfigError(
            f"A batch file is for a model behind a server, chat:MODEL@URL, and not for {', '.join(specs)}. Give "
            f"MODEL as the server of the batch calls it; with negatives.language_model.name, the URL does not matter."
        )
