"""Read files of weights into state dicts and models: only tensors are read, and all weights must match.

A pickle can contain code that runs when it is read. Only tensors and plain containers are accepted. Any other
file is refused before any of its code has run.
"""

from __future__ import annotations

import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError

if TYPE_CHECKING:
    import torch

PICKLES = (".pt", ".pth", ".bin", ".ckpt")
ENDINGS = (*PICKLES, ".safetensors")
# keys under which training scripts store the model's own weights
NESTED = ("state_dict", "model_state_dict", "model")
SHOWN = 5
PICKLE, ZIP = b"\x80", b"PK"  # first bytes of files of torch.save()
# Errors of torch on files that were truncated or modified.
CUT_OFF = (RuntimeError, EOFError, KeyError, IndexError, ValueError, TypeError, OSError, struct.error)


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Return the weights in a file by name, without the ``module.`` of data-parallel training.

    Raises:
        BackendError: the file is missing, damaged, contains code, or has no weights.
    """
    if path.suffix not in ENDINGS:
        raise BackendError(f"Weights {str(path)!r}: the file name must end in one of {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise BackendError(f"File {str(path)!r} does not exist.")
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load_pickle(path)
    state = _select_state_dict(content, path)
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


def _load_safetensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise build_broken_error(str(path), error) from error
    return state


def _load_pickle(path: Path) -> Any:
    """Return what ``torch.save`` wrote, refusing all but tensors and plain containers."""
    import torch

    with path.open("rb") as stream:
        start = stream.read(2)
    if start[:1] != PICKLE and start != ZIP:
        raise build_broken_error(str(path), f"it starts with {start!r} as no file of torch.save() does")
    if start == ZIP and _is_torchscript(path):
        raise BackendError(
            f"Weights {str(path)!r} are a TorchScript archive, as OpenAI publishes: a program, which is not "
            f"run. For OpenAI's own weights use their tag, such as 'ViT-B-32-quickgelu:openai'; for others "
            f"save the state dict alone."
        )
    try:
        with warnings.catch_warnings():
            # about a pickle's version: the file is read or refused anyway
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise build_refused_error(str(path), error) from error
    except CUT_OFF as error:
        raise build_broken_error(str(path), error) from error


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError) as error:
        raise build_broken_error(str(path), error) from error


def build_refused_error(where: str, error: pickle.UnpicklingError) -> BackendError:
    """Return the error about a pickle that torch refused: it was truncated, or contains more than tensors.

    Args:
        where: file, folder or repository.
        error: error of torch; its advice to run the code is not repeated.
    """
    if "truncated" in str(error):
        return build_broken_error(where, error)
    named = re.search(r"GLOBAL ([\w.]+)", str(error))
    what = f"{named[1]!r}, which is code and not weights" if named else "more than weights"
    return BackendError(
        f"Weights {where!r} were refused: the file contains {what}. None of it was run. If you trust it, "
        f"read it elsewhere and save the state dict alone: torch.save(model.state_dict(), FILE)."
    )


def build_broken_error(where: str, error: Exception | str) -> BackendError:
    """Return the error about weights that cannot be read."""
    return BackendError(
        f"Weights {where!r} are damaged: {get_first_line(error)}. Create or download them again."
    )


def get_first_line(error: Exception | str) -> str:
    """Return the first line of a library's message, without a stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _select_state_dict(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict in a file's content: all of it, or the value of one of ``NESTED``."""
    import torch

    if isinstance(content, Mapping):
        for inner in (content, *(content[key] for key in NESTED if key in content)):
            if (
                isinstance(inner, Mapping)
                and inner
                and all(isinstance(v, torch.Tensor) for v in inner.values())
            ):
                _check_plain(inner, path)
                return {str(name): value for name, value in inner.items()}
    keys = sorted(map(str, content))[:SHOWN] if isinstance(content, Mapping) else type(content).__name__
    raise BackendError(
        f"Weights {str(path)!r} contain no state dict, neither as a whole nor under one of "
        f"{', '.join(NESTED)}; found: {keys}."
    )


def _check_plain(state: Mapping[Any, torch.Tensor], path: Path) -> None:
    """Raise a BackendError unless each weight is a dense tensor of real numbers."""
    import torch

    odd: dict[str, Callable[[torch.Tensor], bool]] = {
        "on the device 'meta', without numbers": lambda value: value.is_meta,
        "sparse": lambda value: value.layout != torch.strided,
        "quantised": lambda value: value.is_quantized,
        "complex": lambda value: value.dtype.is_complex,
    }
    for name, value in state.items():
        if what := [word for word, is_so in odd.items() if is_so(value)]:
            raise BackendError(
                f"Weights {str(path)!r}: {str(name)!r} is {what[0]}. Weights are dense tensors of real "
                f"numbers: save the model's state dict as such, in float32, float16 or bfloat16."
            )


def fit_state(model: torch.nn.Module, state: Mapping[str, torch.Tensor], where: str) -> None:
    """Load a state dict into an open_clip model; names and shapes must match exactly.

    Weights under names of earlier versions of open_clip are renamed. Nothing is resized.

    Raises:
        BackendError: a weight is missing, unexpected, or has another shape or type of number.
    """
    ours = model.state_dict()
    state = _rename_weights(model, dict(state), ours)
    missing = [name for name in ours if name not in state]
    unexpected = [name for name in state if name not in ours]
    shapes = [
        f"{name} {tuple(value.shape)} for {tuple(ours[name].shape)}"
        for name, value in state.items()
        if name in ours and value.shape != ours[name].shape
    ]
    types = [
        f"{name} {value.dtype} for {ours[name].dtype}"
        for name, value in state.items()
        if name in ours and value.is_floating_point() != ours[name].is_floating_point()
    ]
    if missing or unexpected or shapes or types:
        problems = (
            ("missing", missing),
            ("unexpected", unexpected),
            ("of another shape", shapes),
            ("of another type", types),
        )
        summary = "; ".join(
            f"{len(names)} {problem}: {names[:SHOWN]}" for problem, names in problems if names
        )
        raise BackendError(
            f"{where}: weights and config do not match. Weights {summary}. Give the architecture that they "
            f"were trained with."
        )
    model.load_state_dict(state)


def _rename_weights(
    model: torch.nn.Module, state: dict[str, torch.Tensor], ours: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the state with the current names."""
    from open_clip.model import convert_to_custom_text_state_dict

    if "positional_embedding" in state and "text.positional_embedding" in ours:
        state = convert_to_custom_text_state_dict(state)
    for name in ("logit_scale", "logit_bias"):  # a number or a vector of one
        if name in state and name in ours and state[name].numel() == ours[name].numel():
            state[name] = state[name].reshape(ours[name].shape)
    # Recomputed by transformers 4.31 and later.
    state.pop("text.transformer.embeddings.position_ids", None)
    return state
