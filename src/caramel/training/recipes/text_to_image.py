"""Train a small text-to-image model on the pairs: a real PixArt pipeline, in pixel space.

- model: ``PixArtTransformer2DModel`` and a one-layer CLIP text encoder, trained jointly.
- loss: flow matching with prediction of the clean image.
- result: an average of the weights.

On the world, one patch of the transformer is one cell of the grid. If scenes are drawn object by object, the
whole image is one cell: its border, which no icon reaches, stays visible and shows the background.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import GeneratorConfig
from caramel.models.devices import move_to_device, resolve_device, resolve_precision, use_precision
from caramel.models.open_clip.tokenizer import learn_merges
from caramel.sources.images.diffusion import CallOptions, save_pipeline
from caramel.training.data.loader import ImageDataset, Loader, draw_batch_rows
from caramel.training.data.tokens import tokenize_texts
from caramel.training.loop.loop import Training, build_param_groups, run_training
from caramel.training.weight_averaging import copy_frozen_model, ema_decay_at, update_ema_

if TYPE_CHECKING:
    import torch
    from PIL import Image

# Settings of this training that have no key in the params.
FIXED = {
    "weight_decay": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "grad_clip_norm": 1.0,
    "micro_batch_size": None, "grad_checkpointing": False, "patience": None,
}  # fmt: skip
HEADS = 8
TEXT_TOKENS = 40
FLOW_SHIFT = 2.0  # noise levels are shifted towards noise, in training and in sampling
CALL_OPTIONS = {
    "use_resolution_binning": False,
    "max_sequence_length": TEXT_TOKENS,
    "clean_caption": False,
}
LATENT_SCALE = 10.0  # keeps the autoencoder's tanh in its linear range


def train_pixart(
    pairs: pd.DataFrame,
    images: Mapping[str, bytes],
    texts: Iterable[str],
    *,
    pretrained: str | None,
    settings: GeneratorConfig,
    scratch: Path,
    out: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> Curve:
    """Train the pipeline on the train split, save it to ``out`` and return its loss curve.

    Args:
        pairs: table ``pairs``.
        images: encoded files by image_id.
        texts: captions to learn the vocabulary from.
        pretrained: not used by this backend.
        settings: how the pipeline is trained; its loop must have an ``ema_decay``, since the averaged
            weights are the result.
        scratch: folder of the resumable state.
        out: folder of the pipeline.
        on_points: called with the new points of the curve, for tracking.
    """
    import torch

    loop, optimizer, image_size = settings.loop, settings.optimizer, settings.image_size
    device = resolve_device(settings.compute.device)
    precision = resolve_precision(settings.compute.precision, device)
    torch.manual_seed(loop.seed)
    tokenizer = make_tokenizer(learn_merges(texts, scratch / "bpe.txt.gz"), scratch / "tokenizer")
    text_encoder = move_to_device(make_text_encoder(tokenizer, settings.hidden_size), device).train()
    transformer = move_to_device(
        make_transformer(image_size, settings.patch_size, settings.hidden_size, settings.num_layers), device
    ).train()
    rows = pairs[pairs["split"] == "train"]
    if rows.empty:
        raise DataError("There is no image to train on: the train split has no pairs.")
    image_dataset = ImageDataset(
        images, rows["image_id"], lambda image: crop_square(image, image_size), (image_size, image_size)
    )
    tokens = tokenize_texts(lambda part: tokenize_padded(tokenizer, part), [*rows["caption"], ""])
    live = torch.nn.ModuleList([text_encoder, transformer])
    averaged = copy_frozen_model(live)

    def load_batch(step: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        chosen = draw_batch_rows(loop.seed, step, len(rows), loop.batch_size)
        return (
            step,
            torch.from_numpy(chosen),
            torch.from_numpy(image_dataset.load_for_step(chosen, loop.seed, step)),
        )

    def compute_loss(inputs: tuple[int, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        step, chosen, pixels = inputs
        number = len(chosen)
        rng = np.random.default_rng([loop.seed, step])
        caption_rows = np.where(
            rng.random(number) < settings.caption_dropout, len(rows), chosen
        )  # last row: the empty caption
        ids, mask = torch.from_numpy(tokens[caption_rows]).long().to(device).unbind(1)
        clean = pixels.to(device).float() / 127.5 - 1
        hidden = torch.from_numpy(
            draw_hidden_mask(
                rng, number, image_size, settings.patch_size, settings.visible_frac, settings.border
            )
        ).to(device)
        with use_precision(device, precision):
            return flow_matching_loss(transformer, text_encoder, clean, ids, mask, hidden, rng)

    def update_average(step: int) -> None:
        assert loop.ema_decay is not None
        update_ema_(averaged, live.state_dict(), ema_decay_at(loop.ema_decay, step))

    groups = build_param_groups([text_encoder, transformer], optimizer.weight_decay)
    adamw = torch.optim.AdamW(groups, lr=optimizer.lr, betas=optimizer.betas, eps=optimizer.eps, fused=True)
    modules = {"text_encoder": text_encoder, "transformer": transformer, "averaged": averaged}
    with Loader(load_batch, loop.steps, 0 if image_dataset.held else loop.num_workers) as load:
        training = Training(
            modules,
            adamw,
            load,
            compute_loss,
            loop.steps,
            optimizer.warmup_steps,
            loop.checkpoint_every,
            seed=[loop.seed],
            on_points=on_points,
            after_step=update_average,
            grad_clip_norm=optimizer.grad_clip_norm,
        )
        curve = run_training(training, scratch=scratch, title="train_generator")
    options = CallOptions(CALL_OPTIONS)
    save_pipeline(make_pipeline(tokenizer, *averaged.children()), options, out)
    return curve


def flow_matching_loss(
    transformer: Any,
    text_encoder: Any,
    clean: torch.Tensor,
    ids: torch.Tensor,
    mask: torch.Tensor,
    hidden: torch.Tensor,
    rng: np.random.Generator,
) -> torch.Tensor:
    """Return the mean squared error of the predicted clean image on the hidden pixels.

    Images have the shape (n, 3, size, size) and values in [-1, 1].
    Pixels that are not ``hidden`` (n, 1, size, size) get no noise, as when an image is edited.
    """
    import torch

    length = int(mask.sum(1).max())  # further columns are padding in every row
    ids, mask = ids[:, :length], mask[:, :length]
    uniform = torch.from_numpy(rng.random(len(clean), np.float32)).to(clean.device)
    sigma = FLOW_SHIFT * uniform / (1 + (FLOW_SHIFT - 1) * uniform)
    noise = torch.from_numpy(rng.standard_normal(clean.shape, np.float32)).to(clean.device)
    level = sigma.view(-1, 1, 1, 1)
    noisy = torch.where(hidden, (1 - level) * clean + level * noise, clean)
    words = text_encoder(ids, attention_mask=mask)[0]
    predicted = transformer(
        noisy,
        encoder_hidden_states=words,
        encoder_attention_mask=mask,
        timestep=1000 * sigma,
        added_cond_kwargs={"resolution": None, "aspect_ratio": None},
        return_dict=False,
    )[0]
    error = (predicted.float() - clean).square().mean(1, keepdim=True)
    loss: torch.Tensor = (error * hidden).sum() / hidden.sum()
    return loss


def draw_hidden_mask(
    rng: np.random.Generator, number: int, image_size: int, patch_size: int, visible_frac: float, border: int
) -> npt.NDArray[np.bool_]:
    """Return the mask (number, 1, size, size) of the pixels that the model must draw in each image.

    It is the whole image without the ``border``. For a share ``visible_frac`` of the images it is a random
    set of patches, also without the border; the number of patches is drawn uniformly and is at least one.
    """
    side = image_size // patch_size
    order = rng.permuted(np.tile(np.arange(side * side), (number, 1)), axis=1)
    some = order < rng.integers(1, side * side + 1, size=(number, 1))
    some |= rng.random((number, 1)) >= visible_frac
    patches = some.reshape(number, 1, side, side)
    hidden = patches.repeat(patch_size, axis=2).repeat(patch_size, axis=3)
    hidden &= build_interior_mask(image_size, border)
    return hidden


def build_interior_mask(size: int, border: int) -> npt.NDArray[np.bool_]:
    """Return the mask (size, size) of the pixels that are not in the square's border."""
    out = np.zeros((size, size), bool)
    out[border : size - border, border : size - border] = True
    return out


