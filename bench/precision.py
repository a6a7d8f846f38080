"""Measure the speedup of bf16 training on this CPU: `python bench/precision.py`.

Steps of the default profile's base CLIP on random images and captions, forward and backward, run in fp32 and
bf16 in turn, so that other load affects both. Printed are the fewest milliseconds per step of each, their
ratio, and the precision that ``run.precision: auto`` selects here. It takes about a minute.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # as in the stages

import torch
from open_clip.loss import ClipLoss
from open_clip.model import CustomTextCLIP

from caramel.models.devices import resolve_precision, use_precision

ROUNDS, STEPS, BATCH, VOCABULARY = 6, 4, 256, 600
ARCHITECTURE = Path(__file__).parents[1] / "params" / "clip.json"


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    config = json.loads(ARCHITECTURE.read_text(encoding="utf-8"))
    config["text_cfg"]["vocab_size"] = VOCABULARY
    model, loss = (
        CustomTextCLIP(config["embed_dim"], config["vision_cfg"], config["text_cfg"], output_dict=True),
        ClipLoss(),
    )
    side, length = config["vision_cfg"]["image_size"], config["text_cfg"]["context_length"]
    images = torch.rand(BATCH, 3, side, side)
    texts = torch.randint(VOCABULARY, (BATCH, length))
    least = dict.fromkeys(("fp32", "bf16"), float("inf"))
    for _ in range(ROUNDS):
        for precision in least:
            start = time.perf_counter()
            for _ in range(STEPS):
                with use_precision("cpu", precision):
                    out = model(images, texts)
                    value = loss(out["image_features"], out["text_features"], out["logit_scale"])
                value.backward()
                model.zero_grad()
            least[precision] = min(least[precision], (time.perf_counter() - start) / STEPS)
    for precision, seconds in least.items():
        print(f"{precision}  {1000 * seconds:8.1f} ms per step of {BATCH}")
    print(f"fp32 / bf16 = {least['fp32'] / least['bf16']:.2f}; auto is {resolve_precision('auto', 'cpu')}")


if __name__ == "__main__":
    main()
