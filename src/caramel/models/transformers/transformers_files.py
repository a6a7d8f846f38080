"""Read checkpoints of transformers: a folder in its format, or OWNER/REPO on the Hugging Face hub.

Weights are read from safetensors, or from pickles that contain only tensors. Custom code of a repository is
never run. A checkpoint that lacks a weight of the model is refused: transformers itself would fill it with
random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError, format_items
from caramel.interfaces.model import Identity
from caramel.models.devices import move_to_device
from caramel.models.identity import get_package_versions, get_processor_settings, hash_settings, hash_weights
from caramel.models.loading.files import limit_model_size, read_text_as_json, translate_load_errors
from caramel.models.loading.hub import is_offline
from caramel.models.loading.state_dicts import ENDINGS
from caramel.models.open_clip.config import LARGEST_SIDE

if TYPE_CHECKING:
    import torch

# Family of models -> values of ``model_type`` in config.json that it accepts.
MODEL_TYPES = {
    "dual": ("clip", "siglip", "siglip2", "align", "altclip", "flava"),
    "itm": ("blip", "blip-2", "vilt"),
    "itc": ("blip", "blip-2"),
    "itc_max": ("blip-2",),
    "joint_states": ("vilt",),
    "vgptscore": (
        "llava",
        "llava_next",
        "llava_onevision",
        "instructblip",
        "qwen2_vl",
        "qwen2_5_vl",
        "clip_t5",
    ),
    "yes_no": ("blip",),
}
MODEL_TYPES["vqascore"] = (*MODEL_TYPES["vgptscore"], *MODEL_TYPES["yes_no"])
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
MOST_LABELS = 2**20  # largest number of labels of a classifier; transformers creates a name for each
PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")


def read_model_type(target: str) -> str:
    """Return ``model_type`` of the checkpoint's config.json.

    Raises:
        BackendError: the checkpoint is missing, or its config.json is invalid or lacks it.
    """
    type_name = read_config(target).get("model_type")
    if not isinstance(type_name, str):
        raise BackendError(
            f"config.json of {target!r} has no 'model_type': it is not a checkpoint of transformers."
        )
    return type_name


def check_type(target: str, types: Sequence[str]) -> str:
    """Return the checkpoint's ``model_type`` if it is one of ``types``.

    Raises:
        BackendError: it is another one; the message names the family that accepts it, if one does.
    """
    type_name = read_model_type(target)
    if type_name in types:
        return type_name
    others = [name for name, known in MODEL_TYPES.items() if type_name in known]
    cure = f"Write {others[0]}:{target}" if others else f"This family takes {', '.join(types)}"
    raise BackendError(f"{target!r} is a model of type {type_name!r}. {cure}.")


def read_config(target: str, name: str = "config.json") -> dict[str, Any]:
    """Return a JSON object among the checkpoint's files; errors as in ``read_json``."""
    data = read_json(target, name)
    if not isinstance(data, dict):
        raise BackendError(f"{name} of {target!r} is damaged: it must be an object. Download it again.")
    return data


def read_json(target: str, name: str) -> Any:
    """Return a JSON file of the checkpoint, downloaded from the hub if necessary.

    Raises:
        BackendError: it is missing or invalid.
    """
    path = find_file(target, name)
    if path is None:
        raise BackendError(_format_missing_file(target, name))
    return read_text_as_json(path)


def _format_missing_file(target: str, name: str) -> str:
    """Return the message about a checkpoint without a file."""
    if not Path(target).is_dir():
        return f"{target!r} is not a folder, and the repository {target!r} on the hub has no {name}."
    other = find_file(target, "open_clip_config.json")
    cure = f"It is open_clip's: write open_clip:{target}" if other else "Save it with save_pretrained()"
    return f"{target!r} is not a checkpoint of transformers: {name} is missing. {cure}."


def find_file(target: str, name: str) -> Path | None:
    """Return a file of the checkpoint, downloaded from the hub if necessary; None if it has none of that name.

    Raises:
        BackendError: the folder does not exist, and no such repository can be reached.
    """
    if Path(target).is_dir():
        path = Path(target) / name
        return path if path.is_file() else None
    _check_repository(target)
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError

    with translate_load_errors(target):
        try:
            return Path(hf_hub_download(target, name))
        except RemoteEntryNotFoundError:
            return None
        except LocalEntryNotFoundError as error:
            if _is_known_missing(target, name):
                return None
            why = "HF_HUB_OFFLINE is set" if is_offline() else "the hub cannot be reached"
            raise BackendError(
                f"{target!r} is not a folder. {name} of the repository {target!r} is not in the hub's cache "
                f"({constants.HF_HUB_CACHE}), and {why}. Download it first, or give the folder of a complete "
                f"copy."
            ) from error


