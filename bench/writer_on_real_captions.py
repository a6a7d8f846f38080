"""Run real captions through language models behind a server, up to refined negatives, and list why texts fail.

    python bench/writer_on_real_captions.py data/writer sugarcrepe/ work/real_captions

Two writers answer on the loopback interface, with the settings of profile ``language``:

- the embedded model, which knows only the world's words;
- word lists in place of a good model (the lists of backend ``lexicon``). They answer every prompt in the
  requested form and know which words they change.

Their texts are scored and refined as by the stages. Printed for each writer are the numbers of requests and
kept texts, the reasons of failures, and what refinement left.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pandas as pd

from caramel.blind.scores import score_pairs
from caramel.config.profiles import read_profile
from caramel.interfaces.language_model import Request
from caramel.interfaces.writer import WrittenCaption
from caramel.models.llm.causal import load_causal_model
from caramel.refine.adversarial import refine_tables
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.failures import count_failures
from caramel.sources.captions.llm.split_filter import filter_by_split
from caramel.sources.captions.llm.writer import language_negatives
from caramel.sources.folders import read_pairs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from chat_server import ChatServer  # noqa: E402
from obliging_writer import completion, obliging  # noqa: E402

AT_ONCE = 8


def build_behaviour(folder: Path) -> Callable[[Any, int], Any]:
    """Return a server behaviour that runs the model of a folder, one request at a time."""
    model, lock = load_causal_model(str(folder), max_connections=1), threading.Lock()

    def answer_request(request: Any, number: int) -> Any:
        body = request.body
        messages = tuple((one["role"], one["content"]) for one in body["messages"])
        with lock:
            query = Request(messages, body["temperature"], body["seed"], body["max_tokens"], None)
            (output,) = model.generate_outputs([query])
        return completion(
            output.text, output.finish_reason, (output.input_tokens or 0, output.output_tokens or 0)
        )

    return answer_request


def generate_negatives(
    pairs: pd.DataFrame, behave: Callable[[Any, int], Any], store: Path
) -> tuple[WrittenCaption, int]:
    """Return the texts of a server with a behaviour, and the number of answered requests."""
    config = read_profile("language", {}, ROOT)[1].negatives
    server = ChatServer(behave)
    model = {"target": f"chat:{store.stem}@{server.url}", "name": store.stem, "max_connections": AT_ONCE}
    try:
        output = language_negatives(
            pairs,
            seed=config.seed,
            max_attempts=2,
            parts=("negatives", "paraphrases"),
            model={**config.language_model.model_dump(), **model},
            store=store,
        )
    finally:
        server.close()
    assert output.replies is not None
    return filter_by_split(output, pairs), sum(map(len, output.replies))


def refine_negatives(pairs: pd.DataFrame, output: WrittenCaption) -> str:
    """Return, in words, what formatting and refinement leave of the negatives."""
    config = read_profile("sugarcrepe", {}, ROOT)[1]
    scores = score_pairs(pairs, output.negatives, **config.scores.model_dump())
    refinement = refine_tables(
        pairs,
        output.negatives,
        output.paraphrases,
        [scores],
        **config.refine.model_dump(),
        folds=config.scores.folds,
    )
    reasons = pd.Series(refinement.reasons[1])
    why = reasons[reasons != ""]
    left = len(reasons) - len(why)
    return f"refined: {left} of {len(reasons)} negatives are left; {dict(why.value_counts())}"


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--captions", "number", default=200, show_default=True, type=click.IntRange(min=1))
def main(model: Path, files: Path, out: Path, number: int) -> None:
    """Measure and print, reusing earlier responses; see the module's docstring."""
    be_quiet()
    os.environ["NO_PROXY"] = "127.0.0.1"
    pairs = read_pairs(data_dir=str(files), val_test_frac=(0.1, 0.2), seed=1, put=lambda *_, **__: None).pairs
    pairs = pairs.drop_duplicates("caption")
    pairs = pairs.iloc[:: max(1, len(pairs) // number)].head(number)
    for name, behave in (("word_lists", obliging), ("embedded", build_behaviour(model))):
        output, requests = generate_negatives(pairs, behave, out / f"{name}.sqlite")
        counts = len(output.negatives), len(output.paraphrases)
        print(
            f"\n{name}: {len(pairs)} captions, {requests:,} requests; kept {counts[0]} negatives, {counts[1]} paraphrases"
        )
        print(output.negatives["subtype"].value_counts().to_string())
        assert output.verdicts is not None
        why = count_failures(output.verdicts, output.rejects)
        negatives = why["part"] != "paraphrase"
        for title, rows in (("negatives", why[negatives]), ("paraphrases", why[~negatives])):
            print(f"{title}\n{rows.groupby('reason')[['drafts', 'rejects']].sum().to_string()}")
        print(
            refine_negatives(pairs, output) if len(output.negatives) else "refined: nothing is left to refine"
        )
        texts = output.negatives.set_index("negative_id")["negative_caption"]
        print(texts[:: max(1, len(texts) // 10)].to_string())


if __name__ == "__main__":
    main()
