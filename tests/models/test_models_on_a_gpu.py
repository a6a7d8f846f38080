"""What only a GPU shows of models: run by whoever has one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from caramel.errors import ResourceError
from caramel.models.batching import run_in_batches
from caramel.models.open_clip.checkpoints import load_encoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
MIB = 2**20


@pytest.fixture
def gibibyte() -> Iterator[None]:
    """Leave this process one GiB of the GPU."""
    torch.cuda.empty_cache()
    used = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction((2**30 + used) / torch.cuda.mem_get_info()[1])
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def holding(mebibytes: int):
    """Return a forward pass that needs so much memory for an item, and keeps the sizes that it was given."""
    tried: list[int] = []

    def forward(items: list[int]) -> torch.Tensor:
        tried.append(len(items))
        held = torch.empty(len(items), mebibytes * MIB, dtype=torch.uint8, device="cuda")
        held[:, 0] = torch.tensor(items)
        return held[:, :1]

    return forward, tried


def test_a_batch_that_does_not_fit_onto_the_gpu_is_halved(gibibyte: None) -> None:
    forward, tried = holding(100)  # ten of them fit
    rows = run_in_batches(list(range(40)), list, forward, batch_size=32, device="cuda")
    assert rows[:, 0].tolist() == list(range(40))
    assert tried == [32, 16, 8, 8, 8, 8, 8]


def test_an_item_that_does_not_fit_onto_the_gpu_is_an_error_that_names_the_cure(gibibyte: None) -> None:
    with pytest.raises(ResourceError, match=r"Not even one item fits into the memory of 'cuda'"):
        run_in_batches([1, 2, 3], list, holding(1100)[0], batch_size=None, device="cuda")


def test_a_token_without_a_row_is_an_error_of_the_files() -> None:
    code = """
import torch
from caramel.models.batching import run_in_batches
rows = torch.nn.Embedding(4, 2).cuda().requires_grad_(False)
run_in_batches([1, 2, 4], list, lambda batch: rows(torch.tensor(batch).cuda()), batch=None, device="cuda")
"""  # in a process of its own: nothing runs on that GPU after it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "BackendError: The model has no embedding for a token" in done.stderr


def test_vectors_in_fp32_are_those_of_the_processor(clip_folder, files: dict[str, bytes]) -> None:
    images, texts = list(files.values()), [f"a small red ball and {n} blue cars" for n in range(40)]
    here, there = (load_encoder(clip_folder, device=d, precision="fp32", name="x") for d in ("cpu", "cuda"))
    for encode in ("encode_images", "encode_texts"):
        items = images if encode == "encode_images" else texts
        gap = getattr(here, encode)(items, 16) - getattr(there, encode)(items, 16)
        assert np.abs(gap).max() < 2e-6  # with ten bits of mantissa it is a hundred times as much


def test_texts_that_are_equal_to_the_tokenizer_tie_on_a_gpu(clip_folder) -> None:
    encoder = load_encoder(clip_folder, device="cuda", precision="bf16", name="x")
    texts = [
        "a red ball",
        "a blue car to the left of a large green tree",
        "A RED BALL",
        "two cars",
        "a  Red ball",
    ]
    rows = encoder.encode_texts(texts, 2)
    assert (rows[[2, 4]] == rows[0]).all()
    assert (rows[1] != rows[0]).any()
