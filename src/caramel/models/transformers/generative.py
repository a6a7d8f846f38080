"""Use generative vision-language models as matchers: the score is the likelihood of a reply, given the image.

    vqascore:         log P(Yes | image, 'Does this figure show "caption"? Please answer yes or no.')
                      (Lin et al., ECCV 2024: Evaluating text-to-visual generation with image-to-text
                      generation). InstructBLIP's prompt is 'Question: …' and its reply ``yes``, as theirs.
    vgptscore:        mean log P(token | image, tokens before it) over the caption and the token that ends it:
                      VisualGPTScore (Lin et al., ICML 2024: Revisiting the role of language priors in
                      vision-language models). The user's turn contains the image and no words.
    vgptscore_blind:  vgptscore corrected for the caption's own likelihood: log P(t | i) − α log P(t) with
                      α = 1, the pointwise mutual information. P(t) is the mean of P(t | n) over images n
                      of Gaussian noise.
    vgptscore_noise:  log P(t) alone, without any image: the row "VGPTScore Blind" of SugarCrepe++
                      (Dumpala et al. 2024, Table 19).

Scores are the logarithms of the papers' scores. They have the same order. They are computed in double
precision, so that captions of which a model is almost certain remain distinguishable. If ``Yes`` is several
tokens, its probability is the product of theirs. As in the paper, the token that ends the reply is not
counted; the authors' tool t2v_metrics counts it for LLaVA and InstructBLIP. P(t | i) is the geometric mean
per token, as in that tool; the paper's formula is the product, which favours short captions.

The papers do not define the noise (``NOISE_…``) and the chat template of the checkpoint; both are part of the
``identity``. The image is prepared by the checkpoint's own processor.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caramel.errors import BackendError
from caramel.interfaces.model import Family, Floats, Identity, Index, Matcher
from caramel.io.image_codec import decode_image
from caramel.models.batching import run_in_batches
from caramel.models.devices import disable_tf32, resolve_device, resolve_precision
from caramel.models.loading.files import validate_model
from caramel.models.loading.hub import is_offline
from caramel.models.transformers.generative_inputs import (
    Batch,
    build_decoder_batch,
    build_encoder_decoder_batch,
    build_prompt,
)
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    build_identity,
    check_type,
    list_checkpoint_problems,
    load_pretrained,
    load_processor,
    read_config,
    read_model_type,
)
from caramel.models.transformers.vision_towers import CLIP_FLANT5, check_tower

if TYPE_CHECKING:
    import torch

QUESTION = 'Does this figure show "{}"? Please answer yes or no.'
ALPHA = 1.0
NOISE_IMAGES, NOISE_SEED = 3, 0
NOISE_MEAN, NOISE_SD = 0.5, 0.25  # per channel in [0, 1]; values outside are clipped
NOISE_SIZE = 336  # pixels, for models that take images of any size
BATCH = {"cuda": 32, "cpu": 8}  # initial batch size in pairs: each has hundreds of image tokens


class GenerativeMatcher:
    """A ``Matcher`` over a generative model of transformers.

    Args:
        family: vqascore, vgptscore, vgptscore_blind or vgptscore_noise.
        model: the model, in evaluation mode on its device.
        processor: its tokenizer and image processor.
        device: cpu, cuda or cuda:N.
        precision: precision of the model's weights: fp32, bf16 or fp16.
        name: name of the model in tables.
    """

    def __init__(
        self, family: str, model: Any, processor: Any, *, device: str, precision: str, name: str
    ) -> None:
        self.name = name
        self._family, self._model, self._processor = family, model, processor
        self._device, self._precision = device, precision
        self._type: str = model.config.model_type

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the scores."""
        parts = ("tokenizer", "image_processor", "qformer_tokenizer")
        noise = [ALPHA, NOISE_IMAGES, NOISE_SEED, NOISE_MEAN, NOISE_SD, self._noise_size]
        question, reply = self._build_question_and_reply("{}")
        return build_identity(
            self._family,
            self._model,
            [getattr(self._processor, part) for part in parts if hasattr(self._processor, part)],
            precision=self._precision,
            device=self._device,
            prompt=build_prompt(self._processor, self._type, question),
            reply=reply,
            noise=noise if self._family in ("vgptscore_blind", "vgptscore_noise") else None,
        )

    def match_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the score of each pair (n,); see the module's docstring.

        It is at most 0, except for ``vgptscore_blind``.
        """
        if not len(image_of):
            return np.zeros(0)
        if self._family == "vgptscore_noise":
            return self._compute_prior(texts, text_of, batch_size)
        scores = self._compute_likelihoods(images, texts, image_of, text_of, batch_size)
        if self._family != "vgptscore_blind":
            return scores
        return scores - ALPHA * self._compute_prior(texts, text_of, batch_size)

    @property
    def _noise_size(self) -> int:
        size = getattr(self._model.config.vision_config, "image_size", None)
        return size if isinstance(size, int) else NOISE_SIZE

    def _compute_prior(self, texts: Sequence[str], text_of: Index, batch_size: int | None) -> Floats:
        """Return the log-likelihood of each pair's text without its image (n,).

        If this alone is the score, each forward pass has one pair. In a larger batch, the last digits of a
        text's score would depend on the other texts, and so would ties between two images.
        """
        used, inverse = np.unique(text_of, return_inverse=True)
        noise = draw_noise_images(self._noise_size)
        grid = np.meshgrid(np.arange(len(noise)), used, indexing="ij")
        size = 1 if self._family == "vgptscore_noise" else batch_size
        likelihoods = self._compute_likelihoods(noise, texts, grid[0].reshape(-1), grid[1].reshape(-1), size)
        means: Floats = np.logaddexp.reduce(likelihoods.reshape(grid[0].shape), axis=0) - np.log(len(noise))
        return means[inverse.reshape(-1)]

    def _compute_likelihoods(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the log-likelihood of the reply for each pair (n,)."""

        def prepare_batch(pairs: Sequence[tuple[int, int]]) -> Batch:
            opened = {i: decode_image(images[i], f"number {i}") for i in dict.fromkeys(i for i, _ in pairs)}
            turns = [self._build_question_and_reply(texts[t]) for _, t in pairs]
            prompts = [build_prompt(self._processor, self._type, question) for question, _ in turns]
            build = (
                build_encoder_decoder_batch
                if self._model.config.text_config.is_encoder_decoder
                else build_decoder_batch
            )
            pair_images, replies = [opened[i] for i, _ in pairs], [reply for _, reply in turns]
            return build(self._processor, pair_images, prompts, replies, end=self._family != "vqascore")

        rows = run_in_batches(
            list(zip(image_of.tolist(), text_of.tolist(), strict=True)),
            prepare_batch,
            self._compute_reply_likelihoods,
            batch_size=batch_size or BATCH.get(self._device.partition(":")[0], BATCH["cpu"]),
            device=self._device,
            name=self.name,
        )
        return rows.astype(np.float64)

    def _build_question_and_reply(self, text: str) -> tuple[str, str]:
        """Return the question about a caption, and the reply that is scored."""
        if self._family != "vqascore":
            return "", text
        question = QUESTION.format(text)
        return (f"Question: {question}", "yes") if self._type == "instructblip" else (question, "Yes")

    def _compute_reply_likelihoods(self, batch: Batch) -> torch.Tensor:
        """Return the log-likelihood of each reply: for ``vqascore`` the sum over tokens, otherwise the mean."""
        import torch

        inputs = {name: self._move_to_device(value) for name, value in batch.inputs.items()}
        with torch.inference_mode(), disable_tf32():
            logits = self._model(**inputs, use_cache=False).logits
        rows, columns, tokens = (x.to(logits.device) for x in (batch.rows, batch.columns, batch.tokens))
        chosen = logits[rows, columns].double()
        # Summed on the CPU: a GPU adds in any order, and equal values would not tie.
        log_probs = (chosen.gather(1, tokens[:, None])[:, 0] - chosen.logsumexp(1)).cpu()
        sums: torch.Tensor = log_probs.new_zeros(len(logits)).index_add(0, batch.rows, log_probs)
        return sums if self._family == "vqascore" else sums / batch.rows.bincount(minlength=len(logits))

    def _move_to_device(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(self._device, self._model.dtype if value.is_floating_point() else None)


def draw_noise_images(size: int) -> list[bytes]:
    """Return encoded images of Gaussian noise, always the same ones for a size."""
    from PIL import Image

    rng = np.random.default_rng(NOISE_SEED)
    images = []
    for _ in range(NOISE_IMAGES):
        values = rng.normal(NOISE_MEAN, NOISE_SD, (size, size, 3)).clip(0, 1)
        encoded = io.BytesIO()
        Image.fromarray((values * 255).round().astype(np.uint8)).save(encoded, "PPM")
        images.append(encoded.getvalue())
    return images


def list_generative_problems(family: str, target: str) -> list[str]:
    """Return the reasons why a family cannot load a generative model, without reading its weights."""
    model_type = _find_model_type(target)
    if family == "vqascore" and model_type in MODEL_TYPES["yes_no"]:
        from caramel.models.transformers.blip_answers import list_blip_problems

        return list_blip_problems(target)
    flan = model_type == CLIP_FLANT5
    try:
        if flan:
            check_tower(target, read_config(target))
    except BackendError as error:
        return [str(error)]
    return list_checkpoint_problems(target, types=_get_types(family), images=not flan)


def _get_types(family: str) -> tuple[str, ...]:
    """Return the types of models that a family loads: the rules of ``vgptscore`` need a model that writes captions."""
    return MODEL_TYPES["vqascore" if family == "vqascore" else "vgptscore"]


def _find_model_type(target: str) -> str | None:
    """Return ``model_type`` of the config.json on this machine; None if there is none."""
    if not Path(target).is_dir() and not is_offline():
        return None
    try:
        return read_model_type(target)
    except BackendError:
        return None


def _load_matcher(family: str, target: str, device: str, precision: str, name: str) -> Matcher:
    """Return a matcher over a checkpoint: a folder, or OWNER/REPO on the hub.

    Raises:
        BackendError: it is missing or damaged, has an outdated format, or is not a generative model.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    model_class: Any = AutoModelForImageTextToText
    model_type = check_type(target, _get_types(family))
    if model_type in MODEL_TYPES["yes_no"]:
        from caramel.models.transformers.blip_answers import load_blip_answers

        return load_blip_answers(family, QUESTION, target, device=device, precision=precision, name=name)
    if model_type == CLIP_FLANT5:
        from caramel.models.transformers.clip_flant5 import ClipFlanT5, load_clip_flant5_processor

        model_class, processor = ClipFlanT5, load_clip_flant5_processor(target, read_config(target))
    else:
        processor = load_processor(target)
    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = load_pretrained(model_class, target, device=device, dtype=dtype)
    stated = {"patch_size": processor, "num_query_tokens": processor, "image_token_id": model.config}
    unstated = [key for key, where in stated.items() if getattr(where, key, 0) is None]
    if unstated:
        raise BackendError(
            f"{target!r} was saved by an old transformers, which did not write {', '.join(unstated)}. Download "
            f"its current version."
        )
    matcher = GenerativeMatcher(family, model, processor, device=device, precision=precision, name=name)
    return validate_model(matcher, target)


def _create_family(name: str, help: str) -> Family:
    """Return the family of matchers with the scoring rule of this name."""
    return Family(
        name,
        "matcher",
        "FOLDER",
        help,
        load=partial(_load_matcher, name),
        missing=partial(list_generative_problems, name),
    )


VQASCORE = _create_family("vqascore", "generative: LLaVA, Qwen-VL, FlanT5, BLIP; P(Yes)")
VGPTSCORE = _create_family("vgptscore", "the same without BLIP; P(caption)")
VGPTSCORE_BLIND = _create_family("vgptscore_blind", "the same, less P(caption) given noise")
VGPTSCORE_NOISE = _create_family("vgptscore_noise", "P(caption) given noise alone")
