"""Settings of trainings: what is optimised, how, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from caramel.interfaces.settings import Compute

TrainableScope = Literal["all", "image", "text", "last", "lora"]


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with linear warm-up and cosine decay to zero. Weight decay applies to matrices only.

    Attributes:
        lr: peak learning rate, > 0.
        warmup_steps: steps until the learning rate reaches its peak, >= 0.
        weight_decay: >= 0.
        betas: decays of the averages of gradients and of their squares, each in [0, 1).
        eps: added to the denominator, > 0.
        grad_clip_norm: largest L2 norm of a gradient; a longer one is scaled to it. None: no clipping.
    """

    lr: float
    warmup_steps: int
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    grad_clip_norm: float | None


@dataclass(frozen=True)
class LoopConfig:
    """The steps of a training.

    Attributes:
        seed: of initial weights, batches and all other draws.
        steps: updates of the weights, > 0.
        batch_size: training examples in a step, > 0. For contrastive training: captions, with negatives and paraphrases,
            so that a method with more negatives has fewer rows in a step, as in BiVLC.
        checkpoint_every: steps between checkpoints, > 0. Each checkpoint is validated, and a killed training resumes there.
        num_workers: processes that read and decode images for the next steps; 0: the training process does. Weights do not
            depend on it. None are started for images in memory.
        micro_batch_size: rows of a batch that are encoded at a time: less memory, more time, the gradient of the whole batch
            (``grad_cache``). None: all rows.
        grad_checkpointing: whether activations are computed again in the backward pass: less memory, more time.
        patience: checkpoints without a better selection metric after which training stops, > 0. None: all steps.
        ema_decay: decay of averaged weights, in [0, 1); these are validated, and are the result. None: no average.
    """

    seed: int
    steps: int
    batch_size: int
    checkpoint_every: int
    num_workers: int
    micro_batch_size: int | None
    grad_checkpointing: bool
    patience: int | None
    ema_decay: float | None


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank updates: W + (alpha / rank) B A.

    Attributes:
        rank: rows of A, > 0, at most the smaller side of a weight.
        alpha: factor, > 0.
        targets: patterns of the names of weights, with ``*``.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]


@dataclass(frozen=True)
class TrainableConfig:
    """Which weights are trained; the others are frozen. The temperature is trained with each scope but lora.

    Attributes:
        trainable: all weights; one tower (image or text); the last layers of both towers; or low-rank updates (lora).
        unlocked_layers: with last: layers of each tower, > 0, with the norm and projection behind them.
        lora: with lora: the low-rank updates.
    """

    trainable: TrainableScope
    unlocked_layers: int
    lora: LoraConfig | None


ALL_WEIGHTS = TrainableConfig("all", unlocked_layers=1, lora=None)


@dataclass(frozen=True)
class ContrastiveConfig:
    """How a CLIP is trained contrastively."""

    loop: LoopConfig
    optimizer: OptimizerConfig
    scope: TrainableConfig
    compute: Compute


@dataclass(frozen=True)
class BaseConfig:
    """How the base CLIP is trained.

    Attributes:
        model: path of an open_clip model config (JSON).
        image_steps: steps in which the image tower learns what scenes show, >= 0. It is then locked, and texts are aligned
            to it (``locked_image``). 0: both towers learn together, from pairs alone.
        block_size: consecutive rows of the table that stay together in a batch, > 0; see ``Examples``.
    """

    model: str
    image_steps: int
    block_size: int
    loop: LoopConfig
    optimizer: OptimizerConfig
    compute: Compute


@dataclass(frozen=True)
class GeneratorConfig:
    """How a text-to-image pipeline is trained.

    Attributes:
        image_size: side of the images in pixels, a multiple of ``patch_size``.
        border: pixels at each side of every image that are visible without noise and are not drawn, >= 0.
        patch_size: side of a patch of the transformer in pixels, > 0.
        hidden_size: width of transformer and text encoder, a multiple of 64.
        num_layers: of the transformer, > 0.
        caption_dropout: fraction of empty captions in [0, 1], for classifier-free guidance.
        visible_frac: fraction of images in [0, 1] with some visible patches, from which the others are filled in.
    """

    image_size: int
    border: int
    patch_size: int
    hidden_size: int
    num_layers: int
    caption_dropout: float
    visible_frac: float
    loop: LoopConfig
    optimizer: OptimizerConfig
    compute: Compute
