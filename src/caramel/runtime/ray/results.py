"""Get the outcome of work on Ray: a result, an error of the work, or a worker's death."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from caramel.errors import ResourceError
from caramel.runtime.ray.cluster import RETRIES


class WorkerDiedError(Exception):
    """A worker is gone. The name is the type of Ray's error, and ``said`` its message."""

    def __init__(self, error: Exception) -> None:
        """Store the type and the message of Ray's error."""
        super().__init__(type(error).__name__)
        self.said = " ".join(str(error).split())[:1000]


def get_result(reference: Any) -> Any:
    """Return the result of a call, or raise its error."""
    import ray
    from ray.exceptions import (
        NodeDiedError,
        ObjectLostError,
        OutOfMemoryError,
        RayActorError,
        RayError,
        RayTaskError,
        WorkerCrashedError,
    )

    died = (NodeDiedError, ObjectLostError, OutOfMemoryError, RayActorError, WorkerCrashedError)
    try:
        with translate_store_errors():
            return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error  # the original: Ray's copy lacks the file and reason of an OSError
    except died as error:
        raise WorkerDiedError(error) from error
    except RayError as error:  # for example an error of the work that cannot be serialised
        message = " ".join(str(error).split())[:1000]
        raise ResourceError(
            f"Ray could not run or bring back a piece of work ({type(error).__name__}): {message}"
        ) from error


@contextmanager
def translate_store_errors() -> Iterator[None]:
    """Explain what to do if there is no space for transferred data, neither in memory nor on Ray's disk."""
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError, RayTaskError

    try:
        yield
    except (ObjectStoreFullError, OutOfDiskError, RayTaskError) as error:
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, ObjectStoreFullError | OutOfDiskError):
            raise
        raise ResourceError(
            f"Ray has no room for what is sent to the workers and back: {str(cause).strip().splitlines()[0]} Give a node more "
            f"with --object-store-memory of `caramel cluster head|worker`, make room where it puts what does not fit there "
            f"(RAY_TMPDIR, else TMPDIR, else /tmp), or use smaller shards. What was finished is kept."
        ) from error


def build_worker_error(name: str, error: Exception) -> ResourceError:
    """Return the error for a piece of work that lost worker after worker."""
    return ResourceError(
        f"The worker of shard {name} died ({error}), after {RETRIES} retries. It may have run out of memory: use smaller "
        f"shards. Done shards are kept; run `dvc repro` to go on."
    )
