"""Several processes that train one model, each on its share of a batch, to the weights that one process would give.

share      process r of W encodes rows [r n / W, (r + 1) n / W) of each batch of n, and decodes their pictures alone
vectors    all have those of the whole batch, in its order, each field by itself: captions, negatives, images …
loss       of the whole batch, computed by each, since it is cheap beside a tower: every method has the negatives of all
gradient   of the loss by the vectors is known to each, too; that of its own flows into the weights (as in ``grad_cache``),
           and the sum over the processes is the gradient of the batch
weights    the same in all; the first process alone writes and tells

That is what ``DistributedDataParallel`` and a gather with gradient give (``training.md``: exact after the mean), in one sum a
step: a step calls the towers one by one, and not the model's own ``forward``, on which DDP's hooks wait. A group lives
within one trial and on its machine: it starts, ends and resumes as one, and speaks through the loopback interface only.

``torch.distributed.launcher.api.elastic_launch`` (torch 2.15) is no substitute for ``launch``:

- Its agent listens on all interfaces ([::]), also with a rendezvous through a file and ``local_addr`` 127.0.0.1.
- An exception in a worker is raised as ``ChildFailedError``, which does not hold the exception, and the agent
  restarts all workers after it, as after a death. ``launch`` retries deaths alone.
- It blocks the calling thread until the end, and workers have no channel to it. Points of the curve are logged there while
  training runs, since MLflow's active run and Tune's session belong to that thread.
- In the main thread it replaces the handlers of SIGINT and SIGTERM. In another thread it warns that workers may be orphaned.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
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

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import torch

RETRIES = 3  # of a group of which a process died
ENDING = 5.0  # seconds that a process is given to clear up after itself
DYING = 2.0  # seconds in which it is seen that a process has died whose connections were lost
OF_ALL = ("logit_scale", "logit_bias", "state", "teacher")  # of ``Features``: no row has its own
Tell = Callable[[Curve], None]


@dataclass(frozen=True)
class DistContext:
    """This process among those that train together; alone, if nothing else is said."""

    rank: int = 0
    size: int = 1

    def get_local_rows(self, rows: int) -> slice:
        """Return which of the rows of a batch this process encodes; their number is divisible by the processes'."""
        assert rows % self.size == 0
        share = rows // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def select_device(self, device: str) -> str:
        """Return where this process computes: of several GPUs each has the next one."""
        import torch

        several = device == "cuda" and self.size > 1 and torch.cuda.device_count()
        return f"cuda:{self.rank % several}" if several else device

    def gather_features(self, encoded: Features) -> Features:
        """Return the rows of all processes, without gradient; what no row has of its own is that of this one."""
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
        """Return a value that every process has, with its share of the gradient that each of them finds."""
        if self.size == 1 or not value.requires_grad:
            return value
        view = value.view_as(value)
        view.register_hook(lambda gradient: gradient / self.size)  # type: ignore[no-untyped-call]
        return view

    def all_reduce_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        """Make each gradient its sum over all processes, the same bits in all."""
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
    """A process of the group ended without an answer."""


def launch(work: Callable[..., Any], settings: Mapping[str, Any], nproc: int, tell: Tell) -> Any:
    """Return what ``work(group, tell, **settings)`` gives in the first of so many processes; one is this one.

    If one dies, all are started anew: work that resumes goes on from what it left.

    Args:
        work: top-level function; it runs in all processes, each with its ``group``.
        settings: its keyword arguments, JSON-like.
        nproc: their number.
        tell: called here with what the first process tells.

    Raises:
        CaramelError: as ``work`` raises it.
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
                print(f"\n{message} The training goes on from its last checkpoint.", file=sys.stderr)
            finally:
                for member in members:
                    member.stop_process()
    raise ResourceError(
        f"{message} That was for the {RETRIES + 1}th time. If memory ran out, lower finetune.nproc ({nproc}) or "
        f"finetune.micro_batch_size; then run `dvc repro`, which goes on from the last checkpoint."
    )


class _WorkerProcess:
    """A process of a group, as who started it knows it."""

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
        """End the process, if it runs, and what it has started."""
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
    """Return what the first process answers, and hand on what it tells.

    Raises:
        Exception: one of them raised it.
        _Died: one of them ended before that.
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
                # Where another one died, that is why this one could not go on.
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
    """Do the work of one process, and say what came of it."""
    from torch import distributed

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = _find_loopback_interface()
        # A store, not the URL of its file: torch reads the path of a URL only up to a ``?``, ``#`` or ``;``.
        store = distributed.FileStore(f"{meeting}/meeting", group.size)  # type: ignore[attr-defined]  # no stub names it
        distributed.init_process_group("gloo", store=store, rank=group.rank, world_size=group.size)
        result = work(group, lambda points: send.send(("points", points)), **settings)
        distributed.barrier()  # who ends takes the connections of the others along
        send.send(("found", result))
    except Exception as error:  # noqa: BLE001 - who started it raises it
        send.send(("error", make_picklable(error)))
    signal.pause()  # until it is ended: an end of its own would look like a death


def make_picklable(error: Exception) -> Exception:
    """Return an error as another process can have it: itself, or its words where it does not survive being sent."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - this process's own
    except Exception:  # noqa: BLE001 - whatever its constructor makes of the arguments that are kept
        return ResourceError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """End this process as soon as the one that started it has ended."""
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
        "Processes that train together speak through the loopback interface, and there is none here."
    )
