"""What only a GPU shows of drawing: run by whoever has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from caramel.errors import ResourceError
from caramel.sources.images.diffusion import Sampling, draw_images, load_pipeline

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
PROMPTS = ["a red car", "a blue house to the left of a green tree", "two balls", "a small yellow heart"]
HOW: dict[str, Any] = {"sampling": Sampling(4.0, 4), "image_size": 48}


def drawn(generator_folder, device: str, prompts: list[str] = PROMPTS) -> np.ndarray:
    pipeline, options = load_pipeline(generator_folder, device)
    return draw_images(pipeline, options, prompts, list(range(len(prompts))), **HOW)


def test_pictures_of_a_gpu_are_those_of_the_processor_but_for_rounding(generator_folder) -> None:
    here, there = drawn(generator_folder, "cpu").astype(int), drawn(generator_folder, "cuda").astype(int)
    assert here.std() > 5
    assert np.abs(here - there).max() <= 1
    assert (here != there).mean() < 0.01


def test_pictures_are_drawn_on_a_gpu_bit_for_bit_alike(generator_folder) -> None:
    assert (drawn(generator_folder, "cuda") == drawn(generator_folder, "cuda")).all()


def test_too_many_pictures_at_a_time_for_the_gpu_say_what_to_lower(generator_folder) -> None:
    torch.cuda.empty_cache()
    used = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction((2**26 + used) / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(
            ResourceError, match=r"3000 pictures does not fit .*'cuda:0'.* Lower `synthesize.batch_size`"
        ):
            drawn(generator_folder, "cuda", PROMPTS[:3] * 1000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
