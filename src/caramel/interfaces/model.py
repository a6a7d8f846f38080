"""What a model is to the rest of caramel: a few narrow forms, each with its own scoring rule.

    DualEncoder    images and texts into one space; the score of a pair is their cosine
    TextEncoder    texts alone; scores pairs of texts
    Matcher        one score per (image, text), by a matching head or a generative model
    Chooser        picks one of several captions for an image, in words
    BlindModel     scores captions without any image

All carry ``name``, what a table calls the model. All but the last carry ``identity`` as well: JSON-like,
with all that determines their scores (hash of the weights, preprocessing, precision, scoring rule), so
that what was computed once can be kept.

Models that are loaded and scored alike are a ``Family``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Embeddings = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Identity = Mapping[str, Any]


@runtime_checkable
class TextEncoder(Protocol):
    """A model that embeds texts; the score of two texts is their cosine."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d); ``batch_size`` None: found automatically."""
        ...


@runtime_checkable
class DualEncoder(Protocol):
    """A model that embeds images and texts; the score of a pair is their cosine."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files; ``batch_size`` None: found automatically."""
        ...

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d); ``batch_size`` None: found automatically."""
        ...


@runtime_checkable
class Matcher(Protocol):
    """A model that looks at an image and a text together."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def match_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the score of each pair (n,): ``images[image_of[i]]`` with ``texts[text_of[i]]``.

        Args:
            images: distinct encoded image files.
            texts: distinct captions.
            image_of: (n,) image of each pair; equal images stand together.
            text_of: (n,) text of each pair.
            batch_size: pairs per forward pass; None: found automatically.
        """
        ...


@runtime_checkable
class BlindModel(Protocol):
    """A scorer that sees texts, never an image; it may learn across folds of the benchmark itself."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def sees_both(self) -> bool:
        """Whether it scores each text of a pair by the other one too: then only the pair's difference means anything."""
        ...

    def score_texts(
        self, positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Return the scores of n true captions and of n false ones, (n,) each.

        Unless it sees both, a text has the same score wherever it stands beside the same group (image).
        """
        ...


CUT = "length"  # the finish of a reply that was as long as it may be


class Question(NamedTuple):
    """A question on an image."""

    prompt: str
    image: Callable[[], bytes]  # gives the encoded file, when it is needed


class Reply(NamedTuple):
    """What a model said, as it came; None if no reply came, and why."""

    text: str | None
    problem: str = ""
    finish_reason: str = "stop"  # why it ended, in the server's word

    @property
    def is_cut(self) -> bool:
        """Whether it ended because it was as long as it may be: what it would have said is not known."""
        return self.finish_reason == CUT


@runtime_checkable
class Chooser(Protocol):
    """A model that is asked in words and answers in words, such as a chat endpoint."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        """Ask all questions; ``heard`` is called with place and reply of each, one at a time, in any order."""
        ...


Encodable = DualEncoder | TextEncoder | Matcher | Chooser  # what is kept by its identity
Model = Encodable | BlindModel
Form = Literal[
    "dual", "text", "matcher", "chooser", "blind"
]  # as above, in the order of the module's docstring


class Loader(Protocol):
    """Loads the models of a family."""

    def __call__(self, target: str, *, device: str, precision: str, name: str) -> Model:
        """Return the model, on its device and tried once.

        Args:
            target: what stands behind the family in a spec.
            device: auto, cpu, cuda or cuda:N.
            precision: fp32, bf16, fp16 or auto.
            name: what tables call it.

        Raises:
            BackendError: it is unknown, missing, broken, or not what the target says.
            ResourceError: it does not fit onto the device.
        """
        ...


@dataclass(frozen=True)
class Family:
    """Models that are loaded alike and scored by one rule.

    Attributes:
        name: as in a spec, ``NAME:TARGET``.
        form: which of the forms above its models have.
        target: how a target looks, for `caramel eval --help`.
        help: what belongs to it, in a line of that help.
        load: target -> model.
        missing: target -> what keeps the model from being loaded, without loading it; nothing if it is there.
    """

    name: str
    form: Form
    target: str
    help: str
    load: Loader
    missing: Callable[[str], list[str]]

    @property
    def score(self) -> str:
        """The rule by which its models are scored; figures by different rules are not compared."""
        return {"dual": "cosine", "text": "cosine", "chooser": "choice"}.get(self.form, self.name)

    @property
    def looks_at_images(self) -> bool:
        """Whether its models are shown images; blind models and text encoders are not."""
        return self.form not in ("blind", "text")