def load_pretrained(
    model_class: Any,
    target: str,
    *,
    device: str,
    dtype: torch.dtype | None = None,
    unneeded: tuple[str, ...] = (),
) -> Any:
    """Return the checkpoint's model on its device, in evaluation mode.

    Args:
        model_class: class of transformers with ``from_pretrained``: an Auto class or a model's own.
        target: folder or OWNER/REPO.
        device: cpu, cuda or cuda:N.
        dtype: type of the weights; None: float32, whatever the checkpoint states.
        unneeded: prefixes of names of weights that the caller does not use, and that may be missing.

    Raises:
        BackendError: it is missing or damaged, it lacks weights of the model, or the device cannot be used.
        ResourceError: it does not fit into memory.
    """
    import torch

    _check_labels(target, read_config(target))
    local = Path(target).is_dir()
    files = [path for path in Path(target).iterdir() if path.suffix in ENDINGS] if local else []
    if local:
        _list_missing_shards(Path(target))  # raises an error if the index is invalid
    # A repository's sizes are not known until all of it has been downloaded.
    within = limit_model_size(files, repr(target)) if local else nullcontext()
    with translate_load_errors(target), _lower_verbosity(bars=not local), within:
        model, info = model_class.from_pretrained(
            target,
            dtype=dtype or torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported here
        )
        wrong = sorted(key for key in info["missing_keys"] if not key.startswith(unneeded))
        shapes = [(key, tuple(ours), tuple(its)) for key, its, ours in info["mismatched_keys"]]
        wrong += [f"{key}: {its} in the file, {ours} in the model" for key, ours, its in sorted(shapes)]
        if wrong:
            raise BackendError(
                f"{target!r} is not a complete {type(model).__name__}: {len(wrong)} of its weights are missing "
                f"or have another shape:\n{format_items(wrong)}\nUse a checkpoint that was trained for this."
            )
    return move_to_device(model, device)


def _check_labels(target: str, config: Any) -> None:
    """Raise a BackendError if a config, or a nested one, has so many labels that their names fill the memory."""
    labels = config.get("num_labels")
    if isinstance(labels, int) and labels > MOST_LABELS:
        raise BackendError(
            f"config.json of {target!r} is damaged: 'num_labels' is {labels}. Download it again."
        )
    for part in config.values():
        if isinstance(part, dict):
            _check_labels(target, part)


def load_tokenizer(target: str) -> Any:
    """Return the checkpoint's tokenizer.

    Raises:
        BackendError: it is missing, damaged, or needs a package that is not installed.
    """
    from transformers import AutoTokenizer

    _check_files(target, TOKENIZERS, "tokenizer")
    with translate_load_errors(target):
        return AutoTokenizer.from_pretrained(target, trust_remote_code=False)


def load_processor(target: str) -> Any:
    """Return the checkpoint's processor: tokenizer, image processor, and their combination.

    Raises:
        BackendError: it is missing or damaged.
    """
    from transformers import AutoProcessor

    _check_files(target, TOKENIZERS, "tokenizer")
    image_processor = load_image_processor(target)
    with translate_load_errors(target):
        processor = AutoProcessor.from_pretrained(target, trust_remote_code=False)
    processor.image_processor = image_processor  # AutoProcessor itself would use the one with torchvision
    return processor


def load_image_processor(target: str) -> Any:
    """Return the checkpoint's image processor, the variant that computes with Pillow.

    Pillow resizes as the models' authors did. The variant with torchvision differs in the last bit of many
    pixels.

    Raises:
        BackendError: it is missing or damaged.
    """
    from transformers import AutoImageProcessor

    _check_files(target, PREPROCESSORS, "image processor")
    with translate_load_errors(target):
        image_processor = AutoImageProcessor.from_pretrained(target, trust_remote_code=False, backend="pil")
        for name in ("size", "crop_size", "pad_size"):
            _check_sides(target, name, getattr(image_processor, name, None), type(image_processor).__name__)
        return image_processor


def _check_sides(target: str, name: str, sides: Any, class_name: str) -> None:
    """Raise a BackendError if the side lengths for resizing are invalid, or would fill the memory.

    In the processor of Qwen2-VL, ``shortest_edge`` is a number of pixels.
    """
    most = LARGEST_SIDE**2 if class_name.startswith("Qwen2VL") else LARGEST_SIDE
    for side in ("height", "width", "shortest_edge"):
        number = sides.get(side) if isinstance(sides, Mapping) else getattr(sides, side, None)
        if number is not None and not (isinstance(number, int) and 1 <= number <= most):
            raise BackendError(
                f"The image processor of {target!r} is damaged: {side!r} of {name!r} is {number!r}, but must "
                f"be a whole number from 1 to {most}."
            )


