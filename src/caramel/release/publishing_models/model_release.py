"""Release a run's model as a folder that open_clip loads as ``local-dir:FOLDER``, and transformers if possible.

    open_clip_config.json, open_clip_model.safetensors   architecture with its activation, preprocessing, weights
    bpe.txt.gz, tokenizer.json …                          tokenizer, if the model has its own
    config.json, model.safetensors …                      the same as transformers' CLIPModel, if possible
    caramel.json, README.md, SHA256SUMS                   training data and metrics
    options.json                                          what the release was built with

Before the folder appears, it is loaded as users will load it and compared with the run's own model.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from caramel.errors import ConfigError, DataError
from caramel.models.open_clip.checkpoints import CARD, CONFIG, VOCABULARY, WEIGHTS, load_checkpoint
from caramel.models.open_clip.config import Clip
from caramel.release.pin import compute_dvc_hash
from caramel.release.pin_file import Pin, read_pin
from caramel.release.publishing.build import hash_options, open_staging, write_options, write_sums
from caramel.release.publishing.contents import VersionContents
from caramel.release.publishing.metadata import About, read_about
from caramel.release.publishing_models.model_card import ModelFacts, write_model_card
from caramel.release.publishing_models.transformers_format import (
    build_clip_config,
    convert_state_dict,
    explain_incompatibility,
)
from caramel.training.recipes.text_to_image import make_tokenizer

TEXTS = (
    "A red box is above a green cup.",
    "Two cats",
    "a photo of a dog, and 3 more!",
    "Un “café” à l’aube: Zoë, naïve, 日本 \N{SNOWMAN}",
    "A red box is left of a green cup, and " * 30,  # longer than any text tower's context
)  # texts on which models are compared
QUOTES = {"[\u02bc\u2018-\u201b]": "'", "[\u201c-\u201f]": '"'}
OURS = (CONFIG, WEIGHTS, CARD)  # files of a checkpoint that belong to no tokenizer
MERGES = 49152 - 256 - 2  # size of OpenAI's vocabulary
CLOSE = 1e-4  # allowed difference of unit vectors between two libraries


class ReleasedModel(NamedTuple):
    """The released files, whether transformers loads them, and if not, why."""

    files: list[str]
    transformers: bool
    why_not: str


def release_model(
    run: str, root: Path, *, out: Path, pin: str | None = None, about: Path | None = None
) -> ReleasedModel:
    """Write the release of a run's model.

    Args:
        run: name of the model, as in the tables of results (``trohn_img-11``, ``base``).
        root: the project's folder.
        out: the output folder; it must be new or empty.
        pin: version of its training data; None: the only pin that names this model.
        about: file with authors and licence, as in ``build_release``.

    Raises:
        BackendError: the checkpoint is broken.
        ConfigError: there is no such run, or the folder is not empty or is a link.
        DataError: no pin names this model, or several do and none is given.
    """
    folder, output = find_checkpoint(run, root)
    pinned = find_pin(output, pin, root)
    clip = load_checkpoint(folder)
    about_path = about or (root / "release.yaml")
    metadata = read_about(about_path) if about or about_path.exists() else About()
    with open_staging(out, root) as to:
        _copy_checkpoint(folder, clip, to)
        why_not = _add_transformers(clip, to)
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        facts = ModelFacts(
            run, pinned, VersionContents(pinned.name, root), card, clip.config, metadata, why_not
        )
        write_model_card(facts, to)
        write_options(hash_options(root, about, pin=pin), [], to)
        files = write_sums(to)
    return ReleasedModel(files, not why_not, why_not)


def find_checkpoint(run: str, root: Path) -> tuple[Path, str]:
    """Return the folder of a run's model and its output."""
    base, tuned = root / "data" / "base", root / "data" / "finetune"
    names = sorted(path.parent.name for path in tuned.glob(f"*/{WEIGHTS}"))
    if run == "base" and (base / WEIGHTS).is_file():
        folder, output = base, "data/base"
    elif run in names:
        folder, output = tuned / run, "data/finetune"
    else:
        raise ConfigError(f"There is no model of a run {run!r}. Runs: {', '.join(['base', *names])}.")
    if linked := [
        path.name for path in (folder, *folder.iterdir()) if path.is_symlink() and not _is_inside(path, root)
    ]:
        raise DataError(
            f"{str(folder)!r} has links that lead out of the project: {', '.join(linked)}. Remove them."
        )
    return folder, output


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def find_pin(output: str, pin: str | None, root: Path) -> Pin:
    """Return the pin that names the models on disk."""
    names = sorted(path.stem for path in (root / "pins").glob("*.json")) if pin is None else [pin]
    digest = compute_dvc_hash(root / output)
    matches = [pinned for name in names if (pinned := read_pin(name, root)).outs.get(output) == digest]
    if len(matches) == 1:
        return matches[0]
    if matches:
        pin_names = ", ".join(pinned.name for pinned in matches)
        raise DataError(f"Several pins name this model: {pin_names}. Choose one with --pin.")
    what = f"Pin {pin!r} names another {output} than" if pin else f"No pin names {output} as"
    raise DataError(
        f"{what} it is on disk, so the training data of the model is unknown. Run `caramel pin NAME`."
    )


