"""Models under the names that their replies are kept under, opened when they are first asked: a rebuild from replies opens none."""

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
    """A model: what its replies are kept under, and what opens it."""

    name: str
    open: Callable[[], Model]


def build_named_model(
    opens: Callable[[], Model], given: str | None, published: str | None, what: str
) -> NamedModel[Model]:
    """Return a model under its name.

    Args:
        opens: it; errors as in the loader.
        given: the user's name for it; None: what tells it from all others.
        published: the name in a table of replies that is at hand, of which the data set is made again. The model is then
            needed only where the table lacks a reply; without a name given, whose replies are used is said in a line.
        what: the model is, in the error.

    Raises:
        BackendError: the given name is not the table's; or, when the model is opened, it is another one than the table's.
    """
    if published is not None:
        if given is None:
            tqdm.write(
                f"The {what}: its replies are those of {published}, where they are known.", file=sys.stderr
            )
        elif given != published:
            raise BackendError(
                f"negatives.language_model.name is {given!r}, and the replies of the {what} that negatives.language_model.replies "
                f"names are by\n{published}\nTake the name of these, or take the replies away."
            )

        def open_published_model() -> Model:
            model = opens()
            if given is None and dump_canonical_json(model.identity) != published:
                raise BackendError(
                    f"The replies that negatives.language_model.replies names do not answer all that is asked of the {what}, and "
                    f"are not by the model that is set, but by\n{published}\nTake the params of the data set that they are of, or "
                    f"take the replies away."
                )
            return model

        return NamedModel(published, open_published_model)
    if given is not None:
        return NamedModel(given, opens)
    model = opens()
    return NamedModel(dump_canonical_json(model.identity), lambda: model)


def dump_canonical_json(value: object) -> str:
    """Return a value as JSON that is the same wherever it is written."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
