import threading

import numpy as np
import pytest
import torch

from caramel.errors import BackendError, DataError, ResourceError
from caramel.models.batching import LARGEST, LEAST, run_in_batches, run_in_batches_by_length


class Machine:
    """A forward pass whose memory holds ``room`` items; keeps what it was given."""

    def __init__(self, room: int = 10**9, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.room, self.error = room, error
        self.done: list[list[int]] = []
        self.tried: list[int] = []

    def __call__(self, batch: list[int]) -> torch.Tensor:
        self.tried.append(len(batch))
        if len(batch) > self.room:
            raise self.error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        self.done.append(batch)
        return torch.tensor(batch, dtype=torch.bfloat16)[:, None] * torch.ones(3)


def run(items, machine, batch=4, prepare=list, device="cpu"):
    return run_in_batches(items, prepare, machine, batch_size=batch, device=device)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_rows_keep_the_order_of_the_items(count, batch) -> None:
    machine = Machine()
    rows = run(list(range(count)), machine, batch)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[i] * 3 for i in range(count)]
    assert machine.tried == [min(batch, count - start) for start in range(0, count, batch)]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
@pytest.mark.parametrize(
    ("room", "tried"), [(7, [8, 4, 4, 4, 1]), (3, [8, 4, 2, 2, 2, 2, 2, 2, 1]), (1, [8, 4, 2, *[1] * 13])]
)
def test_a_batch_that_does_not_fit_is_halved_and_stays_so(room, tried, error) -> None:
    machine = Machine(room, error)
    rows = run(list(range(13)), machine, 8)
    assert rows[:, 0].tolist() == list(range(13))
    assert [item for batch in machine.done for item in batch] == list(range(13))
    assert machine.tried == tried


def test_a_last_batch_that_does_not_fit_is_halved_by_its_own_size() -> None:
    machine = Machine(4)
    machine.room = 100
    calls = iter([100, 1, 100, 100, 100])

    def forward(batch):
        machine.room = next(calls)
        return machine(batch)

    assert run(list(range(6)), forward, 4)[:, 0].tolist() == list(range(6))
    assert machine.tried == [4, 2, 1, 1]


@pytest.mark.parametrize("items", [[0], [0, 1, 2, 3, 4]])
def test_one_item_that_does_not_fit_is_an_error_that_names_the_cure(items) -> None:
    with pytest.raises(ResourceError, match=r"Not even one item fits .* 'cpu'.*--precision bf16"):
        run(items, Machine(0))


def test_another_error_of_the_model_is_raised_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        run([1, 2], lambda batch: (_ for _ in ()).throw(RuntimeError("shapes do not fit")))


@pytest.mark.parametrize("broken", [0, 5, 9])
def test_an_error_of_the_preparation_is_raised_as_it_is(broken) -> None:
    def prepare(items):
        if broken in items:
            raise DataError(f"image {broken} does not decode")
        return list(items)

    with pytest.raises(DataError, match=f"image {broken}"):
        run(list(range(10)), Machine(), prepare=prepare)


def test_the_next_batch_is_prepared_in_a_thread_while_the_model_computes() -> None:
    ready = threading.Event()
    threads = set()

    def prepare(items):
        threads.add(threading.current_thread())
        if 4 in items:
            ready.set()
        return list(items)

    def forward(batch):
        if 0 in batch:  # the first batch ends only once the second one has been prepared
            assert ready.wait(10)
        return torch.tensor(batch)[:, None]

    assert run(list(range(8)), forward, prepare=prepare)[:, 0].tolist() == list(range(8))
    assert threading.current_thread() not in threads


def test_the_size_is_found_where_none_is_given() -> None:
    machine = Machine()
    run(list(range(LARGEST["cpu"] + 1)), machine, None)
    assert machine.tried == [LARGEST["cpu"], 1]
    run([1, 2], machine, None, device="mps")
    assert machine.tried[-1] == 2


def test_a_token_that_the_model_has_no_row_for_is_an_error_of_its_files() -> None:
    rows = torch.nn.Embedding(4, 2).requires_grad_(False)
    lookup = lambda batch: rows(torch.tensor(batch))  # noqa: E731
    with pytest.raises(BackendError, match="The model has no embedding for a token"):
        run([1, 2, 4], lookup)
    with pytest.raises(BackendError, match="Model 'mine' has no embedding for a token"):
        run_in_batches_by_length(
            [1, 2, 4], [1, 1, 1], list, lookup, batch_size=None, device="cpu", name="mine"
        )


def test_a_token_without_a_row_is_that_error_on_a_gpu_too() -> None:
    def forward(batch):
        raise RuntimeError(
            "CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later"
        )

    with pytest.raises(BackendError, match="no embedding for a token"):
        run([1, 2], forward)


def test_an_index_error_of_our_own_is_not_put_down_to_the_files() -> None:
    with pytest.raises(IndexError, match="list index out of range"):
        run([1], lambda batch: [][batch[0]])


@pytest.mark.parametrize(("count", "batch"), [(1, 4), (7, 4), (40, 32)])
def test_a_short_batch_is_filled_up_with_its_last_item_where_that_is_asked(count, batch) -> None:
    machine = Machine()
    rows = run_in_batches(range(count), list, machine, batch_size=batch, device="cpu", fill=True)
    assert rows[:, 0].tolist() == list(range(count))
    assert min(machine.tried) >= LEAST
    assert all(set(part[batch:]) <= {part[min(batch, len(part)) - 1]} for part in machine.done)


def test_a_batch_that_does_not_fit_is_not_filled_up_any_more() -> None:
    machine = Machine(room=4)
    rows = run_in_batches(range(6), list, machine, batch_size=8, device="cpu", fill=True)
    assert rows[:, 0].tolist() == list(range(6))
    assert machine.tried == [LEAST, 3, 3]


def test_items_of_a_batch_have_one_length() -> None:
    machine, items = Machine(), list(range(30))
    lengths = [1 + item % 3 for item in items]
    rows = run_in_batches_by_length(items, lengths, list, machine, batch_size=4, device="cpu")
    assert rows[:, 0].tolist() == items
    assert all(len({lengths[item] for item in part}) == 1 for part in machine.done)