def crop_square(image: Image.Image, size: int) -> Image.Image:
    """Return the image's centre square, resized to (size, size) pixels."""
    from PIL import Image, ImageOps

    return ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)


def tokenize_padded(tokenizer: Any, texts: list[str]) -> npt.NDArray[np.int64]:
    """Return token ids and attention mask of texts, (n, 2, tokens)."""
    encoding = tokenizer(texts, padding="max_length", max_length=TEXT_TOKENS, truncation=True)
    return np.stack([encoding["input_ids"], encoding["attention_mask"]], axis=1)


def make_tokenizer(vocabulary: Path, folder: Path) -> Any:
    """Return a ``CLIPTokenizer`` for the merges; its ids equal those of open_clip's tokenizer."""
    import gzip
    import json

    from open_clip.tokenizer import SimpleTokenizer
    from transformers import CLIPTokenizer

    merges = gzip.decompress(vocabulary.read_bytes()).decode()
    encoder = SimpleTokenizer(str(vocabulary)).encoder
    names = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    folder.mkdir(parents=True, exist_ok=True)
    entries = {names.get(token, token): number for token, number in encoder.items()}
    (folder / "vocab.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    return CLIPTokenizer.from_pretrained(str(folder), model_max_length=TEXT_TOKENS)


def make_text_encoder(tokenizer: Any, hidden_size: int) -> Any:
    """Return an untrained one-layer ``CLIPTextModel``."""
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            intermediate_size=2 * hidden_size,
            num_hidden_layers=1,
            num_attention_heads=HEADS,
            max_position_embeddings=TEXT_TOKENS,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    # With the default initialisation (0.02), the average of the words before a word drowns it out. With this
    # one, twice as many images matched their captions after the same training.
    embeddings = [m for m in encoder.modules() if isinstance(m, torch.nn.Embedding)]
    for embedding, spread in zip(embeddings, (0.5, 0.25), strict=True):  # words, positions
        torch.nn.init.normal_(embedding.weight, std=spread)
    return encoder


def make_transformer(image_size: int, patch_size: int, hidden_size: int, num_layers: int) -> Any:
    """Return an untrained transformer, initialised as in DiT: Xavier weights, closed gates.

    In the same time, the default initialisation learned almost no nouns, and open gates learned few.
    """
    import torch
    from diffusers import PixArtTransformer2DModel

    transformer = PixArtTransformer2DModel(
        num_attention_heads=HEADS,
        attention_head_dim=hidden_size // HEADS,
        in_channels=3,
        out_channels=3,
        num_layers=num_layers,
        cross_attention_dim=hidden_size,
        sample_size=image_size,
        patch_size=patch_size,
        caption_channels=hidden_size,
        interpolation_scale=1,
    )

    with torch.no_grad():
        for module in transformer.modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    module.bias.zero_()
        transformer.adaln_single.linear.weight.zero_()
        transformer.scale_shift_table.zero_()
        for block in transformer.transformer_blocks:
            block.scale_shift_table.zero_()
        transformer.proj_out.weight.zero_()
    return transformer


def make_pipeline(tokenizer: Any, text_encoder: Any, transformer: Any) -> Any:
    """Return the standard pipeline, with an autoencoder that passes pixels through."""
    import torch
    from diffusers import AutoencoderTiny, DPMSolverMultistepScheduler, PixArtAlphaPipeline

    vae = AutoencoderTiny(
        encoder_block_out_channels=(3,),
        decoder_block_out_channels=(3,),
        num_encoder_blocks=(0,),
        num_decoder_blocks=(0,),
        latent_channels=3,
        scaling_factor=LATENT_SCALE,
    )
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()
        # The decoder is conv, ReLU, conv, then 2x - 1: lift all values above zero, then shift them back.
        lift, drop = vae.decoder.layers[0], vae.decoder.layers[-1]
        for channel in range(3):
            lift.weight[channel, channel, 1, 1] = LATENT_SCALE
            drop.weight[channel, channel, 1, 1] = 0.5
        lift.bias.fill_(LATENT_SCALE)
        drop.bias.fill_(0.5 * (1 - LATENT_SCALE))
    scheduler = DPMSolverMultistepScheduler(
        prediction_type="sample", use_flow_sigmas=True, flow_shift=FLOW_SHIFT
    )
    return PixArtAlphaPipeline(
        tokenizer=tokenizer,
        text_encoder=text_encoder.eval(),
        vae=vae.eval(),
        transformer=transformer.eval(),
        scheduler=scheduler,
    )
