"""Compare the embedded language model behind `transformers serve`, an OpenAI-style server, with the same model in-process.

    pip install 'openai>=1.98' accelerate      # needed by that server, not by caramel
    python bench/served_writer.py data/writer --pairs 20

Both write the negatives and paraphrases of the same pairs of the world, with the settings of profile
``language``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pandas as pd
import requests
from writer_noise import ROOT, judge_drafts, sample_world_pairs

from caramel.config.profiles import read_profile
from caramel.config.schema import Config
from caramel.interfaces.writer import WrittenCaption
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.llm.writer import language_negatives

START = 180  # seconds allowed for the server to start


@contextmanager
def run_server(model: Path) -> Iterator[str]:
    """Yield the URL of a server of the model, on the loopback interface.

    Raises:
        RuntimeError: it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("transformers")
    command = [
        str(program),
        "serve",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            until = time.monotonic() + START
            while not is_listening(port):
                if server.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(log.read().decode()[-2000:])
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def is_listening(port: int) -> bool:
    """Return whether the server answers a health check."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=2).ok
    except requests.RequestException:
        return False


def generate_negatives(
    config: Config, pairs: pd.DataFrame, target: str, max_connections: int, store: Path
) -> tuple[WrittenCaption, pd.DataFrame, float]:
    """Return a model's texts, its responses, and the seconds."""
    section, begun = config.negatives, time.monotonic()
    settings = {**section.language_model.model_dump(), "target": target, "max_connections": max_connections}
    written = language_negatives(
        pairs,
        seed=section.seed,
        max_attempts=section.max_attempts,
        parts=("negatives", "paraphrases"),
        model=settings,
        store=store,
    )
    assert written.replies is not None
    replies = pd.concat(list(written.replies))
    return written._replace(replies=iter([replies])), replies, time.monotonic() - begun


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", "number", default=20, show_default=True, type=click.IntRange(min=1))
def main(model: Path, number: int) -> None:
    """Measure and print; see the module's docstring."""
    be_quiet()
    os.environ["NO_PROXY"] = "127.0.0.1"
    config = read_profile("language", {}, ROOT)[1]
    pairs = sample_world_pairs(config, number)
    model = model.resolve()
    texts_by_backend = {}
    with tempfile.TemporaryDirectory() as folder, run_server(model) as url:
        for name, target, at_once in (("server", f"chat:{model}@{url}", 2), ("local", f"local:{model}", 128)):
            written, replies, seconds = generate_negatives(
                config, pairs, target, at_once, Path(folder) / f"{name}.sqlite"
            )
            texts_by_backend[name] = replies.set_index(["prompt", "input", "attempt", "parameters"])["text"]
            whole = judge_drafts(pairs, written)[1].set_index("subtype").loc["all"]
            print(
                f"{name}: {len(replies):,} requests, {len(replies) / seconds:.1f} per second; {dict(whole)}"
            )
    both = pd.concat(texts_by_backend, axis=1, join="inner")
    cold = both[both.index.get_level_values("parameters").str.contains('"temperature": 0.0')]
    same = (cold["server"] == cold["local"]).sum()
    print(f"of {len(cold):,} requests of both at temperature 0, {same:,} have the same response")


if __name__ == "__main__":
    main()