def list_checkpoint_problems(target: str, *, types: Sequence[str] = (), images: bool = True) -> list[str]:
    """Return the reasons why a checkpoint cannot be loaded, without reading weights; empty if it can.

    Args:
        target: folder or OWNER/REPO; for the latter, the cached files are examined.
        types: accepted values of ``model_type``; none: any.
        images: whether the model takes images, and so needs an image processor.
    """
    wanted = {"config.json": ("config.json",), "weights": WEIGHTS, "tokenizer": TOKENIZERS}
    wanted |= {"image processor": PREPROCESSORS} if images else {}
    try:
        if Path(target).is_dir():
            lacking = [what for what, names in wanted.items() if not _has_any_file(Path(target), names)]
            problems = [f"no {what} in {target!r}" for what in lacking] + _list_missing_shards(Path(target))
            if types and "config.json" not in lacking:
                check_type(target, types)
            return problems
        _check_repository(target)
    except BackendError as error:
        return [str(error)]
    if not is_offline():
        return []  # it can be downloaded
    lacking = [what for what, names in wanted.items() if not any(_is_cached(target, name) for name in names)]
    return [f"{target!r}: no {what} in the hub's cache, and HF_HUB_OFFLINE is set" for what in lacking]


def build_identity(
    family: str, model: Any, parts: Sequence[Any], *, precision: str, device: str, **further: Any
) -> Identity:
    """Return what determines a model's scores.

    Args:
        family: name of the family, as in a spec.
        model: the loaded model.
        parts: its tokenizer and image processor, if it has them.
        precision: fp32, bf16 or fp16.
        device: cpu, cuda or cuda:N.
        further: everything else that affects the scores, such as the scoring rule.
    """
    return {
        "family": family,
        "versions": get_package_versions("transformers", "tokenizers"),
        "class": type(model).__name__,
        "weights": hash_weights(model),
        "config": hash_settings(model.config.to_dict()),
        "processor": [hash_settings(get_processor_settings(part)) for part in parts],
        "precision": precision,
        "device": device.partition(":")[0],
        **further,
    }


@contextmanager
def _lower_verbosity(*, bars: bool) -> Iterator[None]:
    """Let transformers print only errors, and progress bars only if requested.

    Important messages are raised as errors here.
    """
    from transformers.utils import logging

    level, drawn = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if drawn:
            logging.enable_progress_bar()


def _check_repository(target: str) -> None:
    """Raise a BackendError if the target cannot be a repository of the hub, so that a folder was meant."""
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", target):
        raise BackendError(
            f"Folder {target!r} does not exist. Give a checkpoint's folder, or OWNER/REPO on the hub."
        )


def _check_files(target: str, names: Sequence[str], what: str) -> None:
    """Raise a BackendError if a folder has none of the files: the error of transformers would be misleading."""
    if Path(target).is_dir() and not _has_any_file(Path(target), names):
        raise BackendError(
            f"{target!r} has no {what}: none of {', '.join(names)}. Save it there with save_pretrained()."
        )


def _has_any_file(folder: Path, names: Sequence[str]) -> bool:
    return any((folder / name).is_file() for name in names)


def _list_missing_shards(folder: Path) -> list[str]:
    """Return the weight files that an index names and the folder lacks."""
    index = next(
        (folder / name for name in WEIGHTS if name.endswith(".json") and _has_any_file(folder, [name])), None
    )
    if index is None or _has_any_file(folder, ["model.safetensors"]):
        return []
    files = read_config(str(folder), index.name).get("weight_map")
    names: list[Any] = list(files.values()) if isinstance(files, dict) else [None]
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise BackendError(
            f"{index.name} of {str(folder)!r} is damaged: its 'weight_map' must give a file of the folder "
            f"for each weight. Download it again."
        )
    return [f"no {name} in {str(folder)!r}" for name in sorted(set(names)) if not (folder / name).is_file()]


def _is_known_missing(target: str, name: str) -> bool:
    """Return whether the cache records that a repository has no such file.

    A file's absence alone does not prove it. The file may not have been downloaded yet. A complete copy has
    all files; one of them is ``.gitattributes``, which is never downloaded alone.
    """
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    return try_to_load_from_cache(target, name) is _CACHED_NO_EXIST or _is_cached(target, ".gitattributes")


def _is_cached(target: str, name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(target, name), str)
