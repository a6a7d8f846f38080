"""Train one model in several processes, each on its share of a batch, to the same weights as in one process.

share      Process r of W decodes and encodes only rows [r n / W, (r + 1) n / W) of each batch of n.
vectors    Each process gathers the vectors of the whole batch, in its order, field by field: captions,
           negatives, images …
loss       Each process computes the loss of the whole batch, since it is cheap compared with a tower. So
           every method has the negatives of all rows.
gradient   Each process knows the loss's gradient for all vectors. Its own rows' part flows into the weights
           (as in ``grad_cache``); the sum over the processes is the gradient of the batch.
weights    They are equal in all processes. Only the first process writes checkpoints and reports points.

``DistributedDataParallel`` and a gather with gradient give the same result (``training.md``: exact after the
mean). Here it takes one sum per step. A step calls the towers one by one instead of the model's own
``forward``, which DDP's hooks need. A group belongs to one trial on one machine: it starts, ends and resumes
as a whole, and its processes communicate through the loopback interface only.

``torch.distributed.launcher.api.elastic_launch`` (torch 2.15) cannot replace ``launch``:

- Its agent listens on all interfaces ([::]), even with a rendezvous through a file and ``local_addr``
  127.0.0.1.
- It raises an exception of a worker as ``ChildFailedError``, which does not contain the exception. The agent
  then restarts all workers, as it does after a worker died. ``launch`` retries only after a process died.
- It blocks the calling thread until the end, and workers have no channel to that thread. Points of the curve
  must be logged there during the training, since MLflow's active run and Tune's session belong to that
  thread.
- In the main thread it replaces the handlers of SIGINT and SIGTERM. In another thread it warns that workers
  may be orphaned.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import psutil

from caramel.errors import CaramelError, ResourceError
from caramel.interfaces.method import Features
from caramel.interfaces.trainer import Curve
from caramel.runtime.second_process import make_picklable

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import torch

RETRIES = 3  # restarts of a group after a process died
ENDING = 5.0  # seconds for a process to clean up
DYING = 2.0  # seconds to wait until a process with a lost connection is seen to be dead
OF_ALL = ("logit_scale", "logit_bias", "state", "teacher")  # fields of ``Features`` without a row dimension
Tell = Callable[[Curve], None]


@dataclass(frozen=True)
class DistContext:
    """Rank of this process and number of processes that train together; by default it trains alone."""

    rank: int = 0
    size: int = 1

    def get_local_rows(self, rows: int) -> slice:
        """Return the slice of a batch's rows for this process; ``size`` must divide their number."""
        assert rows % self.size == 0
        share = rows // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def select_device(self, device: str) -> str:
        """Return the device of this process; with several GPUs, consecutive ranks take consecutive GPUs."""
        import torch

        several = device == "cuda" and self.size > 1 and torch.cuda.device_count()
        return f"cuda:{self.rank % several}" if several else device

    def gather_features(self, encoded: Features) -> Features:
        """Return the rows of all processes, without gradient; ``OF_ALL`` fields are from this process."""
        import torch
        from torch import distributed

        if self.size == 1:
            return encoded
        tensors: dict[str, Any] = {}
        for name in (field.name for field in fields(Features) if field.name not in OF_ALL):
            if (value := getattr(encoded, name)) is not None:
                sent = value.detach().cpu().contiguous()
                parts = [torch.empty_like(sent) for _ in range(self.size)]
                distributed.all_gather(parts, sent)
                tensors[name] = torch.cat(parts).to(value.device)
        return replace(encoded, **tensors)

    def divide_gradient(self, value: torch.Tensor) -> torch.Tensor:
        """Return a value that all processes share; its gradient is divided by the number of processes."""
        if self.size == 1 or not value.requires_grad:
            return value
        view = value.view_as(value)
        view.register_hook(lambda gradient: gradient / self.size)  # type: ignore[no-untyped-call]
        return view

    def all_reduce_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        """Replace each gradient by its sum over all processes, with equal bits in all of them."""
        import torch
        from torch import distributed

        if self.size == 1 or not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        buffer = flat.cpu()
        distributed.all_reduce(buffer)
        parts = torch.split(buffer.to(flat.device), [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


ALONE = DistContext()


class _WorkerDiedError(Exception):
    """A process of the group ended without a result."""


def launch(work: Callable[..., Any], settings: Mapping[str, Any], nproc: int, tell: Tell) -> Any:
    """Run ``work(group, tell, **settings)`` in ``nproc`` processes and return the result of the first one.

    With ``nproc`` 1 it runs in this process. If a process dies, all are restarted; resumable work continues
    from its last state.

    Args:
        work: top-level function; it runs in all processes, each with its own ``group``.
        settings: keyword arguments of ``work``, JSON-like.
        nproc: number of processes.
        tell: called in this process with the points that the first process reports.

    Raises:
        CaramelError: ``work`` raised it.
        ResourceError: processes died ``RETRIES`` + 1 times.
    """
    if nproc == 1:
        return work(ALONE, tell, **settings)
    for _ in range(RETRIES + 1):
        with tempfile.TemporaryDirectory() as meeting:
            members: list[_WorkerProcess] = []
            try:
                for rank in range(nproc):
                    members.append(_WorkerProcess(work, settings, DistContext(rank, nproc), meeting))
                return _wait_for_result(members, tell)
            except _WorkerDiedError as died:
                message = str(died)
                print(f"\n{message} The training continues from its last checkpoint.", file=sys.stderr)
            finally:
                for member in members:
                    member.stop_process()
    raise ResourceError(
        f"{message} This was attempt {RETRIES + 1}, the last one. If memory ran out, lower "
        f"finetune.nproc ({nproc}) or finetune.micro_batch_size. Then run `dvc repro`, "
        f"which continues from the last checkpoint."
    )


class _WorkerProcess:
    """Handle of a process of a group, in the process that started it."""

    def __init__(
        self, work: Callable[..., Any], settings: Mapping[str, Any], group: DistContext, meeting: str
    ) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self.said, send = context.Pipe(duplex=False)
        self.process: SpawnProcess = context.Process(
            target=_run_worker,
            args=(work, dict(settings), group, meeting, send),
            name=f"training {group.rank}",
        )
        self.process.start()
        send.close()

    def stop_process(self) -> None:
        """End the process, if it is running, and kill its children if it does not end in time."""
        self.process.terminate()
        self.process.join(ENDING)
        if self.process.is_alive():
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self.process.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
            self.process.kill()
        self.process.join()
        self.said.close()


def _wait_for_result(members: Sequence[_WorkerProcess], tell: Tell) -> Any:
    """Return the result of the first process, and pass the points that processes report to ``tell``.

    Raises:
        Exception: a process raised it.
        _WorkerDiedError: a process ended before the first one returned its result.
    """
    ends = [member.process.sentinel for member in members]
    while True:
        for connection in wait([member.said for member in members]):
            member = next(member for member in members if member.said is connection)
            try:
                message_type, value = member.said.recv()
            except EOFError:
                member.process.join()
                raise _WorkerDiedError(
                    f"Process {member.process.name!r} ended: {_describe_exit(member.process)}."
                ) from None
            if message_type == "error":
                # If another process died, its death is the cause of this error.
                wait(ends, timeout=0 if isinstance(value, CaramelError) else DYING)
                if died := next((m.process for m in members if m.process.exitcode is not None), None):
                    raise _WorkerDiedError(f"Process {died.name!r} ended: {_describe_exit(died)}.")
                raise value
            if message_type == "points":
                tell(value)
            elif message_type == "found" and member is members[0]:
                return value


def _describe_exit(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _run_worker(
    work: Callable[..., Any], settings: Mapping[str, Any], group: DistContext, meeting: str, send: Connection
) -> None:
    """Run the work of one process, and send its result or error."""
    from torch import distributed

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = _find_loopback_interface()
        # A store, not the URL of its file: torch reads a URL's path only up to a ``?``, ``#`` or ``;``.
        store = distributed.FileStore(f"{meeting}/meeting", group.size)  # type: ignore[attr-defined]  # not in the stubs
        distributed.init_process_group("gloo", store=store, rank=group.rank, world_size=group.size)
        result = work(group, lambda points: send.send(("points", points)), **settings)
        distributed.barrier()  # a process that ends closes the connections of the others
        send.send(("found", result))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        send.send(("error", make_picklable(error)))
    signal.pause()  # until the parent ends it: exiting here would look like a death


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _find_loopback_interface() -> str:
    """Return the name of the loopback interface."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == "127.0.0.1" for address in addresses):
            return str(name)
    raise ResourceError(
        "Processes that train together communicate through the loopback interface, and this machine has none."
    )
