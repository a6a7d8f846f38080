"""Give models the names under which their responses are stored, and load each model at its first request.

A rebuild from stored responses loads no model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tqdm import tqdm

from caramel.errors import BackendError
from caramel.interfaces.model import Identity


class _HasIdentity(Protocol):
    @property
    def identity(self) -> Identity: ...


Model = TypeVar("Model", bound=_HasIdentity)


@dataclass(frozen=True)
class NamedModel(Generic[Model]):
    """A model: the name under which its responses are stored, and the function that loads it."""

    name: str
    open: Callable[[], Model]


class OneModel(Generic[Model]):
    """Opens models and keeps the last one, so that a model is loaded once and two are never in memory."""

    def __init__(self) -> None:
        self._opened: dict[str, Model] = {}

    def __call__(self, spec: str, load: Callable[[], Model]) -> Model:
        """Return the model of a specification, from ``load`` unless it was the last to be opened."""
        if spec not in self._opened:
            self._opened.clear()
            self._opened[spec] = load()
        return self._opened[spec]


def build_named_model(
    opens: Callable[[], Model], given: str | None, published: str | None, what: str
) -> NamedModel[Model]:
    """Return a model with its name.

    Args:
        opens: loads the model, or returns the loaded one; its errors are those of the loader.
        given: the user's name for the model; None: its identity is the name.
        published: the model's name in an available table of responses, from which the data set is rebuilt.
            The model is then loaded only if the table lacks a response. Without ``given``, a message says
            whose responses are used.
        what: description of the model, for messages.

    Raises:
        BackendError: ``given`` differs from the table's name, or the loaded model is not the table's model.
    """
    if published is not None:
        if given is None:
            tqdm.write(
                f"The {what} uses the stored responses of {published} where available.", file=sys.stderr
            )
        elif given != published:
            raise BackendError(
                f"negatives.language_model.name is {given!r}, but the responses of the {what} in "
                f"negatives.language_model.replies are from\n{published}\nSet this name, or remove the "
                f"responses."
            )

        def open_published_model() -> Model:
            model = opens()
            if given is None and dump_canonical_json(model.identity) != published:
                raise BackendError(
                    f"The responses in negatives.language_model.replies do not cover all requests to the "
                    f"{what}, and they are not from the configured model, but from\n{published}\nUse the "
                    f"params of the data set that they belong to, or remove the responses."
                )
            return model

        return NamedModel(published, open_published_model)
    if given is not None:
        return NamedModel(given, opens)
    return NamedModel(dump_canonical_json(opens().identity), opens)


def dump_canonical_json(value: object) -> str:
    """Return a value as canonical JSON: equal values give equal text everywhere."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
