"""Run real captions through SmolLM2-135M behind llama.cpp's server, and print what each prompt and subtype yields.

    python bench/small_model_captions.py sugarcrepe/ work/small_model --set 'compose="model"'

Printed for each prompt: requests, the share of well-formed answers to the first request and to repeated ones,
and seconds. Printed for each subtype: texts that were kept, and why the others were rejected. All texts, kept
and rejected, are written to ``OUT/texts.csv`` for reading. Responses are reused from ``OUT/replies.sqlite``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import click
import pandas as pd

from caramel.config.profiles import read_profile
from caramel.interfaces.writer import Part, WrittenCaption
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.llm.workflows import SUBTYPES
from caramel.sources.captions.llm.writer import language_negatives
from caramel.sources.captions.prompts.prompt_files import load_prompt
from caramel.sources.folders import read_pairs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from llama_server import serve_gguf  # noqa: E402
from real_models import find_gguf  # noqa: E402

CONNECTIONS, MAX_TOKENS = 4, 96
PARTS: tuple[Part, ...] = ("negatives",)
NAME = "smollm2"  # in the cache key, in place of the server's URL


def read_captions(files: Path, number: int) -> pd.DataFrame:
    """Return this many different captions of SugarCrepe, spread over its files."""
    pairs = read_pairs(data_dir=str(files), val_test_frac=(0.1, 0.2), seed=1, put=lambda *_, **__: None).pairs
    pairs = pairs.drop_duplicates("caption")
    return pairs.iloc[:: max(1, len(pairs) // number)].head(number)


def write_negatives(
    pairs: pd.DataFrame, out: Path, max_attempts: int, settings: dict[str, Any]
) -> tuple[WrittenCaption, pd.DataFrame]:
    """Return the negatives that the model writes, and the responses that were used."""
    path = find_gguf()
    if path is None:
        raise click.ClickException("SmolLM2's GGUF file is missing: make dev")
    config = read_profile("default", {}, ROOT)[1].negatives
    with serve_gguf(path, out / "server.log") as url:
        model = {
            "target": f"chat:{NAME}@{url}",
            "name": NAME,
            "max_connections": CONNECTIONS,
            "max_tokens": MAX_TOKENS,
        }
        output = language_negatives(
            pairs,
            seed=config.seed,
            max_attempts=max_attempts,
            parts=PARTS,
            model={**config.language_model.model_dump(), "replies": str(out / "none"), **model, **settings},
            store=out / "replies.sqlite",
        )
        assert output.replies is not None
        return output, pd.concat(list(output.replies), ignore_index=True)


def count_answers(replies: pd.DataFrame) -> pd.DataFrame:
    """Return for each prompt the numbers of requests and of well-formed answers, first and repeated."""
    rows = []
    for prompt, given_json, text, seconds in replies[["prompt", "input", "text", "seconds"]].itertuples(
        index=False
    ):
        prompt, given = prompt.partition("@")[0], json.loads(given_json)
        repeated = bool(given.get("retry")) or any("JSON object" in reason for _, reason in given["failed"])
        good = parse_answer(text or "", load_prompt(prompt).answer) is not None
        rows.append((prompt, repeated, good, seconds))
    frame = pd.DataFrame(rows, columns=["prompt", "repeated", "well_formed", "seconds"])
    counts: dict[str, pd.Series[int]] = {}
    for repeated, label in ((False, "first"), (True, "repeated")):
        answers = frame[frame["repeated"] == repeated].groupby("prompt")["well_formed"]
        counts |= {f"{label}_requests": answers.count(), f"{label}_well_formed": answers.sum()}
    table = pd.DataFrame(counts).fillna(0).astype(int)
    return table.assign(seconds=frame.groupby("prompt")["seconds"].sum().round(1))


def list_texts(output: WrittenCaption, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return each text with its caption and the reason why it was rejected, if it was."""
    verdicts = output.verdicts
    assert verdicts is not None
    captions = pairs.set_index("pair_id")["caption"]
    pair_ids, subtypes = (verdicts["id"].str.rpartition(":")[column] for column in (0, 2))
    texts = pd.DataFrame(
        {"subtype": subtypes, "caption": pair_ids.map(captions), "text": verdicts["text"]}
    ).assign(attempt=verdicts["attempt"], reason=verdicts["reason"].fillna(""))
    return texts.sort_values(["reason", "subtype"], kind="stable")


@click.command()
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--captions", "number", default=12, show_default=True, type=click.IntRange(min=1))
@click.option("--attempts", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--set", "changes", multiple=True, help="Setting of negatives.language_model, KEY=JSON.")
def main(files: Path, out: Path, number: int, attempts: int, changes: tuple[str, ...]) -> None:
    """Measure and print; see the module's docstring."""
    be_quiet()
    os.environ["NO_PROXY"] = "127.0.0.1"
    (out / "none").mkdir(parents=True, exist_ok=True)
    settings = {key: json.loads(value) for key, _, value in (one.partition("=") for one in changes)}
    pairs, begun = read_captions(files, number), time.monotonic()
    output, replies = write_negatives(pairs, out, attempts, settings)
    wall = time.monotonic() - begun
    print(
        f"{len(pairs)} captions, settings {settings}, {len(replies):,} responses of which some may be reused"
    )
    print(
        f"{wall / len(pairs):.1f} s a caption now; {replies['seconds'].sum() / CONNECTIONS / len(pairs):.1f} s"
    )
    print(
        f"without reuse; {replies['input_tokens'].sum():,} tokens in, {replies['output_tokens'].sum():,} out"
    )
    print(count_answers(replies).to_string())
    kept = output.negatives["subtype"].value_counts().reindex(SUBTYPES, fill_value=0)
    reasons = output.rejects.assign(subtype=output.rejects["id"].str.rpartition(":")[2])
    print(f"kept {kept.sum()} of {len(pairs) * len(SUBTYPES)}: {kept.to_dict()}")
    print(pd.crosstab(reasons["reason"], reasons["subtype"]).to_string())
    list_texts(output, pairs).to_csv(out / "texts.csv", index=False)


if __name__ == "__main__":
    main()
