"""Checkpoints are not trusted: what libraries raise on them is explained, memory is bounded, and each is tried.

A config is a text file that anybody can write, and libraries believe it: a wrong type in it ends anywhere, a
width of a thousand million allocates. The weights are what there really is, so they are the measure.
"""

from __future__ import annotations

import json
import math
import pickle
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from caramel.errors import BackendError, CaramelError, ResourceError
from caramel.models.devices import is_out_of_memory
from caramel.models.loading.hub import get_network_error, is_offline
from caramel.models.loading.state_dicts import build_broken_error, build_refused_error, get_first_line

Model = TypeVar("Model")
SLACK = 2**26  # numbers that any model may allocate: a quarter of a GiB in single precision
# So many numbers to a byte of the weights: for one tensor (weights of 4 bits have two), and for all of them, some
# of which are drawn and thrown away.
ONE, ALL = 2, 4
LEAST = (
    2**14
)  # numbers that a tensor counts as at least: many small layers take long, and memory of their own
PICTURE = b"P6 64 48 255\n" + bytes(i % 251 for i in range(64 * 48 * 3))
TEXT = "a dog and a cat."


def read_text_as_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        BackendError: it cannot be read, is no JSON, or is nested too deeply.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise BackendError(
            f"{str(path)!r} is broken: {get_first_line(error)}. Make or fetch it again."
        ) from error


@contextmanager
def translate_load_errors(target: str) -> Iterator[None]:
    """Turn what a library raises on a checkpoint that is missing or broken into a BackendError.

    Raises:
        BackendError: what is wrong with the target, as far as the library says it.
        ResourceError: the target does not fit into memory.
    """
    from safetensors import SafetensorError

    try:
        yield
    except CaramelError:
        raise
    except pickle.UnpicklingError as error:
        raise build_refused_error(target, error) from error
    except (SafetensorError, EOFError) as error:
        raise build_broken_error(target, error) from error
    except json.JSONDecodeError as error:
        raise BackendError(f"A JSON file of {target!r} is broken: {error}. Fetch it again.") from error
    except ImportError as error:
        raise BackendError(
            f"{target!r} needs a package that is not installed: {get_first_line(error)}."
        ) from error
    except (OSError, get_network_error()) as error:
        online = "Check the name, the network and, where it is gated, HF_TOKEN"
        cure = "Fetch it before, or unset HF_HUB_OFFLINE" if is_offline() else online
        cure = "Fetch it again" if Path(target).exists() else cure
        raise BackendError(f"{target!r} cannot be loaded: {get_first_line(error)}. {cure}.") from error
    except MemoryError as error:
        raise ResourceError(f"{target!r} does not fit into memory.") from error
    except (
        Exception
    ) as error:  # tokenizers raises no more special one, and a wrong type in a config any other
        if isinstance(error, AssertionError) and _is_ours(error):
            raise
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise ResourceError(f"{target!r} does not fit into memory: {get_first_line(error)}.") from error
        if "PytorchStreamReader" in str(error):  # of a pickle that was cut off
            raise build_broken_error(target, error) from error
        raise BackendError(
            f"{target!r} cannot be used ({type(error).__name__}: {get_first_line(error)}). Its files are broken, do "
            f"not fit together, or need code of their own, which is never run."
        ) from error


def _is_ours(error: Exception) -> bool:
    """Return whether an error was raised by caramel's own code."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("caramel.")


@contextmanager
def limit_model_size(weights: Sequence[Path], where: str) -> Iterator[None]:
    """Let a model be built that is as large as its files of weights, and none that is far larger.

    Raises:
        BackendError: more is asked for; nothing of it has been allocated.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    size = sum(path.stat().st_size for path in weights)

    class AllocationLimit(TorchDispatchMode):  # type: ignore[no-untyped-call]
        left = ALL * size + SLACK

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            count = 0 if any(isinstance(value, torch.Tensor) for value in args) else _count_numbers(args)
            self.left -= max(count, LEAST) if count else 0
            if count > ONE * size + SLACK or self.left < 0:
                raise BackendError(
                    f"{where}: the config asks for a model of more numbers than its {size:,} bytes of weights "
                    f"can hold. It is broken, or of another model."
                )
            return func(*args, **(kwargs or {}))

    with AllocationLimit():  # type: ignore[no-untyped-call]
        yield


def _count_numbers(args: Sequence[Any]) -> int:
    """Return how many numbers a function that makes a tensor of nothing is asked for: by shape, or by count."""
    if args and isinstance(args[0], Sequence) and all(isinstance(side, int) for side in args[0]):
        return math.prod(args[0])
    return max((value for value in args if isinstance(value, int)), default=0)


def validate_model(model: Model, target: str) -> Model:
    """Return the model after a trial on one picture and one text: what loads may still not fit together.

    Raises:
        BackendError: it fails, or gives what is no number.
    """
    nothing = np.zeros(1, np.int64)
    parts: Any = model
    with translate_load_errors(target):
        rows = []
        if hasattr(parts, "encode_images"):
            rows.append(parts.encode_images([PICTURE], 1))
        if hasattr(parts, "encode_texts"):
            rows.append(parts.encode_texts([TEXT], 1))
        if hasattr(parts, "match_pairs"):
            rows.append(parts.match_pairs([PICTURE], [TEXT], nothing, nothing, 1))
    if not all(np.isfinite(row).all() for row in rows):
        raise BackendError(
            f"{target!r} gives infinite numbers or none (NaN) for a picture and a text: its weights or its preprocessing "
            f"are broken. Fetch it again."
        )
    return model
