"""How MLflow is asked: what broke off once more, what is made one time, and errors as what a user can mend.

MLflow asks again by itself where nothing answers (``MLFLOW_HTTP_REQUEST_MAX_RETRIES``). None of its settings covers an answer
that broke off in its middle: urllib3, which does the asking again, has handed the answer on by then. Nor does MLflow bound
what it reads: every reply but a file passes ``mlflow_replies.read_reply``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import IOBase
from typing import TYPE_CHECKING, Any, TypeVar

from caramel.errors import CaramelError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from requests import Response

PAUSES = (1.0, 2.0, 4.0)  # seconds between the tries where answers break off
# Of two that make the same thing at once; the second try finds it.
RACE = ("BAD_REQUEST", "RESOURCE_ALREADY_EXISTS")
MAKING = "/create"  # how the address of a request ends that makes a new thing each time
PAGE = 200  # runs in one reply
Made = TypeVar("Made")


@contextmanager
def translate_errors(meant: Callable[[Exception], CaramelError | None]) -> Iterator[None]:
    """Raise errors of the block that come from a store or server as what they mean to a user; None: as they are."""
    from google.protobuf.json_format import ParseError
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    # What it logs of a failure, with a traceback, it raises as well.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    enable_retries()
    try:
        yield
    except (MlflowException, ParseError, RequestException, SQLAlchemyError) as error:
        user_error = meant(error)
        if user_error is None:
            raise
        raise user_error from error


def get_or_create_run(
    client: MlflowClient, experiment: str, tag: str, value: str, create: Callable[[], object]
) -> str:
    """Return the id of the one run of an experiment whose tag has this value; if there is none it is made, to be opened.

    Two hosts may make one at once, and MLflow asks again where an answer was lost: of several runs the first stays.

    Args:
        client: of the store.
        experiment: id of the experiment.
        tag: name of the tag that is the run's key.
        value: what the tag holds, a hash or an id.
        create: makes a run with that tag.
    """

    def search_run_ids() -> list[str]:
        order = ["attributes.start_time ASC", "attributes.run_id ASC"]
        runs = client.search_runs([experiment], f"tags.`{tag}` = '{value}'", order_by=order)
        return [require_id(run.info.run_id, f"a run of {tag} {value}") for run in runs]

    if run_ids := search_run_ids():
        return run_ids[0]
    retry_on_race(lambda: search_run_ids() or create())
    first, *others = search_run_ids() or [require_id("", f"the run of {tag} {value} that was created")]
    for other in others:
        client.delete_run(other)
    client.update_run(first, status="SCHEDULED")
    return first


def require_id(identity: str, name: str) -> str:
    """Return the id that a store gave; MLflow reads ``{}`` as a reply whose fields are all empty.

    Raises:
        MlflowException: it is empty.
    """
    from mlflow.exceptions import MlflowException

    if not identity:
        raise MlflowException(f"its reply has no id of {name}")
    return identity


def iter_pages(search: Callable[..., Any], **wanted: Any) -> Iterator[Any]:
    """Yield what a search of MLflow's finds, page by page.

    Raises:
        MlflowException: the pages do not end.
    """
    from mlflow.exceptions import MlflowException

    token = None
    while True:
        page = search(max_results=PAGE, page_token=token, **wanted)
        yield from page
        if not page.token:
            return
        if not page or page.token == token:
            raise MlflowException("its pages of results do not end")
        token = page.token


def retry_on_race(make: Callable[[], Made]) -> Made:
    """Return what ``make`` does, after some tries where another process makes the same thing at the same time.

    Or where the answer broke off, when it may have been made: ``make`` looks first. MLflow does not ask again where the
    server's database refused a row that two writers add at once (a data set's, or an experiment's).
    """
    from mlflow.exceptions import MlflowException

    for pause in (0.1, 0.5, 2.0):
        try:
            return make()
        except MlflowException as error:
            if error.error_code not in RACE and not _is_truncated_reply(error):
                raise
            time.sleep(pause)
    return make()


def _is_truncated_reply(error: Exception) -> bool:
    """Return whether an error of MLflow's came from an answer that broke off."""
    from requests.exceptions import ChunkedEncodingError

    return isinstance(error.__context__, ChunkedEncodingError)


def enable_retries() -> None:
    """Have MLflow ask again where an answer broke off in its middle, as it does by itself where there was none, and read within bounds.

    A server that is killed has often answered a request, but not to its end. What makes a new thing each time is not asked
    for again here: who makes it looks first whether it is there (``again``).
    """
    from mlflow.utils import rest_utils

    ask = rest_utils._get_http_response_with_retries
    if ask.__module__ != __name__:
        rest_utils._get_http_response_with_retries = _retry_truncated(ask)


def _retry_truncated(ask: Callable[..., Response]) -> Callable[..., Response]:
    """Return the function that asks again after an answer that broke off, and reads all that is no file within bounds."""
    from requests.exceptions import ChunkedEncodingError

    from caramel.runtime.mlflow.http import read_reply

    def send_request(
        method: str, url: str, *how: Any, headers: Mapping[str, str], timeout: float, **more: Any
    ) -> Response:
        if more.get("stream"):  # a file
            return ask(method, url, *how, headers=headers, timeout=timeout, **more)
        plain = {**headers, "Accept-Encoding": "identity"}
        # A redirected POST would become a GET; and requests reads the reply that redirects without bound.
        bounded = {**more, "headers": plain, "timeout": timeout, "stream": True, "allow_redirects": False}
        return read_reply(ask(method, url, *how, **bounded), method, url, timeout)

    def send_with_retries(method: str, url: str, *how: Any, **more: Any) -> Response:
        for pause in () if url.endswith(MAKING) else PAUSES:
            try:
                return send_request(method, url, *how, **more)
            except ChunkedEncodingError:
                time.sleep(pause)
                if isinstance(file := more.get("data"), IOBase):
                    file.seek(0)
        return send_request(method, url, *how, **more)

    return send_with_retries


@contextmanager
def disable_retries() -> Iterator[None]:
    """Have MLflow ask but once in the block: what is said to a server that was given up."""
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
