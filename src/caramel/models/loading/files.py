"""Load checkpoints without trusting them: explain errors of libraries, limit memory, and test each model once.

Anybody can write a config, and libraries do not check it. A wrong type in it can raise any error, and a width
of a thousand million allocates as much memory. The size of the weights is reliable, so it sets the limit.
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

from caramel.errors import BackendError, CaramelError, ModelMemoryError
from caramel.models.devices import is_out_of_memory
from caramel.models.loading.hub import get_network_error, is_offline
from caramel.models.loading.state_dicts import build_broken_error, build_refused_error, get_first_line

Model = TypeVar("Model")
SLACK = 2**26  # numbers that any model may allocate: a quarter of a GiB in single precision
# Numbers per byte of the weights: for one tensor (weights of 4 bits have two), and for all tensors, some of
# which are initialised and discarded.
ONE, ALL = 2, 4
LEAST = 2**14  # least count of a tensor: many small layers take long, and have memory of their own
PICTURE = b"P6 64 48 255\n" + bytes(i % 251 for i in range(64 * 48 * 3))
TEXT = "a dog and a cat."


def read_text_as_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        BackendError: the file cannot be read, is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise BackendError(
            f"{str(path)!r} is damaged: {get_first_line(error)}. Create or download it again."
        ) from error


@contextmanager
def translate_load_errors(target: str) -> Iterator[None]:
    """Translate errors of libraries on a missing or damaged checkpoint into a BackendError.

    Raises:
        BackendError: what is wrong with the target, as far as the library's error tells.
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
        raise BackendError(f"A JSON file of {target!r} is damaged: {error}. Download it again.") from error
    except ImportError as error:
        raise BackendError(
            f"{target!r} needs a package that is not installed: {get_first_line(error)}."
        ) from error
    except (OSError, get_network_error()) as error:
        online = "Check the name, the network and, for a gated model, HF_TOKEN"
        cure = "Download it first, or unset HF_HUB_OFFLINE" if is_offline() else online
        cure = "Download it again" if Path(target).exists() else cure
        raise BackendError(f"{target!r} cannot be loaded: {get_first_line(error)}. {cure}.") from error
    except MemoryError as error:
        raise ModelMemoryError(f"{target!r} does not fit into memory.") from error
    except (
        Exception
    ) as error:  # tokenizers raises plain Exception, and a wrong type in a config can raise any error
        if isinstance(error, AssertionError) and _is_ours(error):
            raise
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise ModelMemoryError(
                f"{target!r} does not fit into memory: {get_first_line(error)}."
            ) from error
        if "PytorchStreamReader" in str(error):  # the error of a truncated pickle
            raise build_broken_error(target, error) from error
        raise BackendError(
            f"{target!r} cannot be used ({type(error).__name__}: {get_first_line(error)}). Its files are "
            f"damaged, do not match, or need custom code, which is never run."
        ) from error


def _is_ours(error: Exception) -> bool:
    """Return whether an error was raised by caramel's own code."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("caramel.")


@contextmanager
def limit_model_size(weights: Sequence[Path], where: str) -> Iterator[None]:
    """Allow a model as large as its files of weights, and refuse one that is far larger.

    Raises:
        BackendError: a larger model is requested; nothing has been allocated for it.
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
                    f"{where}: the config describes a model with more numbers than its {size:,} bytes of "
                    f"weights can hold. The config is invalid, or belongs to another model."
                )
            return func(*args, **(kwargs or {}))

    with AllocationLimit():  # type: ignore[no-untyped-call]
        yield


def _count_numbers(args: Sequence[Any]) -> int:
    """Return how many numbers a tensor factory function is asked for: by shape, or by count."""
    if args and isinstance(args[0], Sequence) and all(isinstance(side, int) for side in args[0]):
        return math.prod(args[0])
    return max((value for value in args if isinstance(value, int)), default=0)


def validate_model(model: Model, target: str) -> Model:
    """Return the model after a test on one image and one text: parts that load may still not match.

    Raises:
        BackendError: the test fails, or returns infinite numbers or NaN.
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
        if hasattr(parts, "encode_pairs"):
            rows.append(parts.encode_pairs([PICTURE], [TEXT], nothing, nothing, 1))
    if not all(np.isfinite(row).all() for row in rows):
        raise BackendError(
            f"{target!r} returns infinite numbers or NaN for an image and a text: its weights or its "
            f"preprocessing are damaged. Download it again."
        )
    return model
