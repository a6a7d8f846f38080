"""A script of requests, answered from a list instead of by a language model."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.llm.conversation import Outcome, PromptInput


def play_script(
    script: Generator[PromptInput, Any, Outcome], answer: Callable[[list[PromptInput]], str | None]
) -> tuple[Outcome, list[PromptInput]]:
    """Return the script's outcome and its requests; ``answer`` gets all requests so far, the last one included."""
    asked: list[PromptInput] = []
    output: ModelOutput | None = None
    while True:
        try:
            asked.append(script.send(output) if output else next(script))
        except StopIteration as end:
            return end.value, asked
        output = ModelOutput(answer(asked), "stop")