def _copy_checkpoint(folder: Path, clip: Clip, to: Path) -> None:
    """Write the files that open_clip reads, and the tokenizer in transformers' form.

    open_clip learns of a custom vocabulary from the config, which then names the folder's tokenizer.
    """
    shutil.copyfile(folder / WEIGHTS, to / WEIGHTS)
    shutil.copyfile(folder / CARD, to / CARD)
    config = json.loads(json.dumps(clip.config))
    text = config["model_cfg"]["text_cfg"]
    length = text.get("context_length", 77)
    if (folder / VOCABULARY).is_file():
        shutil.copyfile(folder / VOCABULARY, to / VOCABULARY)
        _write_tokenizer(to / VOCABULARY, length, to)
        text["hf_tokenizer_name"] = "."  # with local-dir, any name means the folder
    elif "hf_tokenizer_name" in text:
        for path in (path for path in folder.iterdir() if path.name not in OURS and path.is_file()):
            shutil.copyfile(path, to / path.name)
    else:
        with TemporaryDirectory() as scratch:
            _write_tokenizer(_write_openai_vocabulary(Path(scratch)), length, to)
    (to / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    _check_open_clip(clip, to)


def _write_tokenizer(vocabulary: Path, length: int, to: Path) -> None:
    """Write the tokenizer.

    It replaces curly quotes by straight ones like open_clip's (``ftfy.fixes.uncurl_quotes``).
    """
    from tokenizers import Regex, normalizers

    tokenizer = make_tokenizer(vocabulary, to)
    straight = [normalizers.Replace(Regex(signs), sign) for signs, sign in QUOTES.items()]
    fast = tokenizer.backend_tokenizer
    fast.normalizer = normalizers.Sequence([*straight, fast.normalizer])
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(str(to))


def _write_openai_vocabulary(folder: Path) -> Path:
    """Write the merges that open_clip reads from its own vocabulary file; return the file."""
    from open_clip.tokenizer import default_bpe

    lines = gzip.decompress(Path(default_bpe()).read_bytes()).decode().split("\n")
    path = folder / VOCABULARY
    merges = [
        "#version: 0.2",
        *lines[1 : MERGES + 1],
    ]  # transformers would take the file's header for a merge
    path.write_bytes(gzip.compress("\n".join(merges).encode(), mtime=0))
    return path


def _check_open_clip(clip: Clip, to: Path) -> None:
    """Raise a DataError unless open_clip, given only the folder, computes the same embeddings."""
    import open_clip
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{to}")
    tokenize = open_clip.get_tokenizer(f"local-dir:{to}")
    with torch.no_grad():
        features = (
            model.eval().encode_image(preprocess(_build_test_image())[None]),
            model.encode_text(tokenize(list(TEXTS))),
        )
    if far := _compute_max_difference(features, _compute_features(clip)):
        raise DataError(f"open_clip loads another model from the release: its vectors differ by {far:.2g}.")


def _add_transformers(clip: Clip, to: Path) -> str:
    """Write the model for transformers if that computes the same embeddings; otherwise return the reason."""
    if why := explain_incompatibility(clip.config):
        return why
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, PreTrainedTokenizerFast

    state = convert_state_dict(clip.model.state_dict())
    size = state["text_model.embeddings.token_embedding.weight"].shape[0]
    model = CLIPModel(CLIPConfig(**build_clip_config(clip.config, size)))
    model.load_state_dict(state, strict=False)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(to))
    side = clip.config["preprocess_cfg"]["size"]
    side = side if isinstance(side, int) else side[0]
    images = CLIPImageProcessor(
        size={"shortest_edge": side},
        crop_size={"height": side, "width": side},
        image_mean=list(clip.mean),
        image_std=list(clip.std),
    )
    tokens = tokenizer(list(TEXTS), padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        pixels = images(_build_test_image(), return_tensors="pt")["pixel_values"]
        features = (
            _get_pooled(model.get_image_features(pixels)),
            _get_pooled(model.get_text_features(tokens["input_ids"])),
        )
    if far := _compute_max_difference(features, _compute_features(clip)):
        return f"its vectors would differ by {far:.2g}"
    model.save_pretrained(str(to))
    CLIPProcessor(images, tokenizer).save_pretrained(str(to))
    return ""


def _get_pooled(output: Any) -> Any:
    """Return the vectors; newer versions of transformers return them inside an output object."""
    return getattr(output, "pooler_output", output)


def _compute_features(clip: Clip) -> tuple[Any, Any]:
    """Return the run's own vectors of the test image and texts."""
    import torch
    from torchvision.transforms.functional import normalize, to_tensor

    with torch.no_grad():
        pixels = normalize(to_tensor(clip.to_pixels(_build_test_image())), list(clip.mean), list(clip.std))
        return clip.model.encode_image(pixels[None]), clip.model.encode_text(clip.tokenize(list(TEXTS)))


def _compute_max_difference(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the largest difference of unit vectors; 0 if it is within the tolerance."""
    from torch.nn.functional import normalize

    largest = max(float((normalize(a) - normalize(b)).abs().max()) for a, b in zip(one, other, strict=True))
    return 0.0 if largest <= CLOSE else largest


def _build_test_image() -> Any:
    """Return a test image with changing colours, wider than high and larger than most models' input."""
    import numpy as np
    from PIL import Image

    y, x = np.mgrid[0:200, 0:300]
    return Image.fromarray(np.stack([x % 256, y % 256, (x + y) % 256], axis=-1).astype(np.uint8))
