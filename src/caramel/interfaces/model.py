"""Interfaces of models: a few narrow forms, each with its own scoring rule.

    DualEncoder    images and texts in one space; the score of a pair is their cosine
    TextEncoder    only texts; scores pairs of texts
    Matcher        one score per (image, text), by a matching head or a generative model
    JointEncoder   a vector for an image with a text; captions of one image are compared by their vectors' cosine
    Chooser        picks one of several captions for an image, in words
    BlindModel     scores captions without any image

All have ``name``, the model's name in tables. All but the last have ``identity``: JSON-like, with everything
that determines their scores (hash of the weights, preprocessing, precision, scoring rule), so that results
can be cached.

A ``Family`` is a set of models with the same loader and scoring rule.
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
        """Return unit vectors, shape (n, d), for encoded image files.

        ``batch_size`` None: chosen automatically.
        """
        ...

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d). ``batch_size`` None: chosen automatically."""
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
            image_of: (n,) image of each pair; equal images are adjacent.
            text_of: (n,) text of each pair.
            batch_size: pairs per forward pass; None: chosen automatically.
        """
        ...


@runtime_checkable
class JointEncoder(Protocol):
    """A model that embeds an image and a text together, and gives no score of one text."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def encode_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Embeddings:
        """Return the unit vector of each pair (n, d); arguments as in ``Matcher.match_pairs``."""
        ...


@runtime_checkable
class BlindModel(Protocol):
    """A scorer that sees only texts, never an image. It may learn across folds of the benchmark itself."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def sees_both(self) -> bool:
        """Whether a text's score depends on the other text of its pair; only their difference then has a meaning."""
        ...

    def score_texts(
        self, positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Return the scores of n true captions and of n false captions, (n,) each.

        Unless it sees both, a text has the same score wherever it occurs with the same group (image).
        """
        ...


CUT = "length"  # finish reason of a response that reached its maximum length


class Question(NamedTuple):
    """A question on an image, perhaps after others that are shown with their right replies."""

    prompt: str
    image: Callable[[], bytes]  # returns the encoded file when it is needed
    examples: tuple[
        tuple[Question, str], ...
    ] = ()  # (question, right reply), in the order in which they are shown


class Reply(NamedTuple):
    """The response of a model as received; None, with the problem, if there was no response."""

    text: str | None
    problem: str = ""
    finish_reason: str = "stop"  # why it ended, in the server's word

    @property
    def is_cut(self) -> bool:
        """Whether it reached its maximum length: the rest of the response is unknown."""
        return self.finish_reason == CUT


@runtime_checkable
class Chooser(Protocol):
    """A model that is prompted and responds in words, such as a chat endpoint."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def identity(self) -> Identity: ...  # noqa: D102

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        """Send all questions.

        ``on_reply`` is called with the index and response of each, one at a time, in any order.
        """
        ...


Encodable = (
    DualEncoder | TextEncoder | Matcher | JointEncoder | Chooser
)  # models whose results are cached by identity
Model = Encodable | BlindModel
Form = Literal[
    "dual", "text", "matcher", "joint", "chooser", "blind"
]  # as above, in the order of the module's docstring


class Loader(Protocol):
    """Loads the models of a family."""

    def __call__(self, target: str, *, device: str, precision: str, name: str) -> Model:
        """Return the model on its device, after a test call.

        Args:
            target: part of a spec after the family.
            device: auto, cpu, cuda or cuda:N.
            precision: fp32, bf16, fp16 or auto.
            name: name in tables.

        Raises:
            BackendError: the model is unknown, missing, broken, or not what the target says.
            ResourceError: the model does not fit on the device.
        """
        ...


@dataclass(frozen=True)
class Family:
    """Models with the same loader and scoring rule.

    Attributes:
        name: name in a spec, ``NAME:TARGET``.
        form: form of its models, see above.
        target: form of a target, for `caramel eval --help`.
        help: its models, in a line of that help.
        load: target -> model.
        missing: target -> reasons why the model cannot be loaded, without loading it; empty if it is
            available.
    """

    name: str
    form: Form
    target: str
    help: str
    load: Loader
    missing: Callable[[str], list[str]]

    @property
    def score(self) -> str:
        """The scoring rule of its models. Figures by different rules are not compared."""
        return {"dual": "cosine", "text": "cosine", "chooser": "choice"}.get(self.form, self.name)

    @property
    def looks_at_images(self) -> bool:
        """Whether its models receive images. Blind models and text encoders do not."""
        return self.form not in ("blind", "text")
