"""What a language model that writes is: it gets messages and answers in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from caramel.interfaces.model import Identity

Role = str  # system, user or assistant
Message = tuple[Role, str]


class Request(NamedTuple):
    """What a model is asked, and all that its answer depends on beside the model itself."""

    messages: tuple[Message, ...]  # the last one is the user's
    temperature: float  # 0: the likeliest words
    seed: int  # of the draw of words, where the temperature is not 0
    max_tokens: int  # of the answer
    schema: str | None  # JSON schema, as text, that the answer must keep, where the server sees to it


class ModelOutput(NamedTuple):
    """What a model said to a request, as it came; None if no reply came, and why."""

    text: str | None
    finish_reason: str  # why it ended: stop, length, …; failed where no reply came
    input_tokens: int | None = None  # that were read; None: nobody counted
    output_tokens: int | None = None  # that were written
    seconds: float = 0.0  # from the request to the reply
    problem: str = ""


NextRequests = Callable[[int], list[tuple[str, Request]]]
OnResponse = Callable[[str, ModelOutput], None]
FAILED = "failed"  # the finish of a request without a reply


class LanguageModel(Protocol):
    """A model that writes what it is asked for."""

    @property
    def identity(self) -> Identity:
        """All that determines its replies beside the request, JSON-like."""
        ...

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Answer requests until none is waiting and none is under way.

        Args:
            next_requests: gives at most so many requests with their names, and none where none is there yet.
            on_response: called with name and reply of each, one at a time and always by the caller's thread, in any order; after
                it more may be waiting.

        Raises:
            BackendError: the model refuses the request as such; what was under way is still heard.
        """
        ...


class LanguageModelLoader(Protocol):
    """Loads a language model."""

    def __call__(self, target: str, *, max_connections: int, workers: int) -> LanguageModel:
        """Return the model.

        Args:
            target: what stands behind the kind in a spec: MODEL@URL, or a folder.
            max_connections: requests under way at a time, or in one batch.
            workers: processes on Ray that have the model, where it is loaded here; 0: this process.

        Raises:
            BackendError: it is unknown, missing or broken.
        """
        ...


@dataclass(frozen=True)
class LanguageModelSpec:
    """Language models that are loaded alike.

    Attributes:
        name: as in a spec, ``NAME:TARGET``.
        target: how a target looks.
        load: target -> model.
        missing: target -> what keeps the model from being loaded, without loading it; nothing if it is there.
    """

    name: str
    target: str
    load: LanguageModelLoader
    missing: Callable[[str], list[str]]
