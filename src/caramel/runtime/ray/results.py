"""What comes back from a worker on Ray: a result, an error of its work, or the news that it died."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from caramel.errors import ResourceError
from caramel.runtime.ray.cluster import RETRIES


class WorkerDiedError(Exception):
    """A worker is gone; its name is the kind of Ray's error, ``said`` what Ray says of it."""

    def __init__(self, error: Exception) -> None:
        """Take the kind and the words of Ray's error."""
        super().__init__(type(error).__name__)
        self.said = " ".join(str(error).split())[:1000]


def get_result(reference: Any) -> Any:
    """Return what a call gave, or raise what it raised."""
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
        raise error.cause from error  # itself: a copy of Ray's lacks what an OSError knows of file and reason
    except died as error:
        raise WorkerDiedError(error) from error
    except RayError as error:  # an error of the work that cannot be sent as it is, for example
        message = " ".join(str(error).split())[:1000]
        raise ResourceError(
            f"Ray could not run or bring back a piece of work ({type(error).__name__}): {message}"
        ) from error


@contextmanager
def translate_store_errors() -> Iterator[None]:
    """Say what to do where there is no room for what is sent: neither in memory nor where Ray puts what does not fit there."""
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
    """Return what is said when a piece of work lost worker after worker."""
    return ResourceError(
        f"The worker of shard {name} died ({error}), after {RETRIES} retries. It may have run out of memory: use smaller "
        f"shards. Done shards are kept; run `dvc repro` to go on."
    )
