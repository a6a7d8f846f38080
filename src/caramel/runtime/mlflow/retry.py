"""Call MLflow reliably: retry truncated replies, create things only once, and translate errors for the user.

MLflow itself retries when nothing answers (``MLFLOW_HTTP_REQUEST_MAX_RETRIES``). None of its settings covers
a reply that is truncated: urllib3, which does the retries, has returned the reply by then. MLflow also reads
replies without a limit. Here every reply except files passes ``http.read_reply``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import IOBase
from typing import TYPE_CHECKING, Any, TypeVar

from caramel.errors import CaramelError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from requests import Response

PAUSES = (1.0, 2.0, 4.0)  # seconds between tries after truncated replies
# Error codes if two processes create the same thing at once; the second try finds it.
RACE = ("BAD_REQUEST", "RESOURCE_ALREADY_EXISTS")
MAKING = "/create"  # end of the URL of a request that creates a new thing each time
PAGE = 200  # runs per reply
Made = TypeVar("Made")


@contextmanager
def translate_errors(meant: Callable[[Exception], CaramelError | None]) -> Iterator[None]:
    """Translate errors of a store or server in the block for the user.

    With None they are raised unchanged.
    """
    from google.protobuf.json_format import ParseError
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    # MLflow logs a failure with a traceback, but also raises it.
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
    """Return the id of the only run of an experiment whose tag has this value, creating the run if needed.

    Two hosts may create one at the same time, and MLflow retries after a lost reply. Of several runs, the
    first is kept.

    Args:
        client: client of the store.
        experiment: id of the experiment.
        tag: name of the tag that is the run's key.
        value: value of the tag, a hash or an id.
        create: creates a run with that tag.
    """
    search_run_ids = partial(find_runs, client, experiment, tag, value)
    if run_ids := search_run_ids():
        return run_ids[0]
    retry_on_race(lambda: search_run_ids() or create())
    first, *others = search_run_ids() or [require_id("", f"the run of {tag} {value} that was created")]
    for other in others:
        client.delete_run(other)
    client.update_run(first, status="SCHEDULED")
    return first


def find_runs(client: MlflowClient, experiment: str, tag: str, value: str) -> list[str]:
    """Return the ids of the runs of an experiment whose tag has this value, the first one first."""
    order = ["attributes.start_time ASC", "attributes.run_id ASC"]
    runs = client.search_runs([experiment], f"tags.`{tag}` = '{value}'", order_by=order)
    return [require_id(run.info.run_id, f"a run of {tag} {value}") for run in runs]


def require_id(identity: str, name: str) -> str:
    """Return the id that a store gave. MLflow reads ``{}`` as a reply whose fields are all empty.

    Raises:
        MlflowException: the id is empty.
    """
    from mlflow.exceptions import MlflowException

    if not identity:
        raise MlflowException(f"its reply has no id of {name}")
    return identity


def iter_pages(search: Callable[..., Any], **wanted: Any) -> Iterator[Any]:
    """Yield the results of an MLflow search, page by page.

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
    """Return the result of ``make``, retrying if another process creates the same thing at the same time.

    It also retries after a truncated reply, when the thing may already exist: ``make`` must look first.
    MLflow does not retry if the server's database refused a row that two writers add at once (a data set's,
    or an experiment's).
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
    """Return whether a truncated reply caused an error of MLflow."""
    from requests.exceptions import ChunkedEncodingError

    return isinstance(error.__context__, ChunkedEncodingError)


def enable_retries() -> None:
    """Make MLflow also retry after truncated replies, and limit the size of replies.

    A server that is killed has often sent a part of a reply. Requests that create a new thing each time are
    not retried here. Their callers look first whether the thing exists (``retry_on_race``).
    """
    from mlflow.utils import rest_utils

    ask = rest_utils._get_http_response_with_retries
    if ask.__module__ != __name__:
        rest_utils._get_http_response_with_retries = _retry_truncated(ask)


def _retry_truncated(ask: Callable[..., Response]) -> Callable[..., Response]:
    """Return a function that retries after a truncated reply and limits the size of replies except files."""
    from requests.exceptions import ChunkedEncodingError

    from caramel.runtime.mlflow.http import read_reply

    def send_request(
        method: str, url: str, *how: Any, headers: Mapping[str, str], timeout: float, **more: Any
    ) -> Response:
        if more.get("stream"):  # a file
            return ask(method, url, *how, headers=headers, timeout=timeout, **more)
        plain = {**headers, "Accept-Encoding": "identity"}
        # A redirected POST would become a GET, and requests reads the redirecting reply without a limit.
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
    """Disable MLflow's retries in the block, for requests to a server that was given up."""
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
