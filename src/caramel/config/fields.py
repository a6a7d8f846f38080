"""Types of values in ``params.yaml``, and the base class of its sections."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from caramel.interfaces.connections import AUTO, MaxConnections
from caramel.registry import METHODS

Split = Literal["train", "val", "test"]
Type = Literal["replace", "swap", "add", "only"]
Subtype = Literal[
    "replace_obj",
    "replace_att",
    "replace_rel",
    "swap_obj",
    "swap_att",
    "add_obj",
    "add_att",
    "only_obj",
]
Check = Literal[
    "statement",
    "complete",
    "single_sentence",
    "not_copy",
    "one_change",
    "edit_location",
    "subtype",
    "novel_word",
    "known_words",
    "not_implied",
    "overlap",
    "grammar",
    "entailment",
    "meaning",
]
MOST = 2**31 - 1  # largest integer


def _check_gpu_count(number: float) -> float:
    """Refuse a number that Ray cannot assign: more than one GPU with a fraction."""
    if number > 1 and number != int(number):
        raise PydanticCustomError(
            "gpus", "a number of GPUs is whole, or less than one if several workers share a GPU"
        )
    return number


# scikit-learn accepts 32 bits, and some stages add a small number to their seed.
Seed = Annotated[int, Field(ge=0, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(gt=0, le=MOST)]
Several = Annotated[int, Field(ge=2, le=MOST)]
Nested = Annotated[int, Field(ge=1, le=9)]  # seeds of one type within one draw of the scenes
Share = Annotated[float, Field(ge=0, le=1)]
GpuShare = Annotated[float, Field(gt=0, le=MOST), AfterValidator(_check_gpu_count)]
LearningRate = Annotated[float, Field(gt=0, le=1)]
Guidance = Annotated[float, Field(ge=0, le=100)]
Decay = Annotated[float, Field(ge=0, lt=1)]
WeightDecay = Annotated[float, Field(ge=0, le=100)]
Weight = Annotated[float, Field(ge=0, le=1000)]
Price = Annotated[float, Field(ge=0, le=1e6)]
Item = TypeVar("Item")


def _check_distinct(items: tuple[Item, ...]) -> tuple[Item, ...]:
    if len(set(items)) < len(items):
        raise ValueError("duplicate entry")
    return items


Distinct = AfterValidator(_check_distinct)


def _check_method(name: str) -> str:
    """Return the name of a training method; an unknown name raises the same error as a ``Literal``."""
    if name not in METHODS:
        *others, last = map(repr, METHODS)
        choices = f"{', '.join(others)} or {last}"
        raise PydanticCustomError("literal_error", "Input should be {choices}", {"choices": choices})
    return name


MOST_CONNECTIONS = 1024


def check_connections(value: object) -> MaxConnections:
    """Return ``AUTO`` or a number of connections, from 1 to ``MOST_CONNECTIONS``.

    Raises:
        ValueError: the value is neither. This is one message, where a union of types would give two.
    """
    if value == AUTO:
        return AUTO
    if type(value) is int and 1 <= value <= MOST_CONNECTIONS:
        return value
    raise PydanticCustomError(
        "connections", f"Input should be 'auto' or an integer from 1 to {MOST_CONNECTIONS}"
    )


Connections = Annotated[MaxConnections, PlainValidator(check_connections)]
Variant = Annotated[str, AfterValidator(_check_method)]


class Section(BaseModel):
    """Base of all sections: frozen, strict types, finite numbers, no unknown keys, no defaults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )
