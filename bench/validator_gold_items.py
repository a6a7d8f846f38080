"""Measure SmolLM2-135M, behind llama.cpp's server, as a validator of texts with known answers from real captions.

    python bench/validator_gold_items.py sugarcrepe/ work/gold --items 40

Printed: sensitivity and specificity of both validators, with intervals, and whether a run would end. The answers are
written to ``OUT/gold_items.csv`` for reading. Responses are reused from ``OUT/replies.sqlite``.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click
import pandas as pd

from caramel.config.profiles import read_profile
from caramel.interfaces.writer import Part
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.llm.budget import Usage
from caramel.sources.captions.llm.gold_items import build_gold_items
from caramel.sources.captions.llm.response_cache import open_replies
from caramel.sources.captions.llm.settings import LanguageModelSettings, load_writer
from caramel.sources.captions.llm.validator import measure_validator
from caramel.sources.captions.llm.validator_quality import compute_quality, find_chance_problem
from caramel.sources.captions.llm.writer import run_scripts
from caramel.sources.folders import read_pairs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from llama_server import serve_gguf  # noqa: E402
from real_models import find_gguf  # noqa: E402

NAME = "smollm2"  # in the cache key, in place of the server's URL
PARTS: tuple[Part, ...] = ("negatives", "paraphrases")


@click.command()
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--items", default=40, show_default=True, type=click.IntRange(min=2))
def main(files: Path, out: Path, items: int) -> None:
    """Measure and print; see the module's docstring."""
    be_quiet()
    os.environ["NO_PROXY"] = "127.0.0.1"
    path = find_gguf()
    if path is None:
        raise click.ClickException("SmolLM2's GGUF file is missing: make dev")
    (out / "none").mkdir(parents=True, exist_ok=True)
    section = read_profile("language", {}, ROOT)[1].negatives
    pairs = read_pairs(data_dir=str(files), val_test_frac=(0.1, 0.2), seed=1, put=lambda *_, **__: None).pairs
    gold_items = build_gold_items(pairs, items, section.seed)
    tables = []
    with serve_gguf(path, out / "server.log") as url, open_replies(out / "replies.sqlite") as replies:
        target = {"target": f"chat:{NAME}@{url}", "name": NAME, "max_connections": 2}
        settings = LanguageModelSettings(
            **{**section.language_model.model_dump(), "replies": str(out / "none"), **target}
        )
        for part in PARTS:
            model, spent = load_writer(settings, part, replies), Usage(settings.budget)
            request_settings = settings.build_request_settings(model.name, section.seed)
            run = partial(run_scripts, model, request_settings, settings, replies, spent)
            tables.append(measure_validator(part, gold_items, run))
            print(find_chance_problem(tables[-1]) or f"The validator of {part} is better than chance.")
    rows = pd.concat(tables, ignore_index=True)
    rows.to_csv(out / "gold_items.csv", index=False)
    print(compute_quality(rows).round(3).to_string())


if __name__ == "__main__":
    main()
