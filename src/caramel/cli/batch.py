"""The group batch: a language model's requests and answers as files of OpenAI's Batch API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from caramel.cli.caption_run import load_caption_run
from caramel.cli.output import echo
from caramel.errors import ConfigError, count_of
from caramel.io.files import forbid_overwriting_inputs

PART = click.option(
    "--part",
    type=click.Choice(["negatives", "paraphrases"]),
    help="Part of the captions.  [default: all that a language model writes]",
)


@click.group("batch")
def batch_group() -> None:
    """Exchange requests with a language model as batch files.

    `vllm run-batch` and OpenAI's Batch API answer a file of requests. Repeat write, answer and read until no request
    waits: a text takes several requests, one after the other.

    \b
    Example:
      caramel batch write --out requests.jsonl
      vllm run-batch -i requests.jsonl -o answers.jsonl --model MODEL
      caramel batch read answers.jsonl
    """


@batch_group.command("write")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option(
    "--limit",
    default=50_000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="Largest number of requests; OpenAI takes 50,000 in a file.",
)
@PART
def write_batch(out: Path, limit: int, part: str | None) -> None:
    """Write the requests that wait for an answer.

    The file of JSON Lines holds the requests of stage `negatives` of params.yaml that can be sent now: those
    whose inputs are known, and whose answers are not stored in work/replies. Stage `scenes` must have run.

    \b
    Example:
      caramel batch write --out requests.jsonl
      caramel batch write --out requests.jsonl --part paraphrases --limit 1000
    """
    from caramel.sources.captions.llm.batch_files import write_batch_file
    from caramel.sources.captions.llm.writer import STORE

    pairs, settings = load_caption_run()
    forbid_overwriting_inputs([out], [Path("data/scenes/pairs.parquet"), Path("params.yaml"), STORE])
    number = write_batch_file(out, pairs, **_select_part(settings, part), limit=limit)
    if not number:
        echo("No request waits for an answer: run `dvc repro negatives`.")
        return
    more = " (the limit: answer and read these, then write the next)" if number == limit else ""
    echo(
        f"Wrote {count_of(number, 'request')} to {out}{more}. Store their answers with `caramel batch read`."
    )


@batch_group.command("read")
@click.argument("answers", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@PART
def read_batch(answers: Path, part: str | None) -> None:
    """Store the answers to a batch file.

    ANSWERS is the output of a batch that `caramel batch write` wrote. Its responses go to work/replies, where stage
    `negatives` finds them. The params must be those that the batch was written with.

    \b
    Example:
      caramel batch read answers.jsonl
    """
    from caramel.sources.captions.llm.batch_files import read_batch_file

    pairs, settings = load_caption_run()
    counts = read_batch_file(answers, pairs, **_select_part(settings, part))
    echo(f"Stored {count_of(counts.stored, 'response')}; {counts.known:,} were stored before.")
    if counts.unanswered:
        echo(f"{counts.unanswered:,} requests that waited have no row in {answers}.")
    echo("Write the next requests with `caramel batch write`.")


def _select_part(settings: dict[str, Any], part: str | None) -> dict[str, Any]:
    """Return the settings for one part, or for all if none is given."""
    if part is None:
        return settings
    if part not in settings["parts"]:
        raise ConfigError(
            f"--part {part}: no language model writes the {part} (negatives.backend, negatives.paraphrases)."
        )
    return {**settings, "parts": [part]}
