"""Measure a local model's answers by sampling settings, and what its prefix cache saves.

    python bench/local_sampling.py .venv/real/smollm2 sugarcrepe/ --requests 20

For each setting the same proposals are requested for real captions. Printed are the shares of answers that
are one JSON object and that caramel's parser accepts, and examples. Then greedy requests of four prompts are
answered with and without stored prefixes: tokens read and seconds for each request, and how many answers are
equal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import click

from caramel.interfaces.language_model import ModelOutput, Request
from caramel.models.llm import prefix_cache
from caramel.models.llm.causal import CausalLanguageModel, load_causal_model
from caramel.runtime.environment import be_quiet
from caramel.sources.captions.llm.conversation import PromptInput
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.llm.scheduler import RequestSettings, Sampling, build_request
from caramel.sources.captions.prompts.prompt_files import load_prompt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from small_language_models import count_tokens

SETTINGS = {
    "T = 1.5": (Sampling(1.5, 1.0, 0.0), False),
    "T = 1.5, min_p = 0.1": (Sampling(1.5, 1.0, 0.1), False),
    "T = 0.8": (Sampling(0.8, 1.0, 0.0), False),
    "T = 1.5, schema": (Sampling(1.5, 1.0, 0.0), True),
    "T = 1.5, min_p = 0.1, schema": (Sampling(1.5, 1.0, 0.1), True),
    "T = 0.8, schema": (Sampling(0.8, 1.0, 0.0), True),
}
PROPOSALS = (
    "replace_obj_propose",
    "replace_att_propose",
    "replace_rel_propose",
    "add_obj_propose",
    "add_att_propose",
)
GREEDY = ("find_obj", "find_att", "find_rel", "paraphrase")
MAX_TOKENS = 48
SHOWN = 4  # answers of each setting


def read_captions(folder: Path, number: int) -> list[str]:
    """Return captions of SugarCrepe's replace_obj.json, evenly spaced."""
    rows = json.loads((folder / "replace_obj.json").read_text())
    captions = list(dict.fromkeys(row["caption"] for row in rows.values()))
    return captions[:: max(1, len(captions) // number)][:number]


def iter_inputs(captions: list[str], prompts: tuple[str, ...]) -> Iterator[PromptInput]:
    """Yield an input for each caption, of each prompt in turn; a concept is the caption's second word."""
    for number, caption in enumerate(captions):
        name = prompts[number % len(prompts)]
        values = (caption, caption.split()[1])
        yield PromptInput(name, dict(zip(load_prompt(name).given, values, strict=False)), 1, 1.5)


def generate_outputs(model: CausalLanguageModel, requests: list[Request]) -> list[ModelOutput]:
    """Return the responses to requests in their order, by way of the model's own batches."""
    waiting, outputs = list(enumerate(requests)), dict[str, ModelOutput]()

    def take_requests(number: int) -> list[tuple[str, Request]]:
        taken = [(str(index), request) for index, request in waiting[:number]]
        del waiting[:number]
        return taken

    model.answer_requests(take_requests, outputs.__setitem__)
    return [outputs[str(index)] for index in range(len(requests))]


def measure_sampling(model: CausalLanguageModel, captions: list[str]) -> None:
    """Print the share of well-formed answers for each of ``SETTINGS``."""
    inputs = list(iter_inputs(captions, PROPOSALS))
    for name, (sampling, schema) in SETTINGS.items():
        settings = RequestSettings("m", 1, 7, MAX_TOKENS, schema, 16, sampling)
        begun = time.monotonic()
        outputs = generate_outputs(model, [build_request(one, settings)[1] for one in inputs])
        seconds = (time.monotonic() - begun) / len(inputs)
        texts = [output.text or "" for output in outputs]
        strict = sum(is_object(text) for text in texts)
        answers = [
            parse_answer(text, load_prompt(one.prompt).answer)
            for one, text in zip(inputs, texts, strict=True)
        ]
        accepted = sum(answer is not None for answer in answers)
        print(
            f"{name:30} JSON {strict:3} of {len(texts)}, accepted {accepted:3}, {seconds:.2f} s a request",
            flush=True,
        )
        for text in texts[:SHOWN]:
            print(f"    {text!r:.100}")


def is_object(text: str) -> bool:
    """Return whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def measure_prefixes(folder: Path, captions: list[str], batch_size: int) -> None:
    """Print what requests cost with and without stored prefixes."""
    settings = RequestSettings("m", 1, 7, MAX_TOKENS, False, batch_size)
    inputs = [one._replace(temperature=0.0) for one in iter_inputs(captions, GREEDY)]
    requests = [build_request(one, settings)[1] for one in inputs]
    texts = []
    for cached in (True, False):
        with patch.object(prefix_cache, "has_plain_cache", lambda model, cached=cached: cached):
            model = load_causal_model(str(folder), max_connections=batch_size)
        tokens = count_tokens(model)
        begun = time.monotonic()
        outputs = generate_outputs(model, requests)
        seconds = time.monotonic() - begun
        read = sum(tokens) - sum(output.output_tokens or 0 for output in outputs)
        whole = sum(output.input_tokens or 0 for output in outputs)
        texts.append([output.text for output in outputs])
        print(
            f"{'with' if cached else 'without'} prefixes: {read / len(requests):.0f} of {whole / len(requests):.0f} "
            f"prompt tokens read and {seconds / len(requests):.2f} s a request",
            flush=True,
        )
    print(f"equal answers: {sum(a == b for a, b in zip(*texts, strict=True))} of {len(requests)}")


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("files", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--requests", "number", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--batch", "batch_size", default=4, show_default=True, type=click.IntRange(min=1))
def main(model: Path, files: Path, number: int, batch_size: int) -> None:
    """Measure and print; see the module's docstring."""
    be_quiet()
    captions = read_captions(files, number)
    measure_sampling(load_causal_model(str(model), max_connections=batch_size), captions)
    measure_prefixes(model, captions, batch_size)


if __name__ == "__main__":
    main()
