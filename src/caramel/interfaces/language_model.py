"""Interface of a generative language model: it receives messages and responds with text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from caramel.interfaces.connections import MaxConnections
from caramel.interfaces.model import Identity

Role = str  # system, user or assistant
Message = tuple[Role, str]


class Request(NamedTuple):
    """A request to a model: everything that the response depends on except the model itself."""

    messages: tuple[Message, ...]  # the last one is the user's
    temperature: float  # 0: greedy decoding
    seed: int  # seed of sampling, if the temperature is not 0
    max_tokens: int  # limit for the response
    schema: str | None  # JSON schema, as text, that is enforced on the response
    top_p: float = 1.0  # least probability mass of the tokens that are sampled; 1: all tokens
    min_p: float = (
        0.0  # least probability of a sampled token, as a fraction of the likeliest one's; 0: all tokens
    )


class ModelOutput(NamedTuple):
    """The response of a model as received; None, with the problem, if there was no response."""

    text: str | None
    finish_reason: str  # why it ended: stop, length, …; failed if there was no response
    input_tokens: int | None = None  # tokens read; None: not counted
    output_tokens: int | None = None  # tokens written
    seconds: float = 0.0  # from request to response
    problem: str = ""


NextRequests = Callable[[int], list[tuple[str, Request]]]
OnResponse = Callable[[str, ModelOutput], None]
FAILED = "failed"  # finish reason of a request without a response


class LanguageModel(Protocol):
    """A model that writes text on request."""

    @property
    def identity(self) -> Identity:
        """Everything that determines its responses besides the request, JSON-like."""
        ...

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Process requests until none is waiting and none is in progress.

        Args:
            next_requests: returns at most the given number of requests with their names; none if none is
                ready.
            on_response: called with the name and response of each request, one at a time, in any order and
                always in the caller's thread. Afterwards more requests may be waiting.

        Raises:
            BackendError: the model rejects the request as such. Responses in progress are still delivered.
        """
        ...


class LanguageModelLoader(Protocol):
    """Loads a language model."""

    def __call__(self, target: str, *, max_connections: MaxConnections, workers: int) -> LanguageModel:
        """Return the model.

        Args:
            target: part of a spec after the type: MODEL@URL, or a folder.
            max_connections: requests in progress at a time, or per batch; ``AUTO`` is for servers alone.
            workers: number of Ray processes that hold the model, if it is loaded locally; 0: this process.

        Raises:
            BackendError: the model is unknown, missing or broken, or has no server that ``AUTO`` needs.
        """
        ...


@dataclass(frozen=True)
class LanguageModelSpec:
    """A type of language models that share one loader.

    Attributes:
        name: name in a spec, ``NAME:TARGET``.
        target: form of a target.
        load: target -> model.
        missing: target -> reasons why the model cannot be loaded, without loading it; empty if it is
            available.
    """

    name: str
    target: str
    load: LanguageModelLoader
    missing: Callable[[str], list[str]]
